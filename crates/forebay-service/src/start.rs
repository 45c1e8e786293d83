//! Says what a core begins with, as the header of its recording.

use forebay_core::{Settings, WORDS_VERSION};
use forebay_wire::recording::Header;

/// What a core begins with: whoever drives one and records it says so here.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Its settings.
    pub settings: &'a Settings,
    /// Its seed.
    pub seed: u64,
    /// The names of the classes, in the order of their numbers.
    pub classes: &'a [String],
    /// The names of the tenants, in the order of their numbers.
    pub tenants: &'a [String],
}

impl Start<'_> {
    /// The same for whoever reads the recording, with the words and the version of today.
    pub fn header(&self) -> Header {
        let mut settings = Vec::new();
        self.settings.to_words(&mut settings);
        Header {
            words_version: WORDS_VERSION,
            program: concat!("forebay ", env!("CARGO_PKG_VERSION")).to_owned(),
            seed: self.seed,
            settings,
            classes: self.classes.to_vec(),
            tenants: self.tenants.to_vec(),
        }
    }
}
