//! A capture of a tunnel as tshark reads it: everything is understood, and every checksum is there
//! and right.

use super::command;
use std::collections::BTreeMap;
use std::path::Path;

/// What may be in a capture. No other dissector is asked: one whose port number or first bytes are
/// there by chance would complain.
const PROTOCOLS: [&str; 15] = [
    "frame",
    "eth",
    "ethertype",
    "arp",
    "ip",
    "ipv6",
    "ipv6.fraghdr",
    "ipv6.hopopts",
    "udp",
    "tcp",
    "icmp",
    "icmpv6",
    "gre",
    "geneve",
    "vxlan",
];
/// It judges checksums, and does not follow TCP, which may send things twice and out of order.
const OPTIONS: &str = "ip.check_checksum:TRUE tcp.check_checksum:TRUE udp.check_checksum:TRUE \
                       tcp.analyze_sequence_numbers:FALSE tcp.desegment_tcp_streams:FALSE";
/// Those with a checksum that tshark judges: it has a field `NAME.checksum.status`.
const SUMS: [&str; 6] = ["ip", "udp", "tcp", "icmp", "icmpv6", "gre"];
/// `PROTO_CHECKSUM_E_BAD`
const BAD: &str = "0";
/// `PROTO_CHECKSUM_E_GOOD`
const GOOD: &str = "1";
/// `PROTO_CHECKSUM_E_NOT_PRESENT`
const ABSENT: &str = "3";
/// Severities of its remarks: `PI_WARN`, `PI_ERROR`.
const WARNING: u32 = 0x0060_0000;
const ERROR: u32 = 0x0080_0000;
/// `PI_SEQUENCE`, a group of remarks: TCP has sent something twice.
const SEQUENCE: u32 = 0x0200_0000;
/// A remark that is no fault: 0 may be written so, and Linux does for every protocol
/// (`skb_checksum_help`). Such a checksum's status is [`BAD`].
const ALL_ONES: &str = "Checksum 0xffff instead of 0x0000";
/// Between the values of a field; a comma may be in a remark.
const SEPARATOR: char = ';';
/// Longer than this is a whole segment, with an MTU of 1350 inside.
const WHOLE: usize = 1350;
/// Far fewer than a second or a file of TCP.
const SEGMENTS: usize = 50;
/// Most of what is wrong that a message shows.
const SHOWN: usize = 10;

/// What [`super::everything`] makes hosts send, for [`Expect::inside`].
pub(crate) const EVERYTHING: [&str; 9] =
    ["arp", "ip:tcp", "ip:udp", "ip:icmp", "ip:data", "ipv6:tcp", "ipv6:udp", "ipv6:icmpv6", "ipv6:ipv6.fraghdr:data"];

/// What must be in a capture of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expect<'a> {
    /// The headers of the tunnel: `ip:udp:geneve`.
    pub(crate) tunnel: &'a str,
    /// What is inside, at least one packet of each: `ipv6:tcp`. Of TCP there must be whole
    /// segments, both ways.
    pub(crate) inside: &'a [&'a str],
    /// The outer address of the end whose packets are as the next two say; the other end may do as
    /// it likes.
    pub(crate) from: &'a str,
    /// Fields of the tunnel's header, and the values that they have in each of its packets:
    /// `vxlan.vni`, `7`.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    /// Whether the tunnel's header has its checksum.
    pub(crate) sum: bool,
}

/// What tshark says of a packet.
struct Frame<'a> {
    len: usize,
    /// Names of its headers, outermost first, joined by `:`.
    protocols: &'a str,
    /// What is in the tunnel, likewise, if it is in one.
    inside: Option<&'a str>,
    /// The outer source address.
    source: &'a str,
    /// Severity, group and text of each remark.
    remarks: Vec<(u32, u32, &'a str)>,
    /// How the checksums of each protocol were judged, outermost first.
    sums: BTreeMap<&'static str, Vec<&'a str>>,
    /// Values of the fields that are asked for.
    fields: Vec<&'a str>,
}

/// Checks that a capture is what is expected, and that tshark finds nothing wrong in any packet.
///
/// # Panics
/// When it is not, or when tshark cannot read it.
pub(crate) fn clean(path: &Path, expect: &Expect<'_>) {
    let text = dissect(path, expect);
    let frames = text.lines().map(|line| Frame::read(line, expect)).collect::<Vec<_>>();
    let wrong =
        frames.iter().zip(text.lines()).filter_map(|(frame, line)| Some(format!("{line}: {}", frame.problem(expect)?)));
    let wrong = wrong.collect::<Vec<_>>();
    assert!(
        wrong.is_empty(),
        "{expect:?}: {} of {} packets are wrong:\n{}",
        wrong.len(),
        frames.len(),
        wrong[..wrong.len().min(SHOWN)].join("\n")
    );
    for inside in expect.inside {
        let begins =
            |chain: &str| chain.strip_prefix(inside).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        let these = frames.iter().filter(|frame| frame.inside.is_some_and(begins)).collect::<Vec<_>>();
        let (ours, theirs): (Vec<&Frame<'_>>, Vec<_>) = these.iter().partition(|frame| frame.source == expect.from);
        let least = if inside.ends_with(":tcp") { SEGMENTS } else { 1 };
        let whole = |frames: &[&Frame<'_>]| frames.iter().filter(|frame| least == 1 || frame.len > WHOLE).count();
        for (whose, count) in [("from", whole(&ours)), ("to", whole(&theirs))] {
            let chains = frames.iter().map(|frame| frame.protocols).collect::<std::collections::BTreeSet<_>>();
            assert!(
                count >= least,
                "{expect:?}: {count} packets with {inside} {whose} {}, not {least}; there are {chains:#?}",
                expect.from
            );
        }
    }
}

/// What tshark prints: a line per packet with the fields of [`Frame`].
fn dissect(path: &Path, expect: &Expect<'_>) -> String {
    let path = path.to_str().expect("temporary directories have UTF-8 names");
    let settings = tempfile::Builder::new().prefix("vswitch-tshark-").tempdir().expect("a temporary directory");
    let known = command::run(&["tshark", "-G", "protocols"]);
    let others = known.lines().filter_map(|line| line.split('\t').nth(2));
    // Remarks of its own are protocols, too.
    let others = others.filter(|name| !PROTOCOLS.contains(name) && !name.starts_with("_ws."));
    let others = others.map(|name| format!("{name}\n")).collect::<String>();
    std::fs::write(settings.path().join("disabled_protos"), others).expect("a temporary directory has room");
    let variable = format!("WIRESHARK_CONFIG_DIR={}", settings.path().display());
    let aggregator = format!("aggregator={SEPARATOR}");
    let mut words =
        vec!["env", &variable, "tshark", "-n", "-r", path, "-T", "fields", "-E", "separator=/t", "-E", &aggregator];
    words.extend(OPTIONS.split(' ').flat_map(|option| ["-o", option]));
    let sums = SUMS.map(|protocol| format!("{protocol}.checksum.status"));
    let fixed = [
        "frame.len",
        "frame.protocols",
        "ip.src",
        "ipv6.src",
        "_ws.expert.severity",
        "_ws.expert.group",
        "_ws.expert.message",
    ];
    let fields =
        fixed.into_iter().chain(sums.iter().map(String::as_str)).chain(expect.fields.iter().map(|(name, _)| *name));
    words.extend(fields.flat_map(|field| ["-e", field]));
    command::run(&words)
}

impl<'a> Frame<'a> {
    fn read(line: &'a str, expect: &Expect<'_>) -> Self {
        let columns = line.split('\t').collect::<Vec<_>>();
        let [len, protocols, v4, v6, severities, groups, texts, ref rest @ ..] = columns[..] else {
            panic!("tshark printed too few fields: {line:?}")
        };
        let counts = [severities, groups, texts].map(|column| values(column).count());
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?} severities, groups and remarks: {line:?}");
        assert_eq!(rest.len(), SUMS.len() + expect.fields.len(), "tshark printed other fields: {line:?}");
        let (sums, fields) = rest.split_at(SUMS.len());
        let outer = if protocols.starts_with("eth:ethertype:ipv6") { v6 } else { v4 };
        let tunnelled = protocols.strip_prefix("eth:ethertype:").and_then(|chain| chain.strip_prefix(expect.tunnel));
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text:?} is no number in {line:?}"));
        let remarks = values(severities).map(number).zip(values(groups).map(number)).zip(values(texts));
        Self {
            len: number(len) as usize,
            protocols,
            inside: tunnelled.and_then(|chain| chain.strip_prefix(":eth:ethertype:")),
            source: outer.split(SEPARATOR).next().unwrap_or_default(),
            remarks: remarks.map(|((severity, group), text)| (severity, group, text)).collect(),
            sums: SUMS.into_iter().zip(sums.iter().map(|sums| values(sums).collect())).collect(),
            fields: fields.to_vec(),
        }
    }

    /// What is wrong with it.
    fn problem(&self, expect: &Expect<'_>) -> Option<String> {
        let bad = |&(severity, group, text): &(u32, u32, &str)| {
            !text.contains(ALL_ONES) && (severity >= ERROR || severity == WARNING && group != SEQUENCE)
        };
        if self.remarks.iter().any(bad) {
            return Some("tshark does not like it".to_owned());
        }
        let neighbours = self.protocols.contains(":arp") || self.protocols.contains(":icmpv6");
        if self.inside.is_none() && !neighbours {
            return Some("it is in no tunnel".to_owned());
        }
        let ours = self.inside.is_some() && self.source == expect.from;
        for ((name, value), found) in expect.fields.iter().zip(&self.fields).filter(|_| ours) {
            if value != found {
                return Some(format!("{name} is {found:?}, not {value:?}"));
            }
        }
        SUMS.into_iter().find_map(|protocol| self.wrong_sum(protocol, expect, ours))
    }

    /// Each header has a checksum, and it is right; but that of the tunnel may be left out.
    fn wrong_sum(&self, protocol: &str, expect: &Expect<'_>, ours: bool) -> Option<String> {
        let headers = self.protocols.split(':').filter(|name| *name == protocol).count();
        let judged = match (protocol, &self.sums[protocol]) {
            // It has no judgement of what is not there.
            ("gre", none) if none.is_empty() => &vec![ABSENT; headers],
            (_, judged) => judged,
        };
        if judged.len() != headers {
            return Some(format!("{headers} headers of {protocol}, but checksums of {}", judged.len()));
        }
        // "TCP Checksum 0xffff instead of 0x0000 (see RFC 1624)"
        let all_ones = format!("{} {ALL_ONES}", protocol.to_uppercase());
        let good =
            if self.remarks.iter().any(|(.., text)| text.starts_with(&all_ones)) { [GOOD, BAD] } else { [GOOD; 2] };
        let may_be_absent = self.inside.is_some() && expect.tunnel.split(':').nth(1) == Some(protocol);
        judged.iter().enumerate().find_map(|(index, status)| {
            let right = match (index == 0 && may_be_absent, ours, expect.sum) {
                (true, true, false) => *status == ABSENT,
                (true, false, _) => *status == ABSENT || good.contains(status),
                _ => good.contains(status),
            };
            (!right)
                .then(|| format!("checksum {index} of {protocol} has status {status}, not {GOOD} (absent: {ABSENT})"))
        })
    }
}

/// The values of a field that is there several times.
fn values(text: &str) -> impl Iterator<Item = &str> {
    text.split(SEPARATOR).filter(|value| !value.is_empty())
}
