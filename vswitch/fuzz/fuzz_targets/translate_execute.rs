//! Programs, packets and changes of any bytes: with caches everything that can be seen is as when
//! each packet is looked up in the tables.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dataplane::worker::fuzz::translate_execute(bytes);
});
