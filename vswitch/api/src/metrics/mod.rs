//! Metrics by HTTP: `/metrics` for Prometheus, `/livez` and `/readyz` for probes.
//!
//! **Where in the walk**: nowhere; it runs on the control cores. The workers are not disturbed: a
//! reading is one of the counters that they write anyway.
//!
//! **Design**: [`bind`] takes the address of `[observe] metrics`, [`serve`] answers until it is
//! told to stop. A scrape is one reading of the switch (`services::Reading`), in the messages of
//! the calls of gRPC that tell the same. Each metric is declared once (`families`), with its name,
//! help, labels, the call that tells its value, and how the value is found in the reading. `compat`
//! has the same values under names of other programs.
//!
//! The text is written here (`encode`): values are computed at the scrape, and most of them come
//! with labels that change. A library of metrics would have to be told which series have gone.
//!
//! Labels are bounded: ports, workers and tables that there are, reasons that happened, methods
//! that the server has, 32 zones, meters and controllers at most. A test holds the budget of 1,500
//! series for 64 ports and 4 workers.
//!
//! **Limits**: 4 connections, more wait; one request each (GET or HEAD, no body); 2 s for a request
//! and for its answer; one reading per second for all clients. A reading that takes longer than 2 s
//! ends with 503.
//!
//! **Threads**: [`bind`] may be called anywhere, [`serve`] on a tokio runtime. Readings are on the
//! runtime's blocking threads, among the reads of the switch.

mod compat;
mod encode;
mod families;
mod family;
mod http;
mod listener;
mod page;
#[cfg(test)]
mod tests;

pub use listener::{MetricsError, MetricsListener, bind};

pub(crate) use http::serve;
pub(crate) use page::Page;

use vswitch_control::config::Compat;

/// Names of all metrics, with these further sets; and the call that tells the value of each, or the
/// metric that has the same value.
#[must_use]
pub fn declared(compat: &[Compat]) -> Vec<(&'static str, &'static str)> {
    page::shown(compat).map(|family| (family.name, family.from)).collect()
}
