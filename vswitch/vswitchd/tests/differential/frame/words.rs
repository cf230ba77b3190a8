//! What packets are described with.

use super::{Frame, Kind, tunnel};
use crate::record::{hex, unhex};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Packets that have a name (`let NAME DESCRIPTION`).
pub(crate) type Names = BTreeMap<String, Frame>;

/// Parses a description; returns the packet's bytes.
///
/// # Errors
/// The word that is wrong.
pub(crate) fn parse(text: &str, names: &Names) -> Result<Vec<u8>, String> {
    if let Some(bytes) = text.strip_prefix("hex=") {
        return unhex(bytes).ok_or_else(|| format!("{bytes}: no hexadecimal bytes"));
    }
    Ok(frame(text, names)?.bytes())
}

/// Parses a description in words.
///
/// # Errors
/// The word that is wrong.
pub(crate) fn frame(text: &str, names: &Names) -> Result<Frame, String> {
    let words = split(text);
    let kind = words.first().copied().unwrap_or_default();
    let (name, answers) = kind.strip_prefix('~').map_or((kind, false), |name| (name, true));
    let mut packet = match names.get(name) {
        Some(frame) => frame.clone(),
        None => {
            let known = Kind::ALL.iter().find(|(word, _)| *word == name);
            Frame::new(known.ok_or_else(|| format!("{kind:?}: no kind of packet"))?.1)
        }
    };
    if answers {
        packet = packet.reversed();
    }
    for word in words.iter().skip(1) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let set = if key == "quote" {
            packet.quote = Some(quoted(value, names)?);
            Some(())
        } else if let Some(payload) = tunnel::payload(key, value, names) {
            packet.payload = Some(payload?);
            match key {
                "geneve" => packet.dport = 6081,
                "vxlan" => packet.dport = 4789,
                _ => packet.proto = Some(47),
            }
            Some(())
        } else {
            set(&mut packet, key, value)
        };
        set.ok_or_else(|| format!("{word:?}: no such word, or its value is wrong"))?;
    }
    Ok(packet)
}

/// The IP packet of a description in parentheses.
fn quoted(value: &str, names: &Names) -> Result<Vec<u8>, String> {
    let inner = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
    let bytes = parse(inner.ok_or_else(|| format!("{value:?}: a quote is in parentheses"))?, names)?;
    Ok(bytes.get(14..).unwrap_or_default().to_vec())
}

/// Splits at spaces outside parentheses.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut words, mut start) = (0_usize, Vec::new(), 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                words.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Describes bytes.
pub(crate) fn describe(bytes: &[u8]) -> String {
    format!("hex={}", hex(bytes))
}

fn set(frame: &mut Frame, key: &str, value: &str) -> Option<()> {
    match key {
        "smac" => frame.smac = mac(value)?,
        "dmac" => frame.dmac = mac(value)?,
        "vlan" => frame.vlans.push(tag(0x8100, value)?),
        "svlan" => frame.vlans.push(tag(0x88a8, value)?),
        "type" => frame.ethertype = Some(int(value)?),
        "src" => frame.src = address(value)?,
        "dst" => frame.dst = address(value)?,
        "target" => frame.target = address(value)?,
        "ttl" => frame.ttl = int(value)?,
        "tos" => frame.tos = int(value)?,
        "label" => frame.label = int(value)?,
        "id" => {
            frame.id = int(value)?;
            frame.long_id = int(value)?;
        }
        "frag" => frame.frag = int(value)?,
        "more" => frame.more = true,
        "options" => frame.options = int(value)?,
        "proto" => frame.proto = Some(int(value)?),
        "ext" => frame.ext.push(int(value)?),
        "sport" => frame.sport = int(value)?,
        "dport" => frame.dport = int(value)?,
        "flags" => frame.flags = flags(value)?,
        "seq" => frame.seq = int(value)?,
        "ack" => frame.ack = int(value)?,
        "win" => frame.window = int(value)?,
        "wscale" => frame.scale = Some(int(value)?),
        "piece" => {
            frame.piece = value.split_once(':').and_then(|(start, len)| Some((int(start)?, int(len)?)));
            frame.piece?;
            if frame.kind.is_v6() {
                frame.ext.push(44);
            }
        }
        "icmp" => frame.icmp = value.split_once(':').and_then(|(t, c)| Some((int(t)?, int(c)?)))?,
        "sll" => frame.sll = Some(mac(value)?),
        "tll" => frame.tll = Some(mac(value)?),
        "sha" => frame.sha = mac(value)?,
        "tha" => frame.tha = mac(value)?,
        "op" => frame.op = int(value)?,
        "len" => frame.len = int(value)?,
        "bytes" => frame.payload = Some(unhex(value)?),
        "version" => frame.version = Some(int(value)?),
        "ihl" => frame.ihl = Some(int(value)?),
        "iplen" => frame.iplen = Some(int(value)?),
        "doff" => frame.doff = Some(int(value)?),
        "udplen" => frame.udplen = Some(int(value)?),
        "badsum" => frame.badsum = true,
        "nosum" => frame.nosum = true,
        "badipsum" => frame.badipsum = true,
        "cut" => frame.cut = Some(int(value)?),
        "pad" => frame.pad = int(value)?,
        _ => return None,
    }
    Some(())
}

/// A number, or letters of TCP's flags.
fn flags(text: &str) -> Option<u16> {
    let letter = |c: char| "FSRPAUEC".find(c).map(|bit| 1 << bit);
    int(text).or_else(|| text.chars().map(letter).sum())
}

pub(super) fn int<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(number).ok()
}

fn mac(text: &str) -> Option<u64> {
    let bytes = text.split(':').map(|byte| u64::from_str_radix(byte, 16).ok()).collect::<Option<Vec<_>>>()?;
    (bytes.len() == 6).then(|| bytes.iter().fold(0, |mac, byte| mac << 8 | byte))
}

fn address(text: &str) -> Option<u128> {
    let v4 = || text.parse::<Ipv4Addr>().ok().map(|address| u128::from(address.to_bits()));
    v4().or_else(|| text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits))
}

/// `vid` or `vid:pcp`.
fn tag(tpid: u16, text: &str) -> Option<(u16, u16)> {
    let (vid, pcp) = text.split_once(':').unwrap_or((text, "0"));
    Some((tpid, int::<u16>(pcp)? << 13 | int::<u16>(vid)?))
}
