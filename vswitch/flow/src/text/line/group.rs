//! Group lines.

use super::Line;
use crate::action::{CheckContext, ListPlace, accept};
use crate::spec::{
    BucketPlace, BucketSpec, GroupKind, GroupSpec, HashedFields, Method, Selection, Update, bucket_ids, group as rules,
};
use crate::text::actions::Parser;
use crate::text::scan::{Form, Token, Tokens};
use crate::text::{
    Names, Parsed, Style, TextError, field_by_name, format_actions, format_port, format_value, parse_value, value,
};
use crate::{Action, Field, Refusal};

/// What a group line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// `add-group`
    Add,
    /// `mod-group`
    Modify,
    /// `mod-group --may-create`
    AddOrModify,
    /// `del-groups`
    Delete,
    /// `insert-buckets`
    InsertBuckets,
    /// `remove-buckets`
    RemoveBuckets,
}

/// A group line (`group_id=1,type=select,bucket=...`). For insert-buckets and remove-buckets:
/// `command_bucket_id=` is in the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLine {
    /// The group. Buckets of a line without `type` have weight 0 where none is given, as those of
    /// ovs-ofctl.
    pub spec: GroupSpec,
    /// Whether there is a `type`.
    pub kind_given: bool,
    /// `command_bucket_id=`
    pub place: Option<BucketPlace>,
}

/// See [`GroupLine`]. `group_id=all` is not one: see [`parse_group_update`].
///
/// # Errors
/// With the column.
pub fn parse_group(line: &str, names: &dyn Names) -> Result<Parsed<GroupLine>, TextError> {
    let line = Line::new(line, names)?;
    let raw = Raw::read(&line, line.source.0)?;
    let warnings = raw.warnings;
    match raw.id {
        Some(Id::One(id)) => {
            let spec =
                GroupSpec { id, kind: raw.kind.unwrap_or_default(), selection: raw.selection, buckets: raw.buckets };
            Ok(Parsed { value: GroupLine { spec, kind_given: raw.kind.is_some(), place: raw.place }, warnings })
        }
        Some(Id::All(at)) => Err(not_one(&line, at)),
        None => Err(no_id(&line)),
    }
}

/// `group_id=all` where a group is meant.
fn not_one(line: &Line<'_>, at: &str) -> TextError {
    let error =
        line.source.error(at, format!("group_id={at} means all groups, and only del-groups is about all of them"));
    error.hint("group_id=N").code("OFPGMFC_INVALID_GROUP").field("group_id")
}

fn no_id(line: &Line<'_>) -> TextError {
    line.source.error(line.source.0, "there is no group_id").hint("group_id=N").field("group_id")
}

/// A group line as an update, with what ovs-ofctl(8) asks of the command: `type` to add and modify,
/// `command_bucket_id` to insert buckets; buckets are removed all without.
///
/// # Errors
/// With the column.
pub fn parse_group_update(line: &str, command: GroupCommand, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    let line = Line::new(line, names)?;
    parse_part(&line, line.source.0, command)
}

/// The same of a part of a line.
pub(super) fn parse_part<'a>(
    line: &Line<'a>,
    text: &'a str,
    command: GroupCommand,
) -> Result<Parsed<Update>, TextError> {
    let raw = Raw::read(line, text)?;
    let source = line.source;
    let warnings = raw.warnings;
    let refuse = |at: &str, reason: &str, field: &str| Err(source.error(at, reason).field(field));
    let whole = matches!(command, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify);
    if whole && raw.kind.is_none() {
        return Err(source.error(text, "there is no type").hint("type=all, select, indirect or ff").field("type"));
    }
    if let (false, Some(at)) = (whole, raw.kind_at) {
        let reason = match command {
            GroupCommand::Delete => "type does not select groups: leave it out",
            _ => "the group has a type already: leave type out",
        };
        return refuse(at, reason, "type");
    }
    let buckets = matches!(command, GroupCommand::InsertBuckets | GroupCommand::RemoveBuckets);
    if let (false, Some(at)) = (buckets, raw.place_at) {
        return refuse(at, "command_bucket_id is only for inserting and removing buckets", "command_bucket_id");
    }
    if let (GroupCommand::Delete | GroupCommand::RemoveBuckets, Some(at)) = (command, raw.buckets_at) {
        return refuse(at, "buckets have no meaning here", "bucket");
    }
    let id = match raw.id {
        Some(Id::One(id)) if command == GroupCommand::Delete => {
            return Ok(Parsed { value: Update::DeleteGroups(Some(id)), warnings });
        }
        Some(Id::One(id)) => id,
        id if command == GroupCommand::Delete && (id.is_some() || text.trim().is_empty()) => {
            return Ok(Parsed { value: Update::DeleteGroups(None), warnings });
        }
        Some(Id::All(at)) => return Err(not_one(line, at)),
        None => return Err(no_id(line)),
    };
    let spec = |kind: GroupKind| GroupSpec { id, kind, selection: raw.selection, buckets: Vec::new() };
    let value = match (command, raw.place) {
        (GroupCommand::InsertBuckets, Some(place)) => {
            let at = if place == BucketPlace::All { raw.place_at.unwrap_or(text) } else { text };
            Update::insert_buckets(id, place, raw.buckets).map_err(|refusal| source.refused(at, refusal))?
        }
        (GroupCommand::RemoveBuckets, place) => {
            Update::RemoveBuckets { group: id, place: place.unwrap_or(BucketPlace::All) }
        }
        (GroupCommand::InsertBuckets, None) => {
            let error = source.error(text, "there is no command_bucket_id");
            return Err(error.hint("command_bucket_id=first, last or an id").field("command_bucket_id"));
        }
        (GroupCommand::Add, _) => {
            Update::AddGroup(GroupSpec { buckets: raw.buckets, ..spec(raw.kind.unwrap_or_default()) })
        }
        (_, _) => Update::ModifyGroup {
            spec: GroupSpec { buckets: raw.buckets, ..spec(raw.kind.unwrap_or_default()) },
            may_create: command == GroupCommand::AddOrModify,
        },
    };
    Ok(Parsed { value, warnings })
}

#[derive(Clone, Copy)]
enum Id<'a> {
    One(u32),
    /// With its word.
    All(&'a str),
}

/// A line, cut up.
struct Raw<'a> {
    id: Option<Id<'a>>,
    kind: Option<GroupKind>,
    /// Where it is; likewise the others.
    kind_at: Option<&'a str>,
    selection: Selection,
    place: Option<BucketPlace>,
    place_at: Option<&'a str>,
    buckets: Vec<BucketSpec>,
    buckets_at: Option<&'a str>,
    warnings: Vec<String>,
}

/// The parts of [`Selection`].
#[derive(Default)]
struct Asked<'a> {
    name: Option<&'a str>,
    param: Option<(u64, &'a str)>,
    fields: Option<(HashedFields, &'a str)>,
}

impl<'a> Raw<'a> {
    fn read(line: &Line<'a>, text: &'a str) -> Result<Self, TextError> {
        let mut raw = Self {
            id: None,
            kind: None,
            kind_at: None,
            selection: Selection::Default,
            place: None,
            place_at: None,
            buckets: Vec::new(),
            buckets_at: None,
            warnings: Vec::new(),
        };
        let mut method = Asked::default();
        let mut tokens = Tokens::new(line.source, text);
        while let Some(token) = tokens.next()? {
            if token.key == "bucket" && token.form == Form::Value {
                tokens.rewind_to_value(&token);
                raw.buckets_at = Some(token.key);
                break;
            }
            raw.key(line, &token, &mut method)?;
        }
        raw.selection = method.selection(line, raw.kind)?;
        if raw.buckets_at.is_some() {
            raw.read_buckets(line, &mut tokens)?;
        }
        Ok(raw)
    }

    fn key(&mut self, line: &Line<'a>, token: &Token<'a>, method: &mut Asked<'a>) -> Result<(), TextError> {
        const KEYS: [&str; 7] =
            ["group_id", "type", "command_bucket_id", "selection_method", "selection_method_param", "fields", "bucket"];
        let source = line.source;
        let value = || line.value(token);
        match token.key {
            "group_id" => {
                self.id = Some(match value()? {
                    text if text.eq_ignore_ascii_case("all") => Id::All(text),
                    text => Id::One(id(line, "group id", text, rules::group_id)?),
                });
            }
            "type" => {
                self.kind_at = Some(token.key);
                self.kind = Some(match value()? {
                    "all" => GroupKind::All,
                    "select" => GroupKind::Select,
                    "indirect" => GroupKind::Indirect,
                    "ff" | "fast_failover" => GroupKind::FastFailover,
                    other => return Err(source.unknown(other, "type of group", ["all", "select", "indirect", "ff"])),
                });
            }
            "command_bucket_id" => {
                self.place_at = Some(token.key);
                self.place = Some(match value()? {
                    "first" => BucketPlace::First,
                    "last" => BucketPlace::Last,
                    "all" => BucketPlace::All,
                    text => BucketPlace::Before(id(line, "bucket id", text, rules::bucket_id)?),
                });
            }
            "selection_method" => method.name = Some(value()?),
            "selection_method_param" => method.param = Some((source.u64("parameter", value()?)?, token.key)),
            "fields" => {
                method.fields = Some((fields(line, token.value)?, token.key));
            }
            key => return Err(source.unknown(key, "keyword of a group", KEYS)),
        }
        Ok(())
    }

    fn read_buckets(&mut self, line: &Line<'a>, tokens: &mut Tokens<'a>) -> Result<(), TextError> {
        let mut given = Vec::new();
        let (mut more, mut second) = (true, None);
        while more {
            let mut bucket = Bucket::new();
            let start = tokens.rest();
            second = second.or((!self.buckets.is_empty()).then_some(start));
            more = false;
            while let Some(token) = tokens.next()? {
                if token.key == "bucket" && token.form == Form::Value {
                    tokens.rewind_to_value(&token);
                    more = true;
                    break;
                }
                bucket.key(line, &token, tokens)?;
            }
            let (id, spec) = bucket.finish(line, start, self.kind)?;
            given.push(id);
            self.buckets.push(spec);
        }
        if let (Some(kind), Some(second)) = (self.kind, second) {
            line.source.judged(second, rules::number_of_buckets(kind, self.buckets.len()))?;
        }
        self.number_buckets(line, &given)
    }

    fn number_buckets(&mut self, line: &Line<'_>, given: &[Given<'_>]) -> Result<(), TextError> {
        let ids: Vec<_> = given.iter().map(|given| given.map(|(id, _)| id)).collect();
        let ids = bucket_ids(&ids).map_err(|(wrong, refusal)| {
            let at = given.get(wrong).and_then(|given| given.as_ref()).map_or("", |(_, at)| at);
            line.source.refused(at, refusal)
        })?;
        self.buckets.iter_mut().zip(ids).for_each(|(bucket, id)| bucket.id = id);
        Ok(())
    }
}

fn id(line: &Line<'_>, what: &str, text: &str, rule: fn(u32) -> Result<(), Refusal>) -> Result<u32, TextError> {
    let id = line.source.u32(what, text)?;
    line.source.judged(text, rule(id))?;
    Ok(id)
}

impl Asked<'_> {
    fn selection(self, line: &Line<'_>, kind: Option<GroupKind>) -> Result<Selection, TextError> {
        let source = line.source;
        let method = match self.name {
            None => None,
            Some("hash") => Some(Method::Hash),
            Some("dp_hash") => Some(Method::DpHash),
            Some("maglev") => Some(Method::Maglev),
            Some(other) => {
                let error = source.unknown(other, "selection method", ["hash", "dp_hash", "maglev"]);
                return Err(error.code("OFPBPC_BAD_VALUE"));
            }
        };
        let (param, param_at) = self.param.unzip();
        let (fields, fields_at) = self.fields.unzip();
        Selection::new(kind.unwrap_or_default(), method, param, fields).map_err(|refusal| {
            let at = match refusal.field {
                "fields" => fields_at,
                "selection_method_param" => param_at,
                _ => self.name,
            };
            source.refused(at.unwrap_or_default(), refusal)
        })
    }
}

/// `ip_src,ip_dst=255.255.0.0`: fields with masks, in the order that Open vSwitch has them.
fn fields<'a>(line: &Line<'a>, text: &'a str) -> Result<HashedFields, TextError> {
    let source = line.source;
    let mut fields = HashedFields::default();
    let mut tokens = Tokens::new(source, text);
    while let Some(token) = tokens.next()? {
        let named = field_by_name(token.key);
        let field =
            named.ok_or_else(|| source.unknown(token.key, "field", crate::field::names().collect::<Vec<_>>()))?;
        let mask = match token.value {
            "" => field.exact_mask(),
            text => {
                let (value, mask) = parse_value(field, text, line.names).map_err(|error| source.within(text, error))?;
                // The mask is written as a value: without a mask of its own.
                if mask == field.exact_mask() { value } else { 0 }
            }
        };
        let at = if token.value.is_empty() { token.key } else { token.value };
        source.judged(at, fields.add(field, mask)).map_err(|error| error.field(token.key))?;
    }
    Ok(fields)
}

/// The id that a bucket was given, with its place in the text.
type Given<'a> = Option<(u32, &'a str)>;

/// A bucket, cut up.
struct Bucket<'a> {
    id: Given<'a>,
    weight: Option<u16>,
    watch_port: Option<u32>,
    watch_group: Option<u32>,
    actions: Vec<Action>,
    /// Whether there is anything that says what it does.
    acts: bool,
    /// Whether that is `drop`.
    drops: bool,
}

impl<'a> Bucket<'a> {
    const fn new() -> Self {
        Self {
            id: None,
            weight: None,
            watch_port: None,
            watch_group: None,
            actions: Vec::new(),
            acts: false,
            drops: false,
        }
    }

    fn key(&mut self, line: &Line<'a>, token: &Token<'a>, tokens: &mut Tokens<'a>) -> Result<(), TextError> {
        let source = line.source;
        match token.key {
            "bucket_id" => self.id = Some((id(line, "bucket id", line.value(token)?, rules::bucket_id)?, token.key)),
            "weight" => self.weight = Some(source.u16("weight", line.value(token)?)?),
            "watch_port" => {
                self.watch_port = Some(Parser::new(source, line.names).port(line.value(token)?)?);
            }
            "watch_group" => self.watch_group = Some(source.u32("group id", line.value(token)?)?),
            "action" | "actions" if token.form == Form::Value => {
                self.acts = true;
                // Its first action is this token's value; the others are tokens of their own.
                tokens.rewind_to_value(token);
            }
            "drop" => (self.acts, self.drops) = (true, true),
            _ => {
                self.acts = true;
                Parser::new(source, line.names).action(token, &mut self.actions)?;
            }
        }
        Ok(())
    }

    fn finish(
        self,
        line: &Line<'_>,
        start: &str,
        kind: Option<GroupKind>,
    ) -> Result<(Given<'a>, BucketSpec), TextError> {
        let refuse = |reason: &str, hint: &str, field: &str| {
            let error = line.source.error(start, reason).hint(hint).field(field);
            Err(error.code("OFPGMFC_BAD_BUCKET"))
        };
        if !self.acts {
            return refuse("a bucket has no actions", "bucket=actions=drop", "actions");
        }
        if self.drops && !self.actions.is_empty() {
            return refuse("drop must stand alone", "leave drop out, or the other actions", "drop");
        }
        let spec = BucketSpec {
            id: 0,
            // A line that inserts buckets does not know into what: ovs-ofctl makes it 0, also for a
            // select group.
            weight: self.weight.unwrap_or(if kind == Some(GroupKind::Select) { 1 } else { 0 }),
            watch_port: self.watch_port,
            watch_group: self.watch_group,
            actions: line.bucket_actions(start, self.actions)?.into(),
        };
        let spec = spec.normal();
        // The bucket's id is not known yet, and its column is.
        line.source.judged(start, spec.rules(kind))?;
        Ok((self.id, spec))
    }
}

impl Line<'_> {
    /// What a bucket does. The column of what is wrong is that of the bucket: its actions may be
    /// scattered among its other keys.
    fn bucket_actions(&self, start: &str, actions: Vec<Action>) -> Result<Vec<Action>, TextError> {
        let context = CheckContext { matching: None, place: ListPlace::Bucket };
        accept(actions, &context)
            .map_err(|error| self.source.error(start, error.reason).hint(error.hint).code(error.code).field("bucket"))
    }
}

/// A line of dump-groups, without the leading blank.
pub fn format_group(group: &GroupSpec, style: Style, names: &dyn Names, out: &mut String) {
    let kind = match group.kind {
        GroupKind::All => "all",
        GroupKind::Select => "select",
        GroupKind::Indirect => "indirect",
        GroupKind::FastFailover => "ff",
    };
    value::push(out, format_args!("group_id={},type={kind}", group.id));
    let param = |param: u64, out: &mut String| {
        if param != 0 {
            value::push(out, format_args!(",selection_method_param={param}"));
        }
    };
    match &group.selection {
        Selection::Default => {}
        Selection::DpHash { param: number } => {
            out.push_str(",selection_method=dp_hash");
            param(*number, out);
        }
        Selection::Maglev { param: number } => {
            out.push_str(",selection_method=maglev");
            param(*number, out);
        }
        Selection::Hash { param: number, fields } => {
            out.push_str(",selection_method=hash");
            param(*number, out);
            format_fields(fields, out);
        }
    }
    for bucket in &group.buckets {
        out.push_str(",bucket=");
        format_bucket(bucket, group.kind == GroupKind::Select, style, names, out);
    }
}

fn format_fields(fields: &[(Field, u128)], out: &mut String) {
    let open = match fields {
        [] => return,
        [_] => ",fields=",
        _ => ",fields(",
    };
    out.push_str(open);
    for (i, (field, mask)) in fields.iter().enumerate() {
        if i != 0 {
            out.push(',');
        }
        out.push_str(field.name());
        if mask & field.exact_mask() != field.exact_mask() {
            out.push('=');
            format_value(*field, *mask, field.exact_mask(), Style::default(), &crate::text::NoNames, out);
        }
    }
    if fields.len() > 1 {
        out.push(')');
    }
}

/// One bucket, as in a line for a select group, or for another one or one that is not known
/// (`insert-buckets`).
pub fn format_bucket(bucket: &BucketSpec, select: bool, style: Style, names: &dyn Names, out: &mut String) {
    value::push(out, format_args!("bucket_id:{},", bucket.id));
    if bucket.weight != u16::from(select) {
        value::push(out, format_args!("weight:{},", bucket.weight));
    }
    if let Some(port) = bucket.watch_port {
        out.push_str("watch_port:");
        format_port(port, style, names, out);
        out.push(',');
    }
    if let Some(group) = bucket.watch_group {
        value::push(out, format_args!("watch_group:{group},"));
    }
    out.push_str("actions=");
    format_actions(&bucket.actions, style, names, out);
}
