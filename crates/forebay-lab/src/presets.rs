//! Finds engine presets: those that ship by name, others by file.

use std::fs;
use std::path::{Path, PathBuf};

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
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) => Err(unreadable(path, &error)),
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> PresetError {
    let known = Preset::names().collect::<Vec<_>>().join(", ");
    let what = if error.kind() == std::io::ErrorKind::NotFound {
        "neither a preset that ships nor a file".to_owned()
    } else {
        format!("the preset can't be read: {error}")
    };
    let remedy = format!("use one of {known}, or the path of a preset file");
    let file = if path.as_os_str().is_empty() { PathBuf::from("\"\"") } else { path.to_path_buf() };
    PresetError { faults: vec![PresetFault { file, line: None, what, remedy }] }
}
