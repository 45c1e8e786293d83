//! Runs the same command twice and compares the bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::bar::{Bar, Unit};
use super::sheet::{Sheet, split};

/// A run's figures, and a drill's report.
pub(super) fn same_bytes(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let words = "simulate --synth evidence --workers 2 --mode hold --json";
    let (first, second) = (printed(sheet, words)?, printed(sheet, words)?);
    differing(sheet, "forebay simulate, lines", &by_line(&first), &by_line(&second));
    let mut reports = Vec::new();
    for nth in ["first", "second"] {
        let (folder, path) = sheet.lab.scratch(&format!("drill-{nth}"))?;
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot clear {folder}"))?;
        }
        let said = printed(sheet, &format!("drill --seeds 1 --json --out {folder}"))?;
        let mut files = files(&path)?;
        ensure!(!files.is_empty(), "forebay drill wrote nothing to {folder}");
        files.insert("what it prints".to_owned(), said.into_bytes());
        reports.push(files);
    }
    differing(sheet, "forebay drill, files", &reports[0], &reports[1]);
    Ok(())
}

fn printed(sheet: &mut Sheet<'_>, words: &str) -> anyhow::Result<String> {
    sheet.note(format!("forebay {words}"));
    Ok(sheet.lab.fresh(&split(words))?.1)
}

/// Parts that are not in both, or not the same.
fn differing(
    sheet: &mut Sheet<'_>,
    what: &str,
    first: &BTreeMap<String, Vec<u8>>,
    second: &BTreeMap<String, Vec<u8>>,
) {
    let what = format!("{what} that differ, of {}", first.len());
    sheet.single(what, Unit::Count, different(first, second) as f64, Bar::AtMost(0.0));
}

fn different(first: &BTreeMap<String, Vec<u8>>, second: &BTreeMap<String, Vec<u8>>) -> usize {
    let changed = first.iter().filter(|(name, bytes)| second.get(*name) != Some(bytes)).count();
    changed + second.keys().filter(|name| !first.contains_key(*name)).count()
}

fn by_line(text: &str) -> BTreeMap<String, Vec<u8>> {
    let line = |(nth, line): (usize, &str)| (format!("{nth:09}"), line.as_bytes().to_vec());
    text.lines().enumerate().map(line).collect()
}

/// All files below a folder, by their names from it.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                found.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{by_line, different};

    #[test]
    fn what_changed_came_or_went_is_counted_once() {
        assert_eq!(different(&by_line("a\nb\nc"), &by_line("a\nb\nc")), 0);
        assert_eq!(different(&by_line("a\nb\nc"), &by_line("a\nx")), 2);
        assert_eq!(different(&by_line("a"), &by_line("a\nb")), 1);
    }
}
