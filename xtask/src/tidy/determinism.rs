//! Keeps clocks, chance and unordered maps out of what must repeat.
//!
//! The compiler keeps sockets out of `forebay-core` and clippy keeps clocks out of it. In
//! `forebay-lab` only two folders have to be deterministic, and clippy's lists hold for a whole
//! crate, so this rule reads the code.

use super::Findings;
use super::rust::is_test;
use super::scan::{Line, before_tests, words};

/// Folders whose code gives the same bytes for the same input and seed.
const FOLDERS: [&str; 3] = [
    "crates/forebay-core/src/",
    "crates/forebay-lab/src/engine/",
    "crates/forebay-lab/src/simulate/",
];

/// Names that such code does not use, and what it uses.
const NAMES: [(&str, &str); 7] = [
    ("Instant", "the moment that comes with the input"),
    ("SystemTime", "the moment that comes with the input"),
    ("UNIX_EPOCH", "the moment that comes with the input"),
    ("thread_rng", "`forebay_core::Rng`"),
    ("OsRng", "`forebay_core::Rng`"),
    ("RandomState", "a fixed hasher"),
    ("available_parallelism", "a number that the caller passes in"),
];

/// Checks one file, up to its tests.
pub(super) fn check(path: &str, lines: &[Line], findings: &mut Findings) {
    if !FOLDERS.iter().any(|folder| path.starts_with(folder)) || is_test(path) {
        return;
    }
    // Set between `std::collections` and the end of its statement.
    let mut in_std_collections = false;
    for (nth, line) in lines[..before_tests(lines)].iter().enumerate() {
        let mut rest = line.code.as_str();
        loop {
            if !in_std_collections {
                let Some(at) = rest.find("std::collections") else { break };
                (in_std_collections, rest) = (true, &rest[at..]);
            }
            let (statement, after) =
                rest.split_once(';').map_or((rest, None), |(a, b)| (a, Some(b)));
            for word in words(statement).filter(|word| ["HashMap", "HashSet"].contains(word)) {
                let instead =
                    "a `BTreeMap` or `IndexMap`, or hashbrown's with a fixed hasher for look-ups";
                findings.add(path, nth + 1, format!("the standard library's `{word}`"), instead);
            }
            let Some(after) = after else { break };
            (in_std_collections, rest) = (false, after);
        }
        for word in words(&line.code) {
            if let Some((name, instead)) = NAMES.iter().find(|(name, _)| *name == word) {
                findings.add(path, nth + 1, format!("`{name}` in code that must repeat"), *instead);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::scan::lines;
    use crate::tidy::tests::found;

    const CORE: &str = "crates/forebay-core/src/core.rs";

    #[test]
    fn clocks_and_chance_are_found_where_runs_must_repeat() {
        for path in [CORE, "crates/forebay-lab/src/engine/mod.rs"] {
            let code = lines("let now = Instant::now();\nthread_rng()");
            let expected = [
                "1: `Instant` in code that must repeat",
                "2: `thread_rng` in code that must repeat",
            ];
            assert_eq!(found(|it| check(path, &code, it)), expected);
        }
    }

    #[test]
    fn clocks_are_allowed_elsewhere_and_in_tests() {
        let code = lines("let now = Instant::now();");
        assert_eq!(found(|it| check("crates/forebay-lab/src/drill/mod.rs", &code, it)), [""; 0]);
        assert_eq!(found(|it| check("crates/forebay-core/src/queue/tests.rs", &code, it)), [""; 0]);
        let tested = lines("#[cfg(test)]\nmod tests {\nuse std::time::Instant;\n}\n");
        assert_eq!(found(|it| check(CORE, &tested, it)), [""; 0]);
    }

    #[test]
    fn the_standard_librarys_hash_maps_are_found_however_they_are_imported() {
        let grouped = lines("use std::collections::{\n    BTreeMap, HashMap,\n};\n");
        assert_eq!(found(|it| check(CORE, &grouped, it)), ["2: the standard library's `HashMap`"]);
        let inline = lines("let seen = std::collections::HashSet::new();");
        assert_eq!(found(|it| check(CORE, &inline, it)), ["1: the standard library's `HashSet`"]);
    }

    #[test]
    fn ordered_maps_and_other_hash_maps_are_not_found() {
        let code = lines("use std::collections::BTreeMap;\nuse hashbrown::HashMap;\n// HashSet\n");
        assert_eq!(found(|it| check(CORE, &code, it)), [""; 0]);
    }
}
