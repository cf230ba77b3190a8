//! What clients depend on in a set of protos, as text, and what another set does not keep of it.
//!
//! `tools/proto-release` writes the text of each release to `proto/released/`. A test compares the
//! protos of today with every release there: adding is compatible, everything else is not.

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorSet, ServiceDescriptorProto, field_descriptor_proto,
};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Numbers of a reserved range that are listed one by one. A longer range is one entry.
const RESERVED_LISTED_MAX: i32 = 100;

/// The parts of an interface that clients depend on.
///
/// As text it has a line for each message, enum and service, with its fields, values and methods
/// below it:
///
/// ```text
/// message vswitch.v1.Group
///   1 uint32 id
///   2 repeated .vswitch.v1.Bucket buckets
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// By `message NAME`, `enum NAME` or `service NAME`: a key (number or method) and all that is
    /// said of it.
    items: BTreeMap<String, BTreeMap<String, String>>,
}

impl Surface {
    /// Of an encoded `FileDescriptorSet`, such as [`crate::FILE_DESCRIPTOR_SET`].
    ///
    /// # Errors
    /// The bytes are no descriptors.
    pub fn decode(descriptors: &[u8]) -> Result<Self, prost::DecodeError> {
        Ok(Self::of(&FileDescriptorSet::decode(descriptors)?))
    }

    /// Of descriptors. Google's own messages are left out.
    #[must_use]
    pub fn of(descriptors: &FileDescriptorSet) -> Self {
        let mut surface = Self::default();
        for file in &descriptors.file {
            let package = file.package();
            if package.starts_with("google.") {
                continue;
            }
            file.message_type.iter().for_each(|message| surface.message(package, message));
            file.enum_type.iter().for_each(|one| surface.enumeration(package, one));
            file.service.iter().for_each(|service| surface.service(package, service));
        }
        surface
    }

    fn message(&mut self, parent: &str, message: &DescriptorProto) {
        let name = format!("{parent}.{}", message.name());
        let mut fields = BTreeMap::new();
        for field in &message.field {
            let kind = field.r#type().as_str_name().trim_start_matches("TYPE_").to_lowercase();
            let kind = if field.type_name().is_empty() { kind.as_str() } else { field.type_name() };
            let label = match (field.label(), field.oneof_index) {
                (field_descriptor_proto::Label::Repeated, _) => "repeated ".to_owned(),
                (field_descriptor_proto::Label::Required, _) => "required ".to_owned(),
                _ if field.proto3_optional() => "optional ".to_owned(),
                (_, Some(index)) => {
                    let oneof = usize::try_from(index).ok().and_then(|index| message.oneof_decl.get(index));
                    format!("oneof({}) ", oneof.map_or("", |oneof| oneof.name()))
                }
                _ => String::new(),
            };
            fields.insert(field.number().to_string(), format!("{label}{kind} {}", field.name()));
        }
        for range in &message.reserved_range {
            reserve(&mut fields, range.start(), range.end());
        }
        for reserved in &message.reserved_name {
            fields.insert(format!("reserved {reserved}"), String::new());
        }
        self.items.insert(format!("message {name}"), fields);
        message.nested_type.iter().for_each(|nested| self.message(&name, nested));
        message.enum_type.iter().for_each(|nested| self.enumeration(&name, nested));
    }

    fn enumeration(&mut self, parent: &str, one: &EnumDescriptorProto) {
        let mut values = BTreeMap::new();
        for value in &one.value {
            // By name, since two names of one number are allowed.
            values.insert(value.name().to_owned(), value.number().to_string());
        }
        for range in &one.reserved_range {
            // The end of an enum's range belongs to it, unlike that of a message's.
            reserve(&mut values, range.start(), range.end().saturating_add(1));
        }
        for reserved in &one.reserved_name {
            values.insert(format!("reserved {reserved}"), String::new());
        }
        self.items.insert(format!("enum {parent}.{}", one.name()), values);
    }

    fn service(&mut self, package: &str, service: &ServiceDescriptorProto) {
        let mut methods = BTreeMap::new();
        for method in &service.method {
            let stream = |streams: bool| if streams { "stream " } else { "" };
            let (asks, answers) = (stream(method.client_streaming()), stream(method.server_streaming()));
            let shape = format!("{asks}{} returns {answers}{}", method.input_type(), method.output_type());
            methods.insert(method.name().to_owned(), shape);
        }
        self.items.insert(format!("service {package}.{}", service.name()), methods);
    }

    /// Reads what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// The line that is none of its lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut surface = Self::default();
        let mut name = None;
        for (number, line) in text.lines().enumerate() {
            let wrong = || format!("line {}: {line:?} is no line of a released interface", number + 1);
            if let Some(entry) = line.strip_prefix("  ") {
                let at =
                    if entry.starts_with("reserved ") { entry.len() } else { entry.find(' ').ok_or_else(wrong)? };
                let (key, said) = entry.split_at(at);
                let entries = name.as_ref().and_then(|name| surface.items.get_mut(name)).ok_or_else(wrong)?;
                entries.insert(key.to_owned(), said.trim_start().to_owned());
            } else if ["message ", "enum ", "service "].iter().any(|kind| line.starts_with(kind)) {
                surface.items.insert(line.to_owned(), BTreeMap::new());
                name = Some(line.to_owned());
            } else if !line.starts_with('#') {
                return Err(wrong());
            }
        }
        Ok(surface)
    }

    /// The text, in an order of its own: the order of the protos does not matter to clients.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, entries) in &self.items {
            let _ = writeln!(text, "{name}");
            // Numbers by their value.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| (key.parse::<i64>().unwrap_or(i64::MAX), (*key).clone()));
            for (key, said) in entries {
                let _ = writeln!(text, "{}", format!("  {key} {said}").trim_end());
            }
        }
        text
    }

    /// A sentence for each thing that clients of `self` rely on and `newer` does not keep.
    #[must_use]
    pub fn broken_by(&self, newer: &Self) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, entries) in &self.items {
            let Some(now) = newer.items.get(name) else {
                broken.push(format!("{name} is gone"));
                continue;
            };
            for (key, was) in entries {
                match now.get(key) {
                    Some(is) if is == was => {}
                    Some(is) => broken.push(format!("{name}: {key} was `{was}`, is `{is}`")),
                    None if was.is_empty() => broken.push(format!("{name}: {key} is gone")),
                    None => broken.push(format!("{name}: {key} `{was}` is gone")),
                }
            }
        }
        broken
    }
}

/// Notes the numbers from `start` to before `end`.
fn reserve(entries: &mut BTreeMap<String, String>, start: i32, end: i32) {
    if end.saturating_sub(start) > RESERVED_LISTED_MAX {
        entries.insert(format!("reserved {start} to {}", end - 1), String::new());
    } else {
        for number in start..end {
            entries.insert(format!("reserved {number}"), String::new());
        }
    }
}

#[cfg(test)]
mod tests;
