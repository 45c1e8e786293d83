//! Reads an engine's own figures from its metrics, in Prometheus' text form.
//!
//! Every figure may be missing, and a missing one is unknown, never 0: engines rename their metrics
//! from version to version, and a worker whose load can't be read is not an empty one. A sample
//! that is no number, or a line that can't be read, is skipped and counted; the rest is used.
//! Names are those of vLLM (of the engine's first version and of today's), SGLang, llama.cpp's
//! server and TGI. Where an engine tells a figure under an old name and a new one, the new one
//! counts. Ranks of data parallelism, which come with labels of their own, are summed.

#[cfg(test)]
mod tests;

/// What an engine says of itself. `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineFigures {
    /// Requests it runs.
    pub running: Option<u64>,
    /// Requests that wait inside it.
    pub waiting: Option<u64>,
    /// The share of its KV cache that is in use, from 0 to 1; the mean over its ranks.
    pub kv_usage: Option<f64>,
    /// Tokens its KV cache holds, over all ranks.
    pub kv_capacity_tokens: Option<u64>,
    /// Tokens of one block of its KV cache.
    pub block_size: Option<u64>,
    /// Preemptions since it started.
    pub preemptions_total: Option<u64>,
    /// Prompt tokens it took since it started. llama.cpp's server leaves cached ones out.
    pub prompt_tokens_total: Option<u64>,
    /// Tokens it generated since it started.
    pub generation_tokens_total: Option<u64>,
    /// Tokens looked up in its prefix cache since it started.
    pub prefix_queries_total: Option<u64>,
    /// Tokens found in its prefix cache since it started.
    pub prefix_hits_total: Option<u64>,
    /// When its process started, in seconds since 1970. Where several processes answer for one
    /// engine, that of the youngest.
    pub started_at: Option<f64>,
    /// Samples that were read, of any name.
    pub samples: u64,
    /// Lines that were not: NaN, infinite or broken ones, of any name.
    pub skipped: u64,
}

/// What a sample may tell. Each stands at its place in [`Sums`].
#[derive(Clone, Copy)]
enum Figure {
    Running,
    Waiting,
    KvUsage,
    Capacity,
    BlockSize,
    Preemptions,
    PromptTokens,
    GenerationTokens,
    PrefixQueries,
    PrefixHits,
    Started,
    /// llama.cpp's server counts the tokens it found apart from those it computed.
    FoundApart,
}

/// The names of figures; of two for one figure the earlier one here counts.
const NAMES: [(&str, Figure); 32] = [
    ("vllm:num_requests_running", Figure::Running),
    ("sglang:num_running_reqs", Figure::Running),
    ("llamacpp:requests_processing", Figure::Running),
    ("tgi_batch_current_size", Figure::Running),
    ("vllm:num_requests_waiting", Figure::Waiting),
    ("sglang:num_queue_reqs", Figure::Waiting),
    ("llamacpp:requests_deferred", Figure::Waiting),
    ("tgi_queue_size", Figure::Waiting),
    ("vllm:kv_cache_usage_perc", Figure::KvUsage),
    ("vllm:gpu_cache_usage_perc", Figure::KvUsage),
    ("sglang:token_usage", Figure::KvUsage),
    ("llamacpp:kv_cache_usage_ratio", Figure::KvUsage),
    ("sglang:max_total_num_tokens", Figure::Capacity),
    ("sglang:page_size", Figure::BlockSize),
    ("vllm:num_preemptions_total", Figure::Preemptions),
    ("sglang:num_retracted_requests_total", Figure::Preemptions),
    ("sglang:num_retracted_reqs_total", Figure::Preemptions),
    ("vllm:prompt_tokens_total", Figure::PromptTokens),
    ("sglang:prompt_tokens_total", Figure::PromptTokens),
    ("llamacpp:prompt_tokens_total", Figure::PromptTokens),
    ("tgi_request_input_length_sum", Figure::PromptTokens),
    ("vllm:generation_tokens_total", Figure::GenerationTokens),
    ("sglang:generation_tokens_total", Figure::GenerationTokens),
    ("llamacpp:tokens_predicted_total", Figure::GenerationTokens),
    ("tgi_request_generated_tokens_sum", Figure::GenerationTokens),
    ("vllm:prefix_cache_queries_total", Figure::PrefixQueries),
    ("vllm:gpu_prefix_cache_queries_total", Figure::PrefixQueries),
    ("vllm:prefix_cache_hits_total", Figure::PrefixHits),
    ("vllm:gpu_prefix_cache_hits_total", Figure::PrefixHits),
    ("sglang:cached_tokens_total", Figure::PrefixHits),
    ("llamacpp:prompt_tokens_cached_total", Figure::FoundApart),
    ("process_start_time_seconds", Figure::Started),
];

/// What was summed for one name.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: f64,
    most: f64,
    samples: u64,
}

/// Reads a whole page of metrics. Takes linear time and no memory; any bytes will do.
pub fn read(text: &[u8]) -> EngineFigures {
    let mut sums = [Sum::default(); NAMES.len()];
    let mut caches = Caches::default();
    let mut figures = EngineFigures::default();
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let Some(sample) = Sample::of(line) else {
            figures.skipped += 1;
            continue;
        };
        figures.samples += 1;
        caches.take(&sample);
        let place = NAMES.iter().position(|(name, _)| name.as_bytes() == sample.name);
        if let Some(place) = place.filter(|_| sample.is_first_part()) {
            sums[place].total += sample.value;
            sums[place].most = sums[place].most.max(sample.value);
            sums[place].samples += 1;
        }
    }
    for ((_, figure), sum) in NAMES.iter().zip(sums).filter(|(_, sum)| sum.samples > 0) {
        figures.set(*figure, sum);
    }
    caches.complete(&mut figures);
    figures
}

/// One line of a page of metrics in Prometheus' text format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series<'a> {
    /// The metric.
    pub name: &'a str,
    /// What stands between the braces, without them.
    pub labels: &'a str,
    /// A finite number of at least 0.
    pub value: f64,
}

/// The samples of any page, in its order, without those that are malformed, not finite or below 0.
pub fn samples(page: &[u8]) -> impl Iterator<Item = Series<'_>> {
    page.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.trim_ascii();
        let sample = (!line.starts_with(b"#")).then(|| Sample::of(line)).flatten()?;
        let (name, labels) = (str::from_utf8(sample.name), str::from_utf8(sample.labels));
        Some(Series { name: name.ok()?, labels: labels.ok()?, value: sample.value })
    })
}

impl EngineFigures {
    fn set(&mut self, figure: Figure, sum: Sum) {
        let count = Some(sum.total.round() as u64);
        let mean = sum.total / sum.samples as f64;
        let (place, value) = match figure {
            Figure::KvUsage => {
                self.kv_usage = self.kv_usage.or(Some(mean.min(1.0)));
                return;
            }
            Figure::Started => {
                self.started_at = Some(sum.most);
                return;
            }
            Figure::FoundApart => {
                self.prefix_hits_total = count;
                let computed = self.prompt_tokens_total.unwrap_or(0);
                self.prefix_queries_total = count.map(|found| found.saturating_add(computed));
                return;
            }
            Figure::BlockSize => (&mut self.block_size, Some(mean.round() as u64)),
            Figure::Running => (&mut self.running, count),
            Figure::Waiting => (&mut self.waiting, count),
            Figure::Capacity => (&mut self.kv_capacity_tokens, count),
            Figure::Preemptions => (&mut self.preemptions_total, count),
            Figure::PromptTokens => (&mut self.prompt_tokens_total, count),
            Figure::GenerationTokens => (&mut self.generation_tokens_total, count),
            Figure::PrefixQueries => (&mut self.prefix_queries_total, count),
            Figure::PrefixHits => (&mut self.prefix_hits_total, count),
        };
        *place = place.or(value);
    }
}

/// What the information on caches tells, which vLLM and SGLang give as labels.
#[derive(Default)]
struct Caches {
    capacity: Option<u64>,
    block_size: Option<u64>,
}

impl Caches {
    /// vLLM's own count of tokens goes before blocks times their size: the two differ by orders of
    /// magnitude where a model has layers without attention.
    fn take(&mut self, sample: &Sample<'_>) {
        let (blocks, size) = match sample.name {
            b"vllm:cache_config_info" => ("num_gpu_blocks", "block_size"),
            b"sglang:cache_config_info" if sample.is_first_part() => ("num_pages", "page_size"),
            _ => return,
        };
        let size = sample.number(size);
        let tokens = sample
            .number("kv_cache_size_tokens")
            .or_else(|| sample.number(blocks)?.checked_mul(size?))
            .filter(|&tokens| tokens > 0);
        self.block_size = self.block_size.or(size);
        if let Some(tokens) = tokens {
            self.capacity = Some(self.capacity.unwrap_or(0).saturating_add(tokens));
        }
    }

    fn complete(&self, figures: &mut EngineFigures) {
        figures.kv_capacity_tokens = figures.kv_capacity_tokens.or(self.capacity);
        figures.block_size = figures.block_size.or(self.block_size);
    }
}

/// One line.
struct Sample<'a> {
    name: &'a [u8],
    /// What stands between the braces; labels are sound up to the closing one.
    labels: &'a [u8],
    value: f64,
}

impl<'a> Sample<'a> {
    /// Reads a line: name, labels, value, and a timestamp that isn't looked at. `None` if it is
    /// malformed, or its value is no finite number of at least 0.
    fn of(line: &'a [u8]) -> Option<Self> {
        let end = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t'))?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix(b"{") {
            Some(inner) => {
                let end = end_of_labels(inner)?;
                (&inner[..end], &inner[end + 1..])
            }
            None => (&[][..], rest),
        };
        let value = rest.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
        let value: f64 = str::from_utf8(value).ok()?.parse().ok()?;
        let sound = !name.is_empty() && value.is_finite() && value >= 0.0;
        sound.then_some(Self { name, labels, value })
    }

    /// The raw text of a label.
    fn label(&self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.labels;
        loop {
            let (key, value) = rest.split_at(memchr::memchr(b'=', rest)?);
            let value = value[1..].trim_ascii_start().strip_prefix(b"\"")?;
            let end = end_of_text(value)?;
            if key.trim_ascii() == name.as_bytes() {
                return Some(&value[..end]);
            }
            let after = value[end + 1..].trim_ascii_start();
            rest = after.strip_prefix(b",")?;
        }
    }

    fn number(&self, label: &str) -> Option<u64> {
        str::from_utf8(self.label(label)?).ok()?.parse().ok()
    }

    /// Whether it isn't a repetition: SGLang can be told to report from every part of a model that
    /// is split over devices, and all of them tell the same.
    fn is_first_part(&self) -> bool {
        ["tp_rank", "pp_rank"].iter().all(|name| self.label(name).is_none_or(|rank| rank == b"0"))
    }
}

/// Where the closing brace is. Braces inside of values don't close.
fn end_of_labels(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'}', &text[at..])?;
        if text[at] == b'}' {
            return Some(at);
        }
        at += 1;
        at += end_of_text(&text[at..])? + 1;
    }
}

/// Where the closing quote is. One behind a backslash doesn't close.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}
