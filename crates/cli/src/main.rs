//! The binary `forewarn`.
fn main() {}
