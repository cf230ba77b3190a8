//! OpenFlow: any flow that text can say is written as a message, in both versions. What is read
//! from the message is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow};
use vswitch_openflow::{Codec, Envelope, FlowMod, Message, Version};

fuzz_target!(|line: &str| {
    let Ok(parsed) = parse_flow(line, FlowCommand::Add, &NoNames) else { return };
    let Update::AddFlow(flow) = parsed.value else { return };
    for version in Version::ALL {
        let codec = Codec::new(version);
        let envelope = Envelope { xid: 1, message: Message::FlowMod(FlowMod::add(flow.clone())) };
        let Ok(written) = codec.encode(&envelope) else { continue };
        let read = codec.decode(&written).unwrap_or_else(|failure| panic!("{line:?}: {failure}"));
        assert_eq!(codec.encode(&read).as_deref(), Ok(&*written), "{line:?}");
    }
});
