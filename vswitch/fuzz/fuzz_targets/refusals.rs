//! Answers that the switch makes itself: they are whole, and go to nobody who must not be answered.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::packet::fuzz::refusals(bytes);
});
