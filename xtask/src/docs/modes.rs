//! Writes the reference of modes from the module docs of their files.

use std::fmt::Write as _;

use forebay_core::Mode;

use super::NOTE;
use crate::workspace::Workspace;

/// The folder whose module docs explain the modes.
const ROUTING: &str = "crates/forebay-core/src/routing";

/// The catalogue, then what each file says of itself.
pub(super) fn page(workspace: &Workspace) -> anyhow::Result<String> {
    let catalogue = workspace.read(&format!("{ROUTING}/mod.rs"))?;
    let names = Mode::ALL.map(|mode| format!("`{mode}`")).join(", ");
    let mut page = format!("# Modes of routing\n\n{NOTE}\n\nThe modes are {names}.\n\n");
    page.push_str(&module_doc(&catalogue));
    for name in modules(&catalogue) {
        let path = format!("{ROUTING}/{name}.rs");
        let text = workspace.read(&path)?;
        write!(page, "\n## {}\n\n{}", name.replace('_', "-"), module_doc(&text))?;
    }
    Ok(page)
}

/// The modules that a catalogue declares, in its order, tests left out.
fn modules(catalogue: &str) -> Vec<&str> {
    catalogue
        .lines()
        .filter_map(|line| {
            let line =
                line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
            line.strip_prefix("mod ")?.strip_suffix(';')
        })
        .filter(|name| *name != "tests")
        .collect()
}

/// The module doc at the start of a file as Markdown: links into the code become plain names, and
/// headings go two levels down.
fn module_doc(text: &str) -> String {
    let doc = text.lines().map_while(|line| line.strip_prefix("//!"));
    doc.map(|line| {
        let line = line.strip_prefix(' ').unwrap_or(line);
        let line = if line.starts_with('#') { format!("##{line}") } else { line.to_owned() };
        without_code_links(&line) + "\n"
    })
    .collect()
}

/// Turns ``[`Name`]`` and `[text](crate::path)` into what a reader sees of them.
fn without_code_links(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('[') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let Some((text, after)) = from[1..].split_once(']') else {
            plain.push_str(from);
            return plain;
        };
        let target = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = match target {
            Some((target, beyond)) if target.contains("::") => {
                plain.push_str(text);
                beyond
            }
            None if text.starts_with('`') => {
                plain.push_str(text);
                after
            }
            _ => {
                plain.push('[');
                &from[1..]
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::{module_doc, modules, without_code_links};

    #[test]
    fn a_module_doc_becomes_markdown() {
        let text = "//! Takes turns.\n//!\n//! # Why\n//! See [`Mode`].\n\nmod a;\n";
        assert_eq!(module_doc(text), "Takes turns.\n\n### Why\nSee `Mode`.\n");
    }

    #[test]
    fn links_into_the_code_become_plain_and_others_stay() {
        assert_eq!(
            without_code_links("a [`B`](crate::B) [c](https://d.example)"),
            "a `B` [c](https://d.example)"
        );
        assert_eq!(without_code_links("in [0, 1) and x[1]"), "in [0, 1) and x[1]");
    }

    #[test]
    fn the_catalogues_modules_come_in_its_order() {
        assert_eq!(modules("mod hold;\npub(crate) mod kv;\nuse x;\nmod tests;\n"), ["hold", "kv"]);
    }
}
