use super::*;
use crate::elements::ANTREA;
use crate::{Counts, PodEnd};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A field of a template: enterprise, number, length.
type Field = (u32, u16, u16);

/// Templates by their numbers, read again by the text of RFC 7011.
type Templates = BTreeMap<u16, Vec<Field>>;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(len);
        self.0 = rest;
        front
    }

    fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn u16(&mut self) -> u16 {
        u16::try_from(self.number(2)).expect("two bytes")
    }
}

/// A message: its sequence number, and its sets by their numbers.
fn sets(message: &[u8]) -> (u32, Vec<(u16, &[u8])>) {
    let mut reader = Reader(message);
    assert_eq!(reader.u16(), 10);
    assert_eq!(usize::from(reader.u16()), message.len(), "the header says the length");
    reader.take(4);
    let sequence = u32::try_from(reader.number(4)).expect("four bytes");
    assert_eq!(reader.number(4), 7, "the domain");
    let mut sets = Vec::new();
    while !reader.0.is_empty() {
        let (id, len) = (reader.u16(), usize::from(reader.u16()));
        sets.push((id, reader.take(len - 4)));
    }
    (sequence, sets)
}

fn read_templates(message: &[u8]) -> Templates {
    let mut templates = Templates::new();
    for (id, set) in sets(message).1 {
        assert_eq!(id, 2);
        let mut reader = Reader(set);
        while !reader.0.is_empty() {
            let (template, count) = (reader.u16(), reader.u16());
            let mut field = || {
                let (id, len) = (reader.u16(), reader.u16());
                let enterprise = if id & 0x8000 == 0 { 0 } else { reader.number(4) };
                (u32::try_from(enterprise).expect("four bytes"), id & 0x7fff, len)
            };
            let fields = (0..count).map(|_| field()).collect();
            templates.insert(template, fields);
        }
    }
    templates
}

/// Records of a message, each by enterprise and number.
fn read_records(message: &[u8], templates: &Templates) -> Vec<BTreeMap<(u32, u16), Vec<u8>>> {
    let mut records = Vec::new();
    for (id, set) in sets(message).1 {
        let mut reader = Reader(set);
        while !reader.0.is_empty() {
            let record = templates[&id].iter().map(|(enterprise, element, len)| {
                let len = match *len {
                    u16::MAX => match reader.number(1) {
                        255 => usize::from(reader.u16()),
                        len => usize::try_from(len).expect("one byte"),
                    },
                    len => usize::from(len),
                };
                ((*enterprise, *element), reader.take(len).to_vec())
            });
            records.push(record.collect());
        }
    }
    records
}

fn address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ]
}

prop_compose! {
    fn flow()(
        (source, destination) in address(),
        (protocol, source_port) in any::<(u8, u16)>(),
        (packets, bytes) in any::<(u64, u64)>(),
        texts in proptest::collection::vec("[a-zà-ü]{0,300}", 6),
    ) -> Flow {
        let [name, namespace, node, rule, port, state] = texts.try_into().expect("six texts");
        let counts = Counts { packets, bytes, new_packets: packets / 2, new_bytes: bytes / 2 };
        Flow {
            protocol,
            source_port,
            forward: counts,
            source_pod: PodEnd { name: name.clone(), namespace, node: node.clone(), ..PodEnd::default() },
            destination_pod: PodEnd { name, node, ..PodEnd::default() },
            ingress: crate::PolicyUse { name: rule.clone(), rule, ..crate::PolicyUse::default() },
            service: Some(crate::ServiceUse { port_name: port, address: destination, port: 80, uid: String::new() }),
            tcp_state: state,
            ..Flow::new(source, destination)
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(flows in proptest::collection::vec(flow(), 1..20), is_long in any::<bool>()) {
        let len_max = if is_long { STREAM_LEN_MAX } else { DATAGRAM_LEN_MAX };
        let mut encoder = Encoder::new(7, len_max);
        let templates = read_templates(&encoder.templates(1));
        let mut rest = &flows[..];
        while !rest.is_empty() {
            let before = flows.len() - rest.len();
            let (message, count) = encoder.records(rest, 1);
            prop_assert!(count > 0, "each message has a record");
            prop_assert!(message.len() <= len_max);
            prop_assert_eq!(usize::try_from(sets(&message).0).expect("few"), before, "records before this message");
            let records = read_records(&message, &templates);
            prop_assert_eq!(records.len(), count);
            for (record, flow) in records.iter().zip(rest) {
                let source = match flow.source {
                    IpAddr::V4(address) => (record[&(0, 8)].clone(), address.octets().to_vec()),
                    IpAddr::V6(address) => (record[&(0, 27)].clone(), address.octets().to_vec()),
                };
                prop_assert_eq!(source.0, source.1);
                prop_assert_eq!(&record[&(0, 86)][..], &flow.forward.packets.to_be_bytes()[..]);
                let name = std::str::from_utf8(&record[&(ANTREA, 101)]).expect("UTF-8");
                prop_assert!(flow.source_pod.name.starts_with(name));
                prop_assert!(encoder.shortened() > 0 || name == flow.source_pod.name);
            }
            rest = &rest[count..];
        }
    }
}

#[test]
fn the_longest_record_fits_a_datagram_when_its_texts_are_cut() {
    let long = || "ä".repeat(60_000);
    let address = IpAddr::from([0xfd; 16]);
    let pod = || PodEnd { namespace: long(), name: long(), node: long(), ..PodEnd::default() };
    let policy = || crate::PolicyUse { namespace: long(), name: long(), rule: long(), ..crate::PolicyUse::default() };
    let flow = Flow {
        source_pod: pod(),
        destination_pod: pod(),
        service: Some(crate::ServiceUse { port_name: long(), address, port: 1, uid: String::new() }),
        ingress: policy(),
        egress_policy: policy(),
        tcp_state: long(),
        egress: crate::EgressUse { name: long(), address: long(), node: long() },
        ..Flow::new(address, address)
    };
    let mut encoder = Encoder::new(7, 0);
    let (message, count) = encoder.records(&[flow.clone(), flow], 1);
    assert_eq!((count, encoder.shortened()), (1, 1));
    assert!(message.len() <= DATAGRAM_LEN_MAX, "{}", message.len());
    assert!(encoder.templates(1).len() <= DATAGRAM_LEN_MAX);
}

#[test]
fn sequence_numbers_count_records_and_wrap() {
    let flows = [Flow::new(IpAddr::from([1; 4]), IpAddr::from([2; 4]))];
    let mut encoder = Encoder::new(7, DATAGRAM_LEN_MAX);
    encoder.sequence = u32::MAX;
    assert_eq!(sets(&encoder.records(&flows, 1).0).0, u32::MAX);
    assert_eq!(sets(&encoder.records(&flows, 1).0).0, 0);
    assert_eq!(sets(&encoder.templates(1)).0, 1, "templates do not count");
}
