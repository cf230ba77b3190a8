//! From requests to what the tracker takes.

use crate::services::status::invalid;
use tonic::Status;
use vswitch_conntrack::{Family, Filter, protocol};
use vswitch_dataplane::port::FieldError;
use vswitch_proto::v1;

/// Collects what is wrong; a wrong field becomes none, so that the others are looked at too.
#[derive(Default)]
struct Fields(Vec<FieldError>);

impl Fields {
    fn wrong(&mut self, field: &'static str, problem: impl Into<String>, hint: &str) {
        self.0.push(FieldError::new(field, problem, hint));
    }

    fn number<T: TryFrom<u32>>(&mut self, field: &'static str, value: Option<u32>, hint: &str) -> Option<T> {
        let value = value?;
        let number = T::try_from(value).ok();
        if number.is_none() {
            self.wrong(field, format!("{value} is out of range"), hint);
        }
        number
    }

    fn address(&mut self, field: &'static str, octets: &[u8]) -> Option<(Family, u128)> {
        match octets.len() {
            0 => None,
            4 => octets.try_into().ok().map(|octets| (Family::V4, u32::from_be_bytes(octets).into())),
            16 => octets.try_into().ok().map(|octets| (Family::V6, u128::from_be_bytes(octets))),
            len => {
                self.wrong(field, format!("{len} bytes are no address"), "give 4 or 16 bytes");
                None
            }
        }
    }

    fn label(&mut self, field: &'static str, octets: &[u8], default: u128) -> u128 {
        if octets.is_empty() {
            return default;
        }
        octets.try_into().map_or_else(
            |_| {
                self.wrong(field, format!("{} bytes are no label", octets.len()), "give 16 bytes");
                0
            },
            u128::from_be_bytes,
        )
    }

    fn finish<T>(self, value: T) -> Result<T, Status> {
        if self.0.is_empty() { Ok(value) } else { Err(invalid(&self.0)) }
    }
}

const ZONE_HINT: &str = "use 0 to 65535";

/// A zone.
pub(super) fn zone(field: &'static str, zone: u32) -> Result<u16, Status> {
    let mut fields = Fields::default();
    let zone = fields.number(field, Some(zone), ZONE_HINT);
    fields.finish(zone.unwrap_or_default())
}

/// Zones.
pub(super) fn zones(field: &'static str, zones: impl IntoIterator<Item = u32>) -> Result<Vec<u16>, Status> {
    let mut fields = Fields::default();
    let zones = zones.into_iter().filter_map(|zone| fields.number(field, Some(zone), ZONE_HINT)).collect();
    fields.finish(zones)
}

/// Which connections are meant.
pub(super) fn filter(wanted: Option<v1::ConnectionFilter>) -> Result<Filter, Status> {
    let wanted = wanted.unwrap_or_default();
    let mut fields = Fields::default();
    let protocol = fields.number("protocol", wanted.protocol, "use 0 to 255");
    let (src, dst) = (fields.address("src", &wanted.src), fields.address("dst", &wanted.dst));
    let families = [src, dst].map(|address| address.map(|(family, _)| family));
    if let [Some(one), Some(other)] = families
        && one != other
    {
        fields.wrong("dst", "it is not as long as src", "give two addresses of IPv4 or of IPv6");
    }
    match (protocol, families[0].or(families[1])) {
        (Some(protocol::ICMP), Some(Family::V6)) => {
            fields.wrong("protocol", "ICMP has no IPv6 addresses", "use ICMPv6 (58)");
        }
        (Some(protocol::ICMPV6), Some(Family::V4)) => {
            fields.wrong("protocol", "ICMPv6 has no IPv4 addresses", "use ICMP (1)");
        }
        _ => {}
    }
    let (src_port, dst_port) = ends(&wanted, protocol, &mut fields);
    let mark = (wanted.mark.unwrap_or(0), wanted.mark_mask.unwrap_or(u32::MAX));
    let has_label = !wanted.label.is_empty();
    let label = (fields.label("label", &wanted.label, 0), fields.label("label_mask", &wanted.label_mask, u128::MAX));
    for (field, value, is_lonely) in [
        ("mark_mask", "mark", wanted.mark.is_none() && wanted.mark_mask.is_some()),
        ("label_mask", "label", !has_label && !wanted.label_mask.is_empty()),
    ] {
        if is_lonely {
            fields.wrong(field, format!("it has no {value}"), "give both, or none");
        }
    }
    let filter = Filter {
        zone: fields.number("zone", wanted.zone, ZONE_HINT),
        protocol,
        src,
        dst,
        src_port,
        dst_port,
        mark: if wanted.mark.is_some() { (mark.0 & mark.1, mark.1) } else { (0, 0) },
        label: if has_label { (label.0 & label.1, label.1) } else { (0, 0) },
    };
    fields.finish(filter)
}

/// Ports, or what ICMP has in their place.
fn ends(wanted: &v1::ConnectionFilter, protocol: Option<u8>, fields: &mut Fields) -> (Option<u16>, Option<u16>) {
    let ports = [("src_port", wanted.src_port), ("dst_port", wanted.dst_port)]
        .map(|(field, port)| (field, fields.number::<u16>(field, port, "use 0 to 65535"), port.is_some()));
    if !matches!(protocol, Some(protocol::TCP | protocol::UDP | protocol::SCTP)) {
        for (field, _, _) in ports.iter().filter(|(_, _, is_given)| *is_given) {
            fields.wrong(field, "it needs a protocol with ports", "give protocol 6 (TCP), 17 (UDP) or 132 (SCTP)");
        }
    }
    let icmp = [("icmp_id", wanted.icmp_id), ("icmp_type", wanted.icmp_type), ("icmp_code", wanted.icmp_code)];
    if icmp.iter().all(|(_, value)| value.is_none()) {
        return (ports[0].1, ports[1].1);
    }
    if !matches!(protocol, Some(protocol::ICMP | protocol::ICMPV6)) {
        for (field, _) in icmp.iter().filter(|(_, value)| value.is_some()) {
            fields.wrong(field, "it needs the protocol ICMP", "give protocol 1 (ICMP) or 58 (ICMPv6)");
        }
    } else if wanted.icmp_type.is_none() && wanted.icmp_code.is_some() {
        fields.wrong("icmp_code", "it has no icmp_type", "give both");
    }
    let id = fields.number("icmp_id", wanted.icmp_id, "use 0 to 65535");
    let kind = fields.number::<u8>("icmp_type", wanted.icmp_type, "use 0 to 255");
    let code = fields.number::<u8>("icmp_code", wanted.icmp_code, "use 0 to 255").unwrap_or(0);
    (id, kind.map(|kind| u16::from_be_bytes([kind, code])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wanted: &v1::ConnectionFilter) -> Vec<String> {
        let status = filter(Some(wanted.clone())).expect_err(&format!("{wanted:?}"));
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{wanted:?}");
        status.message().lines().map(str::to_owned).collect()
    }

    #[test]
    fn nothing_means_everything() {
        assert_eq!(filter(None).expect("all"), Filter::default());
        assert_eq!(filter(Some(v1::ConnectionFilter::default())).expect("all"), Filter::default());
    }

    #[test]
    fn every_field_arrives() {
        let wanted = v1::ConnectionFilter {
            zone: Some(65535),
            protocol: Some(6),
            src: vec![10, 0, 0, 1],
            dst: vec![10, 0, 0, 2],
            src_port: Some(1000),
            dst_port: Some(0),
            mark: Some(0x1f),
            mark_mask: Some(0xf),
            label: [vec![0x80], vec![0; 14], vec![7]].concat(),
            ..Default::default()
        };
        let want = Filter {
            zone: Some(65535),
            protocol: Some(6),
            src: Some((Family::V4, 0x0a00_0001)),
            dst: Some((Family::V4, 0x0a00_0002)),
            src_port: Some(1000),
            dst_port: Some(0),
            mark: (0xf, 0xf),
            label: (0x80 << 120 | 7, u128::MAX),
        };
        assert_eq!(filter(Some(wanted)).expect("a filter"), want);
        let ping = v1::ConnectionFilter {
            protocol: Some(58),
            src: vec![0xfd; 16],
            icmp_id: Some(77),
            icmp_type: Some(128),
            label: vec![0; 16],
            label_mask: [vec![0; 15], vec![1]].concat(),
            ..Default::default()
        };
        let want = Filter {
            protocol: Some(58),
            src: Some((Family::V6, u128::from_be_bytes([0xfd; 16]))),
            src_port: Some(77),
            dst_port: Some(128 << 8),
            label: (0, 1),
            ..Filter::default()
        };
        assert_eq!(filter(Some(ping)).expect("a filter"), want);
    }

    #[test]
    fn what_contradicts_itself_is_refused_by_field() {
        let base = v1::ConnectionFilter::default;
        let cases = [
            (v1::ConnectionFilter { zone: Some(1 << 16), ..base() }, "zone: 65536 is out of range; use 0 to 65535"),
            (v1::ConnectionFilter { protocol: Some(256), ..base() }, "protocol: 256 is out of range; use 0 to 255"),
            (v1::ConnectionFilter { src: vec![1; 5], ..base() }, "src: 5 bytes are no address; give 4 or 16 bytes"),
            (
                v1::ConnectionFilter { src: vec![1; 4], dst: vec![1; 16], ..base() },
                "dst: it is not as long as src; give two addresses of IPv4 or of IPv6",
            ),
            (
                v1::ConnectionFilter { src: vec![1; 16], protocol: Some(1), ..base() },
                "protocol: ICMP has no IPv6 addresses; use ICMPv6 (58)",
            ),
            (
                v1::ConnectionFilter { dst: vec![1; 4], protocol: Some(58), ..base() },
                "protocol: ICMPv6 has no IPv4 addresses; use ICMP (1)",
            ),
            (
                v1::ConnectionFilter { src_port: Some(1), ..base() },
                "src_port: it needs a protocol with ports; give protocol 6 (TCP), 17 (UDP) or 132 (SCTP)",
            ),
            (
                v1::ConnectionFilter { protocol: Some(17), dst_port: Some(65536), ..base() },
                "dst_port: 65536 is out of range; use 0 to 65535",
            ),
            (
                v1::ConnectionFilter { protocol: Some(17), icmp_id: Some(1), ..base() },
                "icmp_id: it needs the protocol ICMP; give protocol 1 (ICMP) or 58 (ICMPv6)",
            ),
            (
                v1::ConnectionFilter { protocol: Some(1), icmp_code: Some(1), ..base() },
                "icmp_code: it has no icmp_type; give both",
            ),
            (v1::ConnectionFilter { mark_mask: Some(1), ..base() }, "mark_mask: it has no mark; give both, or none"),
            (v1::ConnectionFilter { label: vec![1], ..base() }, "label: 1 bytes are no label; give 16 bytes"),
            (
                v1::ConnectionFilter { label_mask: vec![1; 16], ..base() },
                "label_mask: it has no label; give both, or none",
            ),
        ];
        for (wanted, want) in cases {
            assert_eq!(told(&wanted), [want]);
        }
        let all = v1::ConnectionFilter { zone: Some(70_000), src: vec![1], icmp_type: Some(300), ..base() };
        let fields: Vec<_> =
            told(&all).into_iter().map(|line| line[..line.find(':').unwrap_or(0)].to_owned()).collect();
        assert_eq!(fields, ["src", "icmp_type", "icmp_type", "zone"]);
    }
}
