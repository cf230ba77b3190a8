//! Outer headers of tunnels: any bytes are read as one of the kinds or refused; what is said lies
//! within the packet; options that are read are options.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_overlay::{OptionMap, TunnelKind, options, read};

fuzz_target!(|packet: &[u8]| {
    let mut map = OptionMap::default();
    let mappings = options::parse("{class=0xffff,type=0,len=4}->tun_metadata0").expect("a good mapping");
    map.add(&mappings).expect("the first one");
    for kind in [TunnelKind::Geneve, TunnelKind::Vxlan, TunnelKind::Gre] {
        let Ok(outside) = read(kind, packet, packet.len(), 14) else { continue };
        assert!(outside.header_len + 14 <= outside.payload_end && outside.payload_end <= packet.len(), "{outside:?}");
        let options = packet.get(outside.options.clone()).expect("options lie within the packet");
        let _ = map.decode(options);
        if let Some(sum) = outside.checksum {
            assert!(sum.start <= sum.end && sum.end <= packet.len(), "{outside:?}");
        }
    }
});
