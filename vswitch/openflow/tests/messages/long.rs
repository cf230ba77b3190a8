//! Messages that are long, come in parts, or are of other versions.

use std::sync::Arc;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow};
use vswitch_openflow::{
    Assembler, Codec, Counters, EncodeError, Envelope, FlowMod, FlowStats, Hello, Message, Part, Reply, Request,
    Version,
};

fn flow(text: &str) -> vswitch_flow::spec::FlowSpec {
    match parse_flow(text, FlowCommand::Add, &NoNames).unwrap().value {
        Update::AddFlow(flow) => flow,
        other => panic!("{other:?}"),
    }
}

fn flows(count: u32) -> Reply {
    let spec = |number| flow(&format!("table=1,priority={number},tcp,nw_src=10.0.0.1,actions=resubmit(,2),output:1"));
    // What OpenFlow 1.3 says, too.
    let counters = Counters { duration: Some((1, 2)), packets: Some(3), bytes: Some(4), ..Counters::default() };
    Reply::Flows((0..count).map(|number| FlowStats { spec: spec(number), counters }).collect())
}

#[test]
fn a_reply_of_any_size_comes_back_from_its_parts() {
    for (version, count) in [(Version::V13, 0), (Version::V13, 1), (Version::V13, 3000), (Version::V15, 3000)] {
        let (codec, reply) = (Codec::new(version), flows(count));
        let mut assembler = Assembler::<Reply>::new(1 << 20);
        let (mut whole, mut messages) = (None, 0);
        for message in codec.segments(9, &reply) {
            assert!(whole.is_none(), "a part behind the last");
            let message = message.unwrap();
            let Envelope { xid: 9, message: Message::MultipartReply(part) } = codec.decode(&message).unwrap() else {
                panic!("no part of a reply");
            };
            messages += 1;
            whole = assembler.add(9, part, message.len()).unwrap();
        }
        assert_eq!(whole, Some(reply));
        assert_eq!(messages > 3, count > 1, "{messages} messages");
        assert!(!assembler.is_waiting());
    }
}

#[test]
fn one_entry_that_is_too_long_does_not_stop_the_others() {
    let resubmits = vec!["resubmit(,5)"; 4090].join(",");
    let Reply::Flows(mut list) = flows(2) else { panic!("flows") };
    // What text takes fits into a message; twice that does not.
    let mut actions = flow(&format!("actions={resubmits}")).actions.to_vec();
    actions.extend(actions.clone());
    list[0].spec.actions = actions.into();
    let reply = Reply::Flows(list);
    let parts: Vec<_> = Codec::new(Version::V15).segments(1, &reply).collect();
    assert!(matches!(parts[0], Err(EncodeError::TooLong(130_000..))), "{:?}", parts[0]);
    assert!(parts[1].is_ok() && parts.len() == 2, "{} parts", parts.len());
}

#[test]
fn the_longest_flow_fits_and_a_longer_one_is_told() {
    let resubmits = |count| flow(&format!("actions={}", vec!["resubmit(,5)"; count].join(",")));
    let message = |spec| Envelope { xid: 1, message: Message::FlowMod(FlowMod::add(spec)) };
    let codec = Codec::new(Version::V15);
    let bytes = codec.encode(&message(resubmits(4090))).unwrap();
    assert!(codec.decode(&bytes).is_ok() && bytes.len() > 65_000);
    let mut longer = resubmits(4090);
    longer.actions = longer.actions.iter().chain(&longer.actions[..10]).cloned().collect::<Vec<_>>().into();
    assert!(matches!(codec.encode(&message(longer)), Err(EncodeError::TooLong(65_600..))));
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let part = |more| Part { more, body: Request::TableFeatures(Vec::new()) };
    let mut assembler = Assembler::<Request>::new(100);
    assert_eq!(assembler.add(1, part(true), 60), Ok(None));
    assert_eq!(assembler.add(2, part(false), 60).unwrap_err().0.code, "OFPBRC_MULTIPART_BUFFER_OVERFLOW");
    // What was there is forgotten.
    assert_eq!(assembler.add(3, part(true), 60), Ok(None));
    let other = Part { more: false, body: Request::Tables };
    assert!(assembler.add(3, other, 60).unwrap_err().0.reason.contains("does not continue"));
    assert_eq!(assembler.add(4, part(true), 60), Ok(None));
    assert!(assembler.add(4, part(true), 60).unwrap_err().0.reason.contains("more than 100 bytes"));
    assert_eq!(assembler.add(5, part(false), 60), Ok(Some(Request::TableFeatures(Vec::new()))));
}

#[test]
fn both_ends_speak_the_highest_version_that_both_know() {
    let common = |versions, header| Hello { versions }.common(header);
    assert_eq!(common(Some(1 << 6 | 1 << 4), 6), Some(Version::V15));
    assert_eq!(common(Some(1 << 5 | 1 << 4), 5), Some(Version::V13));
    assert_eq!(common(Some(1 << 1), 1), None);
    assert_eq!(common(None, 4), Some(Version::V13));
    assert_eq!(common(None, 9), Some(Version::V15));
    assert_eq!(common(None, 5), None);
    // Elements that are not known are skipped.
    let hello = [9, 0, 0, 0x18, 0, 0, 0, 1, 0, 7, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x10];
    let read = Codec::new(Version::V15).decode(&hello).unwrap().message;
    assert_eq!(read, Message::Hello(Hello { versions: Some(0x10) }));
}

#[test]
fn what_has_no_form_is_shown_as_a_note() {
    for text in ["actions=reject(output:1)", "actions=ct_forget,output:2"] {
        for version in Version::ALL {
            let codec = Codec::new(version);
            let envelope = Envelope { xid: 1, message: Message::FlowMod(FlowMod::add(flow(text))) };
            let read = codec.decode(&codec.encode(&envelope).unwrap()).unwrap().message;
            let Message::FlowMod(change) = read else { panic!("{read:?}") };
            let note = Arc::clone(&change.spec.actions);
            let vswitch_flow::Action::Note(bytes) = &note[0] else { panic!("{note:?}") };
            assert!(bytes.starts_with(&text.as_bytes()[8..14]), "{bytes:?}");
        }
    }
}

#[test]
fn the_presence_of_an_option_cannot_be_matched() {
    // As ovs-ofctl sends tun_metadata0 without a value, and as ovs-vswitchd sends it back.
    for (len, matching) in [("38", "0001000800015100"), ("40", "00010010000151080000000000000000")] {
        let fixed = "00".repeat(28) + &"ff".repeat(8) + "00000000";
        let bytes = crate::recording::bytes(&format!("060e00{len}00000001{fixed}{matching}"));
        let failure = Codec::new(Version::V15).decode(&bytes).unwrap_err();
        assert_eq!(failure.refusal.code, "OFPBMC_BAD_MASK", "{failure}");
    }
}
