//! The forebay program.
fn main() {}
