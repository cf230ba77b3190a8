//! Traffic modes and features.
