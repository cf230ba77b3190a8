//! What Open vSwitch refuses: the checks of ofpacts_verify, ofpacts_check and of decoding, in the
//! places where lists stand.

mod fields;
mod nested;

use super::{Action, BAD_ARGUMENT, BAD_SET, INCONSISTENT, PortNo, encoded_len, limits, port, rules};
use crate::field::number::{ETH_VLAN, VLAN_PRESENT};
use crate::{Field, FlowKey, FlowMask, Refusal, SparseMatch};

/// Where an action list stands: some actions are allowed in some places only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPlace {
    /// A flow of this table.
    Flow {
        /// 0 to 253.
        table: u8,
    },
    /// A bucket of a group.
    Bucket,
    /// A packet-out.
    PacketOut,
}

/// What actions refer to: the facts a check needs beyond the list itself. Missing groups and meters
/// are judged by the transaction, on the final state.
#[derive(Debug)]
pub struct CheckContext<'a> {
    /// The flow's match: prerequisites of fields. None in buckets and packet-outs, where they are
    /// not checked.
    pub matching: Option<&'a SparseMatch>,
    /// Where the list stands.
    pub place: ListPlace,
}

/// Checks a list as Open vSwitch does when a flow is added: prerequisites, order, places, limits.
/// Returns the first problem.
///
/// # Errors
/// What is wrong, with the code name that OpenFlow has for it (`OFPBAC_MATCH_INCONSISTENT`, ...).
pub fn check(actions: &[Action], context: &CheckContext<'_>) -> Result<(), CheckError> {
    let mut checker =
        Checker { matching: context.matching, facts: None, place: context.place, delayed: false, len: 0, depth: 0 };
    if actions.iter().all(Action::is_clause) {
        return checker.clauses(actions);
    }
    checker.list(actions, Outer::None)
}

/// Why an action list is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct CheckError {
    /// OpenFlow's or Open vSwitch's name of the error.
    pub code: &'static str,
    /// What is wrong and how to fix it.
    pub reason: String,
    /// What would be right; may be empty.
    pub hint: String,
    /// Which action of the list, from 0 (the outermost one, if actions are nested).
    pub index: usize,
}

type Check = Result<(), CheckError>;

/// An error; whoever walks the list knows the index.
fn refuse(code: &'static str, reason: impl Into<String>) -> Check {
    Err(Refusal::new(code, reason).into())
}

impl From<Refusal> for CheckError {
    fn from(Refusal { code, reason, hint, .. }: Refusal) -> Self {
        Self { code, reason, hint, index: 0 }
    }
}

/// The action that a list is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outer {
    None,
    Clone,
    WriteActions,
    Ct,
}

/// The part of a list that an action belongs to, in the order in which they must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Meter,
    Apply,
    Clear,
    Write,
    Metadata,
    Goto,
}

impl Part {
    const fn of(action: &Action) -> Self {
        match action {
            Action::Meter(_) => Self::Meter,
            Action::ClearActions => Self::Clear,
            Action::WriteActions(_) => Self::Write,
            Action::WriteMetadata { .. } => Self::Metadata,
            Action::GotoTable(_) => Self::Goto,
            _ => Self::Apply,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Meter => "meter",
            Self::Apply => "actions",
            Self::Clear => "clear_actions",
            Self::Write => "write_actions",
            Self::Metadata => "write_metadata",
            Self::Goto => "goto_table",
        }
    }
}

struct Checker<'a> {
    matching: Option<&'a SparseMatch>,
    /// The match, with what actions before made of it. Expanded when first needed.
    facts: Option<(FlowKey, FlowMask)>,
    place: ListPlace,
    /// Whether the list is that of a write_actions, for whose actions OVS does not ask what the
    /// packet is, but for those of set_field and the like.
    delayed: bool,
    /// Encoded bytes so far.
    len: usize,
    depth: usize,
}

/// The bits of the facts that actions change.
#[derive(Clone, Copy)]
struct Tags([(u128, u128); 2]);

const TAGS: [Field; 2] = [Field::VlanTci, Field::VlanTci1];

impl Checker<'_> {
    fn list(&mut self, actions: &[Action], outer: Outer) -> Check {
        self.depth += 1;
        if self.depth > limits::MAX_NESTING {
            return refuse(BAD_ARGUMENT, format!("actions are nested more than {} levels deep", limits::MAX_NESTING));
        }
        let only_conjunctions = actions.iter().any(|action| matches!(action, Action::Conjunction { .. }));
        let mut last = None;
        for (index, action) in actions.iter().enumerate() {
            self.item(action, outer, only_conjunctions, last).map_err(|error| CheckError { index, ..error })?;
            last = Some(Part::of(action));
        }
        self.depth -= 1;
        Ok(())
    }

    /// A list of nothing but clauses, which may be longer than others.
    fn clauses(&mut self, actions: &[Action]) -> Check {
        if actions.len() > limits::MAX_CLAUSES {
            let index = limits::MAX_CLAUSES;
            let reason = format!("the list has {} conjunctions, at most {index}", actions.len());
            return Err(CheckError { index, ..Refusal::new("OFPBRC_BAD_LEN", reason).into() });
        }
        for (index, action) in actions.iter().enumerate() {
            self.action(action).map_err(|error| CheckError { index, ..error })?;
        }
        Ok(())
    }

    fn item(&mut self, action: &Action, outer: Outer, only_conjunctions: bool, last: Option<Part>) -> Check {
        if outer == Outer::None {
            self.len += encoded_len(action);
            if self.len > limits::MAX_BYTES {
                return refuse(
                    "OFPBRC_BAD_LEN",
                    format!("the list is longer than {} bytes of OpenFlow, about 4,090 actions", limits::MAX_BYTES),
                );
            }
        }
        if only_conjunctions {
            if !matches!(action, Action::Conjunction { .. } | Action::Note(_)) {
                let reason =
                    "beside conjunction only note is allowed: put the other actions into the flow that matches conj_id";
                return refuse("NXBAC_BAD_CONJUNCTION", reason);
            }
        } else {
            nesting(action, outer)?;
            self.order(action, outer, last)?;
        }
        self.action(action)
    }

    /// The order of the parts, and which of them the place has.
    fn order(&self, action: &Action, outer: Outer, last: Option<Part>) -> Check {
        let part = Part::of(action);
        if let Some(last) = last {
            if part < last {
                let reason = format!("{} must come before {}", part.name(), last.name());
                return refuse("OFPBAC_UNSUPPORTED_ORDER", reason);
            }
            if part == last && part != Part::Apply {
                return refuse("OFPBAC_UNSUPPORTED_ORDER", format!("{} may be given only once", part.name()));
            }
        }
        let nested = outer != Outer::None;
        if part > Part::Apply && (nested || !matches!(self.place, ListPlace::Flow { .. })) {
            let place = match self.place {
                _ if nested => "inside another action",
                ListPlace::Bucket => "in a bucket; resubmit is",
                _ => "in a packet-out; resubmit is",
            };
            return refuse("OFPBIC_UNSUP_INST", format!("{} is not allowed {place}", part.name()));
        }
        Ok(())
    }

    fn action(&mut self, action: &Action) -> Check {
        match action {
            Action::Output { port, max_len } => output(*port, *max_len),
            Action::OutputField { from, .. } => self.source(*from),
            Action::Meter(id) if !(1..=limits::MAX_METER).contains(id) => refuse(
                "OFPMMFC_INVALID_METER",
                format!("there can be no meter {id}: ids are 1 to {}", limits::MAX_METER),
            ),
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::Move { from, to } => self.copy(*from, *to),
            Action::SetTtl(_) => self.ttl(),
            Action::DecTtl(ids) => {
                rules::dec_ttl(ids.len())?;
                self.ttl()
            }
            Action::SetVlanPcp(pcp) if *pcp > 7 => refuse(BAD_ARGUMENT, "a VLAN priority has 3 bits"),
            Action::SetVlanVid(vid) if *vid > 0xfff => refuse(BAD_ARGUMENT, "a VLAN ID has 12 bits"),
            // A packet without a tag gets one.
            Action::SetVlanVid(_) | Action::SetVlanPcp(_) if !self.has_tag(0) => self.push_vlan(ETH_VLAN),
            Action::SetVlanVid(_) | Action::SetVlanPcp(_) => Ok(()),
            Action::PushVlan(tpid) => self.push_vlan(*tpid),
            Action::PopVlan => self.pop_vlan(),
            Action::StackPush(from) => self.source(*from),
            Action::StackPop(to) => self.target(*to),
            Action::Resubmit { port, table, ct } => self.resubmit(*port, *table, *ct),
            Action::Multipath(multipath) => self.multipath(multipath),
            Action::Bundle(bundle) => self.bundle(bundle),
            Action::Learn(learn) => self.learn(learn),
            Action::FinTimeout { .. } => self.need(Field::TcpSrc, "FIN and RST"),
            Action::Conjunction { clause, clauses, .. } => {
                Ok(rules::conjunction(u64::from(*clause) + 1, u64::from(*clauses))?)
            }
            Action::Clone(actions) => self.sub_list(actions, Outer::Clone),
            Action::Reject(reject) => self.reject(reject),
            Action::WriteActions(actions) => {
                self.delayed = true;
                let result = self.sub_list(actions, Outer::WriteActions);
                self.delayed = false;
                result
            }
            Action::CheckPktLarger { to, .. } => self.one_bit(*to, "check_pkt_larger"),
            Action::Ct(ct) => self.ct(ct),
            Action::DeleteField(field) => Ok(rules::delete_field(*field)?),
            Action::GotoTable(table) => self.goto(*table),
            Action::Sample(sample) => {
                rules::sample(sample.probability)?;
                Ok(sample.port.map_or(Ok(()), rules::port_number)?)
            }
            _ => Ok(()),
        }
    }

    fn ttl(&mut self) -> Check {
        if self.delayed { Ok(()) } else { self.need(Field::NwTtl, "a TTL") }
    }

    fn sub_list(&mut self, actions: &[Action], outer: Outer) -> Check {
        let tags = self.tags();
        self.list(actions, outer)?;
        self.restore(tags);
        Ok(())
    }

    fn goto(&self, to: u8) -> Check {
        let ListPlace::Flow { table } = self.place else { return Ok(()) };
        if to > limits::MAX_TABLE {
            return refuse(
                "OFPBIC_BAD_TABLE_ID",
                format!("there is no table {to}: tables are 0 to {}", limits::MAX_TABLE),
            );
        }
        if to <= table {
            let reason =
                format!("goto_table:{to} in table {table}: it only goes to later tables; resubmit goes anywhere");
            return refuse("OFPBIC_BAD_TABLE_ID", reason);
        }
        Ok(())
    }

    fn resubmit(&mut self, port: Option<PortNo>, table: Option<u8>, ct: bool) -> Check {
        rules::resubmit(port, table)?;
        if ct { self.need(Field::CtTpSrc, "an original tuple") } else { Ok(()) }
    }

    fn push_vlan(&mut self, tpid: u16) -> Check {
        rules::push_vlan(tpid)?;
        if self.has_tag(1) {
            return refuse("OFPBAC_BAD_TAG", "a packet has two VLAN tags at most");
        }
        let outer = self.has_tag(0);
        self.set_tag(1, outer);
        self.set_tag(0, true);
        Ok(())
    }

    fn pop_vlan(&mut self) -> Check {
        if self.is_checked() && !self.delayed && !self.has_tag(0) {
            let reason =
                "pop_vlan needs a packet with a tag: match dl_vlan=N or vlan_tci=0x1000/0x1000, or push_vlan before";
            return refuse(INCONSISTENT, reason);
        }
        let inner = self.has_tag(1);
        self.set_tag(0, inner);
        self.set_tag(1, false);
        Ok(())
    }

    const fn is_checked(&self) -> bool {
        self.matching.is_some()
    }

    /// The facts; None where they are not checked.
    fn facts(&mut self) -> Option<&mut (FlowKey, FlowMask)> {
        let matching = self.matching?;
        Some(self.facts.get_or_insert_with(|| matching.expand()))
    }

    fn has_tag(&mut self, tag: usize) -> bool {
        let present = u128::from(VLAN_PRESENT);
        self.facts().is_some_and(|(key, mask)| key.get(TAGS[tag]) & mask.get(TAGS[tag]) & present != 0)
    }

    fn set_tag(&mut self, tag: usize, there: bool) {
        if let Some((key, mask)) = self.facts() {
            let present = u128::from(VLAN_PRESENT);
            key.set_masked(TAGS[tag], if there { present } else { 0 }, present);
            mask.add_bits(TAGS[tag], present);
        }
    }

    fn tags(&self) -> Option<Tags> {
        let facts = self.facts.as_ref()?;
        Some(Tags(TAGS.map(|tag| (facts.0.get(tag), facts.1.get(tag)))))
    }

    fn restore(&mut self, tags: Option<Tags>) {
        match (tags, &mut self.facts) {
            (Some(tags), Some(facts)) => {
                for (tag, (value, mask)) in TAGS.into_iter().zip(tags.0) {
                    facts.0.set(tag, value);
                    facts.1.set(tag, mask);
                }
            }
            // Expanded in between: the match says what it was.
            (None, facts) => *facts = None,
            (Some(_), None) => {}
        }
    }
}

fn nesting(action: &Action, outer: Outer) -> Check {
    let sets = match action {
        Action::SetField { field, .. } => Some(*field),
        Action::Move { to, .. } => Some(to.field),
        _ => None,
    };
    let sets_ct = matches!(sets, Some(Field::CtMark | Field::CtLabel));
    match outer {
        Outer::Ct if sets_ct => Ok(()),
        Outer::Ct => {
            refuse(BAD_ARGUMENT, "in ct(exec(...)) only set_field, load and move to ct_mark and ct_label are allowed")
        }
        _ if sets_ct => refuse(BAD_SET, "ct_mark and ct_label can only be set in ct(commit,exec(...))"),
        Outer::None => Ok(()),
        Outer::Clone | Outer::WriteActions if matches!(action, Action::Meter(_)) => {
            refuse(BAD_ARGUMENT, "meter is not allowed inside another action")
        }
        Outer::WriteActions if !in_action_set(action) => refuse(
            "OFPBAC_BAD_TYPE",
            "this action is not allowed in write_actions: see \"Action Sets\" in ovs-actions(7)",
        ),
        Outer::Clone | Outer::WriteActions => Ok(()),
    }
}

const fn in_action_set(action: &Action) -> bool {
    match action {
        Action::Controller(controller) => {
            // CONTROLLER:N is an output.
            controller.id == 0
                && matches!(controller.reason, super::Reason::Action)
                && controller.userdata.is_empty()
                && !controller.pause
                && controller.meter.is_none()
        }
        Action::Output { max_len, .. } => max_len.is_none(),
        Action::Group(_)
        | Action::SetField { .. }
        | Action::Move { .. }
        | Action::SetTtl(_)
        | Action::DecTtl(_)
        | Action::PushVlan(_)
        | Action::PopVlan
        | Action::SetVlanVid(_)
        | Action::SetVlanPcp(_)
        | Action::Resubmit { .. }
        | Action::Ct(_)
        | Action::CtClear => true,
        _ => false,
    }
}

fn output(port: PortNo, max_len: Option<u16>) -> Check {
    if !port::is_physical(port) && !matches!(port, port::IN_PORT..=port::LOCAL) {
        let reason = format!("{port:#x} is no port to send to: 0 to 0xfeff, or a reserved port");
        return refuse("OFPBAC_BAD_OUT_PORT", reason);
    }
    Ok(max_len.map_or(Ok(()), |max_len| rules::truncated(port, max_len))?)
}
