//! Reads what the claims are asked: names, seeds, and what to do with the results.

use anyhow::{Context, bail, ensure};

use super::{CLAIMS, Claim};

/// Seeds of the synthetic slice where none are named.
const SEEDS: u64 = 10;

/// What to run.
pub(super) struct Asked {
    /// The claims, in the order of the list of all.
    pub(super) claims: Vec<&'static Claim>,
    /// Seeds of the synthetic slice.
    pub(super) seeds: u64,
    /// Write the page of results.
    pub(super) write: bool,
}

impl Asked {
    /// Reads the words after `cargo xtask claims`.
    pub(super) fn read(words: &[&str]) -> anyhow::Result<Self> {
        let (mut names, mut seeds, mut slow, mut write) = (Vec::new(), SEEDS, false, false);
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--slow" => slow = true,
                "--write" => write = true,
                "--seeds" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    seeds = number
                        .filter(|seeds| (1..=1000).contains(seeds))
                        .context("--seeds takes a number from 1 to 1000")?;
                }
                name if CLAIMS.iter().any(|claim| claim.name == name) => names.push(name),
                other => bail!("no claim is named {other}\nhint: they are {}", all_names()),
            }
        }
        ensure!(
            names.is_empty() || !write,
            "a page of results holds all claims\nhint: leave the names out, or --write"
        );
        let is_asked = |claim: &&Claim| match &names[..] {
            [] => slow || !claim.is_slow,
            names => names.contains(&claim.name),
        };
        Ok(Self { claims: CLAIMS.iter().filter(is_asked).collect(), seeds, write })
    }
}

fn all_names() -> String {
    CLAIMS.iter().map(|claim| claim.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Asked, CLAIMS};

    fn names(words: &[&str]) -> Vec<&'static str> {
        Asked::read(words).unwrap().claims.iter().map(|claim| claim.name).collect()
    }

    #[test]
    fn what_is_slow_runs_only_when_it_is_named_or_asked_for() {
        assert!(!names(&[]).contains(&"million"));
        assert_eq!(names(&["million"]), ["million"]);
        assert_eq!(names(&["--slow"]).len(), CLAIMS.len());
    }

    #[test]
    fn names_come_in_the_order_of_the_list_and_seeds_are_read() {
        assert_eq!(names(&["tenants", "engine", "tenants"]), ["engine", "tenants"]);
        assert_eq!(Asked::read(&["--seeds", "3"]).unwrap().seeds, 3);
    }

    #[test]
    fn misuse_is_an_error_with_a_remedy() {
        for words in [&["--seeds"][..], &["--seeds", "0"], &["--seeds", "x"]] {
            assert!(Asked::read(words).is_err(), "{words:?}");
        }
        let said = |words: &[&str]| Asked::read(words).err().unwrap().to_string();
        assert!(said(&["engines"]).contains("hint: they are engine, "));
        assert!(said(&["engine", "--write"]).contains("hint: "));
    }
}
