//! Software segmentation of any packet: the payload is there in order, and every length, sum and
//! number is right.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::packet::fuzz::segment(bytes);
});
