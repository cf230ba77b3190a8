//! A room on disk: the messages as they came, and numbers. What they come to is compiled anew.

use super::Room;
use super::plan::check_name;
use crate::desired::Entry;
use crate::ids::IdsMessage;
use crate::limits::OBJECTS_MAX;
use crate::object::Object;
use crate::{Code, Ids, Key, Problems};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
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
}

/// A room at one moment. It shares all that is large with the room.
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
}

/// A room as it was.
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
}

/// Why bytes are no room.
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
            ids: Some(self.ids.told()),
            gate_open: self.gate_open,
            round: self.round,
            committed_unix_ms: self.committed_unix_ms,
        };
        let whole = |len: usize| key_len(OBJECTS) + encoded_len_varint(len as u64) + len;
        let objects: usize = self.entries.iter().map(|entry| whole(entry.message.encoded_len())).sum();
        let mut bytes = Vec::with_capacity(head.encoded_len() + objects);
        bytes.extend(head.encode_to_vec());
        // Without a copy of each.
        for entry in &self.entries {
            encode_key(OBJECTS, WireType::LengthDelimited, &mut bytes);
            encode_varint(entry.message.encoded_len() as u64, &mut bytes);
            entry.message.encode(&mut bytes);
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
        let KeptMessage { node, objects, ids, gate_open, round, committed_unix_ms } = KeptMessage::decode(bytes)?;
        if objects.len() > OBJECTS_MAX {
            return Err(KeptError::Objects(objects.len()));
        }
        let ids = ids.and_then(Ids::read).ok_or(KeptError::Ids)?;
        let objects = objects.into_iter().enumerate();
        let objects: Result<Vec<_>, _> =
            objects.map(|(number, object)| object.object.ok_or(KeptError::Object(number))).collect();
        Ok(Self { node, gate_open, round, committed_unix_ms, ids, objects: objects? })
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

impl Room {
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
        }
    }

    /// Puts numbers and objects back into a new room; [`Self::plan_node`] says what they come to. Returns the objects that this version refuses.
    pub fn put_back(&mut self, kept: Kept) -> Vec<(Key, Problems)> {
        self.ids = kept.ids;
        let mut refused = Vec::new();
        for message in kept.objects {
            let key = Object::key_of(&message);
            let mut problems = Problems::default();
            check_name(&key, &mut problems);
            let object = Object::read(&message, &mut problems);
            if self.desired.get(&key).is_some() {
                problems.push(Code::Duplicate, "name", format!("{key} is there twice"));
            }
            match object.filter(|_| problems.is_empty()) {
                Some(object) => drop(self.desired.set(&key, Some(Arc::new(Entry { message, object })))),
                None => refused.push((key, problems)),
            }
        }
        refused
    }
}
