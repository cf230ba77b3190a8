//! For the fuzz targets `vhost_messages` and `vhost_rings`, and the tests that feed the same:
//! properties that hold whatever a front end and a guest say.

mod messages;
mod rings;

pub use messages::messages;
pub use rings::rings;

/// Takes a number off the front; 0 at the end.
fn byte(input: &mut &[u8]) -> u8 {
    let Some((first, rest)) = input.split_first() else { return 0 };
    *input = rest;
    *first
}

/// Likewise of two bytes.
fn word(input: &mut &[u8]) -> u16 {
    u16::from_le_bytes([byte(input), byte(input)])
}

/// Likewise of so many bytes, or as many as there are.
fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(len.min(input.len()));
    *input = rest;
    taken
}
