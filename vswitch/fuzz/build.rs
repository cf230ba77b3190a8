//! Nothing is built: see the dependencies.

fn main() {}
