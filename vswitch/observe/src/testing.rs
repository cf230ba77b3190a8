//! What tests share.

use std::net::IpAddr;

/// Pairs of addresses, one of each family.
pub(crate) const ADDRESSES: [(&str, &str); 2] = [("10.10.0.24", "10.20.0.7"), ("fd00:10::18", "fd00:20::7")];

/// A frame of a protocol with a payload of so many bytes: TCP is a SYN from port 41234 to 5432,
/// ICMP has type 8, code 3 and identifier 0x3039.
pub(crate) fn frame(from: &str, to: &str, protocol: u8, payload: usize) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().expect("an address"), to.parse().expect("an address"));
    let mut l4 = match protocol {
        6 => [&41234_u16.to_be_bytes()[..], &5432_u16.to_be_bytes(), &[0; 8], &[0x50, 2], &[0; 6]].concat(),
        _ => vec![8, 3, 0, 0, 0x30, 0x39, 0, 0],
    };
    l4.resize(l4.len() + payload, 0);
    let length = u16::try_from(l4.len()).expect("a short frame");
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        other => panic!("{other:?}"),
    }
    frame.extend(l4);
    frame
}
