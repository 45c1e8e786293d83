//! Reads an engine preset: which model on which accelerator, how large and how fast.
//!
//! A preset is a flat TOML file of the keys in [`KEYS`]. All faults of a file are reported
//! together, each with its line, which a deserializer that stops at the first one can't do.

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_core::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::step_time::{StepTime, Work};

/// A model on an accelerator, as far as scheduling and time are concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Accelerator and model, `a100-40gb/qwen3-8b`.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// How far they are from what was measured.
    pub error: String,
    /// Tokens of one KV block.
    pub block_size: u32,
    /// Tokens that fit into the KV cache.
    pub kv_tokens: u32,
    /// Tokens computed in one step at most (vLLM's `--max-num-batched-tokens`).
    pub batch_tokens_max: u32,
    /// Jobs that run at once at most (vLLM's `--max-num-seqs`).
    pub seqs_max: u32,
    /// Jobs inside the engine, running or waiting, above which a new one is rejected (vLLM's
    /// `--max-num-queued-reqs`, which counts both); `None` for no limit.
    pub queued_requests_max: Option<u32>,
    /// Microseconds of every step.
    pub step_base_us: f64,
    /// Microseconds of a step for each prompt token computed.
    pub step_prefill_token_us: f64,
    /// Nanoseconds of a step for each prompt token computed and token of context that it attends
    /// to.
    pub step_prefill_context_ns: f64,
    /// Microseconds of a step for each sequence that decodes.
    pub step_decode_sequence_us: f64,
    /// Nanoseconds of a step for each token of context of each sequence that decodes.
    pub step_decode_context_ns: f64,
}

/// The longest step of a full batch: a thousand times what engines take, and more is a mistake of
/// unit.
const STEP_MAX: Span = Span::secs(3600);
/// The most KV blocks of one engine: a hundred times those of a node of today's largest
/// accelerators, and half a gigabyte to keep track of.
const BLOCKS_MAX: u32 = 10_000_000;

/// The keys of a preset file, in the order in which they are best written.
const KEYS: [&str; 13] = [
    "name",
    "source",
    "error",
    "block_size",
    "kv_tokens",
    "batch_tokens_max",
    "seqs_max",
    "queued_requests_max",
    "step_base_us",
    "step_prefill_token_us",
    "step_prefill_context_ns",
    "step_decode_sequence_us",
    "step_decode_context_ns",
];

impl Preset {
    /// Reads a preset from the text of a file; `file` is only named in faults.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PresetError> {
        let mut reader = Reader { text, file, faults: Vec::new() };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let line = error.span().map(|span| reader.line(span.start));
            reader.fault(line, error.message(), "see the presets that ship for the form of a file");
        }
        let table = table.get_ref();
        for key in table.keys() {
            if !KEYS.contains(&key.get_ref().as_ref()) {
                let line = reader.line(key.span().start);
                let what = format!("unknown key: {}", key.get_ref());
                reader.fault(Some(line), &what, &format!("known keys: {}", KEYS.join(", ")));
            }
        }
        let preset = Self {
            name: reader.text_of(table, "name"),
            source: reader.text_of(table, "source"),
            error: reader.text_of(table, "error"),
            block_size: reader.count(table, "block_size"),
            kv_tokens: reader.count(table, "kv_tokens"),
            batch_tokens_max: reader.count(table, "batch_tokens_max"),
            seqs_max: reader.count(table, "seqs_max"),
            queued_requests_max: table
                .contains_key("queued_requests_max")
                .then(|| reader.count(table, "queued_requests_max")),
            step_base_us: reader.time(table, "step_base_us"),
            step_prefill_token_us: reader.time(table, "step_prefill_token_us"),
            step_prefill_context_ns: reader.time(table, "step_prefill_context_ns"),
            step_decode_sequence_us: reader.time(table, "step_decode_sequence_us"),
            step_decode_context_ns: reader.time(table, "step_decode_context_ns"),
        };
        // Relations between values that are missing or wrong themselves would only add noise.
        if reader.faults.is_empty() {
            preset.check(table, &mut reader);
        }
        if reader.faults.is_empty() {
            Ok(preset)
        } else {
            reader.faults.sort_by_key(|fault| fault.line);
            Err(PresetError { faults: reader.faults })
        }
    }

    /// The same engine with every step `factor` times as long: 0.1 is ten times as fast.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            step_base_us: self.step_base_us * factor,
            step_prefill_token_us: self.step_prefill_token_us * factor,
            step_prefill_context_ns: self.step_prefill_context_ns * factor,
            step_decode_sequence_us: self.step_decode_sequence_us * factor,
            step_decode_context_ns: self.step_decode_context_ns * factor,
            ..self.clone()
        }
    }

    /// Number of whole KV blocks, at least one.
    pub fn blocks(&self) -> u32 {
        (self.kv_tokens / self.block_size.max(1)).max(1)
    }

    pub(super) fn step_time(&self) -> StepTime {
        StepTime {
            base: self.step_base_us * 1e3,
            prefill: self.step_prefill_token_us * 1e3,
            prefill_context: self.step_prefill_context_ns,
            decode: self.step_decode_sequence_us * 1e3,
            decode_context: self.step_decode_context_ns,
        }
    }

    fn check(&self, table: &DeTable<'_>, reader: &mut Reader<'_>) {
        if self.kv_tokens < self.block_size {
            let line = reader.line_of(table, "kv_tokens");
            let what = format!("kv_tokens {} is less than one block", self.kv_tokens);
            reader.fault(line, &what, &format!("use at least block_size, {}", self.block_size));
        }
        let blocks = self.blocks();
        if blocks > BLOCKS_MAX {
            let line = reader.line_of(table, "kv_tokens");
            let what = format!("kv_tokens {} are {blocks} blocks", self.kv_tokens);
            reader.fault(line, &what, &format!("at most {BLOCKS_MAX} blocks are modelled"));
        }
        self.check_step(table, reader);
        if self.batch_tokens_max < self.seqs_max {
            let line = reader.line_of(table, "batch_tokens_max");
            let what = format!(
                "batch_tokens_max {} is less than seqs_max {}",
                self.batch_tokens_max, self.seqs_max
            );
            reader.fault(
                line,
                &what,
                "a step must hold one token for each running job, as in vLLM",
            );
        }
        if self.step_base_us == 0.0 && self.step_prefill_token_us == 0.0 {
            let line = reader.line_of(table, "step_base_us");
            reader.fault(line, "a prompt would take no time at all", "make step_base_us positive");
        }
    }
}

impl Preset {
    /// Virtual time has an end, and steps must be short against it.
    fn check_step(&self, table: &DeTable<'_>, reader: &mut Reader<'_>) {
        let (batch, kv) = (u64::from(self.batch_tokens_max), u64::from(self.kv_tokens));
        let seqs = u64::from(self.seqs_max);
        // Each prompt token, and each sequence that decodes, attends to all that the cache holds.
        let parts = [
            ("step_base_us", Work::default()),
            ("step_prefill_token_us", Work { prefill: batch, ..Work::default() }),
            (
                "step_prefill_context_ns",
                Work {
                    prefill_context_doubled: batch.saturating_mul(kv).saturating_mul(2),
                    ..Work::default()
                },
            ),
            ("step_decode_sequence_us", Work { decodes: seqs, ..Work::default() }),
            (
                "step_decode_context_ns",
                Work { decode_context: seqs.saturating_mul(kv), ..Work::default() },
            ),
        ];
        let time = self.step_time();
        let without_base = StepTime { base: 0.0, ..time };
        let parts = parts.map(|(key, work)| {
            let time = if work == Work::default() { time } else { without_base };
            (time.of(&work, 1.0), key)
        });
        let whole = parts.iter().fold(Span::ZERO, |sum, (span, _)| sum + *span);
        if let Some((_, key)) = parts.into_iter().max().filter(|_| whole > STEP_MAX) {
            let line = reader.line_of(table, key);
            let what = format!("{key} makes a full step take {whole}");
            let remedy = format!("a full step may take up to {STEP_MAX}: see the unit in its name");
            reader.fault(line, &what, &remedy);
        }
    }
}

/// What is wrong with a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetError {
    /// Each fault, by line.
    pub faults: Vec<PresetFault>,
}

/// One thing that is wrong with a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetFault {
    /// The file, or the name that is not known.
    pub file: PathBuf,
    /// The line, from 1, where one is at fault.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl std::error::Error for PresetError {}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            if nth > 0 {
                writeln!(f)?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PresetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}\nhint: {}", self.what, self.remedy)
    }
}

/// Reads values and gathers faults.
struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
    faults: Vec<PresetFault>,
}

impl Reader<'_> {
    fn fault(&mut self, line: Option<usize>, what: &str, remedy: &str) {
        self.faults.push(PresetFault {
            file: self.file.to_path_buf(),
            line,
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    /// The line of a place in the text, from 1.
    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    fn line_of(&self, table: &DeTable<'_>, key: &str) -> Option<usize> {
        table.get(key).map(|value| self.line(value.span().start))
    }

    fn value<'t, 'i>(
        &mut self,
        table: &'t DeTable<'i>,
        key: &str,
        form: &str,
    ) -> Option<&'t Spanned<DeValue<'i>>> {
        let value = table.get(key);
        if value.is_none() {
            self.fault(None, &format!("missing key: {key}"), &format!("add {key} = {form}"));
        }
        value
    }

    fn wrong(&mut self, table: &DeTable<'_>, key: &str, form: &str) {
        let line = self.line_of(table, key);
        self.fault(line, &format!("{key} must be {form}"), &format!("write {key} = {form}"));
    }

    fn text_of(&mut self, table: &DeTable<'_>, key: &str) -> String {
        let form = "a string that is not empty";
        let Some(value) = self.value(table, key, form) else { return String::new() };
        let text = value.get_ref().as_str().unwrap_or_default().trim();
        if text.is_empty() {
            self.wrong(table, key, form);
        }
        text.to_owned()
    }

    fn count(&mut self, table: &DeTable<'_>, key: &str) -> u32 {
        let form = "a whole number from 1 to 4294967295";
        let Some(value) = self.value(table, key, form) else { return 0 };
        let count = value.get_ref().as_integer().and_then(|integer| {
            u32::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
        });
        if count.unwrap_or(0) == 0 {
            self.wrong(table, key, form);
        }
        count.unwrap_or(0)
    }

    fn time(&mut self, table: &DeTable<'_>, key: &str) -> f64 {
        let form = "a number from 0 to 1e12";
        let Some(value) = self.value(table, key, form) else { return 0.0 };
        let digits = match value.get_ref() {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => "",
        };
        let time = digits.replace('_', "").parse().unwrap_or(f64::NAN);
        // NaN is in no range.
        if !(0.0..=1e12).contains(&time) {
            self.wrong(table, key, form);
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{KEYS, Preset};

    const GOOD: &str = "name = \"a\"
source = \"b\"
error = \"c\"
block_size = 16
kv_tokens = 1_000
batch_tokens_max = 0x100
seqs_max = 8
step_base_us = 1.5e3
step_prefill_token_us = 20
step_prefill_context_ns = 0.5
step_decode_sequence_us = 0
step_decode_context_ns = 3
";

    fn faults(text: &str) -> String {
        Preset::parse(text, Path::new("own.toml")).expect_err("it has faults").to_string()
    }

    #[test]
    fn a_preset_is_read_as_written() {
        let preset = Preset::parse(GOOD, Path::new("own.toml")).expect("it is good");
        assert_eq!((preset.kv_tokens, preset.blocks(), preset.batch_tokens_max), (1_000, 62, 256));
        assert_eq!((preset.step_base_us, preset.step_prefill_token_us), (1_500.0, 20.0));
        assert_eq!(preset.queued_requests_max, None);
        let limited = format!("{GOOD}queued_requests_max = 3\n");
        let limited = Preset::parse(&limited, Path::new("own.toml")).expect("it is good");
        assert_eq!(limited.queued_requests_max, Some(3));
    }

    #[test]
    fn all_faults_come_at_once_with_their_lines() {
        let text = GOOD
            .replace("\"a\"", "\" \"")
            .replace("= 16", "= 0")
            .replace("= 1_000", "= -5")
            .replace("= 8", "= \"8\"")
            .replace("= 20", "= nan")
            .replace("= 0.5", "= -0.5")
            .replace("step_decode_context_ns", "step_decode_context_us")
            .replace("error = \"c\"\n", "");
        let faults = faults(&text).replace(&KEYS.join(", "), "all of them");
        insta::assert_snapshot!(faults, @r#"
        own.toml: missing key: error
        hint: add error = a string that is not empty
        own.toml: missing key: step_decode_context_ns
        hint: add step_decode_context_ns = a number from 0 to 1e12
        own.toml:1: name must be a string that is not empty
        hint: write name = a string that is not empty
        own.toml:3: block_size must be a whole number from 1 to 4294967295
        hint: write block_size = a whole number from 1 to 4294967295
        own.toml:4: kv_tokens must be a whole number from 1 to 4294967295
        hint: write kv_tokens = a whole number from 1 to 4294967295
        own.toml:6: seqs_max must be a whole number from 1 to 4294967295
        hint: write seqs_max = a whole number from 1 to 4294967295
        own.toml:8: step_prefill_token_us must be a number from 0 to 1e12
        hint: write step_prefill_token_us = a number from 0 to 1e12
        own.toml:9: step_prefill_context_ns must be a number from 0 to 1e12
        hint: write step_prefill_context_ns = a number from 0 to 1e12
        own.toml:11: unknown key: step_decode_context_us
        hint: known keys: all of them
        "#);
    }

    #[test]
    fn values_that_contradict_each_other_are_faults() {
        let text = GOOD
            .replace("= 1_000", "= 15")
            .replace("= 0x100", "= 7")
            .replace("= 1.5e3", "= 0")
            .replace("= 20", "= 0.0");
        insta::assert_snapshot!(faults(&text), @r"
        own.toml:5: kv_tokens 15 is less than one block
        hint: use at least block_size, 16
        own.toml:6: batch_tokens_max 7 is less than seqs_max 8
        hint: a step must hold one token for each running job, as in vLLM
        own.toml:8: a prompt would take no time at all
        hint: make step_base_us positive
        ");
    }

    #[test]
    fn a_full_step_takes_an_hour_at_most_and_blocks_are_bounded() {
        for (from, to, key) in [
            ("step_base_us = 1.5e3", "step_base_us = 3.601e9", "step_base_us"),
            ("_token_us = 20", "_token_us = 1e9", "step_prefill_token_us"),
            ("_context_ns = 0.5", "_context_ns = 1e12", "step_prefill_context_ns"),
            ("_sequence_us = 0", "_sequence_us = 1e12", "step_decode_sequence_us"),
            ("_context_ns = 3", "_context_ns = 1e12", "step_decode_context_ns"),
        ] {
            let told = faults(&GOOD.replace(from, to));
            let what = format!("{key} makes a full step take ");
            assert!(told.contains(&what) && told.contains("up to 3600 s"), "{told}");
        }
        let hour = GOOD.replace("step_base_us = 1.5e3", "step_base_us = 3.5e9");
        assert!(Preset::parse(&hour, Path::new("own.toml")).is_ok());
        let told = faults(&GOOD.replace("= 1_000", "= 4294967295").replace("= 16", "= 1"));
        assert!(told.contains("own.toml:5: ") && told.contains("10000000 blocks"), "{told}");
    }

    #[test]
    fn broken_syntax_is_a_fault_with_its_line() {
        let text = GOOD.replace("seqs_max = 8", "seqs_max = = 8");
        assert!(faults(&text).contains("own.toml:7: "), "{}", faults(&text));
        assert!(faults("").lines().count() >= 2 * (KEYS.len() - 1));
    }

    #[test]
    fn a_scaled_preset_is_as_large_and_takes_that_share_of_the_time() {
        let preset = Preset::parse(GOOD, Path::new("own.toml")).expect("it is good");
        let tenth = preset.scaled(0.1);
        assert_eq!((tenth.kv_tokens, tenth.seqs_max), (preset.kv_tokens, preset.seqs_max));
        assert!((tenth.step_base_us - 150.0).abs() < 1e-9);
        assert!((tenth.step_decode_context_ns - 0.3).abs() < 1e-9);
    }
}
