//! Holds what is said of settings to settings that exist.

use std::collections::BTreeSet;

use forebay_gateway::config::defaults as gateway;
use forebay_service::defaults as service;

use super::Findings;
use crate::workspace::Source;

/// How names of bounds end; nothing else in the documents ends so.
const ENDING: &str = "_max";

/// Checks that every bound named on a page, as `` `…_max` ``, is a key of some file that is read.
pub(super) fn check(sources: &[Source], findings: &mut Findings) {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    known.extend(gateway::TABLE.iter().map(|key| key.name));
    known.extend(service::TABLE.iter().map(|key| key.name));
    // Scenarios, descriptions, presets and criteria have keys of their own: those that some file
    // has, or whose reader quotes them.
    for source in sources {
        let Some(text) = &source.text else { continue };
        match source.extension() {
            "toml" => {
                let keys = text.lines().filter_map(|line| Some(line.split_once('=')?.0.trim()));
                known.extend(keys);
            }
            "rs" => {
                known.extend(text.split('"').filter(|quoted| quoted.ends_with(ENDING)));
                // What results are written with has the names of fields.
                let fields = text.lines().filter_map(|line| line.trim().strip_prefix("pub "));
                known.extend(fields.filter_map(|field| Some(field.split_once(':')?.0)));
            }
            _ => {}
        }
    }
    for source in sources.iter().filter(|source| source.extension() == "md") {
        for (nth, line) in source.text.iter().flat_map(|text| text.lines()).enumerate() {
            // Pieces at odd places stand between backticks.
            for quoted in line.split('`').skip(1).step_by(2) {
                let name = quoted.split_once(" =").map_or(quoted, |(name, _)| name);
                let plain = |char: char| char.is_ascii_lowercase() || char == '_';
                let is_bound = name.ends_with(ENDING) && !name.starts_with('_');
                if is_bound && name.chars().all(plain) && !known.contains(name) {
                    let what = format!("`{name}` is no key of any file");
                    findings.add(&source.path, nth + 1, what, "name the key as it is");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::{found, source};

    #[test]
    fn a_bound_that_no_file_has_is_found_and_those_of_any_file_are_not() {
        let page = "# A\n\n`held_bytes_max`, `bodies_bytes_max = 3`, `turns_max`\n";
        let of = |reader| {
            let synth = source("b.toml", "turns_max = 4\n");
            let sources = [source("a.md", page), synth, source("c.rs", reader)];
            found(|it| check(&sources, it))
        };
        assert_eq!(of("let held_bytes_max = 3;\n"), ["3: `held_bytes_max` is no key of any file"]);
        assert_eq!(of("let key = \"held_bytes_max\";\n"), [""; 0]);
    }

    #[test]
    fn an_ending_alone_and_what_is_no_name_are_no_keys() {
        let page = source("a.md", "# A\n\nBounds end in `_max`; `f(x)_max` is odd.\n");
        assert_eq!(found(|it| check(&[page], it)), [""; 0]);
    }
}
