//! Finds engine presets: those that ship by name, others by file.

use std::path::{Path, PathBuf};

use forebay_service::text_file::{self, UnreadableFile};

use crate::engine::{Preset, PresetError, PresetFault};

/// The presets that ship: name and text.
const SHIPPED: [(&str, &str); 4] = [
    ("a100-40gb/qwen3-8b", include_str!("../presets/a100-40gb--qwen3-8b.toml")),
    ("h100-80gb/llama-3.1-8b", include_str!("../presets/h100-80gb--llama-3.1-8b.toml")),
    ("h100-80gb-x4/llama-3.3-70b", include_str!("../presets/h100-80gb-x4--llama-3.3-70b.toml")),
    ("tenth/qwen3-8b", include_str!("../presets/tenth--qwen3-8b.toml")),
];

impl Preset {
    /// The names of the presets that ship.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The preset that ships under this name, else the one in the file at this path.
    pub fn resolve(name_or_path: &str) -> Result<Self, PresetError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(text, Path::new(name));
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            return Err(unknown(path));
        }
        let text = text_file::read(path).map_err(|UnreadableFile { file, what, remedy }| {
            PresetError { faults: vec![PresetFault { file, line: None, what, remedy }] }
        })?;
        Self::parse(&text, path)
    }

    /// What is wrong with a preset of this name or path and what to do, fault by fault: what a
    /// service file's pools are checked with.
    pub fn faults_of(name_or_path: &str) -> Vec<(String, String)> {
        let Err(error) = Self::resolve(name_or_path) else { return Vec::new() };
        let told = |fault: PresetFault| {
            let place = fault.line.map_or_else(String::new, |line| format!(":{line}"));
            let what = format!("engine {}{place}: {}", fault.file.display(), fault.what);
            (what, fault.remedy)
        };
        error.faults.into_iter().map(told).collect()
    }
}

fn unknown(path: &Path) -> PresetError {
    let known = Preset::names().collect::<Vec<_>>().join(", ");
    let what = "neither a preset that ships nor a file".to_owned();
    let remedy = format!("use one of {known}, or the path of a preset file");
    let file = if path.as_os_str().is_empty() { PathBuf::from("\"\"") } else { path.to_path_buf() };
    PresetError { faults: vec![PresetFault { file, line: None, what, remedy }] }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Moment, Rng};

    use crate::engine::{Engine, Input, Job, Output, Preset};

    fn preset(name: &str) -> Preset {
        Preset::resolve(name).expect("a preset that ships is sound")
    }

    #[test]
    fn every_preset_that_ships_is_sound_named_as_its_file_says_and_shares_one_block_size() {
        for name in Preset::names() {
            let preset = preset(name);
            assert_eq!((preset.name.as_str(), preset.block_size), (name, 64));
        }
    }

    #[test]
    fn the_tenth_preset_is_a_tenth_of_the_a100() {
        let (tenth, scaled) = (preset("tenth/qwen3-8b"), preset("a100-40gb/qwen3-8b").scaled(0.1));
        assert_eq!(tenth.kv_tokens, scaled.kv_tokens);
        for (tenth, scaled) in [
            (tenth.step_base_us, scaled.step_base_us),
            (tenth.step_prefill_token_us, scaled.step_prefill_token_us),
            (tenth.step_prefill_context_ns, scaled.step_prefill_context_ns),
            (tenth.step_decode_sequence_us, scaled.step_decode_sequence_us),
            (tenth.step_decode_context_ns, scaled.step_decode_context_ns),
        ] {
            assert!((tenth / scaled - 1.0).abs() < 1e-9, "{tenth} is not {scaled}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Preset::resolve("a100/qwen").expect_err("there is no such preset").to_string();
        let known = "a100-40gb/qwen3-8b, h100-80gb/llama-3.1-8b, h100-80gb-x4/llama-3.3-70b, \
                     tenth/qwen3-8b";
        let expected = format!(
            "a100/qwen: neither a preset that ships nor a file\n\
             hint: use one of {known}, or the path of a preset file"
        );
        assert_eq!(error, expected);
        assert!(Preset::resolve("").is_err());
        assert!(Preset::resolve("/").is_err());
    }

    #[test]
    fn a_service_file_is_told_of_an_engine_that_is_not_known() {
        let [(what, remedy)] = &Preset::faults_of("abacus")[..] else { panic!("one fault") };
        assert_eq!(what, "engine abacus: neither a preset that ships nor a file");
        assert!(remedy.contains("tenth/qwen3-8b"), "{remedy}");
        assert_eq!(Preset::faults_of("tenth/qwen3-8b"), []);
    }

    #[test]
    fn a_preset_file_is_read_by_its_path() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/presets/tenth--qwen3-8b.toml");
        assert_eq!(preset(path), preset("tenth/qwen3-8b"));
    }

    /// Runs jobs that all arrive at once, and says the seconds it took and the median seconds
    /// between tokens.
    fn run(preset: &Preset, jobs: &[(u32, u32)]) -> (f64, f64) {
        let mut engine = Engine::new(preset);
        engine.set_report_every(u32::MAX);
        for (id, &(prompt, output)) in (0..).zip(jobs) {
            let job = Job { id, prompt, output, blocks: [].into() };
            engine.handle(Moment::START, Input::Submitted(job));
        }
        let mut first = vec![Moment::START; jobs.len()];
        let (mut gaps, mut now) = (Vec::new(), Moment::START);
        loop {
            match engine.poll() {
                Output::Tokens { id, generated: 1 } => first[id as usize] = now,
                Output::Finished(id) => {
                    let tokens = f64::from(jobs[id as usize].1 - 1);
                    gaps.push(now.since(first[id as usize]).as_secs_f64() / tokens);
                }
                Output::Sleep(None) => break,
                Output::Sleep(Some(end)) => {
                    now = end;
                    engine.handle(now, Input::Elapsed);
                }
                _ => {}
            }
        }
        gaps.sort_by(f64::total_cmp);
        (now.since(Moment::START).as_secs_f64(), gaps[gaps.len() / 2])
    }

    #[track_caller]
    fn check(what: &str, is: f64, published: f64, tolerance: f64) {
        let error = is / published - 1.0;
        assert!(error.abs() <= tolerance, "{what} is {is}, {:+.1} % off", 100.0 * error);
    }

    /// Lengths like those of the `ShareGPT` prompts that vLLM's benchmarks draw: 213 tokens in and
    /// 214 out on average, widely spread.
    fn sharegpt_like(count: usize) -> Vec<(u32, u32)> {
        let mut rng = Rng::new(1);
        let mut length = |mean: f64| 4 + (-(1.0 - rng.unit()).ln() * (mean - 4.0)) as u32;
        (0..count).map(|_| (length(213.0).min(1_024), length(214.0).min(1_024))).collect()
    }

    #[test]
    fn the_h100_presets_give_the_published_figures() {
        for (name, batch_of_8, tokens_per_s, gap_ms) in [
            ("h100-80gb/llama-3.1-8b", 0.9975, 8_088.0, 25.57),
            ("h100-80gb-x4/llama-3.3-70b", 2.4445, 3_543.0, 61.10),
        ] {
            let preset = Preset { seqs_max: 256, ..preset(name) };
            let (took, _) = run(&preset, &[(32, 128); 8]);
            check("a batch of 8", took, batch_of_8, 0.02);
            let jobs = sharegpt_like(5_000);
            let (took, gap) = run(&preset, &jobs);
            let tokens: u32 = jobs.iter().map(|&(_, output)| output).sum();
            check("the time between tokens", 1e3 * gap, gap_ms, 0.10);
            check("tokens a second", f64::from(tokens) / took, tokens_per_s, 0.25);
        }
    }
}
