//! Reads YAML, and so JSON, as a tree whose every value knows its line.
//!
//! Objectives are the only YAML that is read here, so this is no reader of types: a scalar is its
//! text. Anchors and aliases are refused, since a short file can stand for an endless one by them.

use forebay_service::Fault;
use saphyr_parser::{Event, Parser, ScanError};

/// How deep values may lie in one another: far deeper than any file of objectives, and few enough
/// for a tree to be dropped on any thread.
const DEPTH_MAX: usize = 64;
/// How many values a file may have: a thousand objectives with all that belongs to them.
const VALUES_MAX: usize = 100_000;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Its line, from 1.
    pub(super) line: usize,
    /// What it is.
    pub(super) value: Value,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A text, a number, a truth or nothing at all, as it was typed.
    Scalar(String),
    /// Values in a row.
    List(Vec<Node>),
    /// Values by name, in the order of the file.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// The value under this name, of a table.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(pairs) => pairs.iter().find(|(key, _)| key == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The value at the end of these names, each within the one before.
    pub(super) fn at(&self, names: &[&str]) -> Option<&Self> {
        names.iter().try_fold(self, |node, name| node.get(name))
    }

    /// Its text, of a scalar that has one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Its number, of a scalar that is a finite one.
    pub(super) fn number(&self) -> Option<f64> {
        self.text()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Its items, of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }
}

/// The documents of a file, or the first thing that is wrong with it.
pub(super) fn read(text: &str) -> Result<Vec<Node>, Fault> {
    let mut tree = Tree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| broken(&error))?;
        tree.take(event, span.start.line())?;
    }
    Ok(tree.documents)
}

fn broken(error: &ScanError) -> Fault {
    Fault {
        line: error.marker().line().max(1),
        what: format!("neither YAML nor JSON: {}", error.info()),
        remedy: "mend the line's syntax".to_owned(),
    }
}

/// What has been read so far.
#[derive(Default)]
struct Tree {
    documents: Vec<Node>,
    /// The values that are open, outermost first, each with the name that waits for its value.
    open: Vec<(Node, Option<String>)>,
    values: usize,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, ..) => {
                // What is nothing in YAML is no text, unless somebody put it in quotation marks.
                let nothing = matches!(text.as_ref(), "~" | "null" | "Null" | "NULL");
                let plain = style == saphyr_parser::ScalarStyle::Plain;
                let text = if nothing && plain { String::new() } else { text.into_owned() };
                self.close(Node { line, value: Value::Scalar(text) })
            }
            Event::SequenceStart(..) => self.open(line, Value::List(Vec::new())),
            Event::MappingStart(..) => self.open(line, Value::Table(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((node, _)) => self.close(node),
                None => Ok(()),
            },
            Event::Alias(_) => Err(fault(
                line,
                "an alias stands for a value elsewhere",
                "write the value out; anchors and aliases are not read",
            )),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, line: usize, value: Value) -> Result<(), Fault> {
        if self.open.len() == DEPTH_MAX {
            let what = format!("values lie more than {DEPTH_MAX} deep in one another");
            return Err(fault(line, &what, "name a file of objectives"));
        }
        self.open.push((Node { line, value }, None));
        Ok(())
    }

    /// Hands a whole value to the one that it lies in.
    fn close(&mut self, node: Node) -> Result<(), Fault> {
        self.values += 1;
        if self.values > VALUES_MAX {
            let what = format!("there are more than {VALUES_MAX} values");
            return Err(fault(node.line, &what, "split the file"));
        }
        let Some((parent, waiting)) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        match &mut parent.value {
            Value::List(items) => items.push(node),
            Value::Table(pairs) => match waiting.take() {
                Some(name) => pairs.push((name, node)),
                None => *waiting = Some(name(&node, pairs)?),
            },
            Value::Scalar(_) => {}
        }
        Ok(())
    }
}

/// The name that a node is in a table, which must be new there.
fn name(node: &Node, pairs: &[(String, Node)]) -> Result<String, Fault> {
    let Value::Scalar(name) = &node.value else {
        return Err(fault(node.line, "a list or a table is used as a name", "give a text"));
    };
    if pairs.iter().any(|(earlier, _)| earlier == name) {
        let what = format!("`{name}` is there twice");
        return Err(fault(node.line, &what, "leave one of them"));
    }
    Ok(name.clone())
}

fn fault(line: usize, what: &str, remedy: &str) -> Fault {
    Fault { line, what: what.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn values_know_their_lines_in_yaml_and_in_json() {
        let yaml = "a: 1\nb:\n  - x\n  - c: \"~\"\n    d: ~\n---\ne: >\n  two\n  words\n";
        let documents = read(yaml).unwrap();
        assert_eq!(documents.len(), 2);
        let last = &documents[0].get("b").unwrap().items()[1];
        assert_eq!((last.line, last.get("c").unwrap().text()), (4, Some("~")));
        assert_eq!(last.get("d").unwrap().text(), None);
        assert_eq!(documents[1].get("e").unwrap().text(), Some("two words\n"));
        let json = "{\n \"a\": [\n  {\"b\": 0.5}\n ]\n}";
        let documents = read(json).unwrap();
        let item = &documents[0].get("a").unwrap().items()[0];
        assert_eq!((item.line, item.get("b").unwrap().number()), (3, Some(0.5)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, what) in [
            ("a: 1\nb: [1, 2\n", 3, "neither YAML nor JSON"),
            ("a: 1\na: 2\n", 2, "`a` is there twice"),
            ("a: &x 1\nb: *x\n", 2, "an alias"),
            ("a: 1\n? [b]\n: 2\n", 2, "used as a name"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.what.contains(what), "{text}: {fault:?}");
            assert!(fault.line.abs_diff(line) <= 1, "{text}: {fault:?}");
        }
    }

    #[test]
    fn a_file_as_deep_as_a_well_is_refused() {
        let fault = read(&"[".repeat(100)).unwrap_err();
        assert!(fault.what.contains("64 deep"), "{fault:?}");
        assert!(read(&"[".repeat(100_000)).is_err());
        let many = read(&"- 1\n".repeat(200_000)).unwrap_err();
        assert!(many.what.contains("100000 values"), "{many:?}");
    }
}
