//! Random messages: nothing that is read panics, and what is written is read as it was.

use crate::recording::recordings;
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, Style, format_actions, parse_actions, parse_flow};
use vswitch_flow::{Action, SparseMatch};
use vswitch_openflow::{Codec, Envelope, FlowMod, Message, Version};

/// Messages to begin with: all that were recorded.
static RECORDED: LazyLock<Vec<(Version, Vec<u8>)>> = LazyLock::new(|| {
    let mut messages = Vec::new();
    for recording in recordings() {
        messages.extend(recording.messages().map(|(_, _, bytes)| (recording.version, bytes.to_vec())));
    }
    messages
});

/// What is read is written, and read again as the same. What is written has no other form.
fn settles(codec: Codec, bytes: &[u8]) {
    let Ok(envelope) = codec.decode(bytes) else { return };
    let Ok(written) = codec.encode(&envelope) else { return };
    let again = codec.decode(&written).unwrap_or_else(|failure| panic!("{envelope:?}\n{failure}"));
    let rewritten = codec.encode(&again).unwrap();
    let last = codec.decode(&rewritten).unwrap();
    assert_eq!(again, last);
}

/// The same list, in the form in which the language has it.
fn canonical(actions: &[Action]) -> Vec<Action> {
    let mut text = String::new();
    format_actions(actions, Style::default(), &NoNames, &mut text);
    parse_actions(&text, &NoNames).map_or_else(|_| actions.to_vec(), |parsed| parsed.value)
}

fn round_trip(codec: Codec, matching: SparseMatch, actions: &[Action]) -> FlowMod {
    let Update::AddFlow(mut spec) = parse_flow("actions=drop", FlowCommand::Add, &NoNames).unwrap().value else {
        panic!("an added flow");
    };
    (spec.matching, spec.actions) = (Arc::new(matching), actions.into());
    let envelope = Envelope { xid: 7, message: Message::FlowMod(FlowMod::add(spec)) };
    let bytes = codec.encode(&envelope).unwrap();
    match codec
        .decode(&bytes)
        .unwrap_or_else(|failure| panic!("{actions:?}\n{}: {failure}", crate::recording::hex(&bytes)))
    {
        Envelope { xid: 7, message: Message::FlowMod(change) } => change,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Recorded messages with some bytes changed, cut or longer.
    #[test]
    fn damaged_messages_are_read_or_refused(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        len in prop::option::of(any::<prop::sample::Index>()),
        fix in any::<bool>(),
    ) {
        let (version, bytes) = at.get(&RECORDED);
        let mut bytes = bytes.clone();
        if let Some(len) = len {
            bytes.truncate(len.index(bytes.len() + 1));
        }
        for (at, byte) in changes {
            if bytes.len() > 8 {
                let at = 8 + at.index(bytes.len() - 8);
                bytes[at] = byte;
            }
        }
        if fix && bytes.len() >= 4 {
            let len = u16::try_from(bytes.len()).unwrap();
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
        }
        settles(Codec::new(*version), &bytes);
        settles(Codec::new(*version).with_options([4, 16, 0, 8, 0, 0, 0, 124]), &bytes);
    }

    /// Any bytes behind a header.
    #[test]
    fn garbage_is_read_or_refused(kind in 0u8..40, body in prop::collection::vec(any::<u8>(), 0..200)) {
        for version in Version::ALL {
            let mut bytes = vec![version.number(), kind, 0, u8::try_from(8 + body.len()).unwrap(), 0, 0, 0, 1];
            bytes.extend(&body);
            settles(Codec::new(version), &bytes);
        }
    }

    /// Every action and field comes back from a flow.
    #[test]
    fn flows_come_back(matching in crate::random::matching(), actions in crate::random::actions()) {
        for version in Version::ALL {
            let change = round_trip(Codec::new(version), matching.clone(), &actions);
            prop_assert_eq!(&*change.spec.matching, &matching);
            if version == Version::V15 {
                prop_assert_eq!(&*change.spec.actions, &*actions);
            } else {
                // A part of a field is set by a load for each run of bits.
                prop_assert_eq!(canonical(&crate::random::split(&change.spec.actions)), canonical(&crate::random::split(&actions)));
            }
        }
    }
}

/// What a real OVN programs (tools/record-ovn) comes back: OpenFlow 1.5 is what it speaks.
#[test]
fn the_flows_of_ovn_come_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../vswitchd/tests/differential/ovn");
    let mut count = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "flows") {
            continue;
        }
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let change = parse_flow(line, FlowCommand::Add, &NoNames).unwrap().value;
            let Update::AddFlow(spec) = change.clone() else { panic!("{line}") };
            let codec = Codec::new(Version::V15);
            let bytes = codec.encode(&Envelope { xid: 1, message: Message::FlowMod(FlowMod::add(spec)) }).unwrap();
            let Message::FlowMod(read) = codec.decode(&bytes).unwrap().message else { panic!("{line}") };
            assert_eq!(read.update(), Ok(change), "{line}");
            count += 1;
        }
    }
    assert!(count > 500, "only {count} flows");
}
