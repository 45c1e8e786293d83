//! Repository chores: ci, tidy, docs, bench.
fn main() {}
