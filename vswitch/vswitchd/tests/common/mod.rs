//! What integration tests share: a running `vswitchd`, hosts in network namespaces, and traffic
//! between them.
//!
//! **Design**: every value made here is a guard. Dropping it, also because a test panicked, undoes
//! what it did, so declare the switch after the namespaces that it is wired to (what is declared
//! last is dropped first). Names are made from this process's id, `vt<pid>-...`, so that tests
//! never meet each other's, and `tools/test` can sweep up after a test that was killed. A test that
//! panics shows the daemon's log.
//!
//! **Needs**: root, Debian's iproute2, iputils-ping, iperf3, curl, procps, tcpdump, tshark, Open
//! vSwitch; `vsctl` built into the same directory as `vswitchd` (`cargo build --workspace`).

// Every test binary compiles this module and uses its own part of it.
#![allow(dead_code, unused_imports)]

mod capture;
mod client;
mod command;
mod counters;
mod guest;
mod host;
mod netns;
mod open_vswitch;
mod pcap;
mod switch;
mod testpmd;
mod traffic;
mod tshark;

pub(crate) use capture::Capture;
pub(crate) use client::client_runtime;
pub(crate) use command::{number, run, unique, wait_for};
pub(crate) use counters::{ChecksumErrors, receive_errors};
pub(crate) use guest::{Guest, Nic, WITHOUT_OFFLOADS};
pub(crate) use host::{Host, Wire};
pub(crate) use netns::{Netns, Veth, interface_name};
pub(crate) use open_vswitch::OpenVswitch;
pub(crate) use pcap::write_pcap;
pub(crate) use switch::{IDLE_SLEEP, Switch};
pub(crate) use testpmd::Testpmd;
pub(crate) use traffic::{GUEST_TCP_LEN, Iperf, everything, iperf3, iperf3_to, ping};
pub(crate) use tshark::{EVERYTHING, Expect, clean};
