//! Whatever is printed is read back as what it was.

use super::*;
use crate::action::{CheckContext, ListPlace, check, encoded_len};
use crate::spec::{GroupKind, Update};
use crate::testing::{flow, group, list, meter};
use proptest::prelude::*;

/// Ports and tables with all sorts of names.
struct Odd;

const NAMES: [&str; 9] = ["p1", "my_port", "a-b.c", "9lives", "with space", "with,comma", "quo\"te", "x(y", "täble"];

impl Names for Odd {
    fn port(&self, name: &str) -> Option<u32> {
        NAMES.iter().zip(1..).find(|(other, _)| **other == name).map(|(_, number)| number)
    }
    fn port_name(&self, number: u32) -> Option<&str> {
        NAMES.get((number as usize).checked_sub(1)?).copied()
    }
    fn table(&self, name: &str) -> Option<u8> {
        NAMES.iter().zip(0..).find(|(other, _)| **other == name).map(|(_, number)| number)
    }
    fn table_name(&self, number: u8) -> Option<&str> {
        NAMES.get(usize::from(number)).copied()
    }
}

const NAMED: Style = Style { names: true };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn actions(actions in list(), named in any::<bool>()) {
        let mut text = String::new();
        format_actions(&actions, Style { names: named }, &Odd, &mut text);
        let parsed = parse_actions(&text, &Odd);
        prop_assert_eq!(parsed.as_ref().map(|parsed| &parsed.value), Ok(&actions), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn flows(flow in flow(), named in any::<bool>(), counted in any::<bool>()) {
        let mut text = String::new();
        let counters = FlowCounters { duration_ms: 1234, packets: 5, bytes: 6, idle_age_s: 1, hard_age_s: 9, ..FlowCounters::default() };
        format_flow(&flow, counted.then_some(&counters), Style { names: named }, &Odd, &mut text);
        let parsed = parse_flow(&text, FlowCommand::Add, &Odd);
        let parsed = parsed.map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(parsed.value, Update::AddFlow(flow.clone()), "{}", &text);
        prop_assert_eq!(parsed.warnings, Vec::<String>::new(), "{}", &text);
        // As a line of a dump and of a bundle, too.
        let parsed = parse_bundle_line(&format!("flow add  {text}"), &Odd).map(|parsed| parsed.value);
        prop_assert_eq!(parsed, Ok(Update::AddFlow(flow)));
    }

    #[test]
    fn groups(group in group(), named in any::<bool>()) {
        let mut text = String::new();
        format_group(&group, Style { names: named }, &Odd, &mut text);
        let parsed = parse_group(&text, &Odd).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(&parsed.value.spec, &group, "{}", &text);
        // A bucket alone, as when it is inserted.
        if let (Some(bucket), GroupKind::Select) = (group.buckets.first(), group.kind) {
            let mut text = "group insert_bucket group_id=1,command_bucket_id=first,bucket=".to_owned();
            format_bucket(bucket, false, NAMED, &Odd, &mut text);
            let parsed = parse_bundle_line(&text, &Odd).map(|parsed| parsed.value);
            let expected = Update::InsertBuckets {
                group: 1,
                place: crate::spec::BucketPlace::First,
                buckets: vec![bucket.clone()],
            };
            prop_assert_eq!(parsed, Ok(expected), "{}", &text);
        }
    }

    #[test]
    fn meters(meter in meter()) {
        let mut text = String::new();
        format_meter(&meter, &mut text);
        prop_assert_eq!(parse_meter(&text).map(|parsed| parsed.value), Ok(meter), "{}", &text);
    }

    /// No line that can be printed makes the parser stumble when it is cut, or when something in it
    /// is replaced.
    #[test]
    fn damaged_lines(flow in flow(), at in any::<proptest::sample::Index>(), by in any::<char>(), cut in any::<bool>()) {
        let mut text = String::new();
        format_flow(&flow, None, Style::default(), &NoNames, &mut text);
        let mut at = at.index(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        if cut { text.truncate(at) } else { text.insert(at, by) }
        for command in [FlowCommand::Add, FlowCommand::Modify, FlowCommand::DeleteStrict] {
            if let Err(error) = parse_flow(&text, command, &NoNames) {
                prop_assert!((1..=text.len() + 1).contains(&error.column), "{}: {:?}", text, error);
            }
        }
        let _ = parse_bundle_line(&text, &NoNames);
        let _ = parse_group(&text, &NoNames);
        let _ = parse_packet_out(&text, &NoNames);
    }

    /// Random characters are refused, not tripped over.
    #[test]
    fn garbage(text in "[a-z0-9=,:(){}\\[\\]\"\\\\ ./>-]{0,60}|\\PC{0,60}") {
        for result in [
            parse_flow(&text, FlowCommand::Add, &NoNames).err(),
            parse_bundle_line(&text, &NoNames).err(),
            parse_group(&text, &NoNames).err(),
            parse_meter(&text).err(),
            parse_packet_out(&text, &NoNames).err(),
            parse_filter(&text, true, &NoNames).err(),
            parse_actions(&text, &NoNames).err(),
        ].into_iter().flatten() {
            prop_assert!((1..=text.len() + 1).contains(&result.column), "{:?}", result);
        }
    }

    /// Encoded lengths are what OpenFlow has: multiples of 8. Checks never panic, whatever the
    /// list.
    #[test]
    fn lengths_and_checks(actions in list()) {
        for action in &actions {
            prop_assert!(encoded_len(action).is_multiple_of(8) && encoded_len(action) >= 8, "{:?}", action);
        }
        for place in [ListPlace::Flow { table: 3 }, ListPlace::Bucket, ListPlace::PacketOut] {
            let result = check(&actions, &CheckContext { matching: None, place });
            prop_assert!(result.is_ok() || result.is_err_and(|error| error.index < actions.len()));
        }
    }
}
