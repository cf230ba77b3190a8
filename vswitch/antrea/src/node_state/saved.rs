//! A node state on disk: the messages as they came, and numbers. What they come to is compiled
//! anew.

use super::plan::check_name;
use super::{NodeState, salvage};
use crate::desired::Entry;
use crate::ids::IdsMessage;
use crate::limits::OBJECTS_MAX;
use crate::object::Object;
use crate::{Cidr, Claim, Code, Ids, Key, ObjectKind, Problems};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// The field of [`KeptMessage::objects`].
const OBJECTS: u32 = 2;

/// What is on the disk.
#[derive(Clone, PartialEq, prost::Message)]
struct KeptMessage {
    #[prost(message, optional, tag = "1")]
    node: Option<v1::NodeConfig>,
    #[prost(message, repeated, tag = "2")]
    objects: Vec<v1::Object>,
    #[prost(message, optional, tag = "3")]
    ids: Option<IdsMessage>,
    #[prost(bool, tag = "4")]
    gate_open: bool,
    #[prost(uint64, tag = "5")]
    round: u64,
    #[prost(uint64, tag = "6")]
    committed_unix_ms: u64,
    /// Forms that are in force though newer ones were written, which are wrong.
    #[prost(message, repeated, tag = "7")]
    before: Vec<v1::Object>,
    /// Policies that there was no room for.
    #[prost(message, repeated, tag = "8")]
    withheld: Vec<v1::ObjectRef>,
    /// Who has what several claim.
    #[prost(message, repeated, tag = "9")]
    holders: Vec<HolderMessage>,
}

/// Who has something: the object, and which of its claims it is.
#[derive(Clone, PartialEq, prost::Message)]
struct HolderMessage {
    #[prost(message, optional, tag = "1")]
    object: Option<v1::ObjectRef>,
    #[prost(string, tag = "2")]
    claim: String,
}

/// A node state at one moment. It shares all that is large with the node state.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Packets pass.
    pub gate_open: bool,
    /// Last round that was committed.
    pub round: u64,
    /// When.
    pub committed_unix_ms: u64,
    /// The Node; none: it was not said.
    pub node: Option<v1::NodeConfig>,
    ids: Ids,
    entries: Vec<Arc<Entry>>,
    holders: Vec<HolderMessage>,
}

/// A node state as it was.
#[derive(Debug)]
pub struct Kept {
    /// The Node; none: it was not said.
    pub node: Option<v1::NodeConfig>,
    /// Packets passed.
    pub gate_open: bool,
    /// Last round that was committed.
    pub round: u64,
    /// When.
    pub committed_unix_ms: u64,
    ids: Ids,
    pub(super) objects: Vec<v1::object::Object>,
    before: Vec<v1::Object>,
    withheld: Vec<v1::ObjectRef>,
    holders: Vec<HolderMessage>,
}

/// Why bytes are no node state.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// They are no message.
    #[error("it is no state of a Node: {0}")]
    Decode(#[from] prost::DecodeError),
    /// Numbers contradict each other.
    #[error("its numbers contradict each other")]
    Ids,
    /// An object is of a kind that is not known.
    #[error("object {0} is of a kind that this version does not know")]
    Object(usize),
    /// There are too many.
    #[error("it has {0} objects, at most {OBJECTS_MAX}")]
    Objects(usize),
}

impl Snapshot {
    /// As bytes, for [`Kept::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let head = KeptMessage {
            node: self.node.clone(),
            objects: Vec::new(),
            ids: Some(self.ids.to_proto()),
            gate_open: self.gate_open,
            round: self.round,
            committed_unix_ms: self.committed_unix_ms,
            before: self
                .entries
                .iter()
                .filter(|entry| entry.newest.is_some())
                .map(|entry| v1::Object { object: Some(entry.message.clone()) })
                .collect(),
            withheld: self
                .entries
                .iter()
                .filter(|entry| entry.withheld)
                .map(|entry| Object::key_of(&entry.message).to_proto())
                .collect(),
            holders: self.holders.clone(),
        };
        let whole = |len: usize| key_len(OBJECTS) + encoded_len_varint(len as u64) + len;
        let objects: usize = self.entries.iter().map(|entry| whole(entry.written().encoded_len())).sum();
        let mut bytes = Vec::with_capacity(head.encoded_len() + objects);
        bytes.extend(head.encode_to_vec());
        // Without a copy of each.
        for entry in &self.entries {
            encode_key(OBJECTS, WireType::LengthDelimited, &mut bytes);
            encode_varint(entry.written().encoded_len() as u64, &mut bytes);
            entry.written().encode(&mut bytes);
        }
        bytes
    }
}

impl Kept {
    /// Reads what [`Snapshot::encode`] wrote.
    ///
    /// # Errors
    /// When it is something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, KeptError> {
        let KeptMessage { node, objects, ids, gate_open, round, committed_unix_ms, before, withheld, holders } =
            KeptMessage::decode(bytes)?;
        // Policies and groups are not counted when they come.
        if objects.len() > 2 * OBJECTS_MAX {
            return Err(KeptError::Objects(objects.len()));
        }
        let ids = ids.and_then(Ids::read).ok_or(KeptError::Ids)?;
        let objects = objects.into_iter().enumerate();
        let objects: Result<Vec<_>, _> =
            objects.map(|(number, object)| object.object.ok_or(KeptError::Object(number))).collect();
        Ok(Self { node, gate_open, round, committed_unix_ms, ids, objects: objects?, before, withheld, holders })
    }

    /// Numbers were given out after it was written, and objects may have been: see [`Ids`].
    pub fn is_behind(&mut self) {
        self.ids.skip_unknown();
    }

    /// How many objects there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// There were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl NodeState {
    /// All that is to be kept.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            gate_open: false,
            round: 0,
            committed_unix_ms: 0,
            node: self.node.as_ref().map(|(config, _)| config.clone()),
            ids: self.ids.clone(),
            entries: self.desired.all().map(|(_, entry)| Arc::clone(entry)).collect(),
            holders: self.desired.contested().iter().map(holder).chain(self.contested_prefixes()).collect(),
        }
    }

    /// Prefixes of peers that have an effect, and that others want.
    fn contested_prefixes(&self) -> impl Iterator<Item = HolderMessage> {
        let is_contested = |(cidr, key): &&(Cidr, Key)| {
            let others = self.desired.overlapping(cidr);
            others.iter().any(|(_, other)| other.kind == ObjectKind::PeerNode && *other != key)
        };
        let contested = self.desired.peer_prefixes().iter().filter(is_contested);
        contested.map(|(cidr, key)| HolderMessage { object: Some(key.to_proto()), claim: cidr.to_string() })
    }

    /// Puts numbers and objects back into a new node state; [`Self::plan_node`] says what they come
    /// to. Returns the objects that this version refuses: policies and groups are in force as when
    /// they are written.
    pub fn put_back(&mut self, kept: Kept) -> Vec<(Key, Problems)> {
        self.ids = kept.ids;
        let mut refused = Vec::new();
        let before = kept.before.into_iter().filter_map(|before| before.object);
        let mut before: HashMap<Key, v1::object::Object> =
            before.map(|message| (Object::key_of(&message), message)).collect();
        let withheld: HashSet<Key> = kept.withheld.iter().filter_map(key).collect();
        for message in kept.objects {
            let key = Object::key_of(&message);
            let mut problems = Problems::default();
            check_name(&key, &mut problems);
            let is_named = problems.is_empty();
            let object = Object::read(&message, &mut problems);
            if self.desired.get(&key).is_some() {
                problems.push(Code::Duplicate, "name", format!("{key} is there twice"));
                refused.push((key, problems));
                continue;
            }
            let entry = match object {
                Some(object) if problems.is_empty() => Some(Entry::new(message, object)),
                object if is_named => {
                    let before = before.remove(&key);
                    let before =
                        before.and_then(|message| Some(Entry::new(message.clone(), salvage::right(&message)?)));
                    salvage::entry(&message, object, problems.clone(), before.as_ref())
                }
                _ => None,
            };
            match entry {
                Some(entry) if withheld.contains(&key) => {
                    let mut limit = Problems::default();
                    limit.push(Code::Limit, "rules", "there was no room for it when it was written");
                    drop(self.desired.set(&key, Some(Arc::new(super::judge::withheld(&entry, limit)))));
                }
                Some(entry) => drop(self.desired.set(&key, Some(Arc::new(entry)))),
                None => refused.push((key, problems)),
            }
        }
        let mut prefixes = BTreeSet::new();
        for holder in kept.holders {
            let Some(key) = holder.object.as_ref().and_then(key) else { continue };
            let peer = self.desired.peer_node(&key.name).filter(|_| key.kind == ObjectKind::PeerNode);
            let mut cidrs = peer.into_iter().flat_map(|peer| &peer.pod_cidrs);
            if let Some(cidr) = cidrs.find(|cidr| cidr.to_string() == holder.claim) {
                prefixes.insert((*cidr, key));
                continue;
            }
            let claims = self.desired.get(&key).map(|entry| entry.object.claims()).unwrap_or_default();
            if let Some((claim, _)) = claims.into_iter().find(|(claim, _)| claim.to_string() == holder.claim) {
                self.desired.set_holder(&claim, Some(key));
            }
        }
        self.desired.set_peer_prefixes(prefixes);
        refused
    }
}

fn key(told: &v1::ObjectRef) -> Option<Key> {
    Some(Key::new(ObjectKind::read(told.kind())?, &told.name))
}

fn holder((claim, key): (&Claim, &Key)) -> HolderMessage {
    HolderMessage { object: Some(key.to_proto()), claim: claim.to_string() }
}
