//! What strict ports refuse: it makes no difference where a packet is cut into segments, and a
//! packet that passes has headers that are whole.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::packet::fuzz::strict(bytes);
});
