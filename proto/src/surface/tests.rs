use super::*;
use prost_types::enum_descriptor_proto::EnumReservedRange;
use prost_types::{
    DescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto,
};
use std::path::Path;

fn today() -> FileDescriptorSet {
    FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).expect("protoc made it")
}

#[test]
fn no_release_is_broken() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("released");
    let own = format!("{}.txt", env!("CARGO_PKG_VERSION"));
    let mut versions = Vec::new();
    let now = Surface::of(&today());
    let mut broken = Vec::new();
    for entry in std::fs::read_dir(&directory).expect("releases").map(|entry| entry.expect("entry")) {
        let version = entry.file_name().into_string().expect("UTF-8");
        let text = std::fs::read_to_string(entry.path()).expect("text");
        let released = Surface::parse(&text).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert!(released.items.len() > 100, "{version} is not whole");
        broken.extend(released.broken_by(&now).into_iter().map(|line| format!("{version}: {line}")));
        versions.push(version);
    }
    assert!(versions.contains(&own), "proto/released/{own} is not there: run tools/proto-release");
    assert!(broken.is_empty(), "clients of a release would break (see tools/proto-release):\n{}", broken.join("\n"));
}

#[test]
fn text_is_read_as_it_was_written() {
    let mut surface = Surface::of(&today());
    assert_eq!(Surface::parse(&surface.to_text()).as_ref(), Ok(&surface));
    let entries = surface.items.get_mut("message vswitch.v1.Group").expect("the message");
    reserve(entries, 20, 22);
    reserve(entries, 1000, 536_870_912);
    entries.insert("reserved gone".to_owned(), String::new());
    let text = surface.to_text();
    for line in ["  reserved 20", "  reserved 21", "  reserved 1000 to 536870911", "  reserved gone"] {
        assert!(text.lines().any(|one| one == line), "{line}");
    }
    assert_eq!(Surface::parse(&text).as_ref(), Ok(&surface));
}

#[test]
fn text_that_is_none_is_an_error() {
    for (text, wrong) in [("  1 uint32 id\n", 1), ("# what\nmessage a.B\n  word\n", 3), ("package a\n", 1)] {
        let error = Surface::parse(text).expect_err(text);
        assert!(error.starts_with(&format!("line {wrong}: ")), "{error}");
    }
}

#[test]
fn text_has_kinds_labels_and_streams() {
    let text = Surface::of(&today()).to_text();
    for line in [
        "message vswitch.v1.Bucket",
        "  1 optional uint32 id",
        "  5 oneof(doing) .vswitch.v1.Actions actions",
        "  6 repeated .vswitch.v1.Bucket buckets",
        "enum vswitch.v1.GroupType",
        "  GROUP_TYPE_SELECT 2",
        "service vswitch.v1.GroupService",
        "  ListGroups .vswitch.v1.ListGroupsRequest returns stream .vswitch.v1.ListGroupsResponse",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}");
    }
    assert!(!text.contains("google."), "Google's messages are not ours to keep");
}

fn file_of<'a>(set: &'a mut FileDescriptorSet, name: &str) -> &'a mut FileDescriptorProto {
    set.file.iter_mut().find(|file| file.name() == format!("vswitch/v1/{name}.proto")).expect("the file")
}

fn message<'a>(set: &'a mut FileDescriptorSet, name: &str) -> &'a mut DescriptorProto {
    file_of(set, "group").message_type.iter_mut().find(|message| message.name() == name).expect("the message")
}

fn field<'a>(set: &'a mut FileDescriptorSet, of: &str, name: &str) -> &'a mut FieldDescriptorProto {
    message(set, of).field.iter_mut().find(|field| field.name() == name).expect("the field")
}

fn group_type(set: &mut FileDescriptorSet) -> &mut EnumDescriptorProto {
    file_of(set, "group").enum_type.iter_mut().find(|one| one.name() == "GroupType").expect("the enum")
}

fn method(set: &mut FileDescriptorSet) -> &mut MethodDescriptorProto {
    &mut file_of(set, "group").service[0].method[0]
}

/// What a change breaks.
fn broken(change: impl FnOnce(&mut FileDescriptorSet)) -> Vec<String> {
    let (was, mut is) = (today(), today());
    change(&mut is);
    assert_ne!(was, is, "nothing was changed");
    // By way of the text, as with a release.
    let released = Surface::parse(&Surface::of(&was).to_text()).expect("its own text");
    released.broken_by(&Surface::of(&is))
}

#[test]
fn what_breaks_clients_is_named() {
    type Change = fn(&mut FileDescriptorSet);
    let cases: [(Change, &str); 19] = [
        (
            |set| message(set, "Group").field.retain(|field| field.name() != "type"),
            "message vswitch.v1.Group: 2 `.vswitch.v1.GroupType type` is gone",
        ),
        (|set| field(set, "Group", "id").number = Some(9), "message vswitch.v1.Group: 1 `uint32 id` is gone"),
        (
            |set| field(set, "Group", "id").name = Some("number".to_owned()),
            "message vswitch.v1.Group: 1 was `uint32 id`, is `uint32 number`",
        ),
        (
            |set| field(set, "Group", "id").set_type(field_descriptor_proto::Type::Sint32),
            "message vswitch.v1.Group: 1 was `uint32 id`, is `sint32 id`",
        ),
        (
            |set| field(set, "Group", "buckets").type_name = Some(".vswitch.v1.Count".to_owned()),
            "message vswitch.v1.Group: 6 was `repeated .vswitch.v1.Bucket buckets`, is `repeated .vswitch.v1.Count buckets`",
        ),
        (
            |set| field(set, "Group", "id").set_label(field_descriptor_proto::Label::Repeated),
            "message vswitch.v1.Group: 1 was `uint32 id`, is `repeated uint32 id`",
        ),
        (
            |set| field(set, "Bucket", "id").proto3_optional = None,
            "message vswitch.v1.Bucket: 1 was `optional uint32 id`, is `oneof(_id) uint32 id`",
        ),
        (
            |set| field(set, "Bucket", "actions").oneof_index = None,
            "message vswitch.v1.Bucket: 5 was `oneof(doing) .vswitch.v1.Actions actions`, is `.vswitch.v1.Actions actions`",
        ),
        (
            |set| field(set, "Bucket", "actions").oneof_index = Some(1),
            "message vswitch.v1.Bucket: 5 was `oneof(doing) .vswitch.v1.Actions actions`, is `oneof(_id) .vswitch.v1.Actions actions`",
        ),
        (
            |set| file_of(set, "group").message_type.retain(|message| message.name() != "Count"),
            "message vswitch.v1.Count is gone",
        ),
        (
            |set| group_type(set).value.retain(|value| value.name() != "GROUP_TYPE_ALL"),
            "enum vswitch.v1.GroupType: GROUP_TYPE_ALL `1` is gone",
        ),
        (|set| group_type(set).value[1].number = Some(7), "enum vswitch.v1.GroupType: GROUP_TYPE_ALL was `1`, is `7`"),
        (|set| file_of(set, "group").enum_type.clear(), "enum vswitch.v1.GroupType is gone"),
        (|set| file_of(set, "group").service.clear(), "service vswitch.v1.GroupService is gone"),
        (
            |set| method(set).name = Some("GetGroups".to_owned()),
            "service vswitch.v1.GroupService: ListGroups `.vswitch.v1.ListGroupsRequest returns stream .vswitch.v1.ListGroupsResponse` is gone",
        ),
        (
            |set| method(set).server_streaming = Some(false),
            "service vswitch.v1.GroupService: ListGroups was `.vswitch.v1.ListGroupsRequest returns stream .vswitch.v1.ListGroupsResponse`, \
             is `.vswitch.v1.ListGroupsRequest returns .vswitch.v1.ListGroupsResponse`",
        ),
        (
            |set| method(set).client_streaming = Some(true),
            "service vswitch.v1.GroupService: ListGroups was `.vswitch.v1.ListGroupsRequest returns stream .vswitch.v1.ListGroupsResponse`, \
             is `stream .vswitch.v1.ListGroupsRequest returns stream .vswitch.v1.ListGroupsResponse`",
        ),
        (
            |set| method(set).input_type = Some(".vswitch.v1.Count".to_owned()),
            "service vswitch.v1.GroupService: ListGroups was `.vswitch.v1.ListGroupsRequest returns stream .vswitch.v1.ListGroupsResponse`, \
             is `.vswitch.v1.Count returns stream .vswitch.v1.ListGroupsResponse`",
        ),
        (|set| file_of(set, "group").package = Some("vswitch.v2".to_owned()), "message vswitch.v1.Group is gone"),
    ];
    for (change, expected) in cases {
        let broken = broken(change);
        assert!(broken.iter().any(|line| line == expected), "{expected} is not in\n{}", broken.join("\n"));
        assert!(broken.len() == 1 || expected.ends_with("is gone"), "more than was changed:\n{}", broken.join("\n"));
    }
}

#[test]
fn a_reserved_number_or_name_stays_reserved() {
    let reserved = |set: &mut FileDescriptorSet| {
        let of = group_type(set);
        of.reserved_range = vec![EnumReservedRange { start: Some(8), end: Some(9) }];
        of.reserved_name = vec!["GROUP_TYPE_OLD".to_owned()];
    };
    let mut released = today();
    reserved(&mut released);
    let broken = Surface::of(&released).broken_by(&Surface::of(&today()));
    let name = "enum vswitch.v1.GroupType: reserved";
    assert_eq!(
        broken,
        [format!("{name} 8 is gone"), format!("{name} 9 is gone"), format!("{name} GROUP_TYPE_OLD is gone")]
    );
}

#[test]
fn what_only_adds_breaks_nothing() {
    let changes: [fn(&mut FileDescriptorSet); 7] = [
        |set| {
            let new = FieldDescriptorProto { number: Some(50), name: Some("more".to_owned()), ..Default::default() };
            message(set, "Group").field.push(new);
        },
        |set| {
            let new = FieldDescriptorProto { number: Some(50), oneof_index: Some(0), ..Default::default() };
            message(set, "Bucket").field.push(new);
        },
        |set| {
            let new = EnumValueDescriptorProto { name: Some("NEW".to_owned()), number: Some(50), options: None };
            group_type(set).value.push(new);
        },
        |set| {
            let new = MethodDescriptorProto { name: Some("More".to_owned()), ..Default::default() };
            file_of(set, "group").service[0].method.push(new);
        },
        |set| message(set, "Group").reserved_name.push("never".to_owned()),
        // The order of fields, and the file of a message, are nothing that a client sees.
        |set| message(set, "Group").field.reverse(),
        |set| {
            let moved = file_of(set, "group").message_type.remove(0);
            file_of(set, "meter").message_type.push(moved);
        },
    ];
    for change in changes {
        assert_eq!(broken(change), [""; 0]);
    }
}
