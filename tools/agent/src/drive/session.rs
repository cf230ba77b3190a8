//! What a switch has been told.

use super::client::Client;
use super::{DriveError, INCREMENT_LEN_MAX, reduced};
use crate::problem::{Origin, Problem};
use crate::project::{Key, Projected, Projection};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use vswitch_proto::antrea::v1;

/// A switch, and what it has been told.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    /// Of the last sync that was committed.
    pub(super) round: u64,
    pub(super) gate_open: bool,
    pub(super) node: v1::NodeConfig,
    /// What it is not to be, as the switch said.
    pub(super) refused_node: Option<v1::NodeConfig>,
    /// It was told what the Node is without what of it cannot be.
    pub(super) is_reduced: bool,
    /// What the switch has.
    pub(super) told: BTreeMap<Key, Projected>,
    /// What it refused as it was. A policy that is refused isolates its Pods all the same: the
    /// switch may have it.
    pub(super) refused: BTreeMap<Key, Projected>,
    /// What it refused to let go.
    pub(super) kept: BTreeSet<Key>,
    /// The last write was refused as a whole: nothing goes but all of it.
    pub(super) is_behind: bool,
    /// There was none yet: the documents' standing did not allow it.
    pub(super) is_partial: bool,
    pub(super) checked: Instant,
}

/// What a call is about.
#[derive(Default)]
pub(super) struct Change<'a> {
    pub(super) put: Vec<(&'a Key, &'a Projected)>,
    pub(super) gone: Vec<Key>,
}

impl Session {
    pub(super) fn new(client: Client, node: v1::NodeConfig) -> Self {
        Self {
            client,
            round: 0,
            gate_open: false,
            node,
            refused_node: None,
            is_reduced: false,
            told: BTreeMap::new(),
            refused: BTreeMap::new(),
            kept: BTreeSet::new(),
            is_behind: false,
            is_partial: false,
            checked: Instant::now(),
        }
    }

    /// Says what the Node is, if that is another than before. What the switch refuses is told; the
    /// Node stays what it was.
    pub(super) async fn renew(
        &mut self,
        node: &v1::NodeConfig,
        origin: &Origin,
        retries: bool,
    ) -> Result<Vec<Problem>, DriveError> {
        if self.node == *node || (!retries && self.refused_node.as_ref() == Some(node)) {
            return Ok(Vec::new());
        }
        match self.client.initialize(node, origin, self.round).await {
            Ok(()) => {
                self.node = node.clone();
                (self.refused_node, self.is_reduced) = (None, false);
                Ok(Vec::new())
            }
            Err(DriveError::Node(problems)) => {
                let is_news = self.refused_node.as_ref() != Some(node);
                self.refused_node = Some(node.clone());
                // What never was right as a whole is not kept as a whole.
                if self.is_reduced && is_news {
                    let (has, left_out) = reduced::initialize(&mut self.client, node, origin, self.round).await?;
                    self.node = has;
                    return Ok(left_out);
                }
                Ok(problems)
            }
            Err(error) => Err(error),
        }
    }

    /// What differs from what the switch has; what it refused counts as told until it is another or
    /// is tried again.
    pub(super) fn change<'a>(&self, projection: &'a Projection, retries: bool) -> Change<'a> {
        let is_news = |key: &Key, projected: &Projected| match self.refused.get(key) {
            Some(refused) => retries || refused.object != projected.object,
            None => self.told.get(key).is_none_or(|told| told.object != projected.object),
        };
        let put = projection.objects.iter().filter(|(key, projected)| is_news(key, projected)).collect();
        let gone = self.gone(projection).into_iter().filter(|key| retries || !self.kept.contains(key));
        Change { put, gone: gone.collect() }
    }

    /// What the switch has, or may have although it was refused, and is not to have.
    pub(super) fn gone(&self, projection: &Projection) -> Vec<Key> {
        let keys: BTreeSet<&Key> = self.told.keys().chain(self.refused.keys()).collect();
        keys.into_iter().filter(|key| !projection.objects.contains_key(*key)).cloned().collect()
    }

    /// An object that others may have been refused for, or that they wait for, goes or changes: its
    /// address, its port, its name.
    pub(super) fn frees(&self, projection: &Projection) -> bool {
        let kinds = [v1::Kind::PeerNode, v1::Kind::Pod, v1::Kind::Service].map(|kind| kind as i32);
        let is_other = |(key, told): (&Key, &Projected)| {
            // (What was refused itself frees nothing.)
            kinds.contains(&key.0)
                && !self.refused.contains_key(key)
                && projection.objects.get(key).is_none_or(|now| now.object != told.object)
        };
        !self.refused.is_empty() && self.told.iter().any(is_other)
    }

    /// Something of what was refused as a whole is not wanted any more: the rest may be good.
    pub(super) fn is_mended(&self, projection: &Projection) -> bool {
        let is_over = |key: &Key| !self.told.contains_key(key) && !projection.objects.contains_key(key);
        self.is_behind && self.refused.keys().any(is_over)
    }

    /// Takes note of what was refused as a whole: removals, too.
    pub(super) fn refuse<'a>(&mut self, put: impl Iterator<Item = (&'a Key, &'a Projected)>, gone: Vec<Key>) {
        self.refused.extend(put.map(|(key, projected)| (key.clone(), projected.clone())));
        self.kept.extend(gone.iter().cloned());
        let gone = gone.into_iter().filter_map(|key| self.told.get(&key).map(|was| (key, was.clone())));
        self.refused.extend(gone);
    }

    /// Takes note of what was written. A refused object is what it was before.
    pub(super) fn adopt(
        &mut self,
        put: Vec<(&Key, &Projected)>,
        gone: Vec<Key>,
        refused: &BTreeSet<Key>,
        is_all: bool,
    ) {
        if is_all {
            let put: BTreeSet<&Key> = put.iter().map(|(key, _)| *key).collect();
            self.told.retain(|key, _| put.contains(key));
            self.refused.clear();
            self.kept.clear();
        }
        for (key, projected) in put {
            self.kept.remove(key);
            if refused.contains(key) {
                self.refused.insert(key.clone(), projected.clone());
            } else {
                self.refused.remove(key);
                self.told.insert(key.clone(), projected.clone());
            }
        }
        for key in gone {
            if refused.contains(&key) {
                self.kept.insert(key.clone());
                let was = self.told.get(&key).cloned();
                self.refused.extend(was.map(|was| (key, was)));
            } else {
                self.kept.remove(&key);
                self.refused.remove(&key);
                self.told.remove(&key);
            }
        }
    }
}

impl Change<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }

    /// The same in parts that are short enough, in order of kinds: none refers to a later one.
    pub(super) fn parts(self) -> Vec<Self> {
        let (mut parts, mut part, mut len) = (Vec::new(), Change::default(), 0);
        for (key, projected) in self.put {
            let more = prost::Message::encoded_len(&projected.object);
            if len + more > INCREMENT_LEN_MAX && !part.put.is_empty() {
                parts.push(std::mem::take(&mut part));
                len = 0;
            }
            len += more;
            part.put.push((key, projected));
        }
        part.gone = self.gone;
        parts.push(part);
        parts
    }

    /// Bytes, about.
    pub(super) fn len(&self) -> usize {
        let put = self.put.iter().map(|(_, projected)| prost::Message::encoded_len(&projected.object));
        put.chain(self.gone.iter().map(|(_, name)| name.len() + 8)).sum()
    }
}
