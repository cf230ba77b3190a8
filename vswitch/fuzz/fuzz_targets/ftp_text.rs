//! Control connections of FTP on which both ends say any text: only addresses change, and every sum
//! and number is right.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::conntrack::fuzz::ftp(bytes);
});
