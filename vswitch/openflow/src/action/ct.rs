//! `ct(...)` and the `nat(...)` in it.

use super::body::{Nested, frame};
use super::{BAD_ARGUMENT, BAD_LEN, EXPERIMENTER, PutList, ofs_nbits, put_short_header, read_subfield, subtype};
use crate::Codec;
use crate::error::NICIRA;
use crate::wire::{Reader, Result, Writer, refuse};
use std::net::IpAddr;
use vswitch_flow::Action;
use vswitch_flow::action::{Ct, CtZone, Nat};

const COMMIT: u16 = 1;
const FORCE: u16 = 2;

/// Flags of a translation.
mod flag {
    pub(super) const SOURCE: u16 = 1;
    pub(super) const DESTINATION: u16 = 2;
    pub(super) const PERSISTENT: u16 = 4;
    pub(super) const HASH: u16 = 8;
    pub(super) const RANDOM: u16 = 16;
}

/// What is there of a range.
mod range {
    pub(super) const V4_FIRST: u16 = 1;
    pub(super) const V4_LAST: u16 = 2;
    pub(super) const V6_FIRST: u16 = 4;
    pub(super) const V6_LAST: u16 = 8;
    pub(super) const PORT_FIRST: u16 = 16;
    pub(super) const PORT_LAST: u16 = 32;
}

pub(super) fn read(codec: Codec, mut body: Reader<'_>, nested: Nested) -> Result<Action> {
    let flags = body.u16()?;
    let zone = zone(&mut body)?;
    let table = body.u8()?;
    body.zeros(3, "NXBAC_MUST_BE_ZERO")?;
    let mut ct = Ct {
        commit: flags & COMMIT != 0,
        force: flags & FORCE != 0,
        table: (table != u8::MAX).then_some(table),
        zone,
        alg: body.u16()?,
        ..Ct::default()
    };
    let mut exec = Vec::new();
    while !body.is_empty() {
        let mut rest = body;
        let (kind, mut inner) = frame(&mut rest)?;
        let mut one = body.part(body.len() - rest.len(), BAD_LEN)?;
        if kind != EXPERIMENTER || (inner.u32()?, inner.u16()?) != (NICIRA, subtype::NAT) {
            exec.append(&mut nested.list(codec, &mut one)?);
        } else if ct.nat.replace(nat(inner)?).is_some() {
            return refuse(BAD_ARGUMENT, "ct translates at most once");
        }
    }
    ct.exec = exec.into();
    if flags & !(COMMIT | FORCE) != 0 {
        return refuse(BAD_ARGUMENT, format!("ct has no flags {flags:#x}"));
    }
    Ok(Action::Ct(Box::new(ct)))
}

fn zone(body: &mut Reader<'_>) -> Result<CtZone> {
    let mut source = body.part(4, BAD_LEN)?;
    let mut number = source;
    let bits = body.u16()?;
    if number.u32()? == 0 {
        return Ok(CtZone::Immediate(bits));
    }
    Ok(CtZone::Field(read_subfield(bits, &mut source)?))
}

fn nat(mut body: Reader<'_>) -> Result<Nat> {
    body.zeros(2, "NXBAC_MUST_BE_ZERO")?;
    let (flags, present) = (body.u16()?, body.u16()?);
    let has = |bit: u16| present & bit != 0;
    let both = flag::SOURCE | flag::DESTINATION;
    let known = both | flag::PERSISTENT | flag::HASH | flag::RANDOM;
    if flags & both == both || flags & !known != 0 {
        return refuse(BAD_ARGUMENT, format!("nat has no flags {flags:#x}"));
    }
    let source = match flags & both {
        flag::SOURCE => Some(true),
        flag::DESTINATION => Some(false),
        _ => None,
    };
    let first_v4 = read_if(has(range::V4_FIRST), || body.u32())?.map(|address| IpAddr::V4(address.into()));
    let last_v4 = read_if(has(range::V4_LAST), || body.u32())?.map(|address| IpAddr::V4(address.into()));
    let first_v6 = read_if(has(range::V6_FIRST), || body.u128())?.map(|address| IpAddr::V6(address.into()));
    let last_v6 = read_if(has(range::V6_LAST), || body.u128())?.map(|address| IpAddr::V6(address.into()));
    let first_port = read_if(has(range::PORT_FIRST), || body.u16())?;
    let last_port = read_if(has(range::PORT_LAST), || body.u16())?;
    let padding = body.rest();
    let addresses = span(first_v4.or(first_v6), last_v4.or(last_v6))?;
    let mixed = (first_v4.is_some() || last_v4.is_some()) && (first_v6.is_some() || last_v6.is_some());
    if mixed || padding.len() > 7 {
        return refuse(BAD_ARGUMENT, "nat has addresses of both versions, or too many bytes");
    }
    Ok(Nat {
        source,
        addresses,
        ports: span(first_port, last_port)?,
        persistent: flags & flag::PERSISTENT != 0,
        hash: flags & flag::HASH != 0,
        random: flags & flag::RANDOM != 0,
    })
}

fn read_if<T>(there: bool, read: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    there.then(read).transpose()
}

/// First and last of a range.
fn span<T: PartialOrd + Copy>(first: Option<T>, last: Option<T>) -> Result<Option<(T, T)>> {
    match (first, last) {
        (None, None) => Ok(None),
        (Some(first), None) => Ok(Some((first, first))),
        (Some(first), Some(last)) if first <= last => Ok(Some((first, last))),
        _ => refuse(BAD_ARGUMENT, "nat has a range that ends before it begins"),
    }
}

/// Writes the action from its subtype on.
pub(super) fn put(codec: Codec, ct: &Ct, put_list: PutList, out: &mut Writer) -> Result<()> {
    out.u16(subtype::CT);
    out.u16(if ct.commit { COMMIT } else { 0 } | if ct.force { FORCE } else { 0 });
    match ct.zone {
        CtZone::Immediate(zone) => {
            out.u32(0);
            out.u16(zone);
        }
        CtZone::Field(from) => {
            put_short_header(codec, from, out)?;
            out.u16(ofs_nbits(from.start, from.len));
        }
    }
    out.u8(ct.table.unwrap_or(u8::MAX));
    out.zeros(3);
    out.u16(ct.alg);
    if let Some(nat) = &ct.nat {
        put_nat(nat, out);
    }
    put_list(codec, &ct.exec, out)
}

fn put_nat(nat: &Nat, out: &mut Writer) {
    let start = out.len();
    out.u16(EXPERIMENTER);
    out.u16(0);
    out.u32(NICIRA);
    out.u16(subtype::NAT);
    out.u16(0);
    let flag = |given: bool, flag: u16| if given { flag } else { 0 };
    out.u16(
        flag(nat.source == Some(true), flag::SOURCE)
            | flag(nat.source == Some(false), flag::DESTINATION)
            | flag(nat.persistent, flag::PERSISTENT)
            | flag(nat.hash, flag::HASH)
            | flag(nat.random, flag::RANDOM),
    );
    let at = out.len();
    let mut present = 0;
    out.u16(0);
    if let Some((first, last)) = nat.addresses {
        present |= put_address(first, [range::V4_FIRST, range::V6_FIRST], out);
        if last != first {
            present |= put_address(last, [range::V4_LAST, range::V6_LAST], out);
        }
    }
    if let Some((first, last)) = nat.ports {
        present |= range::PORT_FIRST;
        out.u16(first);
        if last != first {
            present |= range::PORT_LAST;
            out.u16(last);
        }
    }
    out.0[at..at + 2].copy_from_slice(&present.to_be_bytes());
    out.pad(start);
    out.length(start + 2, start);
}

fn put_address(address: IpAddr, [v4, v6]: [u16; 2], out: &mut Writer) -> u16 {
    match address {
        IpAddr::V4(address) => {
            out.bytes(&address.octets());
            v4
        }
        IpAddr::V6(address) => {
            out.bytes(&address.octets());
            v6
        }
    }
}
