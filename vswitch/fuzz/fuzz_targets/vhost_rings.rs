//! Chains of any descriptors in a guest's memory: pieces lie within regions, and are those that
//! numbers alone lead to.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dpdk::vhost::fuzz::rings(bytes);
});
