//! Writes Nicira's actions.

use super::{PutList, controller, ct, hash, learn, ofs_nbits, subfield_header, subtype as s, to_port_16};
use crate::error::NICIRA;
use crate::oxm::{self, Names};
use crate::wire::{Result, Writer};
use crate::{Codec, seconds};
use vswitch_flow::action::{Sample, SampleDirection, port};
use vswitch_flow::text::{NoNames, Style, format_actions};
use vswitch_flow::{Action, Subfield};

/// Writes an action from the experimenter's id on; false: there is nothing to write.
pub(super) fn put(codec: Codec, action: &Action, put_list: PutList, out: &mut Writer) -> Result<bool> {
    let start = out.len() - 4;
    out.u32(NICIRA);
    match action {
        Action::Output { port, max_len } => output_trunc(*port, max_len.unwrap_or(u16::MAX), out),
        Action::OutputField { from, max_len } => output_reg(codec, *from, *max_len, out)?,
        Action::Controller(controller) => controller::put(controller, out),
        Action::Move { from, to } => reg_move(codec, *from, *to, out)?,
        Action::DecTtl(ids) => dec_ttl(ids, out),
        Action::StackPush(sub) => stack(codec, s::STACK_PUSH, *sub, out)?,
        Action::StackPop(sub) => stack(codec, s::STACK_POP, *sub, out)?,
        Action::Resubmit { port, table, ct } => resubmit(*port, *table, *ct, out),
        Action::Multipath(multipath) => hash::put_multipath(codec, multipath, out)?,
        Action::Bundle(bundle) => hash::put_bundle(codec, bundle, out)?,
        Action::Learn(learn) => learn::put(codec, learn, out)?,
        Action::FinTimeout { idle, hard } => {
            out.u16(s::FIN_TIMEOUT);
            out.u16(seconds(*idle));
            out.u16(seconds(*hard));
        }
        Action::Conjunction { id, clause, clauses } => {
            out.u16(s::CONJUNCTION);
            out.u8(*clause);
            out.u8(*clauses);
            out.u32(*id);
        }
        Action::Clone(actions) => {
            out.u16(s::CLONE);
            out.zeros(6);
            put_list(codec, actions, out)?;
        }
        Action::Note(bytes) => {
            out.u16(s::NOTE);
            out.bytes(bytes);
        }
        Action::Exit => out.u16(s::EXIT),
        Action::Sample(sample) => put_sample(sample, out),
        Action::CheckPktLarger { len, to } => check_pkt_larger(codec, *len, *to, out)?,
        Action::Ct(ct) => ct::put(codec, ct, put_list, out)?,
        Action::CtClear => out.u16(s::CT_CLEAR),
        Action::DeleteField(field) => {
            out.u16(s::DELETE_FIELD);
            oxm::put_header(oxm::header(codec, *field, Names::Nxm)?, out);
            fill(start, 24, out);
        }
        Action::Reject(_) | Action::CtForget => note_of(action, out),
        _ => return Ok(false),
    }
    fill(start, 16, out);
    Ok(true)
}

/// Zeros up to the length that the action has at least.
fn fill(start: usize, len: usize, out: &mut Writer) {
    out.zeros((start + len).saturating_sub(out.len()));
}

/// An action that OpenFlow has no number for: a note with its text, so that dumps show it.
fn note_of(action: &Action, out: &mut Writer) {
    let mut text = String::new();
    format_actions(std::slice::from_ref(action), Style::default(), &NoNames, &mut text);
    out.u16(s::NOTE);
    out.bytes(text.as_bytes());
}

fn output_trunc(port: u32, max_len: u16, out: &mut Writer) {
    out.u16(s::OUTPUT_TRUNC);
    out.u16(to_port_16(port));
    out.u32(max_len.into());
}

fn output_reg(codec: Codec, from: Subfield, max_len: Option<u16>, out: &mut Writer) -> Result<()> {
    let start = out.len() - 8;
    let header = subfield_header(codec, from)?;
    let max_len = max_len.unwrap_or(u16::MAX);
    if header.is_short() {
        out.u16(s::OUTPUT_REG);
        out.u16(ofs_nbits(from.start, from.len));
        oxm::put_header(header, out);
        out.u16(max_len);
    } else {
        out.u16(s::OUTPUT_REG2);
        out.u16(ofs_nbits(from.start, from.len));
        out.u16(max_len);
        oxm::put_header(header, out);
    }
    fill(start, 24, out);
    Ok(())
}

fn reg_move(codec: Codec, from: Subfield, to: Subfield, out: &mut Writer) -> Result<()> {
    out.u16(s::REG_MOVE);
    out.u16(to.len.into());
    out.u16(from.start.into());
    out.u16(to.start.into());
    oxm::put_header(subfield_header(codec, from)?, out);
    oxm::put_header(subfield_header(codec, to)?, out);
    Ok(())
}

#[allow(clippy::cast_possible_truncation)] // limits::MAX_CONTROLLERS
fn dec_ttl(ids: &[u16], out: &mut Writer) {
    out.u16(s::DEC_TTL_CNT_IDS);
    out.u16(ids.len() as u16);
    out.zeros(4);
    for id in ids {
        out.u16(*id);
    }
}

fn stack(codec: Codec, subtype: u16, sub: Subfield, out: &mut Writer) -> Result<()> {
    let start = out.len() - 8;
    out.u16(subtype);
    out.u16(sub.start.into());
    oxm::put_header(subfield_header(codec, sub)?, out);
    out.u16(sub.len.into());
    fill(start, 24, out);
    Ok(())
}

fn resubmit(port: Option<u32>, table: Option<u8>, ct: bool, out: &mut Writer) {
    out.u16(if ct { s::RESUBMIT_TABLE_CT } else { s::RESUBMIT_TABLE });
    out.u16(to_port_16(port.unwrap_or(port::IN_PORT)));
    out.u8(table.unwrap_or(u8::MAX));
}

fn put_sample(sample: &Sample, out: &mut Writer) {
    let start = out.len() - 8;
    let direction = match sample.direction {
        SampleDirection::Default => 0,
        SampleDirection::Ingress => 1,
        SampleDirection::Egress => 2,
    };
    let long = sample.port.is_some() || direction != 0;
    out.u16(match direction {
        0 if long => s::SAMPLE2,
        0 => s::SAMPLE,
        _ => s::SAMPLE3,
    });
    out.u16(sample.probability);
    out.u32(sample.collector_set);
    out.u32(sample.domain);
    out.u32(sample.point);
    if long {
        out.u16(to_port_16(sample.port.unwrap_or(port::NONE)));
        out.u8(direction);
        fill(start, 32, out);
    }
}

fn check_pkt_larger(codec: Codec, len: u16, to: Subfield, out: &mut Writer) -> Result<()> {
    let start = out.len() - 8;
    out.u16(s::CHECK_PKT_LARGER);
    out.u16(len);
    out.u16(to.start.into());
    oxm::put_header(subfield_header(codec, to)?, out);
    fill(start, 24, out);
    Ok(())
}
