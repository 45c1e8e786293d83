//! Reads what results are held to, from a file of criteria or of objectives.

use std::path::{Path, PathBuf};

use forebay_service::Faults;
use forebay_service::text_file::{self, UnreadableFile};

use super::Objectives;
use crate::drill::criteria::{Criteria, CriteriaError};

/// What results are held to.
#[derive(Clone, Debug)]
pub struct Held {
    /// Each limit.
    pub criteria: Criteria,
    /// The objectives that they were made from, where the file is one of `OpenSLO` or Sloth.
    pub objectives: Option<Objectives>,
    /// The file; `None` of the criteria that are built in.
    pub file: Option<PathBuf>,
}

/// Why nothing can be held to a file.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// It can't be read at all.
    #[error(transparent)]
    Unreadable(#[from] UnreadableFile),
    /// Objectives were read, and these are their faults.
    #[error(transparent)]
    Faulty(#[from] Faults),
    /// They are no criteria.
    #[error(transparent)]
    Criteria(#[from] CriteriaError),
}

impl Held {
    /// Reads a file: TOML is criteria, YAML and JSON are objectives. Without one, the criteria
    /// that are built in.
    pub fn load(file: Option<&Path>) -> Result<Self, HeldError> {
        let Some(file) = file else {
            return Ok(Self { criteria: Criteria::built_in(), objectives: None, file: None });
        };
        let text = text_file::read(file)?;
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let objectives = matches!(ending, "yaml" | "yml" | "json")
            .then(|| Objectives::parse(file, &text))
            .transpose()?;
        let made = objectives.as_ref().map(Objectives::criteria_toml);
        let criteria = Criteria::parse(file, made.as_deref().unwrap_or(&text))?;
        Ok(Self { criteria, objectives, file: Some(file.to_owned()) })
    }

    /// What a file of objectives says that no run can be held to, a line each.
    pub fn notes(&self) -> Vec<String> {
        let file = self.file.as_deref().unwrap_or(Path::new(""));
        let unmapped = self.objectives.iter().flat_map(|objectives| &objectives.unmapped);
        unmapped.map(|said| format!("{}: not taken over: {said}", file.display())).collect()
    }
}
