//! Groups and buckets.

use super::actions::{Text, actions};
use super::field::{value_message, values};
use super::flow::checked_bucket;
use super::{actions_out, narrow16, wrong};
use std::collections::HashSet;
use vswitch_flow::spec::{BucketPlace, BucketSpec, GroupKind, GroupSpec, Selection};
use vswitch_flow::text::{Names, Parsed, Style, TextError, format_actions};
use vswitch_proto::v1;

/// Number of OpenFlow's largest group (`OFPG_MAX`).
const GROUP_MAX: u32 = 0xffff_ff00;

/// Number of OpenFlow's largest bucket (`OFPG15_BUCKET_MAX`).
const BUCKET_MAX: u32 = 0xffff_feff;

/// A group, and what was odd about it.
pub(in crate::control::services) fn group(
    message: &v1::Group,
    names: &dyn Names,
) -> Result<Parsed<GroupSpec>, TextError> {
    if message.id > GROUP_MAX {
        return Err(wrong("group.id", format!("{:#x} is no group id", message.id), "use 0 to 0xffffff00"));
    }
    let kind = match v1::GroupType::try_from(message.r#type) {
        Ok(v1::GroupType::Unspecified | v1::GroupType::All) => GroupKind::All,
        Ok(v1::GroupType::Select) => GroupKind::Select,
        Ok(v1::GroupType::Indirect) => GroupKind::Indirect,
        Ok(v1::GroupType::FastFailover) => GroupKind::FastFailover,
        Err(_) => return Err(wrong("group.type", format!("{} is no group type", message.r#type), "use 1 to 4")),
    };
    let Parsed { value: buckets, warnings } = buckets(&message.buckets, Some(kind), names)?;
    Ok(Parsed { value: GroupSpec { id: message.id, kind, selection: selection(message, kind)?, buckets }, warnings })
}

fn selection(message: &v1::Group, kind: GroupKind) -> Result<Selection, TextError> {
    let method = v1::SelectionMethod::try_from(message.selection_method);
    if kind != GroupKind::Select && method != Ok(v1::SelectionMethod::Unspecified) {
        return Err(wrong("selection_method", "only select groups have a selection method", "leave it out"));
    }
    let param = message.selection_param;
    match method {
        Ok(v1::SelectionMethod::Unspecified) => Ok(Selection::Default),
        Ok(v1::SelectionMethod::DpHash) => Ok(Selection::DpHash { param }),
        Ok(v1::SelectionMethod::Hash) => {
            let fields = values(&message.selection_fields)?;
            Ok(Selection::Hash { param, fields: fields.into_iter().map(|(field, _, mask)| (field, mask)).collect() })
        }
        Err(_) => Err(wrong("selection_method", format!("{} is no method", message.selection_method), "use 0, 1 or 2")),
    }
}

/// Buckets; ids that are not given are counted from 0. With the kind of their group, what it demands of buckets is checked.
pub(in crate::control::services) fn buckets(
    messages: &[v1::Bucket],
    kind: Option<GroupKind>,
    names: &dyn Names,
) -> Result<Parsed<Vec<BucketSpec>>, TextError> {
    let mut warnings = Vec::new();
    let given: HashSet<u32> = messages.iter().filter_map(|bucket| bucket.id).collect();
    let mut free = (0..=BUCKET_MAX).filter(|id| !given.contains(id));
    let mut buckets = Vec::with_capacity(messages.len());
    for message in messages {
        let id = message.id.or_else(|| free.next()).filter(|id| *id <= BUCKET_MAX);
        let id = id.ok_or_else(|| wrong("bucket.id", "no such bucket id", "use 0 to 0xfffffeff"))?;
        buckets.push(bucket(message, id, kind, names, &mut warnings)?);
    }
    if kind == Some(GroupKind::Indirect) && buckets.len() != 1 {
        let reason = format!("an indirect group has {} buckets", buckets.len());
        return Err(wrong("group.buckets", reason, "give it one"));
    }
    Ok(Parsed { value: buckets, warnings })
}

fn bucket(
    message: &v1::Bucket,
    id: u32,
    kind: Option<GroupKind>,
    names: &dyn Names,
    warnings: &mut Vec<String>,
) -> Result<BucketSpec, TextError> {
    use v1::bucket::Doing;
    if message.weight.is_some() && kind.is_some_and(|kind| kind != GroupKind::Select) {
        return Err(wrong("bucket.weight", format!("bucket {id}: only select groups have weights"), "leave it out"));
    }
    if kind == Some(GroupKind::FastFailover) && message.watch_port.is_none() && message.watch_group.is_none() {
        let reason = format!("bucket {id}: fast failover needs something to watch");
        return Err(wrong("bucket.watch_port", reason, "give watch_port or watch_group"));
    }
    let doing = match &message.doing {
        Some(Doing::Actions(list)) => Text::Typed(list),
        Some(Doing::ActionsText(text)) => Text::Line(text),
        None => Text::None,
    };
    let actions = actions(&doing, names, warnings)?;
    checked_bucket(&actions)?;
    let default = if kind == Some(GroupKind::Select) { 1 } else { 0 };
    Ok(BucketSpec {
        id,
        weight: narrow16("bucket.weight", message.weight.unwrap_or(default))?,
        watch_port: message.watch_port,
        watch_group: message.watch_group,
        actions: actions.into(),
    })
}

/// Which buckets, or where.
pub(in crate::control::services) fn bucket_place(message: Option<&v1::BucketPlace>) -> Result<BucketPlace, TextError> {
    use v1::bucket_place::Place;
    match message.and_then(|message| message.place.as_ref()) {
        Some(Place::First(true)) => Ok(BucketPlace::First),
        Some(Place::Last(true)) => Ok(BucketPlace::Last),
        Some(Place::All(true)) => Ok(BucketPlace::All),
        Some(Place::BucketId(id)) => Ok(BucketPlace::Before(*id)),
        Some(Place::First(false) | Place::Last(false) | Place::All(false)) | None => {
            Err(wrong("place", "it is not said which bucket", "give first, last, all or bucket_id"))
        }
    }
}

/// A group as a message.
pub(in crate::control::services) fn group_message(
    group: &GroupSpec,
    typed: bool,
    style: Style,
    names: &dyn Names,
) -> v1::Group {
    let kind = match group.kind {
        GroupKind::All => v1::GroupType::All,
        GroupKind::Select => v1::GroupType::Select,
        GroupKind::Indirect => v1::GroupType::Indirect,
        GroupKind::FastFailover => v1::GroupType::FastFailover,
    };
    let (method, param, fields) = match &group.selection {
        Selection::Default => (v1::SelectionMethod::Unspecified, 0, Vec::new()),
        Selection::DpHash { param } => (v1::SelectionMethod::DpHash, *param, Vec::new()),
        Selection::Hash { param, fields } => {
            let fields = fields.iter().map(|(field, mask)| value_message(*field, *mask, *mask)).collect();
            (v1::SelectionMethod::Hash, *param, fields)
        }
    };
    let select = group.kind == GroupKind::Select;
    v1::Group {
        id: group.id,
        r#type: kind.into(),
        selection_method: method.into(),
        selection_param: param,
        selection_fields: fields,
        buckets: group.buckets.iter().map(|bucket| bucket_message(bucket, select, typed, style, names)).collect(),
    }
}

fn bucket_message(bucket: &BucketSpec, select: bool, typed: bool, style: Style, names: &dyn Names) -> v1::Bucket {
    use v1::bucket::Doing;
    let doing = if typed {
        Doing::Actions(actions_out::list(&bucket.actions))
    } else {
        let mut text = String::new();
        format_actions(&bucket.actions, style, names, &mut text);
        Doing::ActionsText(text)
    };
    v1::Bucket {
        id: Some(bucket.id),
        weight: select.then(|| bucket.weight.into()),
        watch_port: bucket.watch_port,
        watch_group: bucket.watch_group,
        doing: Some(doing),
    }
}
