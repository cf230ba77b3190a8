//! Tests of whole messages: recorded ones, and random ones.
#![allow(clippy::unwrap_used)] // a test

mod golden;
mod judge;
mod long;
mod random;
mod recording;
mod round_trip;
