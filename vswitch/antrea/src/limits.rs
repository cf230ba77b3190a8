//! Limits of what an agent may ask for.

/// Bytes of a name.
pub const NAME_MAX: usize = 512;
/// Problems that are told of one object.
pub const PROBLEMS_MAX: usize = 16;
/// Bytes of a problem's text.
pub const PROBLEM_LEN_MAX: usize = 512;
/// Objects whose problems are told in one answer.
pub const TOLD_MAX: usize = 1000;
/// Objects of all kinds.
pub const OBJECTS_MAX: usize = 1 << 20;
/// `conjunction`s in the clauses of one table.
pub const CLAUSES_MAX: usize = 4_000_000;
