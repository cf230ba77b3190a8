//! Groups: mods, descriptions, statistics, features.

use crate::action::{port_32, put_actions, read_actions};
use crate::flow::of_check;
use crate::oxm::{self, Entry, Names, put_entry};
use crate::property::{self, Property, properties, put_property, put_u16};
use crate::wire::{Reader, Result, Writer, refuse, text};
use crate::{Codec, Version};
use vswitch_flow::action::{CheckContext, ListPlace, accept, port};
use vswitch_flow::spec::{BucketPlace, BucketSpec, GroupKind, GroupSpec, HashedFields, Method, Selection, Update};

const BAD_BUCKET: &str = "OFPGMFC_BAD_BUCKET";
/// No group: nothing is watched.
const NO_GROUP: u32 = 0xffff_ffff;
/// All groups.
pub(crate) const ALL_GROUPS: u32 = 0xffff_fffc;
/// The experimenter that defines how groups select (Netronome).
const NETRONOME: u32 = 0x0000_154d;
const SELECTION_METHOD: u32 = 1;

mod bucket_property {
    pub(super) const WEIGHT: u16 = 0;
    pub(super) const WATCH_PORT: u16 = 1;
    pub(super) const WATCH_GROUP: u16 = 2;
}

/// Places of buckets.
mod place {
    pub(super) const FIRST: u32 = 0xffff_fffd;
    pub(super) const LAST: u32 = 0xffff_fffe;
    pub(super) const ALL: u32 = 0xffff_ffff;
}

/// What a group mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// Adds a group.
    Add,
    /// Changes a group.
    Modify,
    /// Adds or changes it (`--may-create`).
    AddOrModify,
    /// Deletes a group, or all.
    Delete,
    /// Adds buckets. Only in OpenFlow 1.5.
    InsertBuckets,
    /// Removes buckets. Only in OpenFlow 1.5.
    RemoveBuckets,
}

impl GroupCommand {
    const NUMBERS: [(Self, u16); 6] = [
        (Self::Add, 0),
        (Self::Modify, 1),
        (Self::Delete, 2),
        (Self::InsertBuckets, 3),
        (Self::RemoveBuckets, 5),
        (Self::AddOrModify, 0x8000),
    ];

    fn from_number(number: u16, version: Version) -> Result<Self> {
        let buckets = |command: Self| matches!(command, Self::InsertBuckets | Self::RemoveBuckets);
        let served = |command: &Self| version == Version::V15 || !buckets(*command);
        let found = Self::NUMBERS.into_iter().find(|(_, other)| *other == number).map(|(command, _)| command);
        match found.filter(served) {
            Some(command) => Ok(command),
            None => refuse("OFPGMFC_BAD_COMMAND", format!("group mods have no command {number:#x}")),
        }
    }

    fn number(self) -> u16 {
        Self::NUMBERS.into_iter().find(|(other, _)| *other == self).map_or(0, |(_, number)| number)
    }
}

/// Adds, changes or deletes groups or their buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What it does.
    pub command: GroupCommand,
    /// The group. Its id alone counts where groups are deleted; 0xfffffffc: all.
    pub spec: GroupSpec,
    /// The bucket to insert before, or to remove; 0xfffffffd: first, 0xfffffffe: last, 0xffffffff:
    /// all.
    pub place: u32,
}

impl GroupMod {
    /// What it asks the switch for. Actions are checked and in their normal form.
    ///
    /// # Errors
    /// What Open vSwitch refuses of it, whatever groups there are.
    pub fn update(&self) -> Result<Update> {
        let id = self.spec.id;
        match self.command {
            GroupCommand::Add => Ok(Update::AddGroup(self.checked()?)),
            GroupCommand::Modify => Ok(Update::ModifyGroup { spec: self.checked()?, may_create: false }),
            GroupCommand::AddOrModify => Ok(Update::ModifyGroup { spec: self.checked()?, may_create: true }),
            GroupCommand::Delete => Ok(Update::DeleteGroups((id != ALL_GROUPS).then_some(id))),
            GroupCommand::InsertBuckets => {
                let buckets = accepted(&self.spec.buckets)?;
                buckets.iter().try_for_each(|bucket| bucket.check(None))?;
                Update::insert_buckets(id, self.bucket_place()?, buckets)
            }
            GroupCommand::RemoveBuckets => Ok(Update::RemoveBuckets { group: id, place: self.bucket_place()? }),
        }
    }

    fn checked(&self) -> Result<GroupSpec> {
        let spec = GroupSpec { buckets: accepted(&self.spec.buckets)?, ..self.spec.clone() };
        spec.check()?;
        Ok(spec)
    }

    fn bucket_place(&self) -> Result<BucketPlace> {
        Ok(match self.place {
            place::FIRST => BucketPlace::First,
            place::LAST => BucketPlace::Last,
            place::ALL => BucketPlace::All,
            id => BucketPlace::before(id)?,
        })
    }

    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let (command, kind) = (input.u16()?, input.u8()?);
        input.skip(1)?;
        let id = input.u32()?;
        let command = GroupCommand::from_number(command, codec.version)?;
        let kind = read_kind(kind)?;
        let (mut place, mut selection) = (place::ALL, Selection::Default);
        let buckets = match codec.version {
            Version::V13 => read_buckets_13(codec, input)?,
            Version::V15 => {
                let len = usize::from(input.u16()?);
                input.skip(2)?;
                place = input.u32()?;
                let buckets = read_buckets_15(codec, &mut input.part(len, "OFPBRC_BAD_LEN")?)?;
                selection = read_selection(kind, input)?;
                buckets
            }
        };
        Ok(Self { command, spec: GroupSpec { id, kind, selection, buckets }, place })
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) -> Result<()> {
        out.u16(self.command.number());
        out.u8(kind_number(self.spec.kind));
        out.u8(0);
        out.u32(self.spec.id);
        if codec.version == Version::V13 {
            return put_buckets(codec, &self.spec, out);
        }
        let at = out.len();
        out.u32(0);
        out.u32(self.place);
        put_buckets(codec, &self.spec, out)?;
        out.length(at, at + 8);
        put_selection(codec, &self.spec.selection, out)
    }
}

/// Buckets with checked actions in their normal form.
fn accepted(buckets: &[BucketSpec]) -> Result<Vec<BucketSpec>> {
    let context = CheckContext { matching: None, place: ListPlace::Bucket };
    let accepted = buckets.iter().map(|bucket| {
        let actions = accept(bucket.actions.to_vec(), &context).map_err(of_check)?;
        Ok(BucketSpec { actions: actions.into(), ..bucket.clone() }.normal())
    });
    accepted.collect()
}

fn read_kind(number: u8) -> Result<GroupKind> {
    Ok(match number {
        0 => GroupKind::All,
        1 => GroupKind::Select,
        2 => GroupKind::Indirect,
        3 => GroupKind::FastFailover,
        _ => return refuse("OFPGMFC_BAD_TYPE", format!("groups have no type {number}")),
    })
}

const fn kind_number(kind: GroupKind) -> u8 {
    match kind {
        GroupKind::All => 0,
        GroupKind::Select => 1,
        GroupKind::Indirect => 2,
        GroupKind::FastFailover => 3,
    }
}

fn watched_port(number: u32) -> Result<Option<u32>> {
    Ok(Some(port_32(number, BAD_BUCKET)?).filter(|port| *port != port::NONE))
}

fn watched_group(number: u32) -> Option<u32> {
    (number != NO_GROUP).then_some(number)
}

fn read_buckets_13(codec: Codec, input: &mut Reader<'_>) -> Result<Vec<BucketSpec>> {
    let mut buckets = Vec::new();
    while !input.is_empty() {
        let len = usize::from(input.u16()?);
        if len < 16 || !len.is_multiple_of(8) || len - 2 > input.len() {
            return refuse(BAD_BUCKET, format!("a bucket of {len} bytes"));
        }
        let mut body = input.part(len - 2, BAD_BUCKET)?;
        let (weight, port, group) = (body.u16()?, body.u32()?, body.u32()?);
        body.skip(4)?;
        buckets.push(BucketSpec {
            id: u32::try_from(buckets.len()).unwrap_or(u32::MAX),
            weight,
            watch_port: watched_port(port)?,
            watch_group: watched_group(group),
            actions: read_actions(codec, &mut body)?.into(),
        });
    }
    Ok(buckets)
}

fn read_buckets_15(codec: Codec, input: &mut Reader<'_>) -> Result<Vec<BucketSpec>> {
    let mut buckets = Vec::new();
    while !input.is_empty() {
        let len = usize::from(input.u16()?);
        if len < 8 || !len.is_multiple_of(8) || len - 2 > input.len() {
            return refuse(BAD_BUCKET, format!("a bucket of {len} bytes"));
        }
        let mut body = input.part(len - 2, BAD_BUCKET)?;
        let (actions, id) = (usize::from(body.u16()?), body.u32()?);
        let actions = read_actions(codec, &mut body.part(actions, BAD_BUCKET)?)?.into();
        let mut bucket = BucketSpec { id, weight: 0, watch_port: None, watch_group: None, actions };
        for property in properties(body) {
            let property = property?;
            match property.kind {
                bucket_property::WEIGHT => bucket.weight = property.number_u16()?,
                bucket_property::WATCH_PORT => bucket.watch_port = watched_port(property.number_u32()?)?,
                bucket_property::WATCH_GROUP => bucket.watch_group = watched_group(property.number_u32()?),
                kind => return refuse("OFPBPC_BAD_TYPE", format!("buckets have no property {kind}")),
            }
        }
        buckets.push(bucket);
    }
    Ok(buckets)
}

fn put_buckets(codec: Codec, spec: &GroupSpec, out: &mut Writer) -> Result<()> {
    spec.buckets.iter().try_for_each(|bucket| match codec.version {
        Version::V13 => put_bucket_13(codec, bucket, out),
        Version::V15 => put_bucket_15(codec, bucket, spec.kind == GroupKind::Select, out),
    })
}

fn put_bucket_13(codec: Codec, bucket: &BucketSpec, out: &mut Writer) -> Result<()> {
    let start = out.len();
    out.u16(0);
    out.u16(bucket.weight);
    out.u32(bucket.watch_port.unwrap_or(port::NONE));
    out.u32(bucket.watch_group.unwrap_or(NO_GROUP));
    out.zeros(4);
    put_actions(codec, &bucket.actions, out)?;
    out.length(start, start);
    Ok(())
}

fn put_bucket_15(codec: Codec, bucket: &BucketSpec, select: bool, out: &mut Writer) -> Result<()> {
    let start = out.len();
    out.u32(0);
    out.u32(bucket.id);
    put_actions(codec, &bucket.actions, out)?;
    out.length(start + 2, start + 8);
    if select || bucket.weight != 0 {
        put_u16(bucket_property::WEIGHT, bucket.weight, out);
    }
    if let Some(port) = bucket.watch_port {
        put_property(bucket_property::WATCH_PORT, &port.to_be_bytes(), out);
    }
    if let Some(group) = bucket.watch_group {
        put_property(bucket_property::WATCH_GROUP, &group.to_be_bytes(), out);
    }
    out.length(start, start);
    Ok(())
}

fn read_selection(kind: GroupKind, input: &mut Reader<'_>) -> Result<Selection> {
    let mut selection = Selection::Default;
    let rest = input.rest();
    for property in properties(Reader::new(rest, "OFPBPC_BAD_LEN")) {
        let Property { kind: number, mut data } = property?;
        if number != property::EXPERIMENTER {
            return refuse("OFPBPC_BAD_TYPE", format!("groups have no property {number}"));
        }
        let (experimenter, what) = (data.u32()?, data.u32()?);
        if (experimenter, what) != (NETRONOME, SELECTION_METHOD) {
            let reason = format!("property {what} of experimenter {experimenter:#x} is not served");
            return refuse("OFPBPC_BAD_EXPERIMENTER", reason);
        }
        data.skip(4)?;
        let (method, param) = (text(data.take(16)?), data.u64()?);
        let method = match &*method {
            "hash" => Method::Hash,
            "dp_hash" => Method::DpHash,
            "maglev" => Method::Maglev,
            other => return refuse("OFPBPC_BAD_VALUE", format!("groups do not select by {other:?}")),
        };
        let mut fields = HashedFields::default();
        let there = !data.is_empty();
        while !data.is_empty() {
            let Entry { field, value, mask } = oxm::read_entry(&mut data)??;
            // The value is the mask; a mask of its own narrows it.
            fields.add(field, value & mask)?;
        }
        selection = Selection::new(kind, Some(method), Some(param), there.then_some(fields))?;
    }
    Ok(selection)
}

fn put_selection(codec: Codec, selection: &Selection, out: &mut Writer) -> Result<()> {
    let none: &[_] = &[];
    let (method, param, fields) = match selection {
        Selection::Default => return Ok(()),
        Selection::DpHash { param } => ("dp_hash", *param, none),
        Selection::Maglev { param } => ("maglev", *param, none),
        Selection::Hash { param, fields } => ("hash", *param, &**fields),
    };
    let mut data = Writer::default();
    data.u32(NETRONOME);
    data.u32(SELECTION_METHOD);
    data.zeros(4);
    data.text(method, 16);
    data.u64(param);
    for (field, mask) in fields {
        put_entry(codec, Entry { field: *field, value: *mask, mask: field.exact_mask() }, Names::Version, &mut data)?;
    }
    put_property(property::EXPERIMENTER, &data.0, out);
    Ok(())
}

/// Reads a group's description.
pub(crate) fn read_description(codec: Codec, input: &mut Reader<'_>) -> Result<GroupSpec> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2), "OFPBRC_BAD_LEN")?;
    let kind = read_kind(body.u8()?)?;
    body.skip(1)?;
    let id = body.u32()?;
    if codec.version == Version::V13 {
        return Ok(GroupSpec { id, kind, selection: Selection::Default, buckets: read_buckets_13(codec, &mut body)? });
    }
    let len = usize::from(body.u16()?);
    body.skip(6)?;
    let buckets = read_buckets_15(codec, &mut body.part(len, "OFPBRC_BAD_LEN")?)?;
    Ok(GroupSpec { id, kind, selection: read_selection(kind, &mut body)?, buckets })
}

/// Writes the same.
pub(crate) fn put_description(codec: Codec, spec: &GroupSpec, out: &mut Writer) -> Result<()> {
    let start = out.len();
    out.u16(0);
    out.u8(kind_number(spec.kind));
    out.u8(0);
    out.u32(spec.id);
    if codec.version == Version::V13 {
        put_buckets(codec, spec, out)?;
    } else {
        let at = out.len();
        out.zeros(8);
        put_buckets(codec, spec, out)?;
        out.length(at, at + 8);
        put_selection(codec, &spec.selection, out)?;
    }
    out.length(start, start);
    Ok(())
}
