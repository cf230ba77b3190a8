//! Messages of a vhost-user front end, in any order: memory that passes is whole and does not
//! overlap, what is refused leaves no trace, and only rings that are complete may run.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vswitch_dpdk::vhost::fuzz::messages(bytes);
});
