//! Reads Nicira's actions, but for those with files of their own.

use super::body::{Nested, entry_action, move_of};
use super::{controller, ct, hash, learn, port_16, read_subfield, subfield, subtype as s};
use crate::oxm;
use crate::wire::{Reader, Result, refuse};
use crate::{Codec, Version};
use vswitch_flow::action::{Sample, SampleDirection, port};
use vswitch_flow::{Action, Field};

const MUST_BE_ZERO: &str = "NXBAC_MUST_BE_ZERO";

/// The action of a subtype.
pub(super) fn action(codec: Codec, subtype: u16, mut body: Reader<'_>, nested: Nested) -> Result<Action> {
    let body = &mut body;
    let action = match subtype {
        s::RESUBMIT => resubmit_port(body)?,
        s::RESUBMIT_TABLE => resubmit(body, false)?,
        s::RESUBMIT_TABLE_CT => resubmit(body, true)?,
        s::SET_TUNNEL => set_whole(Field::TunId, body.u32()?.into()),
        s::SET_TUNNEL64 => {
            body.skip(6)?;
            set_whole(Field::TunId, body.u64()?.into())
        }
        s::REG_MOVE if codec.version == Version::V13 => {
            let (len, source, target) = (body.u16()?, body.u16()?, body.u16()?);
            return move_of(len, source, target, *body);
        }
        s::REG_LOAD if codec.version == Version::V13 => reg_load(body)?,
        s::REG_LOAD2 if codec.version == Version::V13 => return entry_action(body),
        s::NOTE => Action::Note(body.rest().into()),
        s::MULTIPATH => hash::read_multipath(body)?,
        s::BUNDLE => hash::read_bundle(body, false)?,
        s::BUNDLE_LOAD => hash::read_bundle(body, true)?,
        s::OUTPUT_REG => output_reg(body)?,
        s::OUTPUT_REG2 => output_reg2(body)?,
        s::LEARN => learn::read(body, false)?,
        s::LEARN2 => learn::read(body, true)?,
        s::EXIT => void(body, Action::Exit)?,
        s::FIN_TIMEOUT => fin_timeout(body)?,
        s::CONTROLLER => controller::read(body)?,
        s::CONTROLLER2 => controller::read2(body)?,
        s::DEC_TTL_CNT_IDS => dec_ttl(body)?,
        s::WRITE_METADATA => write_metadata(body)?,
        s::STACK_PUSH => Action::StackPush(stack(body)?),
        s::STACK_POP => Action::StackPop(stack(body)?),
        s::SAMPLE => sample(body, false)?,
        s::SAMPLE2 | s::SAMPLE3 => sample(body, true)?,
        s::CONJUNCTION => conjunction(body)?,
        s::CT => return ct::read(codec, *body, nested),
        s::OUTPUT_TRUNC => output_trunc(body)?,
        s::CLONE => {
            body.zeros(6, MUST_BE_ZERO)?;
            return Ok(Action::Clone(nested.list(codec, body)?.into()));
        }
        s::CT_CLEAR => void(body, Action::CtClear)?,
        s::CHECK_PKT_LARGER => check_pkt_larger(body)?,
        s::DELETE_FIELD => delete_field(body)?,
        _ => return refuse("OFPBAC_BAD_VENDOR_TYPE", format!("Nicira's action {subtype} is not served")),
    };
    body.end()?;
    Ok(action)
}

fn void(body: &mut Reader<'_>, action: Action) -> Result<Action> {
    body.skip(6)?;
    Ok(action)
}

const fn set_whole(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.exact_mask() }
}

fn resubmit_port(body: &mut Reader<'_>) -> Result<Action> {
    let port = port_16(body.u16()?);
    body.skip(4)?;
    Ok(Action::Resubmit { port: Some(port), table: None, ct: false })
}

fn resubmit(body: &mut Reader<'_>, ct: bool) -> Result<Action> {
    let (port, table) = (port_16(body.u16()?), body.u8()?);
    body.zeros(3, MUST_BE_ZERO)?;
    let table = (table != u8::MAX).then_some(table);
    // A resubmit of the port alone has to have one.
    let port = (port != port::IN_PORT || table.is_none()).then_some(port);
    Ok(Action::Resubmit { port, table, ct })
}

fn reg_load(body: &mut Reader<'_>) -> Result<Action> {
    let bits = body.u16()?;
    let to = read_subfield(bits, body)?;
    let value = u128::from(body.u64()?);
    if value >> to.len != 0 {
        return refuse("OFPBAC_BAD_ARGUMENT", format!("{value:#x} does not fit into {} bits", to.len));
    }
    if !to.field.is_writable() {
        return refuse("OFPBAC_BAD_SET_ARGUMENT", format!("{} is read-only", to.field.name()));
    }
    let (mut value, mut mask) = (value << to.start, to.mask());
    match to.field {
        Field::VlanVid => (value, mask) = (value | 0x1000, mask | 0x1000),
        Field::InPort if to.is_whole() => {
            (value, mask) = (port_16(u16::try_from(value).unwrap_or(u16::MAX)).into(), Field::InPort.exact_mask());
        }
        _ => {}
    }
    Ok(Action::SetField { field: to.field, value: value & to.field.ones(), mask: mask & to.field.ones() })
}

fn output_reg(body: &mut Reader<'_>) -> Result<Action> {
    let bits = body.u16()?;
    let from = read_subfield(bits, body)?;
    let max_len = body.u16()?;
    body.zeros(6, MUST_BE_ZERO)?;
    Ok(Action::OutputField { from, max_len: Some(max_len).filter(|len| *len != u16::MAX) })
}

fn output_reg2(body: &mut Reader<'_>) -> Result<Action> {
    let (bits, max_len) = (body.u16()?, body.u16()?);
    let from = read_subfield(bits, body)?;
    padding(body)?;
    Ok(Action::OutputField { from, max_len: Some(max_len).filter(|len| *len != u16::MAX) })
}

/// All that is left must be 0.
fn padding(body: &mut Reader<'_>) -> Result<()> {
    body.zeros(body.len(), MUST_BE_ZERO)
}

fn fin_timeout(body: &mut Reader<'_>) -> Result<Action> {
    let (idle, hard) = (body.u16()?, body.u16()?);
    body.zeros(2, MUST_BE_ZERO)?;
    Ok(Action::FinTimeout { idle: idle.into(), hard: hard.into() })
}

fn dec_ttl(body: &mut Reader<'_>) -> Result<Action> {
    let count = usize::from(body.u16()?);
    body.zeros(4, MUST_BE_ZERO)?;
    let ids = (0..count.min(body.len() / 2 + 1)).map(|_| body.u16()).collect::<Result<Vec<_>>>()?;
    let rest = (2 * count).next_multiple_of(8) - 2 * count;
    body.skip(rest)?;
    Ok(Action::DecTtl(ids.into()))
}

fn write_metadata(body: &mut Reader<'_>) -> Result<Action> {
    body.zeros(6, MUST_BE_ZERO)?;
    let (value, mask) = (body.u64()?, body.u64()?);
    Ok(Action::WriteMetadata { value, mask })
}

fn stack(body: &mut Reader<'_>) -> Result<vswitch_flow::Subfield> {
    let start = body.u16()?;
    let header = oxm::read_header(body)?;
    let len = body.u16()?;
    padding(body)?;
    subfield(header, start, len)
}

fn sample(body: &mut Reader<'_>, with_port: bool) -> Result<Action> {
    let (probability, collector_set, domain, point) = (body.u16()?, body.u32()?, body.u32()?, body.u32()?);
    let mut sample = Sample { probability, collector_set, domain, point, ..Sample::default() };
    if with_port {
        sample.port = Some(port_16(body.u16()?)).filter(|port| *port != port::NONE);
        sample.direction = match body.u8()? {
            0 => SampleDirection::Default,
            1 => SampleDirection::Ingress,
            2 => SampleDirection::Egress,
            other => return refuse("OFPBAC_BAD_ARGUMENT", format!("sample has no direction {other}")),
        };
        body.zeros(5, MUST_BE_ZERO)?;
    }
    Ok(Action::Sample(Box::new(sample)))
}

fn conjunction(body: &mut Reader<'_>) -> Result<Action> {
    let (clause, clauses, id) = (body.u8()?, body.u8()?, body.u32()?);
    Action::conjunction(id, u64::from(clause) + 1, clauses.into())
}

fn output_trunc(body: &mut Reader<'_>) -> Result<Action> {
    let (port, max_len) = (port_16(body.u16()?), body.u32()?);
    // Longer packets than that there are none.
    let max_len = u16::try_from(max_len).unwrap_or(u16::MAX);
    Ok(Action::Output { port, max_len: Some(max_len) })
}

fn check_pkt_larger(body: &mut Reader<'_>) -> Result<Action> {
    let (len, start) = (body.u16()?, body.u16()?);
    let to = subfield(oxm::read_header(body)?, start, 1)?;
    padding(body)?;
    Ok(Action::CheckPktLarger { len, to })
}

fn delete_field(body: &mut Reader<'_>) -> Result<Action> {
    let field = oxm::read_header(body)?.field;
    padding(body)?;
    Ok(Action::DeleteField(field))
}
