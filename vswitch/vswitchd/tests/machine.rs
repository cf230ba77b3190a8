//! Tests that use the machine itself: daemons, network namespaces, guests in QEMU, Open vSwitch as
//! the other end. One program, so that it is linked once; the runner gives each test a process of
//! its own.

mod common;

mod access;
mod antrea_guests;
mod capabilities;
mod churn;
mod connections;
mod containers;
mod gateway;
mod guest_tunnels;
mod guests;
mod harness;
mod host_port;
mod hostile_guests;
mod interfaces;
mod libraries;
mod limited_pods;
mod linux_guests;
mod memif;
mod operate;
mod ovs_tunnels;
mod panics;
mod plugins;
mod pod_tunnels;
mod reconfigure;
mod restart;
mod rights;
mod traffic;
mod tunnels;
mod uplink;
mod uplinks;
