//! Any frame, tracked and translated: a checksum stays what it was, right or wrong by as much, and
//! nothing else changes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::conntrack::fuzz::nat(bytes);
});
