//! Messages that ovs-ofctl and ovs-vswitchd of Open vSwitch 3.1 sent each other, as
//! tools/record-openflow recorded them.

use crate::recording::{Direction, Recording, recordings};
use vswitch_flow::Refusal;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow, parse_group, parse_meter};
use vswitch_openflow::{Codec, Envelope, ErrorCode, Message, Version};

/// Messages that are not read, or not written as they were: by file, a part of the command and of
/// the message, and why.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[
    ("switch", "queue-stats", "", "queues are not served"),
    ("loads", "", "", "a load of a whole field is a set_field of it"),
    ("switch", "dump-ipfix-bridge", "1200180000", "refused when it is read, by the error that follows it"),
];

fn is_exception(recording: &Recording, command: &str, bytes: &[u8]) -> bool {
    let hex = crate::recording::hex(bytes);
    EXCEPTIONS.iter().any(|(file, part, message, _)| {
        recording.name.starts_with(file) && command.contains(part) && hex[2..].contains(message)
    })
}

/// Where the second differs from the first.
fn difference(first: &[u8], second: &[u8]) -> String {
    // The length in the header differs, too.
    let at = (4..first.len()).find(|at| first.get(*at) != second.get(*at)).unwrap_or(first.len());
    let part = |bytes: &[u8]| {
        crate::recording::hex(&bytes[at.saturating_sub(16).min(bytes.len())..(at + 40).min(bytes.len())])
    };
    format!("at byte {at}: {}\n                  is {}", part(first), part(second))
}

#[test]
fn every_message_is_read_and_written_as_it_was() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for recording in recordings().iter().filter(|recording| recording.name != "errors") {
        for (direction, command, bytes) in recording.messages() {
            if is_exception(recording, command, bytes) {
                continue;
            }
            count += 1;
            // A hello has the highest version of its sender.
            let hello = Version::from_number(bytes[0]).filter(|_| bytes[1] == 0).map(Codec::new);
            let codec = hello.unwrap_or_else(|| recording.codec(direction));
            let place = || format!("{} {direction:?} {command}: {}", recording.file, crate::recording::hex(bytes));
            match codec.decode(bytes) {
                Err(failure) => wrong.push(format!("{}\n  is refused: {failure}", place())),
                Ok(envelope) => match codec.encode(&envelope) {
                    Ok(written) if written == bytes => {}
                    Ok(written) => wrong.push(format!("{}\n  differs {}", place(), difference(bytes, &written))),
                    Err(error) => wrong.push(format!("{}\n  cannot be written: {error}", place())),
                },
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 700, "only {count} messages");
}

/// What a message asks the switch for, if it is a mod.
fn update(message: &Message) -> Option<Result<Update, Refusal>> {
    Some(match message {
        Message::FlowMod(change) => change.update(),
        Message::GroupMod(change) => change.update(),
        Message::MeterMod(change) => change.update(),
        _ => return None,
    })
}

/// A flow is what its text says, whichever version carries it.
#[test]
fn flows_are_what_their_text_says() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for recording in recordings() {
        let codec = recording.codec(Direction::ToSwitch);
        for run in recording.runs.iter().filter(|run| run.command == "add-flows -") {
            let to_switch = run.messages.iter().filter(|(direction, _)| *direction == Direction::ToSwitch);
            let messages = to_switch.map(|(_, bytes)| codec.decode(bytes).unwrap().message);
            let changes = messages.filter_map(|message| update(&message));
            for (line, change) in run.lines.iter().zip(changes) {
                count += 1;
                let said = match parse_flow(line, FlowCommand::Add, &NoNames) {
                    Ok(parsed) => Ok(parsed.value),
                    Err(error) => Err(error.code),
                };
                let read = change.map_err(|refusal| refusal.code);
                // OpenFlow 1.3 has a load for each run of bits.
                let split = recording.version == Version::V13 && line.contains("set_field:0x5/0xf0f");
                if said != read && !split {
                    wrong.push(format!("{} {line}\n  is {read:?}\n  not {said:?}", recording.file));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 250, "only {count} flows");
}

/// What is answered where Open vSwitch answers otherwise: parts of the message, the error, and why.
const OTHER_ANSWERS: &[(&str, &str, &str)] = &[
    ("00010008ff000000", "OFPBIC_BAD_TABLE_ID", "there is no table 255 to go to"),
    ("0015000800000001", "OFPBAC_BAD_TYPE", "queues are not served"),
    ("0013000888470000", "OFPBAC_BAD_TYPE", "MPLS is not served"),
    ("0000000700090000", "OFPBFC_BAD_TYPE", "Open vSwitch answers without an error"),
    // What depends on the state of the switch is found by the transaction.
    ("040e004000000055..0006000800000063", "", "a meter is not there"),
    ("0016000800003039", "", "a group is not there"),
    ("0f0010000000550000000000000001", "", "a group is there already"),
    ("0f00180000005500000000000000010000", "", "a group is there already"),
    ("550001000000000309", "", "a group is not there"),
    ("1d002000000055000000010000000100", "", "a meter is there already"),
    ("1d0020000000550001000100000058", "", "a meter is not there"),
    ("0000000700040000", "", "a bundle is not there"),
];

/// The error that this crate finds in a message.
fn found(codec: Codec, bytes: &[u8]) -> Option<(ErrorCode, Envelope)> {
    let refusal = match codec.decode(bytes) {
        Err(failure) => failure,
        Ok(Envelope { xid, message }) => {
            let refusal = match message {
                Message::PacketOut(packet) => packet.accepted().err()?,
                message => update(&message)?.err()?,
            };
            vswitch_openflow::Failure { xid, refusal }
        }
    };
    let code = ErrorCode::of_name(codec.version(), refusal.refusal.code);
    Some((code, refusal.reply(codec.version(), bytes)))
}

/// Messages that are wrong are refused by the error that Open vSwitch sends, in the same bytes.
#[test]
fn errors_are_those_of_open_vswitch() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for recording in recordings().iter().filter(|recording| recording.name == "errors") {
        let codec = Codec::new(recording.version);
        let mut messages = recording.messages().map(|(direction, _, bytes)| (direction, bytes)).peekable();
        while let Some((Direction::ToSwitch, request)) = messages.next() {
            let answer = messages.next_if(|(direction, _)| *direction == Direction::FromSwitch).map(|(_, bytes)| bytes);
            count += 1;
            let hex = crate::recording::hex(request);
            let name = |code: ErrorCode| code.name(codec.version()).map_or_else(|| format!("{code:?}"), str::to_owned);
            let said = answer.map(|bytes| match codec.decode(bytes).unwrap().message {
                Message::Error(error) => name(error.code),
                other => format!("{other:?}"),
            });
            let own = found(codec, request);
            let own_name = own.as_ref().map(|(code, _)| name(*code));
            let other = OTHER_ANSWERS.iter().find(|(parts, ..)| parts.split("..").all(|part| hex.contains(part)));
            let expected =
                other.map_or(said.as_deref(), |(_, error, _)| Some(*error).filter(|error| !error.is_empty()));
            if own_name.as_deref() != expected {
                wrong.push(format!("{} {hex}\n  is {own_name:?}, not {said:?}", recording.file));
            } else if let (Some((_, reply)), Some(answer), None) = (own, answer, other) {
                assert_eq!(codec.encode(&reply).unwrap(), answer, "{hex}");
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 150, "only {count} messages");
}

/// Groups and meters likewise. OpenFlow 1.3 says less of groups.
#[test]
fn groups_and_meters_are_what_their_text_says() {
    let mut count = 0;
    for recording in recordings() {
        let codec = recording.codec(Direction::ToSwitch);
        for run in &recording.runs {
            let meter = run.command.strip_prefix("add-meter ");
            let is_of_groups = run.command == "add-groups -" && recording.version == Version::V15;
            if !is_of_groups && meter.is_none() {
                continue;
            }
            let to_switch = run.messages.iter().filter(|(direction, _)| *direction == Direction::ToSwitch);
            let messages = to_switch.map(|(_, bytes)| codec.decode(bytes).unwrap().message);
            let changes: Vec<_> = messages.filter_map(|message| update(&message)).map(Result::unwrap).collect();
            let said: Vec<_> = match meter {
                Some(text) => vec![Update::AddMeter(parse_meter(text).unwrap().value)],
                None => {
                    let lines = run.lines.iter();
                    lines.map(|line| Update::AddGroup(parse_group(line, &NoNames).unwrap().value.spec)).collect()
                }
            };
            assert_eq!(changes, said, "{} {}", recording.file, run.command);
            count += said.len();
        }
    }
    assert!(count > 15, "only {count}");
}
