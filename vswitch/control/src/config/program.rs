//! What a bridge does from the start on: names of tables, options of Geneve, static addresses,
//! meters, groups and flows. Keys of `[[bridge]]`, in the texts of `vsctl`.
//!
//! **Design**: the texts stay texts, since flows may name ports whose numbers are known only when
//! they are there. [`PipelineText::judged`] parses them and applies them to an empty pipeline, so
//! all that the switch would refuse is refused with its place in the file. `flows`, `groups` and
//! `meters` are one program: a file that has one of them says all three. `program_keys` reads them.
//!
//! **Limits**: those of the pipeline; the file's length.

use super::document::Span;
use crate::info::LOCAL;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use vswitch_dataplane::limits;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::Changes;
use vswitch_dataplane::pipeline::state::PipelineState;
use vswitch_dataplane::port::{PortConfig, PortKind};
use vswitch_dataplane::time::Millis;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, GroupCommand, Names, TextError, parse_flow, parse_group_update, parse_meter};
use vswitch_overlay::options::Mapping;

/// What a bridge does, beside its own keys. None: nothing is said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeProgram {
    /// Names of tables.
    pub tables: Option<BTreeMap<u8, String>>,
    /// Which option of Geneve is which field.
    pub options: Option<Vec<Mapping>>,
    /// Static addresses.
    pub macs: Option<BTreeSet<StaticMac>>,
    /// Meters, groups and flows: all that there are to be.
    pub pipeline: Option<PipelineText>,
}

/// A static address of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticMac {
    /// Name of its port.
    pub port: String,
    /// VLAN; 0: untagged.
    pub vlan: u16,
    /// The address.
    pub mac: Mac,
}

/// Meters, groups and flows, one text each, as `vsctl` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineText {
    /// As of `add-meter`.
    pub meters: Vec<String>,
    /// As of `add-group`.
    pub groups: Vec<String>,
    /// As of `add-flow`.
    pub flows: Vec<String>,
}

/// The keys of [`PipelineText`], in the order in which it is applied.
pub const PIPELINE_KEYS: [&str; 3] = ["meters", "groups", "flows"];

/// What is wrong with one of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextProblem {
    /// Which list: place in [`PIPELINE_KEYS`].
    pub list: usize,
    /// Which text of it.
    pub index: usize,
    /// Byte of the text, from 1; 0: the whole.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

impl std::fmt::Display for TextProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { list, index, problem, hint, .. } = self;
        let end = if hint.is_empty() { "" } else { "; " };
        write!(f, "{} {}: {problem}{end}{hint}", PIPELINE_KEYS[*list], index + 1)
    }
}

impl PipelineText {
    /// The lists, in the order of [`PIPELINE_KEYS`].
    #[must_use]
    pub const fn lists(&self) -> [&Vec<String>; 3] {
        [&self.meters, &self.groups, &self.flows]
    }

    /// A transaction after which this is all that there is. What is equal keeps its counters.
    ///
    /// # Errors
    /// All texts that cannot be read.
    pub fn updates(&self, names: &dyn Names) -> Result<Vec<Update>, Vec<TextProblem>> {
        let (mut updates, mut problems) = (vec![Update::ReplaceAll { meters: true }], Vec::new());
        for (list, texts) in self.lists().into_iter().enumerate() {
            for (index, text) in texts.iter().enumerate() {
                let read = match list {
                    0 => parse_meter(text).map(|parsed| Update::AddMeter(parsed.value)),
                    1 => parse_group_update(text, GroupCommand::Add, names).map(|parsed| parsed.value),
                    _ => parse_flow(text, FlowCommand::Add, names).map(|parsed| parsed.value),
                };
                match read {
                    Ok(update) => updates.push(update),
                    Err(TextError { column, reason, hint, .. }) => {
                        problems.push(TextProblem { list, index, column, problem: reason, hint });
                    }
                }
            }
        }
        if problems.is_empty() { Ok(updates) } else { Err(problems) }
    }

    /// The pipeline that it comes to.
    ///
    /// # Errors
    /// As [`Self::updates`]; or the first text that a pipeline refuses.
    pub fn judged(&self, names: &dyn Names, options: &[Mapping]) -> Result<PipelineState, Vec<TextProblem>> {
        let updates = self.updates(names)?;
        let mut state = PipelineState::new(&Arc::<Changes>::default());
        // Checked before: mappings that clash are told there.
        let _ = state.add_options(options);
        match state.apply(&updates, 1, Millis::now()) {
            Ok(_) => Ok(state),
            Err(refused) => {
                let mut at = refused.index.saturating_sub(1);
                let mut list = 0;
                for (place, texts) in self.lists().into_iter().enumerate() {
                    list = place;
                    if at < texts.len() {
                        break;
                    }
                    at -= texts.len().min(at);
                }
                let problem = format!("{}: {}", refused.code, refused.reason);
                Err(vec![TextProblem { list, index: at, column: 0, problem, hint: refused.hint }])
            }
        }
    }
}

/// Names of ports and tables as a file has them. A port without a number has one that no other has.
#[derive(Debug, Default)]
pub(crate) struct FileNames {
    ports: HashMap<String, u32>,
    port_names: HashMap<u32, String>,
    tables: HashMap<String, u8>,
}

impl FileNames {
    /// Of a bridge with these ports and tables.
    pub(crate) fn new(bridge: &str, ports: &[PortConfig], tables: Option<&BTreeMap<u8, String>>) -> Self {
        let mut names = Self::default();
        let taken: BTreeSet<u32> = ports.iter().filter_map(|port| port.number).collect();
        let mut free = (1..=limits::PORT_NUMBER_MAX).rev().filter(|number| !taken.contains(number));
        for port in ports {
            let is_local = port.name == bridge && matches!(port.kind, PortKind::Internal { .. } | PortKind::Dummy);
            let number = if is_local { Some(LOCAL) } else { port.number.or_else(|| free.next()) };
            let Some(number) = number else { continue };
            names.ports.insert(port.name.clone(), number);
            names.port_names.insert(number, port.name.clone());
        }
        names.tables = tables.into_iter().flatten().map(|(number, name)| (name.clone(), *number)).collect();
        names
    }
}

impl Names for FileNames {
    fn port(&self, name: &str) -> Option<u32> {
        self.ports.get(name).copied()
    }

    fn port_name(&self, number: u32) -> Option<&str> {
        self.port_names.get(&number).map(String::as_str)
    }

    fn table(&self, name: &str) -> Option<u8> {
        self.tables.get(name).copied()
    }

    fn table_name(&self, number: u8) -> Option<&str> {
        self.tables.iter().find(|(_, own)| **own == number).map(|(name, _)| name.as_str())
    }

    fn ports(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.ports.keys().map(String::as_str))
    }

    fn tables(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.tables.keys().map(String::as_str))
    }
}

/// The program of a bridge as the file has it, with the places of its texts.
#[derive(Debug)]
pub(super) struct ProgramEntry {
    /// Index of the bridge.
    pub(super) bridge: usize,
    pub(super) program: BridgeProgram,
    pub(super) spans: [Vec<Span>; 3],
}

/// The keys of a program.
pub(super) const KEYS: [&str; 6] = ["tables", "tlv_map", "static_macs", "flows", "groups", "meters"];
