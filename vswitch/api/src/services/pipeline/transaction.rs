//! A transaction while it is collected, and the statuses of its updates.

use super::line;
use crate::services::status::clip;
use prost::Message;
use vswitch_dataplane::pipeline::state::{Applied, Refused};
use vswitch_flow::spec::Update;
use vswitch_flow::text::{Names, Parsed, TextError};
use vswitch_messages::{self as typed, wrong};
use vswitch_proto::v1::{self, UpdateOutcome};

/// Updates of one transaction whose statuses have texts; there is no use in telling the same thing
/// of 100,000 lines.
const TEXTS_MAX: usize = 1000;

/// Wrong updates after which the rest of a transaction is not looked at: saying what was meant
/// takes longer than parsing.
const INVALID_MAX: u64 = 1000;

/// Bytes of each text of a status.
const TEXT_LEN_MAX: usize = 512;

/// Warnings of one update that are told.
const WARNINGS_MAX: usize = 8;

/// Bytes that an update takes beside what grows with its message.
const UPDATE_LEN: usize = 512;

/// How much larger than its message a parsed update may be: `1,` is an action.
const GROWTH: usize = 8;

/// Bytes that a message of a transaction takes until the transaction is applied, roughly.
pub(super) fn room_for(message: &v1::WriteRequest) -> usize {
    message.encoded_len().saturating_mul(GROWTH).saturating_add(message.updates.len() * UPDATE_LEN)
}

/// What was collected.
#[derive(Default)]
pub(super) struct Transaction {
    updates: Vec<Update>,
    statuses: Vec<v1::UpdateStatus>,
    invalid: u64,
    warned: u64,
    /// Statuses with texts.
    texts: usize,
}

/// Statuses of a transaction that was given to the switch.
pub(super) struct Statuses {
    statuses: Vec<v1::UpdateStatus>,
    warned: u64,
}

impl Transaction {
    /// Updates so far.
    pub(super) const fn len(&self) -> usize {
        self.statuses.len()
    }

    /// Parses updates. What is wrong with one is in its status; the others are still looked at, so
    /// that everything is told at once, within reason.
    pub(super) fn add(&mut self, updates: Vec<v1::Update>, names: &dyn Names) {
        self.statuses.reserve(updates.len());
        for message in updates {
            let tag = message.tag;
            if self.invalid >= INVALID_MAX {
                self.statuses.push(v1::UpdateStatus { tag, ..Default::default() });
                continue;
            }
            match update(message, names) {
                Ok(Parsed { value, warnings }) => {
                    self.warned += u64::from(!warnings.is_empty());
                    let mut status = v1::UpdateStatus { tag, ..Default::default() };
                    if !warnings.is_empty() && self.has_room() {
                        let warnings = warnings.into_iter().take(WARNINGS_MAX);
                        status.warnings = warnings.map(|warning| clip(&warning, TEXT_LEN_MAX).into_owned()).collect();
                    }
                    self.statuses.push(status);
                    // After the first error nothing will be applied: the rest is only looked at.
                    if self.invalid == 0 {
                        self.updates.push(value);
                    }
                }
                Err(error) => {
                    self.invalid += 1;
                    self.updates = Vec::new();
                    let status = if self.has_room() {
                        invalid(tag, error)
                    } else {
                        v1::UpdateStatus { outcome: UpdateOutcome::Invalid.into(), tag, ..Default::default() }
                    };
                    self.statuses.push(status);
                }
            }
        }
    }

    fn has_room(&mut self) -> bool {
        self.texts += 1;
        self.texts <= TEXTS_MAX
    }

    /// The updates, or the response if some are wrong.
    pub(super) fn finish(self) -> Result<(Vec<Update>, Statuses), v1::WriteResponse> {
        let Self { updates, statuses, invalid, warned, .. } = self;
        if invalid == 0 {
            return Ok((updates, Statuses { statuses, warned }));
        }
        Err(Statuses { statuses, warned }.not_applied(invalid))
    }
}

impl Statuses {
    /// The response when everything was applied.
    pub(super) fn applied(mut self, applied: &Applied) -> v1::WriteResponse {
        for (i, status) in self.statuses.iter_mut().enumerate() {
            status.outcome = UpdateOutcome::Applied.into();
            status.affected = applied.counts.get(i).copied().unwrap_or_default();
        }
        v1::WriteResponse {
            applied: true,
            updates: self.statuses.len() as u64,
            statuses: self.statuses,
            refused: 0,
            warned: self.warned,
            affected: applied.counts.iter().sum(),
        }
    }

    /// The response when the state refused one.
    pub(super) fn refused(mut self, refused: &Refused) -> v1::WriteResponse {
        if let Some(status) = self.statuses.get_mut(refused.index) {
            status.outcome = UpdateOutcome::Refused.into();
            status.code = refused.code.to_owned();
            status.reason = clip(&refused.reason, TEXT_LEN_MAX).into_owned();
            status.field = refused.field.to_owned();
            status.hint = clip(&refused.hint, TEXT_LEN_MAX).into_owned();
        }
        self.not_applied(1)
    }

    fn not_applied(mut self, refused: u64) -> v1::WriteResponse {
        for status in &mut self.statuses {
            if status.outcome() == UpdateOutcome::Unspecified {
                status.outcome = UpdateOutcome::NotApplied.into();
            }
        }
        v1::WriteResponse {
            applied: false,
            updates: self.statuses.len() as u64,
            statuses: self.statuses,
            refused,
            warned: self.warned,
            affected: 0,
        }
    }
}

/// Status of an update whose text or values are wrong.
#[allow(clippy::needless_pass_by_value)] // consumed
pub(super) fn invalid(tag: u32, error: TextError) -> v1::UpdateStatus {
    v1::UpdateStatus {
        outcome: UpdateOutcome::Invalid.into(),
        tag,
        affected: 0,
        code: if error.code.is_empty() { "INVALID" } else { error.code }.to_owned(),
        reason: clip(&error.reason, TEXT_LEN_MAX).into_owned(),
        field: clip(&error.field, TEXT_LEN_MAX).into_owned(),
        hint: clip(&error.hint, TEXT_LEN_MAX).into_owned(),
        column: u32::try_from(error.column).unwrap_or(u32::MAX),
        warnings: Vec::new(),
    }
}

/// One update as a plain value.
pub(in crate::services) fn update(message: v1::Update, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    use v1::update::Update as Kind;
    fn with<T>(parsed: Parsed<T>, f: impl FnOnce(T) -> Update) -> Parsed<Update> {
        Parsed { value: f(parsed.value), warnings: parsed.warnings }
    }
    let plain = |value| Parsed { value, warnings: Vec::new() };
    let empty = || wrong("update", "the update is empty", "this switch may be older than the client");
    Ok(match message.update.ok_or_else(empty)? {
        Kind::Line(message) => line::update(&message, names)?,
        Kind::AddFlow(flow) => with(typed::flow(&flow, names)?, Update::AddFlow),
        Kind::ModifyFlows(message) => typed::modify(&message, names)?,
        Kind::DeleteFlows(filter) => with(typed::filter(&filter, names)?, Update::DeleteFlows),
        Kind::ReplaceFlows(filter) => with(typed::filter(&filter, names)?, Update::ReplaceFlows),
        Kind::AddGroup(group) => with(typed::group(&group, names)?, Update::AddGroup),
        Kind::ModifyGroup(v1::ModifyGroup { group, may_create }) => {
            with(typed::group(&group.unwrap_or_default(), names)?, |spec| Update::ModifyGroup { spec, may_create })
        }
        Kind::DeleteGroups(v1::DeleteById { id }) => plain(Update::DeleteGroups(id)),
        Kind::InsertBuckets(v1::InsertBuckets { group_id: group, place, buckets }) => {
            let place = typed::bucket_place(place.as_ref())?;
            let Parsed { value, warnings } = typed::buckets(&buckets, None, names)?;
            Parsed { value: Update::insert_buckets(group, place, value)?, warnings }
        }
        Kind::RemoveBuckets(v1::RemoveBuckets { group_id: group, place }) => {
            plain(Update::RemoveBuckets { group, place: typed::bucket_place(place.as_ref())? })
        }
        Kind::AddMeter(meter) => plain(Update::AddMeter(typed::meter(&meter)?)),
        Kind::ModifyMeter(meter) => plain(Update::ModifyMeter(typed::meter(&meter)?)),
        Kind::DeleteMeters(v1::DeleteById { id }) => plain(Update::DeleteMeters(id)),
        Kind::ReplaceAll(v1::ReplaceAll { meters }) => plain(Update::ReplaceAll { meters }),
    })
}
