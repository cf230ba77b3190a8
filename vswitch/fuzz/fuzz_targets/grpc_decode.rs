//! Requests of the gRPC interface: any bytes decode and convert, or are refused; what converts is
//! told and converts back to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| vswitch_api::fuzz::request(bytes));
