//! Reads a TOML table key by key and gathers every fault with its line.
//!
//! A derived deserialiser stops at its first fault; whoever writes such a file wants all of them.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::defaults::Key;
use crate::{Fault, Faults};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its line, from 1.
    pub line: usize,
}

/// The faults found so far.
#[derive(Debug)]
pub struct Gathered {
    line_starts: Vec<usize>,
    faults: Vec<Fault>,
    /// Whether the text is no TOML: all faults are of its syntax then.
    is_broken: bool,
}

impl Gathered {
    /// None yet, in this text.
    pub fn new(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(after_breaks).collect();
        Self { line_starts, faults: Vec::new(), is_broken: false }
    }

    /// The line that holds this byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= byte)
    }

    /// One more. In a text that is no TOML it is not: what was read of it is not what was meant,
    /// and one bracket that is missing would be told as a hundred faults.
    pub fn add(&mut self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        if self.is_broken {
            return;
        }
        self.faults.push(Fault { line, what: what.into(), remedy: remedy.into() });
    }

    /// The root table of this text, as far as it can be read.
    ///
    /// Faults of the syntax are the only ones, and end with the first within a list: if its bracket
    /// is missing, all that follows is read as a part of it.
    pub fn toml<'t>(&mut self, text: &'t str) -> Spanned<DeTable<'t>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let is_in_list = |message: &str| message.contains("array") || message.contains("inline");
        for error in &errors {
            let line = error.span().map_or(1, |span| self.line(span.start));
            let message = error.message();
            let remedy = if is_in_list(message) {
                "mend the line's syntax, or close the bracket before it; what follows is read then"
            } else {
                "mend the line's syntax"
            };
            self.add(line, format!("not TOML: {message}"), remedy);
            if is_in_list(message) {
                break;
            }
        }
        self.is_broken = !errors.is_empty();
        root
    }

    /// What was meant, if there is no fault, else all of them; `file` only names it there.
    pub fn finish<T>(self, file: &Path, meant: T) -> Result<T, Faults> {
        let faults = self.into_sorted();
        if faults.is_empty() { Ok(meant) } else { Err(Faults { file: file.to_owned(), faults }) }
    }

    /// All of them, in the order of the lines.
    pub fn into_sorted(mut self) -> Vec<Fault> {
        self.faults.sort();
        self.faults.dedup();
        self.faults
    }
}

/// One table of the file, and which of its keys have been asked for.
#[derive(Debug)]
pub struct Section<'a> {
    /// What it is called in a fault, such as ``[[class]]``.
    title: String,
    table: &'a DeTable<'a>,
    /// The line it starts on.
    pub line: usize,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(table: &'a Spanned<DeTable<'a>>) -> Self {
        Self::new("the file".to_owned(), table.get_ref(), 1)
    }

    fn new(title: String, table: &'a DeTable<'a>, line: usize) -> Self {
        Self { title, table, line, asked: Vec::new() }
    }

    /// What a table under this key is called.
    fn title_of(&self, key: &str) -> String {
        let path = self.title.trim_matches(['[', ']']);
        if path == self.title { format!("[{key}]") } else { format!("[{path}.{key}]") }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.push(key);
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Whether there is something under this key.
    pub fn has(&self, key: &str) -> bool {
        self.table.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// The text under this key.
    pub fn text(&mut self, key: &'static str, found: &mut Gathered) -> Option<At<String>> {
        let value = self.find(key)?;
        let line = found.line(value.span().start);
        if let Some(text) = value.get_ref().as_str() {
            return Some(At { value: text.to_owned(), line });
        }
        wrong_type(&self.title, key, value, "a text in quotation marks", found);
        None
    }

    /// The texts under this key: one, or a list.
    pub fn texts(&mut self, key: &'static str, found: &mut Gathered) -> Vec<At<String>> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let mut texts = Vec::new();
        for item in items(value) {
            match item.get_ref().as_str() {
                Some(text) => {
                    let line = found.line(item.span().start);
                    texts.push(At { value: text.to_owned(), line });
                }
                None => wrong_type(&self.title, key, item, "a text, or a list of texts", found),
            }
        }
        texts
    }

    /// The yes or no under this key.
    pub fn flag(&mut self, key: &'static str, found: &mut Gathered) -> Option<At<bool>> {
        let value = self.find(key)?;
        let line = found.line(value.span().start);
        if let Some(value) = value.get_ref().as_bool() {
            return Some(At { value, line });
        }
        wrong_type(&self.title, key, value, "true or false", found);
        None
    }

    /// The number under this key, if it is one and within the key's range.
    pub fn number(&mut self, key: &Key, found: &mut Gathered) -> Option<At<f64>> {
        let value = self.find(key.name)?;
        self.number_in(value, key, found)
    }

    /// The numbers under this key: one, or a list, all within the key's range.
    pub fn numbers(&mut self, key: &Key, found: &mut Gathered) -> Vec<At<f64>> {
        let Some(value) = self.find(key.name) else { return Vec::new() };
        items(value).filter_map(|item| self.number_in(item, key, found)).collect()
    }

    fn number_in(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &Key,
        found: &mut Gathered,
    ) -> Option<At<f64>> {
        let line = found.line(value.span().start);
        let number = match value.get_ref() {
            DeValue::Integer(digits) => whole(digits.as_str(), digits.radix()),
            DeValue::Float(digits) if !key.whole => digits.as_str().replace('_', "").parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            wrong_type(&self.title, key.name, value, &key.wanted(), found);
            return None;
        };
        if (key.least..=key.most).contains(&number) {
            return Some(At { value: number, line });
        }
        found.add(
            line,
            format!("{} has `{}` = {number}, which is out of range", self.title, key.name),
            format!("give {}; without the key, {}", key.wanted(), key.why),
        );
        None
    }

    /// The table under this key.
    pub fn section(&mut self, key: &'static str, found: &mut Gathered) -> Option<Section<'a>> {
        let value = self.find(key)?;
        let title = self.title_of(key);
        let line = found.line(value.span().start);
        let Some(table) = value.get_ref().as_table() else {
            wrong_type(
                &self.title,
                key,
                value,
                &format!("a table: `{title}` on its own line"),
                found,
            );
            return None;
        };
        Some(Section::new(title, table, line))
    }

    /// The tables under this key, in the order of the file.
    pub fn sections(&mut self, key: &'static str, found: &mut Gathered) -> Vec<Section<'a>> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let title = format!("[{}]", self.title_of(key));
        let wanted = format!("a list of tables: `{title}` on its own line before each");
        let Some(items) = value.get_ref().as_array() else {
            wrong_type(&self.title, key, value, &wanted, found);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in items {
            match item.get_ref().as_table() {
                Some(table) => {
                    let line = found.line(item.span().start);
                    sections.push(Section::new(title.clone(), table, line));
                }
                None => wrong_type(&self.title, key, item, &wanted, found),
            }
        }
        sections
    }

    /// Every key that nobody asked for is a fault.
    pub fn finish(self, found: &mut Gathered) {
        for (key, _) in self.table {
            let (name, span): (&str, Range<usize>) = (key.get_ref(), key.span());
            if self.asked.contains(&name) {
                continue;
            }
            let remedy = match nearest(name, self.asked.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys are {}", listed(self.asked.iter().copied())),
            };
            let line = found.line(span.start);
            found.add(line, format!("{} has no key `{name}`", self.title), remedy);
        }
    }
}

/// The items of a list, or the one value that is none.
fn items<'v, 'a>(
    value: &'v Spanned<DeValue<'a>>,
) -> impl Iterator<Item = &'v Spanned<DeValue<'a>>> {
    let list = value.get_ref().as_array();
    let alone = list.is_none().then_some(value);
    list.into_iter().flat_map(|list| list.iter()).chain(alone)
}

fn whole(digits: &str, radix: u32) -> Option<f64> {
    i64::from_str_radix(&digits.replace('_', ""), radix).ok().map(|value| value as f64)
}

fn wrong_type(
    title: &str,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    wanted: &str,
    found: &mut Gathered,
) {
    let line = found.line(value.span().start);
    let kind = value.get_ref().type_str();
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    found.add(
        line,
        format!("{title} has {article} {kind} under `{key}`"),
        format!("give {wanted}"),
    );
}

/// Names in backticks, with commas between.
pub fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The name that differs least from the one typed, if it differs by no more than a third of its
/// letters.
pub fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|name| (distance(typed, name), name))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Letters to insert, remove or replace to get from one to the other (Levenshtein 1966).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (nth, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = nth + 1;
        for (place, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[to.len()]
}
