//! Lets somebody sign a drill: its criteria are then those that are signed.

use super::design::Design;
use crate::report::{SignOff, SignedError, held};

impl Design {
    /// Takes a sign-off. Where the drill's file names no criteria, they are those of the sign-off;
    /// where it does, both must be the same, and what was agreed must be among them.
    pub fn sign(&mut self, sign_off: SignOff) -> Result<(), SignedError> {
        let held = held(self.criteria_file.as_deref(), Some(&sign_off))?;
        (self.criteria, self.objectives) = (held.criteria, held.objectives);
        (self.criteria_file, self.sign_off) = (held.file, Some(sign_off));
        Ok(())
    }
}
