//! Fields that are there only while an option of Geneve is mapped to them, and the flows that use
//! them.

use super::{PipelineState, Refused, refs};
use crate::pipeline::Rule;
use crate::tunnel::OPTION_FIELDS;
use vswitch_flow::action::{Action, CtZone, Learn, LearnSource, LearnSpec};
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::{Field, SparseMatch, TUNNEL_WORD};
use vswitch_overlay::OptionMap;
use vswitch_overlay::options::{MapError, Mapping};

impl PipelineState {
    /// Which option of Geneve is which field.
    #[must_use]
    pub const fn options(&self) -> &OptionMap {
        &self.options
    }

    /// Maps options to fields, all or none.
    ///
    /// # Errors
    /// When one clashes with another one.
    pub fn add_options(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        self.options.add(mappings)
    }

    /// Removes mappings, all of those or none; an empty list: all there are.
    ///
    /// # Errors
    /// When one is not there, or a flow uses its field (in Open vSwitch, too:
    /// `NXTTMFC_INVALID_TLV_DEL`). Groups do not count, as there.
    pub fn delete_options(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        let mut next = self.options.clone();
        next.remove(mappings)?;
        let gone = self.options.mapped() & !next.mapped();
        if let Some((field, by)) = self.user_of(gone) {
            return Err(MapError::InUse { field, by });
        }
        self.options = next;
        Ok(())
    }

    /// A flow that uses one of these fields, and the field.
    fn user_of(&self, fields: u8) -> Option<(u8, String)> {
        if fields == 0 {
            return None;
        }
        let learned = self.program.learned.tables();
        let mut rules = self.program.rules(&learned);
        rules.find_map(|rule| {
            let Rule { table, priority, cookie, matching, actions, .. } = &**rule;
            let field = lowest((matched(matching) | acted(actions)) & fields)?;
            Some((field, format!("a flow of table {table}, priority {priority}, cookie {cookie:#x}")))
        })
    }

    /// No update may use a field that no option is mapped to. (What buckets of groups do is not
    /// looked at, as in Open vSwitch.)
    ///
    /// # Errors
    /// The first update that does.
    pub(super) fn check_options(&self, updates: &[Update]) -> Result<(), Refused> {
        updates.iter().enumerate().try_for_each(|(i, update)| {
            let used = match update {
                Update::AddFlow(flow) => matched(&flow.matching) | acted(&flow.actions),
                Update::ModifyFlows { filter, actions, .. } => matched(&filter.matching) | acted(actions),
                Update::DeleteFlows(filter) | Update::ReplaceFlows(filter) => matched(&filter.matching),
                _ => 0,
            };
            unmapped(&self.options, used).map_err(|refused| refused.at(i))
        })
    }

    /// [`check_filter`], for the options of this bridge.
    ///
    /// # Errors
    /// When it uses such a field.
    pub fn check_filter(&self, filter: &FlowFilter) -> Result<(), Refused> {
        check_filter(&self.options, filter)
    }
}

/// What selects flows to be shown uses no field that no option is mapped to.
///
/// # Errors
/// When it uses such a field.
pub fn check_filter(options: &OptionMap, filter: &FlowFilter) -> Result<(), Refused> {
    unmapped(options, matched(&filter.matching))
}

fn unmapped(options: &OptionMap, used: u8) -> Result<(), Refused> {
    match lowest(used & !options.mapped()) {
        None => Ok(()),
        Some(field) => {
            let name = OPTION_FIELDS[usize::from(field)].name();
            let reason = format!("no option of Geneve is mapped to {name}");
            let hint = format!("map one first: vsctl add-tlv-map BRIDGE '{{class=N,type=N,len=N}}->{name}'");
            Err(Refused::new("NXFMFC_INVALID_TLV_FIELD", name, reason).hint(hint))
        }
    }
}

/// The number of the lowest bit.
fn lowest(fields: u8) -> Option<u8> {
    (fields != 0).then(|| u8::try_from(fields.trailing_zeros()).unwrap_or(0))
}

/// The bit of a field, if it is one that an option is mapped to.
fn bit(field: Field) -> u8 {
    OPTION_FIELDS.iter().position(|own| *own == field).map_or(0, |i| 1 << i)
}

/// Which of these fields a match looks at.
fn matched(matching: &SparseMatch) -> u8 {
    let first = usize::from(OPTION_FIELDS[0].location().word);
    let last = usize::from(OPTION_FIELDS[OPTION_FIELDS.len() - 1].location().word) + 1;
    matching.iter().fold(0, |fields, (word, _, mask)| match word {
        // Two words each.
        word if (first..=last).contains(&word) => fields | 1 << ((word - first) / 2),
        TUNNEL_WORD => fields | u8::try_from(mask & 0xff).unwrap_or(0),
        _ => fields,
    })
}

/// Which of these fields actions read or write.
fn acted(actions: &[Action]) -> u8 {
    let mut fields = 0;
    refs::any(actions, &mut |action| {
        fields |= match action {
            Action::OutputField { from, .. } | Action::StackPush(from) => bit(from.field),
            Action::SetField { field, .. } | Action::DeleteField(field) => bit(*field),
            Action::Move { from, to } => bit(from.field) | bit(to.field),
            Action::StackPop(to) | Action::CheckPktLarger { to, .. } => bit(to.field),
            Action::Multipath(multipath) => bit(multipath.to.field),
            Action::Bundle(bundle) => bundle.to.map_or(0, |to| bit(to.field)),
            Action::Learn(learn) => learned(learn),
            Action::Ct(ct) => match ct.zone {
                CtZone::Field(from) => bit(from.field),
                CtZone::Immediate(_) => 0,
            },
            _ => 0,
        };
        false
    });
    fields
}

/// Which of these fields a learn reads, and its flows use.
fn learned(learn: &Learn) -> u8 {
    let source = |from: &LearnSource| match from {
        LearnSource::Field(from) => bit(from.field),
        LearnSource::Immediate(_) => 0,
    };
    let of_spec = |spec: &LearnSpec| match spec {
        LearnSpec::Match { from, to } | LearnSpec::Load { from, to } => source(from) | bit(to.field),
        LearnSpec::Output(from) => bit(from.field),
    };
    let result = learn.result.map_or(0, |to| bit(to.field));
    learn.specs.iter().fold(result, |fields, spec| fields | of_spec(spec))
}
