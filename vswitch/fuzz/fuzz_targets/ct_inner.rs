//! ICMP and ICMPv6 errors that quote any bytes: translated with every checksum right, or left
//! alone.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::conntrack::fuzz::inner(bytes);
});
