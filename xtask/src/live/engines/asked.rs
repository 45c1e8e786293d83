//! Reads what the comparison is asked.

use anyhow::{Context, bail, ensure};

use super::ARMS;
use crate::live::arms::Arm;

/// What to run.
#[derive(Debug)]
pub(super) struct Asked {
    /// Seeds from 1 to this.
    pub(super) seeds: u64,
    /// Requests a run.
    pub(super) requests: u64,
    /// Requests a second, where it is not to be measured.
    pub(super) capacity: Option<f64>,
    /// Write the page.
    pub(super) write: bool,
    /// Parts of the names of the arms; none asks for all.
    names: Vec<String>,
}

impl Asked {
    /// Reads the words after `cargo xtask engines`.
    pub(super) fn read(words: &[&str]) -> anyhow::Result<Self> {
        let mut asked =
            Self { seeds: 3, requests: 900, capacity: None, write: false, names: Vec::new() };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut number = |range: std::ops::RangeInclusive<u64>| {
                let number = words.next().and_then(|number| number.parse().ok());
                let number = number.filter(|number| range.contains(number));
                number.with_context(|| {
                    format!("{word} takes a number from {} to {}", range.start(), range.end())
                })
            };
            match word {
                "--write" => asked.write = true,
                "--seeds" => asked.seeds = number(1..=100)?,
                "--requests" => asked.requests = number(1..=100_000)?,
                "--capacity" => asked.capacity = Some(number(1..=10_000)? as f64),
                name if ARMS.iter().any(|arm| arm.name.contains(name)) => {
                    asked.names.push(name.to_owned());
                }
                other => {
                    let names = ARMS.map(|arm| arm.name).join(", ");
                    bail!("no arm is named {other}\nhint: they are {names}");
                }
            }
        }
        ensure!(
            asked.names.is_empty() || !asked.write,
            "the page holds all arms\nhint: leave the names out, or --write"
        );
        Ok(asked)
    }

    /// Whether an arm was asked for.
    pub(super) fn wants(&self, arm: Arm) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| arm.name.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::{ARMS, Asked};

    #[test]
    fn arms_are_asked_for_by_a_part_of_their_names() {
        let wanted = |words: &[&str]| {
            let asked = Asked::read(words).unwrap();
            ARMS.into_iter().filter(|arm| asked.wants(*arm)).map(|arm| arm.name).collect::<Vec<_>>()
        };
        assert_eq!(wanted(&[]).len(), ARMS.len());
        assert_eq!(wanted(&["cache"]), ["vllm-router cache_aware", "smg cache_aware"]);
        assert_eq!(wanted(&["hold", "--seeds", "2"]), ["forebay hold"]);
    }

    #[test]
    fn misuse_is_an_error_with_a_remedy() {
        let said = |words: &[&str]| Asked::read(words).unwrap_err().to_string();
        assert_eq!(said(&["--seeds", "0"]), "--seeds takes a number from 1 to 100");
        assert!(said(&["dynamo"]).contains("hint: they are forebay round-robin, "));
        assert!(said(&["smg", "--write"]).contains("hint: "));
    }
}
