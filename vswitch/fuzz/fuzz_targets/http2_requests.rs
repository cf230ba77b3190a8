//! HTTP/2 of clients of the control socket: any bytes go on, or are refused; however they are
//! split, the same comes out, and memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| vswitch_api::server::fuzz_http2(bytes));
