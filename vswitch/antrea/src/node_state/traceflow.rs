//! Traceflows that run: owners of flows beside the objects that agents write.

use super::{NodeState, Plan, Undo, result};
use crate::problem::{Code, Problems};
use crate::store::Counts;
use crate::traceflow::{self, Seen, TAG_MAX, Traceflow, TraceflowReport};
use crate::{CompiledObject, Key};
use std::collections::BTreeSet;
use std::sync::Arc;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;

/// Why a Traceflow does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceflowRefused {
    /// What is wrong with it.
    Wrong(Problems),
    /// Its tag or its name is in use: in which words.
    Exists(String),
    /// All tags are in use.
    Exhausted,
}

/// What objects wrote before, the last change last.
pub(super) type Replaced = Vec<(Key, Option<Arc<CompiledObject>>)>;

impl NodeState {
    /// Those that run, in order of their tags.
    pub fn traceflows(&self) -> impl Iterator<Item = &Arc<Traceflow>> {
        self.traceflows.values()
    }

    /// Plans the flows of one more. `dice` is any number: see `TraceflowPacket.source_port`. The
    /// ports are to be set.
    ///
    /// # Errors
    /// When it cannot be; then nothing has changed.
    pub fn plan_traceflow(
        &mut self,
        message: &v1::Traceflow,
        dice: u32,
    ) -> Result<(Plan, Arc<Traceflow>), TraceflowRefused> {
        let mut problems = Problems::default();
        super::plan::check_name(&Key::new(crate::ObjectKind::Traceflow, &message.name), &mut problems);
        let tag = self.tag(message, &mut problems)?;
        if let Some(other) = self.traceflows().find(|other| other.message.name == message.name && problems.is_empty()) {
            return Err(TraceflowRefused::Exists(format!(
                "a Traceflow {:?} is running, with tag {}",
                message.name, other.tag
            )));
        }
        let Some(facts) = self.facts() else {
            problems.push(Code::Missing, "", "there is no Node");
            return Err(TraceflowRefused::Wrong(problems));
        };
        let read = traceflow::read(message, tag, dice, &facts, &mut problems);
        let Some(read) = read.filter(|_| problems.is_empty()).map(Arc::new) else {
            return Err(TraceflowRefused::Wrong(problems));
        };
        let mut undo = self.remember();
        if let Err(problem) = self.ids.claim_cookie(&read.key()) {
            problems.add(problem);
            return Err(TraceflowRefused::Wrong(problems));
        }
        self.traceflows.insert(tag, Arc::clone(&read));
        let done = self.compile(BTreeSet::new(), &mut undo);
        // Only here: what is a mistake of ours must not stand in the way of agents' objects.
        let faults = self.store.compiled(&read.key()).map(|compiled| compiled.faults().clone()).unwrap_or_default();
        match done {
            Ok(done) if faults.is_empty() => Ok((plan(done, undo), read)),
            Ok(_) => {
                self.undo(undo);
                Err(TraceflowRefused::Wrong(faults))
            }
            Err(refused) => {
                self.undo(undo);
                refused.into_values().for_each(|refused| problems.extend(refused));
                Err(TraceflowRefused::Wrong(problems))
            }
        }
    }

    /// Plans the end of one; None: it is over already.
    pub fn plan_end_of_traceflow(&mut self, traceflow: &Arc<Traceflow>) -> Option<Plan> {
        if !self.traceflows.get(&traceflow.tag).is_some_and(|running| Arc::ptr_eq(running, traceflow)) {
            return None;
        }
        let mut undo = self.remember();
        self.traceflows.remove(&traceflow.tag);
        let key = traceflow.key();
        let old = self.store.replace(&key, None);
        self.ids.release_cookie(&key);
        undo.parts.push((key, old));
        match self.compile(BTreeSet::new(), &mut undo) {
            Ok(done) => Some(plan(done, undo)),
            Err(_) => {
                // What goes is in nobody's way.
                self.undo(undo);
                None
            }
        }
    }

    /// What a packet with the mark of one that runs tells; None: it is over.
    #[must_use]
    pub fn tell_traceflow(&self, traceflow: &Arc<Traceflow>, seen: &Seen<'_>) -> Option<TraceflowReport> {
        let running = self.traceflows.get(&traceflow.tag).filter(|running| Arc::ptr_eq(running, traceflow))?;
        Some(running.tell(seen, &self.facts()?))
    }

    /// The tag that it is to have.
    fn tag(&self, message: &v1::Traceflow, problems: &mut Problems) -> Result<u8, TraceflowRefused> {
        if message.tag == 0 && message.role() == v1::TraceflowRole::Receiver {
            let problem =
                crate::Problem::new(Code::Missing, "tag", "a receiver has the sender's tag, on all Nodes the same");
            problems.add(problem.hint(format!("give it to all of them: 1 to {TAG_MAX}")));
            return Ok(1);
        }
        if message.tag == 0 {
            return (1..=TAG_MAX).find(|tag| !self.traceflows.contains_key(tag)).ok_or(TraceflowRefused::Exhausted);
        }
        let Some(tag) = u8::try_from(message.tag).ok().filter(|tag| *tag <= TAG_MAX) else {
            problems.push(Code::Range, "tag", format!("{}: 1 to {TAG_MAX}, or 0 for any", message.tag));
            return Ok(1);
        };
        match self.traceflows.get(&tag) {
            Some(other) => {
                Err(TraceflowRefused::Exists(format!("tag {tag} is in use by Traceflow {:?}", other.message.name)))
            }
            None => Ok(tag),
        }
    }

    fn remember(&self) -> Undo {
        Undo { ids: Some(self.ids.clone()), traceflows: Some(self.traceflows.clone()), ..Undo::default() }
    }

    /// Compiles those that run anew: what all others write may have changed, and with it where
    /// packets are dropped.
    pub(super) fn compile_traceflows(&mut self, replaced: &mut Replaced) {
        let running: Vec<Arc<Traceflow>> = self.traceflows.values().cloned().collect();
        if running.is_empty() {
            return;
        }
        let drops = traceflow::drops(&self.store);
        for traceflow in running {
            let key = traceflow.key();
            let mut compiled = CompiledObject::new(&key, &self.ids);
            let Some(facts) = self.facts() else { return };
            traceflow::compile(&traceflow, &facts, &drops, &mut compiled);
            let before = self.store.replace(&key, Some(Arc::new(compiled)));
            replaced.push((key, before));
        }
    }
}

fn plan((updates, counts): (Vec<Update>, Counts), undo: Undo) -> Plan {
    Plan { updates, flush: Vec::new(), result: result::of(Vec::new(), true, counts, false), undo }
}
