//! The server from outside: in the test's process, against `kubectl`, and beside a real server.
//!
//! One program for all of them, since each program links kube-rs once more.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // helpers of tests, which are no tests themselves
#![allow(clippy::needless_pass_by_value)] // literals are written where helpers are called
#![allow(clippy::print_stderr)] // captured and shown by the test runner

mod conformance;
mod kubectl;
mod program;
mod smoke;
