//! What a namespace's kernel has counted: errors of what arrived, and datagrams that nobody read in
//! time.

use super::netns::Netns;

/// Packets that a receiver dropped for a wrong checksum, by protocol, since its namespace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChecksumErrors {
    /// TCP, over IPv4 and IPv6 alike (`TcpInCsumErrors`).
    pub(crate) tcp: u64,
    /// UDP over IPv4.
    pub(crate) udp: u64,
    /// UDP over IPv6.
    pub(crate) udp6: u64,
    /// ICMP.
    pub(crate) icmp: u64,
    /// `ICMPv6`.
    pub(crate) icmp6: u64,
    /// IPv4 headers (`IpExtInCsumErrors`).
    pub(crate) ip: u64,
}

impl ChecksumErrors {
    /// Reads them.
    ///
    /// # Panics
    /// When the kernel does not have one of them.
    pub(crate) fn of(ns: &Netns) -> Self {
        let v4 = ns.run(&["cat", "/proc/net/snmp", "/proc/net/netstat"]);
        let v6 = ns.run(&["cat", "/proc/net/snmp6"]);
        Self {
            tcp: table(&v4, "Tcp:", "InCsumErrors"),
            udp: table(&v4, "Udp:", "InCsumErrors"),
            udp6: line(&v6, "Udp6InCsumErrors"),
            icmp: table(&v4, "Icmp:", "InCsumErrors"),
            icmp6: line(&v6, "Icmp6InCsumErrors"),
            ip: table(&v4, "IpExt:", "InCsumErrors"),
        }
    }
}

/// What a receiver counts when a header or a checksum is wrong, for `nstat`.
const RECEIVE_ERRORS: [&str; 10] = [
    "IpInHdrErrors",
    "IpExtInCsumErrors",
    "IpExtInTruncatedPkts",
    "Ip6InHdrErrors",
    "Ip6InTruncatedPkts",
    "TcpInCsumErrors",
    "UdpInCsumErrors",
    "Udp6InCsumErrors",
    "IcmpInCsumErrors",
    "Icmp6InCsumErrors",
];

/// What is not 0 of what a namespace and its interfaces have counted as wrong in what arrived, as
/// `nstat` and `/proc/net/dev` have it.
///
/// # Panics
/// When the kernel does not know one of the counters.
pub(crate) fn receive_errors(ns: &Netns) -> Vec<String> {
    let mut wrong = protocol_errors(&ns.run(&["nstat", "-asz"]));
    wrong.extend(device_errors(&ns.run(&["cat", "/proc/net/dev"])));
    wrong
}

/// Of `nstat -asz`: the lines of [`RECEIVE_ERRORS`] that are not 0.
pub(super) fn protocol_errors(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let counters = lines.filter(|words| words.len() >= 2 && RECEIVE_ERRORS.contains(&words[0])).collect::<Vec<_>>();
    assert_eq!(counters.len(), RECEIVE_ERRORS.len(), "nstat does not know all of {RECEIVE_ERRORS:?}:\n{text}");
    counters.iter().filter(|words| words[1] != "0").map(|words| words.join(" ")).collect()
}

/// Of `/proc/net/dev`: interfaces that have received something wrong (`errs`: all; `frame`: its
/// length, its checksum, its header).
pub(super) fn device_errors(text: &str) -> Vec<String> {
    let mut lines = text.lines().skip(1);
    let names = lines.next().and_then(|line| line.split('|').nth(1)).unwrap_or_default().split_whitespace();
    let names = names.collect::<Vec<_>>();
    let column = |name| names.iter().position(|column| *column == name).unwrap_or_else(|| panic!("no {name}:\n{text}"));
    let (errors, frame) = (column("errs"), column("frame"));
    let interfaces = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, values)| (name.trim(), values.split_whitespace().collect::<Vec<_>>()));
    let wrong = interfaces.filter(|(_, values)| values[errors] != "0" || values[frame] != "0");
    wrong.map(|(name, values)| format!("{name}: errs {}, frame {}", values[errors], values[frame])).collect()
}

/// Datagrams that a namespace's kernel dropped since the program that should read them was too
/// slow.
pub(crate) fn socket_drops(ns: &Netns) -> u64 {
    let v4 = ns.run(&["cat", "/proc/net/snmp"]);
    table(&v4, "Udp:", "RcvbufErrors") + line(&ns.run(&["cat", "/proc/net/snmp6"]), "Udp6RcvbufErrors")
}

/// Reads `/proc/net/snmp`: a line of names, then a line of values, both begin with the protocol.
fn table(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(protocol));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    let value = names.zip(values).find(|(column, _)| *column == name).and_then(|(_, value)| value.parse().ok());
    value.unwrap_or_else(|| panic!("the kernel has no counter {protocol} {name}:\n{text}"))
}

/// Reads `/proc/net/snmp6`: a name and a value per line.
fn line(text: &str, name: &str) -> u64 {
    let mut words = text.lines().map(str::split_whitespace);
    let value = words.find_map(|mut line| (line.next() == Some(name)).then(|| line.next()?.parse().ok()).flatten());
    value.unwrap_or_else(|| panic!("the kernel has no counter {name}:\n{text}"))
}
