//! Refuses names that say nothing.

use super::Findings;
use super::scan::{Line, is_word, words};

/// Names that no file, folder or module has: each is a place where unrelated things gather.
const NAMES: [&str; 7] = ["utils", "util", "helpers", "helper", "common", "misc", "manager"];
/// Words that no name contains. `common` is not among them: a common prefix is a thing.
const PARTS: [&str; 6] = ["utils", "util", "helpers", "helper", "misc", "manager"];
/// Keywords after which a new name stands.
const KEYWORDS: [&str; 9] =
    ["mod", "struct", "enum", "trait", "fn", "type", "const", "static", "let"];

const INSTEAD: &str = "name it after what it does";

/// Checks the names of a path's folders and of its file.
pub(super) fn check_path(path: &str, findings: &mut Findings) {
    for part in path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if NAMES.contains(&stem) {
            findings.add(path, 1, format!("the name `{stem}`"), INSTEAD);
        }
    }
}

/// Checks the names that a Rust file declares.
pub(super) fn check(path: &str, lines: &[Line], findings: &mut Findings) {
    for (nth, line) in lines.iter().enumerate() {
        let mut after_keyword = false;
        for word in words(&line.code) {
            if word == "mut" {
                continue;
            }
            if after_keyword && is_banned(word) {
                findings.add(path, nth + 1, format!("the name `{word}`"), INSTEAD);
            }
            after_keyword = KEYWORDS.contains(&word);
        }
    }
}

fn is_banned(name: &str) -> bool {
    NAMES.contains(&name) || parts(name).iter().any(|part| PARTS.contains(&part.as_str()))
}

/// The words of a name, in lower case: `QueueManager` and `queue_manager` have the same.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for char in name.chars() {
        debug_assert!(is_word(char), "{name} is not a name");
        if char == '_' || char.is_uppercase() {
            parts.push(String::new());
        }
        if char != '_' {
            parts.last_mut().expect("one was there from the start").extend(char.to_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{check, check_path};
    use crate::tidy::scan::lines;
    use crate::tidy::tests::found;

    #[test]
    fn a_file_or_folder_that_says_nothing_is_found() {
        for path in ["src/utils.rs", "src/common/mod.rs", "docs/misc.md"] {
            assert_eq!(found(|it| check_path(path, it)).len(), 1, "{path}");
        }
        for path in ["src/queue.rs", "src/utilisation.rs", "src/uncommon.rs"] {
            assert_eq!(found(|it| check_path(path, it)), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_declared_name_that_says_nothing_is_found() {
        let bad = "mod helpers;\nstruct QueueManager;\nfn string_utils() {}\nlet mut misc = 1;\n";
        let expected = [
            "1: the name `helpers`",
            "2: the name `QueueManager`",
            "3: the name `string_utils`",
            "4: the name `misc`",
        ];
        assert_eq!(found(|it| check("a.rs", &lines(bad), it)), expected);
    }

    #[test]
    fn good_names_and_names_of_others_are_not_found() {
        let good =
            "fn common_prefix() {}\nuse other::utils;\nlet a = \"struct Manager\"; // mod utils\n";
        assert_eq!(found(|it| check("a.rs", &lines(good), it)), [""; 0]);
    }
}
