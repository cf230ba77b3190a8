//! Who is in which group.
