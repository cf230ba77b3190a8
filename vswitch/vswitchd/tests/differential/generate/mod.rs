//! Random programs and packets, from a seed.
//!
//! **Design**: a program draws the values of its matches and its packets from the same small
//! [`universe::Universe`], and most packets are made to fit one of its flows, so that flows are hit
//! and overlap. Flows of a table have priorities of their own: which of two overlapping flows of
//! equal priority wins is not defined.

mod actions;
mod changes;
mod conversation;
mod crowds;
mod fields;
mod matches;
mod packets;
mod program;
mod stateful;
mod tunnels;
mod universe;

pub(crate) use crowds::crowded;
pub(crate) use program::{Program, Summary};
pub(crate) use stateful::Stateful;
pub(crate) use tunnels::tunnelled;
pub(crate) use vswitch_testkit::rng::{self, Rng};
