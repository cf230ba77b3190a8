//! Bad input, through the daemon itself: `vswitchd` with dummy ports, `vsctl` and gRPC beside it.
//! What is refused names its place and changes nothing; what is accepted and too much is stopped by
//! a budget, drops the whole packet and is counted under a name.
//!
//! Each test says what it fed in and what should have come out. Numbers such as `T01` and `P05` are
//! those of docs/testing.md, "Numbers of hostile inputs". What Open vSwitch 3.1 does is said where
//! we do something else.

#![allow(clippy::print_stderr)] // captured and shown by the test runner

mod bed;
mod bounded;
mod budgets;
mod captures;
mod clock;
#[allow(clippy::duplicate_mod)]
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod cores;
mod drops;
mod fields;
#[allow(dead_code)] // a guest of others' tests, who does more
#[path = "../../../dataplane/src/port/vhost/tests/frontend.rs"]
mod frontend;
mod health;
mod learning;
mod limits;
mod log;
mod loops;
mod malformed;
mod meters;
mod node;
mod observe;
mod ports;
mod refusals;
#[allow(dead_code)] // of others' tests, who do more
#[path = "../nodes/frame.rs"]
mod segment;
mod shares;
mod storms;
mod transactions;

use bounded::LIMIT;
