//! temporary
fn main() { let a: Vec<String> = std::env::args().collect(); forebay_gateway::bench::run(&a[1], &a[2], &a[4..], a[3].parse().unwrap()); }
