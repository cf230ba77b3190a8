//! The action `learn`, both ways.

use super::field::{number, subfield, subfield_message};
use super::{narrow, narrow16, wrong};
use vswitch_flow::Subfield;
use vswitch_flow::action::{Learn, LearnSource, LearnSpec};
use vswitch_flow::text::TextError;
use vswitch_proto::v1;
use vswitch_proto::v1::learn_copy::From;
use vswitch_proto::v1::learn_spec::Spec;

const PRIORITY_DEFAULT: u32 = 32768;
const TABLE_DEFAULT: u32 = 1;

pub(super) fn from_message(message: &v1::LearnAction) -> Result<Learn, TextError> {
    let result = message.result.as_ref().map(|sub| subfield("learn.result", Some(sub))).transpose()?;
    let specs: Result<Vec<_>, _> = message.specs.iter().map(spec).collect();
    Ok(Learn {
        idle_timeout: message.idle_timeout,
        hard_timeout: message.hard_timeout,
        fin_idle_timeout: message.fin_idle_timeout,
        fin_hard_timeout: message.fin_hard_timeout,
        priority: narrow16("learn.priority", message.priority.unwrap_or(PRIORITY_DEFAULT))?,
        cookie: message.cookie,
        table: narrow("learn.table", message.table.unwrap_or(TABLE_DEFAULT), 255)?,
        send_flow_rem: message.send_flow_rem,
        delete_learned: message.delete_learned,
        limit: message.limit,
        result,
        specs: specs?.into(),
    })
}

fn spec(message: &v1::LearnSpec) -> Result<LearnSpec, TextError> {
    match &message.spec {
        Some(Spec::Match(copy)) => copied(copy).map(|(from, to)| LearnSpec::Match { from, to }),
        Some(Spec::Load(copy)) => copied(copy).map(|(from, to)| LearnSpec::Load { from, to }),
        Some(Spec::Output(sub)) => subfield("learn.output", Some(sub)).map(LearnSpec::Output),
        None => Err(wrong("learn.specs", "learn: an element is empty", "give match, load or output")),
    }
}

fn copied(message: &v1::LearnCopy) -> Result<(LearnSource, Subfield), TextError> {
    let to = subfield("learn.to", message.to.as_ref())?;
    let from = match &message.from {
        Some(From::Field(sub)) => LearnSource::Field(subfield("learn.from", Some(sub))?),
        Some(From::Constant(octets)) => LearnSource::Immediate(number("learn.constant", octets)?),
        None => return Err(wrong("learn.from", "learn: no source is given", "give field or constant")),
    };
    Ok((from, to))
}

pub(super) fn to_message(learn: &Learn) -> v1::LearnAction {
    v1::LearnAction {
        idle_timeout: learn.idle_timeout,
        hard_timeout: learn.hard_timeout,
        fin_idle_timeout: learn.fin_idle_timeout,
        fin_hard_timeout: learn.fin_hard_timeout,
        priority: Some(learn.priority.into()),
        cookie: learn.cookie,
        table: Some(learn.table.into()),
        send_flow_rem: learn.send_flow_rem,
        delete_learned: learn.delete_learned,
        limit: learn.limit,
        result: learn.result.map(subfield_message),
        specs: learn.specs.iter().map(spec_message).collect(),
    }
}

fn spec_message(spec: &LearnSpec) -> v1::LearnSpec {
    let spec = match *spec {
        LearnSpec::Match { from, to } => Spec::Match(copy_message(from, to)),
        LearnSpec::Load { from, to } => Spec::Load(copy_message(from, to)),
        LearnSpec::Output(sub) => Spec::Output(subfield_message(sub)),
    };
    v1::LearnSpec { spec: Some(spec) }
}

fn copy_message(from: LearnSource, to: Subfield) -> v1::LearnCopy {
    let from = match from {
        LearnSource::Field(sub) => From::Field(subfield_message(sub)),
        LearnSource::Immediate(constant) => From::Constant(constant.to_be_bytes().into()),
    };
    v1::LearnCopy { to: Some(subfield_message(to)), from: Some(from) }
}
