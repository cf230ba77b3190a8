//! What an agent knows, for the next run: a restart is as if it had run on.

use super::Agent;
use crate::health::HealthCheck;
use crate::kinds::{Document, DocumentKey};
use crate::model::Model;
use crate::problem::Origin;
use crate::project::{Key, KnownMemory, Projected, Projection};
use crate::source::Store;
use prost::Message;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vswitch_proto::antrea::v1::{self, Kind};

/// The name of what is known beside what files say.
const REST: &str = "rest.json";

/// What is known beside what files say.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Rest {
    /// The round of the last sync.
    round: Option<u64>,
    node: Option<(Vec<u8>, Origin)>,
    /// Objects that stay as they were, since their documents cannot be told.
    failed: Vec<(Key, Vec<u8>, Origin)>,
    /// Health check NodePorts of such Services.
    #[serde(default)]
    health_checks: BTreeMap<String, HealthCheck>,
    memory: KnownMemory,
    /// Of objects that several documents say, the one that counts.
    counted: Vec<Document>,
    unsettled: BTreeSet<DocumentKey>,
    wrong: BTreeSet<DocumentKey>,
    /// Pods that are held back.
    held: BTreeSet<String>,
    /// Pods that are not new, by name and UID.
    #[serde(default)]
    settled: BTreeSet<(String, String)>,
}

/// Where an agent saves what it knows.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) store: Store,
    /// What is known is what is there.
    pub(super) is_written: bool,
    /// The round of the last sync, of this run or the one before.
    round: Option<u64>,
    rest: Option<Vec<u8>>,
}

impl Agent {
    /// Begins with what an earlier run has saved below `state`, and saves there what this one
    /// knows.
    #[must_use]
    pub fn remembering(mut self, state: &Path) -> Self {
        let mut store = match self.sources.iter().find_map(|source| source.saved_as()) {
            Some(name) => Store::open_named(state, name, &self.node),
            None => Store::open(state, Path::new(&self.place), &self.node),
        };
        self.sources.iter_mut().for_each(|source| source.load(&mut store, REST));
        let is_known = store.names().next().is_some();
        let rest = store.read::<Rest>(REST).map(|(rest, _)| rest).unwrap_or_default();
        self.saved = Some(Saved { store, is_written: true, round: rest.round, rest: None });
        if is_known {
            self.begin(rest);
        }
        self
    }

    fn begin(&mut self, rest: Rest) {
        let object = |(key, bytes, origin): (Key, Vec<u8>, Origin)| {
            Some((key, Projected { object: v1::Object::decode(&bytes[..]).ok()?, origin }))
        };
        let node = rest.node.and_then(|(bytes, origin)| Some((v1::NodeConfig::decode(&bytes[..]).ok()?, origin)));
        let objects = rest.failed.into_iter().filter_map(object).collect();
        let health_checks = rest.health_checks;
        self.projection = Projection { node, objects, health_checks, ..Projection::default() };
        self.memory = rest.memory.into();
        self.model = Model::known(rest.counted, rest.unsettled, rest.wrong);
        (self.held, self.settled) = (rest.held, rest.settled);
        self.take(true);
    }

    /// The round of the last sync that an earlier run has told a switch, if all is known that it
    /// knew.
    pub fn known_round(&self) -> Option<u64> {
        self.saved.as_ref().filter(|saved| saved.store.is_whole()).and_then(|saved| saved.round)
    }

    /// Takes note that a switch has been told everything.
    pub fn synced(&mut self, round: Option<u64>) {
        if let Some(saved) = self.saved.as_mut().filter(|saved| round.is_some() && saved.round != round) {
            (saved.round, saved.is_written) = (round, false);
            self.save();
        }
    }

    /// Saves what has changed.
    pub(super) fn save(&mut self) {
        let Some(mut saved) = self.saved.take() else { return };
        if !saved.is_written && self.counts {
            // What the rest relies on is there before it.
            let mut names = BTreeSet::from([REST.to_owned()]);
            let store = &mut saved.store;
            let mut is_stored = true;
            for source in &mut self.sources {
                is_stored &= source.store(store, &mut names);
            }
            let is_stored = is_stored && store.keep(&names) && store.settle();
            let rest = self.rest(saved.round);
            let bytes = serde_json::to_vec(&rest).ok();
            saved.is_written =
                is_stored && (bytes == saved.rest || saved.store.write(REST, rest) && saved.store.settle());
            if saved.is_written {
                saved.rest = bytes;
            }
        }
        self.saved = Some(saved);
    }

    fn rest(&self, round: Option<u64>) -> Rest {
        // What Pods lack is known when their documents are.
        let Projection { node, objects, failed, health_checks, annotations: _ } = &self.projection;
        let of_failed = |name: &String| failed.contains(&(Kind::Service as i32, name.clone()));
        let health_checks = health_checks.iter().filter(|(name, _)| of_failed(name));
        let failed = failed.iter().filter_map(|key| Some((key, objects.get(key)?)));
        Rest {
            round,
            node: node.as_ref().map(|(node, origin)| (node.encode_to_vec(), origin.clone())),
            failed: failed.map(|(key, of)| (key.clone(), of.object.encode_to_vec(), of.origin.clone())).collect(),
            health_checks: health_checks.map(|(name, check)| (name.clone(), check.clone())).collect(),
            memory: self.memory.known(),
            counted: self.model.counted.values().cloned().collect(),
            unsettled: self.model.unsettled.clone(),
            wrong: self.model.wrong.clone(),
            held: self.held.clone(),
            settled: self.settled.clone(),
        }
    }
}
