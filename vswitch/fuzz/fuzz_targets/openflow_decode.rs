//! OpenFlow: any bytes are a message or a named error. What was read is written, and read again as
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_openflow::{Codec, Message, Version};

fuzz_target!(|bytes: &[u8]| {
    let version = bytes.first().and_then(|number| Version::from_number(*number)).unwrap_or(Version::V15);
    for codec in [Codec::new(version), Codec::new(version).with_options([4, 16, 0, 8, 0, 0, 0, 124])] {
        let envelope = match codec.decode(bytes) {
            Ok(envelope) => envelope,
            Err(failure) => {
                assert!(codec.encode(&failure.reply(version, bytes)).is_ok(), "{failure}");
                continue;
            }
        };
        match &envelope.message {
            Message::FlowMod(change) => drop(change.update()),
            Message::GroupMod(change) => drop(change.update()),
            Message::MeterMod(change) => drop(change.update()),
            Message::PacketOut(packet) => drop(packet.accepted()),
            _ => {}
        }
        let Ok(written) = codec.encode(&envelope) else { continue };
        let again = codec.decode(&written).unwrap_or_else(|failure| panic!("{envelope:?}: {failure}"));
        let rewritten = codec.encode(&again).expect("it was written before");
        assert_eq!(codec.decode(&rewritten), Ok(again));
    }
});
