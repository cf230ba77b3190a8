//! Integration tests of `vswitch-agent`: manifests in, objects and flows out; the program itself.
//!
//! One program for all of them, since each program links the agent and its libraries once more.

#![allow(unreachable_pub)] // a program has no other crate that it could be reached from

mod address_names;
mod addresses;
mod admin_policies;
mod attached;
mod bad_input;
mod bandwidth;
mod binary;
#[cfg(feature = "cluster")]
mod cluster;
mod common;
mod devices;
mod document;
mod document_flows;
mod double;
mod double_traces;
mod doubled_keys;
mod drive;
mod drive_node;
mod dual;
mod entries;
mod entries_of_pods;
mod exported;
mod gate;
mod health;
mod held_flows;
mod in_doubt;
mod intent;
mod kubectl;
mod kubelet;
mod misspelt;
mod named_ports;
mod nameless;
mod names;
mod node_addresses;
mod node_port_local;
mod one_config;
mod one_name;
#[cfg(feature = "cluster")]
mod packet_captures;
mod pools;
mod property;
#[cfg(feature = "cluster")]
mod realized;
mod restart;
mod restarted;
#[cfg(feature = "cluster")]
mod rights;
mod samples;
mod scene;
mod semantics;
mod services;
#[cfg(feature = "cluster")]
mod serving;
mod tiers;
#[cfg(feature = "cluster")]
mod traceflows;
mod turned;
mod undocumented;
mod unreadable;
mod watched;
mod wrong_in_time;
mod wrong_policies;
