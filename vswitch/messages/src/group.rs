//! Groups and buckets.

use super::actions::{Text, actions};
use super::field::{value_message, values};
use super::flow::accepted_of_bucket;
use super::{actions_out, narrow16, wrong};
use vswitch_flow::spec::{BucketPlace, BucketSpec, GroupKind, GroupSpec, HashedFields, Method, Selection, bucket_ids};
use vswitch_flow::text::{Names, Parsed, Style, TextError, format_actions};
use vswitch_proto::v1;

/// A group, and what was odd about it.
pub fn group(message: &v1::Group, names: &dyn Names) -> Result<Parsed<GroupSpec>, TextError> {
    let kind = match v1::GroupType::try_from(message.r#type) {
        Ok(v1::GroupType::Unspecified | v1::GroupType::All) => GroupKind::All,
        Ok(v1::GroupType::Select) => GroupKind::Select,
        Ok(v1::GroupType::Indirect) => GroupKind::Indirect,
        Ok(v1::GroupType::FastFailover) => GroupKind::FastFailover,
        Err(_) => return Err(wrong("group.type", format!("{} is no group type", message.r#type), "use 1 to 4")),
    };
    let Parsed { value: buckets, warnings } = buckets(&message.buckets, Some(kind), names)?;
    let group = GroupSpec { id: message.id, kind, selection: selection(message, kind)?, buckets };
    group.check()?;
    Ok(Parsed { value: group, warnings })
}

fn selection(message: &v1::Group, kind: GroupKind) -> Result<Selection, TextError> {
    let method = match v1::SelectionMethod::try_from(message.selection_method) {
        Ok(v1::SelectionMethod::Unspecified) => None,
        Ok(v1::SelectionMethod::DpHash) => Some(Method::DpHash),
        Ok(v1::SelectionMethod::Hash) => Some(Method::Hash),
        Ok(v1::SelectionMethod::Maglev) => Some(Method::Maglev),
        Err(_) => {
            let reason = format!("{} is no method", message.selection_method);
            return Err(wrong("selection_method", reason, "use 0 to 3"));
        }
    };
    let mut fields = HashedFields::default();
    for (field, _, mask) in values(&message.selection_fields)? {
        fields.add(field, mask)?;
    }
    let param = Some(message.selection_param).filter(|param| *param != 0);
    let fields = Some(fields).filter(|_| !message.selection_fields.is_empty());
    Ok(Selection::new(kind, method, param, fields)?)
}

/// Buckets; ids that are not given are counted from 0. `kind` is that of their group; None: not
/// known.
pub fn buckets(
    messages: &[v1::Bucket],
    kind: Option<GroupKind>,
    names: &dyn Names,
) -> Result<Parsed<Vec<BucketSpec>>, TextError> {
    let mut warnings = Vec::new();
    let given: Vec<_> = messages.iter().map(|bucket| bucket.id).collect();
    let ids = bucket_ids(&given).map_err(|(_, refusal)| refusal)?;
    let buckets = messages.iter().zip(ids).map(|(message, id)| bucket(message, id, kind, names, &mut warnings));
    let buckets = buckets.collect::<Result<Vec<_>, _>>()?;
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
    let doing = match &message.doing {
        Some(Doing::Actions(list)) => Text::Typed(list),
        Some(Doing::ActionsText(text)) => Text::Line(text),
        None => Text::None,
    };
    let actions = accepted_of_bucket(actions(&doing, names, warnings)?)?;
    let default = if kind == Some(GroupKind::Select) { 1 } else { 0 };
    let bucket = BucketSpec {
        id,
        weight: narrow16("bucket.weight", message.weight.unwrap_or(default))?,
        watch_port: message.watch_port,
        watch_group: message.watch_group,
        actions: actions.into(),
    };
    let bucket = bucket.normal();
    bucket.check(kind)?;
    Ok(bucket)
}

/// Which buckets, or where.
pub fn bucket_place(message: Option<&v1::BucketPlace>) -> Result<BucketPlace, TextError> {
    use v1::bucket_place::Place;
    match message.and_then(|message| message.place.as_ref()) {
        Some(Place::First(true)) => Ok(BucketPlace::First),
        Some(Place::Last(true)) => Ok(BucketPlace::Last),
        Some(Place::All(true)) => Ok(BucketPlace::All),
        Some(Place::BucketId(id)) => Ok(BucketPlace::before(*id)?),
        Some(Place::First(false) | Place::Last(false) | Place::All(false)) | None => {
            Err(wrong("place", "it is not said which bucket", "give first, last, all or bucket_id"))
        }
    }
}

/// A group as a message.
pub fn group_message(group: &GroupSpec, typed: bool, style: Style, names: &dyn Names) -> v1::Group {
    let kind = match group.kind {
        GroupKind::All => v1::GroupType::All,
        GroupKind::Select => v1::GroupType::Select,
        GroupKind::Indirect => v1::GroupType::Indirect,
        GroupKind::FastFailover => v1::GroupType::FastFailover,
    };
    let (method, param, fields) = match &group.selection {
        Selection::Default => (v1::SelectionMethod::Unspecified, 0, Vec::new()),
        Selection::DpHash { param } => (v1::SelectionMethod::DpHash, *param, Vec::new()),
        Selection::Maglev { param } => (v1::SelectionMethod::Maglev, *param, Vec::new()),
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
