//! Finds the criteria that a sign-off is about, and holds both to each other.

use std::path::{Path, PathBuf};

use super::SignOff;
use crate::slo::{Held, HeldError};
use forebay_service::Faults;

/// Why criteria and a sign-off don't go together.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// The criteria can't be read.
    #[error(transparent)]
    Criteria(#[from] HeldError),
    /// What was agreed is not what is tested.
    #[error(transparent)]
    Agreed(#[from] Faults),
    /// Other criteria than those that are signed.
    #[error(
        "{}: other criteria than {}, which the sign-off names\nhint: leave out the criteria that \
         are not to be signed",
        given.display(),
        signed.display()
    )]
    Others {
        /// Those that were given.
        given: PathBuf,
        /// Those that the sign-off names.
        signed: PathBuf,
    },
}

/// The criteria in a file, or else those that the sign-off names, or else those that are built in.
/// What was agreed must be among them.
pub fn held(given: Option<&Path>, sign_off: Option<&SignOff>) -> Result<Held, SignedError> {
    let named = sign_off.and_then(|sign_off| sign_off.criteria.as_deref());
    let held = Held::load(given.or(named))?;
    if let (Some(given), Some(named)) = (given, named)
        && Held::load(Some(named))?.criteria.hash() != held.criteria.hash()
    {
        return Err(SignedError::Others { given: given.to_owned(), signed: named.to_owned() });
    }
    if let Some(sign_off) = sign_off {
        sign_off.check_against(&held.criteria)?;
    }
    Ok(held)
}
