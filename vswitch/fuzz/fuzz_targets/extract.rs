//! Packet extraction: any bytes give a key; offsets lie within the packet and in order; padding
//! does not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_flow::FlowKey;
use vswitch_flow::extract::extract;

fuzz_target!(|frame: &[u8]| {
    let mut key = FlowKey::default();
    let layers = extract(frame, frame.len(), &mut key);
    for at in [layers.l3, layers.l4, layers.l3_end] {
        assert!(at == u16::MAX || usize::from(at) <= frame.len(), "{layers:?} in {} bytes", frame.len());
    }
    if layers.l4 != u16::MAX {
        assert!(layers.l3 <= layers.l4, "{layers:?}");
    }
    // What lies behind a header cannot change what the header said: the same bytes again give the
    // same key.
    let mut again = FlowKey::default();
    assert_eq!(extract(frame, frame.len(), &mut again), layers);
    assert_eq!(again, key);
});
