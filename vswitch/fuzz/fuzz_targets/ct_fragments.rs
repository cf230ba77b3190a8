//! Fragments of any offsets and lengths, by several ports, zones and tunnels: none is lost, none is
//! joined with others of another datagram.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::conntrack::fuzz::fragments(bytes);
});
