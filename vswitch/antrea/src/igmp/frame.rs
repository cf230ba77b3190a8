//! Messages that are sent: whole frames.

use super::{ALL_HOSTS, ALL_REPORTS, PROTOCOL, REPORTED_MAX, kind};
use crate::Mac;
use std::net::Ipv4Addr;
use vswitch_flow::checksum::internet;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its MAC.
    pub mac: Mac,
    /// Its address.
    pub address: Ipv4Addr,
}

/// Length of an IPv4 header with the option that every router is to look at the packet.
const HEADER: u16 = 24;
/// Router alert (RFC 2113).
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];
/// Internetwork control, as RFC 9776 asks for.
const TOS: u8 = 0xc0;
/// Robustness in queries of version 3: messages that may be lost, one less.
const ROBUSTNESS: u8 = 2;

/// The Ethernet address of a group (RFC 1112).
const fn group_mac(group: Ipv4Addr) -> [u8; 6] {
    let [_, b, c, d] = group.octets();
    [0x01, 0x00, 0x5e, b & 0x7f, c, d]
}

/// A query of a version: who has joined `group` (None: any)? Answers are to come within `wait_ms`
/// (version 1: within 10 s). Seconds between general queries are told in version 3.
#[must_use]
pub fn query(from: Sender, version: u8, group: Option<Ipv4Addr>, wait_ms: u32, interval_s: u32) -> Vec<u8> {
    let wait = if version == 1 { 0 } else { code(wait_ms / 100).max(1) };
    let mut payload = vec![kind::QUERY, wait, 0, 0];
    payload.extend(group.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
    if version >= 3 {
        payload.extend([ROBUSTNESS, code(interval_s), 0, 0]);
    }
    frame(from, group.unwrap_or(ALL_HOSTS), payload)
}

/// A report of version 3: these groups (at most [`REPORTED_MAX`] of them count) are joined, or have
/// been left; `is_change`: since the last one.
#[must_use]
pub fn report(from: Sender, groups: &[(Ipv4Addr, bool)], is_change: bool) -> Vec<u8> {
    let groups = groups.get(..REPORTED_MAX).unwrap_or(groups);
    let mut payload = vec![kind::REPORT_V3, 0, 0, 0, 0, 0];
    payload.extend(u16::try_from(groups.len()).unwrap_or(u16::MAX).to_be_bytes());
    for (group, is_joined) in groups {
        // MODE_IS_INCLUDE, MODE_IS_EXCLUDE; CHANGE_TO_ either. No sources: none, or all.
        let kind = 1 + u8::from(*is_joined) + if is_change { 2 } else { 0 };
        payload.extend([kind, 0, 0, 0]);
        payload.extend(group.octets());
    }
    frame(from, ALL_REPORTS, payload)
}

/// A number in 8 bits: from 128 up with a mantissa of four bits (RFC 9776, 4.1.1), the next one
/// below.
fn code(value: u32) -> u8 {
    let value = value.min(0x1f << 10);
    if value < 128 {
        return u8::try_from(value).unwrap_or(u8::MAX);
    }
    let exponent = (value.ilog2() - 7).min(7);
    let mantissa = (value >> (exponent + 3)) & 0xf;
    u8::try_from(0x80 | exponent << 4 | mantissa).unwrap_or(u8::MAX)
}

fn frame(from: Sender, to: Ipv4Addr, mut payload: Vec<u8>) -> Vec<u8> {
    let sum = internet(&payload, 0).to_be_bytes();
    if let Some(field) = payload.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
    let total = u16::try_from(payload.len()).unwrap_or(u16::MAX).saturating_add(HEADER).to_be_bytes();
    let mut header = vec![0x46, TOS, total[0], total[1], 0, 0, 0, 0, 1, PROTOCOL, 0, 0];
    header.extend(from.address.octets());
    header.extend(to.octets());
    header.extend(ROUTER_ALERT);
    let sum = internet(&header, 0).to_be_bytes();
    if let Some(field) = header.get_mut(10..12) {
        field.copy_from_slice(&sum);
    }
    let ends = group_mac(to).into_iter().chain(from.mac.0).chain([0x08, 0x00]);
    ends.chain(header).chain(payload).collect()
}
