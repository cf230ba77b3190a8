//! Flow text: any line is an update or a named error; what was parsed prints and parses again to
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{
    FlowCommand, NoNames, Style, format_flow, format_group, format_meter, parse_bundle_line, parse_flow, parse_group,
    parse_key, parse_meter, parse_packet_out,
};

fuzz_target!(|line: &str| {
    if let Ok(parsed) = parse_flow(line, FlowCommand::Add, &NoNames)
        && let Update::AddFlow(flow) = parsed.value
    {
        let mut text = String::new();
        format_flow(&flow, None, Style::default(), &NoNames, &mut text);
        let again = parse_flow(&text, FlowCommand::Add, &NoNames).map(|parsed| parsed.value);
        assert_eq!(again, Ok(Update::AddFlow(flow)), "{line:?} printed as {text:?}");
    }
    if let Ok(parsed) = parse_group(line, &NoNames) {
        let mut text = String::new();
        format_group(&parsed.value.spec, Style::default(), &NoNames, &mut text);
        let again = parse_group(&text, &NoNames).map(|again| again.value.spec);
        assert_eq!(again, Ok(parsed.value.spec), "{line:?} printed as {text:?}");
    }
    if let Ok(parsed) = parse_meter(line) {
        let mut text = String::new();
        format_meter(&parsed.value, &mut text);
        assert_eq!(parse_meter(&text).map(|again| again.value), Ok(parsed.value), "{line:?} printed as {text:?}");
    }
    let _ = parse_bundle_line(line, &NoNames);
    let _ = parse_packet_out(line, &NoNames);
    let _ = parse_key(line, &NoNames);
});
