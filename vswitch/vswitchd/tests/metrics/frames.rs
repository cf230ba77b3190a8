//! Packets of the traffic.

/// A packet that the Pod sends to the gateway.
pub(crate) fn of_pod(from: u16) -> Vec<u8> {
    let mut frame = udp(from, 1);
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9]);
    frame[26..34].copy_from_slice(&[10, 10, 0, 9, 10, 10, 0, 1]);
    // The tracker takes no header with a wrong checksum.
    let mut sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let checksum = !u16::try_from(sum).expect("16 bits");
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// A datagram between two ports of UDP.
pub(crate) fn udp(from: u16, to: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&from.to_be_bytes());
    frame.extend_from_slice(&to.to_be_bytes());
    frame.extend_from_slice(&[0, 26, 0, 0]);
    frame.resize(60, 0x5a);
    frame
}
