//! Writes what all pages have in common: their head, contents, sections and commands.

use std::fmt::Write as _;

use super::escape::Escaped;
use super::html::Table;
use super::svg;

const CSS: &str = include_str!("page.css");

/// A whole page around what it holds: no script, and nothing that is fetched.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{CSS}{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        Escaped(title),
        svg::CSS
    )
}

/// Links to sections, by their names in addresses and their titles.
pub(super) fn contents(entries: &[(&str, &str)]) -> String {
    let mut html = "<nav aria-label=\"Contents\">\n<ol>\n".to_owned();
    for (id, title) in entries {
        let _ = writeln!(html, "<li><a href=\"#{id}\">{}</a></li>", Escaped(title));
    }
    html.push_str("</ol>\n</nav>\n");
    html
}

/// A section with its heading.
pub(super) fn section(id: &str, title: &str, body: &str) -> String {
    let title = Escaped(title);
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 \
         id=\"{id}-h\">{title}</h2>\n{body}</section>\n"
    )
}

/// A section within a section.
pub(super) fn subsection(id: &str, title: &str, body: &str) -> String {
    let title = Escaped(title);
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h3 \
         id=\"{id}-h\">{title}</h3>\n{body}</section>\n"
    )
}

/// The hashes of files, as a table.
pub(super) fn hashes<'f>(
    caption: &str,
    files: impl Iterator<Item = &'f (String, String)>,
) -> String {
    let mut table = Table::new(caption, &["file", "SHA-256"]);
    for (name, hash) in files {
        table.row([name.clone(), hash.clone()]);
    }
    format!("<div class=\"hashes\">{}</div>\n", table.html(&|_| false))
}

/// A command whose options stay with their values where the line is broken.
pub(super) fn command(words: &[String]) -> String {
    let mut html = String::new();
    for (nth, word) in words.iter().enumerate() {
        let option = word.starts_with("--");
        let opened = nth > 0 && words[nth - 1].starts_with("--");
        let gap = if nth == 0 { "" } else { " " };
        let _ = match (option, opened) {
            (true, false) => write!(html, "{gap}<span>{}", Escaped(word)),
            (true, true) => write!(html, "</span>{gap}<span>{}", Escaped(word)),
            (false, true) => write!(html, "{gap}{}</span>", Escaped(word)),
            (false, false) => write!(html, "{gap}{}", Escaped(word)),
        };
    }
    if words.last().is_some_and(|word| word.starts_with("--")) {
        html.push_str("</span>");
    }
    html
}

/// A table as wide as its figures need.
pub(super) fn narrow(table: &Table) -> String {
    format!("<div class=\"narrow\">{}</div>\n", table.html(&|_| false))
}

/// The first letter large, and a full stop at the end.
pub(super) fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let rest = letters.as_str();
    format!("{}{rest}{}", first.to_uppercase(), if rest.contains(' ') { "." } else { "" })
}
