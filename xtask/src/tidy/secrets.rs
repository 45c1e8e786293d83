//! Keeps one machine's paths and one registry's host out of the repository.
//!
//! Both make a file that works here and nowhere else.

use super::Findings;

/// Folders at the root of a disk that only one machine has, or that no file should name.
const FOLDERS: [&str; 4] = ["work", "root", "home", "tmp"];
/// Hosts of package registries, in two halves, so that this file does not name one.
const HOSTS: [(&str, &str); 5] = [
    ("crates", ".io"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("npmjs", ".org"),
    ("proxy.golang", ".org"),
];
/// The index that Cargo writes into every lock file, which is the same for everybody.
const INDEX: (&str, &str) = ("\"registry+https://github.com/rust-lang/crates", ".io-index\"");

/// Checks any text file.
pub(super) fn check(path: &str, text: &str, findings: &mut Findings) {
    let index = format!("source = {}{}", INDEX.0, INDEX.1);
    for (nth, line) in text.lines().enumerate() {
        if path == "Cargo.lock" && line == index {
            continue;
        }
        for folder in FOLDERS {
            if names_folder(line, folder) {
                let what = format!("the absolute path /{folder}");
                findings.add(path, nth + 1, what, "name it from the workspace, or ask the system");
            }
        }
        for (name, end) in HOSTS {
            let host = format!("{name}{end}");
            if line.contains(&host) {
                let what = format!("the registry host {host}");
                findings.add(path, nth + 1, what, "say `the registry`, or name the repository");
            }
        }
    }
}

/// Whether a line has `/folder` where a path can begin, and not as a part of a longer name.
fn names_folder(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}");
    line.match_indices(&path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let continues = |char: char| char.is_alphanumeric() || "_-".contains(char);
        let inside = |char: char| continues(char) || ".~/})>".contains(char);
        !before.is_some_and(inside) && !after.is_some_and(continues)
    })
}

#[cfg(test)]
mod tests {
    use super::{FOLDERS, HOSTS, INDEX, check};
    use crate::tidy::tests::found;

    #[test]
    fn absolute_paths_of_a_machine_are_found() {
        for folder in FOLDERS {
            for line in
                [format!("see /{folder}/x"), format!("\"/{folder}\""), format!("cd /{folder}")]
            {
                assert_eq!(found(|it| check("a.md", &line, it)).len(), 1, "{line}");
            }
        }
    }

    #[test]
    fn relative_paths_addresses_and_longer_names_are_not_found() {
        for line in
            ["../work/x", "https://host.example/home", "/workers", "and/or", "~/tmp", "a/root"]
        {
            assert_eq!(found(|it| check("a.md", line, it)), [""; 0], "{line}");
        }
    }

    #[test]
    fn registry_hosts_are_found_except_the_one_in_the_lock_file() {
        let (name, end) = HOSTS[0];
        let line = format!("from {name}{end}");
        assert_eq!(found(|it| check("a.md", &line, it)).len(), 1);
        let locked = format!("source = {}{}", INDEX.0, INDEX.1);
        assert_eq!(found(|it| check("Cargo.lock", &locked, it)), [""; 0]);
        assert_eq!(found(|it| check("a.toml", &locked, it)).len(), 1);
    }
}
