//! Reads who decides what about a service, and which refusals were agreed: the sign-off.
//!
//! ```toml
//! service = "Chat for residents"
//! decision = "Open the service to all districts on 1 February"
//! criteria = "criteria.toml"          # beside this file
//! decide_by = "2027-01-25"
//! contact = "platform@city.example"
//! notes = "The library's kiosks come later."
//!
//! [[decides]]
//! name = "A. Example"
//! role = "product owner"
//!
//! [[agreed]]                          # of all requests; with `class`, of one class
//! refused_share_max = 0.01
//!
//! [[call]]                            # for the runbook
//! when = "more than 5 % are refused for ten minutes"
//! whom = "platform on call"
//! how = "+49 30 0000"
//! ```
//!
//! A limit that was agreed and a criterion that was tested must be the same figure: whoever signs
//! one has signed the other.

mod block;
mod held;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use forebay_service::reader::{At, Gathered, Section};
use forebay_service::text_file::{self, UnreadableFile};
use forebay_service::{Faults, Key};

use crate::drill::criteria::{Criteria, Measure};
use crate::drill::notation::percent;

pub(super) use block::{html, markdown};
pub use held::{SignedError, held};

const REFUSED: Key = Key::number("agreed", "refused_share_max", (0.0, 1.0))
    .or_none("nothing is agreed, so leave the table out");

/// Who decides what, and what was agreed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignOff {
    /// The file it was read from.
    pub file: PathBuf,
    /// The service it is about.
    pub service: String,
    /// What is to be decided, as a sentence.
    pub decision: String,
    /// The file with the criteria, as a path that can be opened.
    pub criteria: Option<PathBuf>,
    /// By when it is to be decided, in words.
    pub decide_by: Option<String>,
    /// Whom to ask.
    pub contact: Option<String>,
    /// What else is to be known.
    pub notes: Option<String>,
    /// Who decides: one line to sign on for each.
    pub decides: Vec<Person>,
    /// The refusals that were agreed.
    pub agreed: Vec<Agreed>,
    /// When to call whom.
    pub calls: Vec<Call>,
}

/// Somebody who decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// A name; a role alone will do.
    pub name: Option<String>,
    /// What they are.
    pub role: Option<String>,
}

/// A limit that was agreed.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreed {
    /// Its line in the file, from 1.
    pub line: usize,
    /// The class; `None` is all requests.
    pub class: Option<String>,
    /// The largest share of the offered that may be refused, 0 to 1.
    pub refused_share_max: f64,
}

/// When to call whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What has to be the case.
    pub when: String,
    /// Who is called.
    pub whom: String,
    /// By which way.
    pub how: Option<String>,
}

/// Why a sign-off could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SignOffError {
    /// It could not be read at all.
    #[error(transparent)]
    Unreadable(#[from] UnreadableFile),
    /// It was read, and these are its faults.
    #[error(transparent)]
    Faulty(#[from] Faults),
}

impl SignOff {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Self, SignOffError> {
        Ok(Self::parse(file, &text_file::read(file)?)?)
    }

    /// Reads the text of a file; the file's folder is where its paths begin.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let mut found = Gathered::new(text);
        let table = found.toml(text);
        let mut root = Section::root(&table);
        let said = |value: Option<At<String>>| value.map(|at| at.value);
        let sign_off = Self {
            file: file.to_owned(),
            service: required(&mut root, "service", "what the service is called", &mut found),
            decision: required(&mut root, "decision", "what is to be decided", &mut found),
            criteria: said(root.text("criteria", &mut found)).map(|path| file.with_file_name(path)),
            decide_by: said(root.text("decide_by", &mut found)),
            contact: said(root.text("contact", &mut found)),
            notes: said(root.text("notes", &mut found)),
            decides: decides(&mut root, &mut found),
            agreed: agreed(&mut root, &mut found),
            calls: calls(&mut root, &mut found),
        };
        root.finish(&mut found);
        found.finish(file, sign_off)
    }

    /// Holds what was agreed against the criteria, and says of each limit that they do not have.
    pub fn check_against(&self, criteria: &Criteria) -> Result<(), Faults> {
        let mut found = Gathered::new("");
        for agreed in &self.agreed {
            let who = match &agreed.class {
                Some(class) => format!("of class {class}"),
                None => "of all requests".to_owned(),
            };
            let tested = criteria.list().iter().find(|criterion| {
                criterion.class == agreed.class && criterion.measure == Measure::RefusedShare
            });
            let limit = percent(agreed.refused_share_max);
            match tested {
                None => found.add(
                    agreed.line,
                    format!("{limit} refused {who} were agreed, and the criteria have no limit"),
                    format!(
                        "add refused_share_max = {} to the criteria before the run",
                        agreed.refused_share_max
                    ),
                ),
                Some(tested) if tested.limit.to_bits() != agreed.refused_share_max.to_bits() => {
                    let theirs = percent(tested.limit);
                    found.add(
                        agreed.line,
                        format!("{limit} refused {who} were agreed, and the criteria say {theirs}"),
                        "make both the same figure, the one that was agreed",
                    );
                }
                Some(_) => {}
            }
        }
        found.finish(&self.file, ())
    }

    /// The limit that was agreed for a class, or for all requests.
    pub fn agreed_for(&self, class: Option<&str>) -> Option<f64> {
        let mut agreed = self.agreed.iter();
        agreed.find(|one| one.class.as_deref() == class).map(|one| one.refused_share_max)
    }
}

fn required(
    section: &mut Section<'_>,
    key: &'static str,
    what: &str,
    found: &mut Gathered,
) -> String {
    let has = section.has(key);
    let line = section.line;
    match section.text(key, found) {
        Some(at) if !at.value.trim().is_empty() => at.value,
        Some(at) => {
            found.add(at.line, format!("`{key}` is empty"), format!("say {what}"));
            String::new()
        }
        None => {
            if !has {
                found.add(line, format!("`{key}` is missing"), format!("say {what}"));
            }
            String::new()
        }
    }
}

fn decides(root: &mut Section<'_>, found: &mut Gathered) -> Vec<Person> {
    let tables = root.sections("decides", found);
    if tables.is_empty() && !root.has("decides") {
        found.add(1, "nobody decides", "name a role or a person in `[[decides]]`");
    }
    let person = |mut table: Section<'_>| {
        let name = table.text("name", found).map(|at| at.value);
        let role = table.text("role", found).map(|at| at.value);
        if name.is_none() && role.is_none() {
            found.add(table.line, "[[decides]] says nobody", "give a `role`, a `name` or both");
        }
        table.finish(found);
        Person { name, role }
    };
    tables.into_iter().map(person).collect()
}

fn agreed(root: &mut Section<'_>, found: &mut Gathered) -> Vec<Agreed> {
    let mut all: Vec<Agreed> = Vec::new();
    for mut table in root.sections("agreed", found) {
        let line = table.line;
        let class = table.text("class", found).map(|at| at.value);
        let has = table.has(REFUSED.name);
        let limit = table.number(&REFUSED, found);
        if !has {
            let remedy = "give a share from 0 to 1: 1 % is 0.01";
            found.add(line, "[[agreed]] has no `refused_share_max`", remedy);
        }
        table.finish(found);
        if all.iter().any(|earlier| earlier.class == class) {
            found.add(line, "the same is agreed twice", "leave one of both");
        }
        if let Some(limit) = limit {
            all.push(Agreed { line: limit.line, class, refused_share_max: limit.value });
        }
    }
    all
}

fn calls(root: &mut Section<'_>, found: &mut Gathered) -> Vec<Call> {
    let tables = root.sections("call", found);
    let call = |mut table: Section<'_>| {
        let when = required(&mut table, "when", "what has to be the case", found);
        let whom = required(&mut table, "whom", "who is called", found);
        let how = table.text("how", found).map(|at| at.value);
        table.finish(found);
        Call { when, whom, how }
    };
    tables.into_iter().map(call).collect()
}
