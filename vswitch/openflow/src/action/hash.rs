//! `multipath(...)`, `bundle(...)` and `bundle_load(...)`.

use super::{BAD_ARGUMENT, bits_of, ofs_nbits, port_16, put_short_header, read_subfield, subtype, to_port_16};
use crate::Codec;
use crate::oxm::{self, header_by};
use crate::wire::{Reader, Result, Writer, refuse};
use vswitch_flow::action::{Bundle, HashFields, Multipath, MultipathAlgorithm, limits};
use vswitch_flow::{Action, Field};

const ALGORITHMS: [MultipathAlgorithm; 4] = [
    MultipathAlgorithm::ModuloN,
    MultipathAlgorithm::HashThreshold,
    MultipathAlgorithm::Hrw,
    MultipathAlgorithm::IterHash,
];

fn fields(number: u16) -> Result<HashFields> {
    match HashFields::ALL.get(usize::from(number)) {
        Some(fields) => Ok(*fields),
        None => refuse(BAD_ARGUMENT, format!("no fields to hash have the number {number}")),
    }
}

#[allow(clippy::cast_possible_truncation)] // there are seven
fn number(fields: HashFields) -> u16 {
    HashFields::ALL.iter().position(|other| *other == fields).unwrap_or_default() as u16
}

pub(super) fn read_multipath(body: &mut Reader<'_>) -> Result<Action> {
    let (fields, basis) = (fields(body.u16()?)?, body.u16()?);
    body.skip(2)?;
    let (algorithm, most, arg) = (body.u16()?, body.u16()?, body.u32()?);
    body.skip(2)?;
    let bits = body.u16()?;
    let to = read_subfield(bits, body)?;
    let Some(algorithm) = ALGORITHMS.get(usize::from(algorithm)) else {
        return refuse(BAD_ARGUMENT, format!("multipath has no algorithm {algorithm}"));
    };
    let Some(links) = most.checked_add(1) else {
        return refuse(BAD_ARGUMENT, "multipath has at most 65535 links");
    };
    Ok(Action::Multipath(Box::new(Multipath { fields, basis, algorithm: *algorithm, links, arg, to })))
}

/// Writes the action from its subtype on.
#[allow(clippy::cast_possible_truncation)] // four algorithms
pub(super) fn put_multipath(codec: Codec, multipath: &Multipath, out: &mut Writer) -> Result<()> {
    out.u16(subtype::MULTIPATH);
    out.u16(number(multipath.fields));
    out.u16(multipath.basis);
    out.u16(0);
    out.u16(ALGORITHMS.iter().position(|other| *other == multipath.algorithm).unwrap_or_default() as u16);
    out.u16(multipath.links.saturating_sub(1));
    out.u32(multipath.arg);
    out.u16(0);
    out.u16(ofs_nbits(multipath.to.start, multipath.to.len));
    put_short_header(codec, multipath.to, out)
}

pub(super) fn read_bundle(body: &mut Reader<'_>, load: bool) -> Result<Action> {
    let (algorithm, fields, basis) = (body.u16()?, fields(body.u16()?)?, body.u16()?);
    let (members, count, bits) = (oxm::read_header(body)?, usize::from(body.u16()?), body.u16()?);
    if algorithm > 1 || members.field != Field::InPort {
        return refuse(BAD_ARGUMENT, format!("bundle has no algorithm {algorithm}, or no ports as members"));
    }
    let to = if load {
        Some(read_subfield(bits, body)?)
    } else {
        if bits_of(bits) != (0, 1) || body.u32()? != 0 {
            return refuse(BAD_ARGUMENT, "bundle has no result: bundle_load has");
        }
        None
    };
    body.zeros(4, BAD_ARGUMENT)?;
    if count > limits::MAX_MEMBERS {
        return refuse(BAD_ARGUMENT, format!("a bundle has at most {} members, not {count}", limits::MAX_MEMBERS));
    }
    let members = (0..count).map(|_| body.u16().map(port_16)).collect::<Result<Vec<_>>>()?;
    body.skip((2 * count).next_multiple_of(8) - 2 * count)?;
    Ok(Action::Bundle(Box::new(Bundle { fields, basis, hrw: algorithm == 1, members: members.into(), to })))
}

/// Writes the action from its subtype on.
#[allow(clippy::cast_possible_truncation)] // limits::MAX_MEMBERS
pub(super) fn put_bundle(codec: Codec, bundle: &Bundle, out: &mut Writer) -> Result<()> {
    out.u16(if bundle.to.is_some() { subtype::BUNDLE_LOAD } else { subtype::BUNDLE });
    out.u16(bundle.hrw.into());
    out.u16(number(bundle.fields));
    out.u16(bundle.basis);
    oxm::put_header(header_by(codec, Field::InPort, None)?, out);
    out.u16(bundle.members.len() as u16);
    match bundle.to {
        Some(to) => {
            out.u16(ofs_nbits(to.start, to.len));
            put_short_header(codec, to, out)?;
        }
        None => out.zeros(6),
    }
    out.zeros(4);
    for member in &bundle.members {
        out.u16(to_port_16(*member));
    }
    Ok(())
}
