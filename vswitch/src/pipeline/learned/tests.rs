//! Learned rules.
