//! Where flows go, as the arguments say.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

const FORMS: &str = "write ipfix:udp:HOST:PORT, ipfix:tcp:HOST:PORT or grpc:HOST:PORT";

/// Bytes of a host's name (RFC 1035).
const HOST_LEN_MAX: usize = 253;

/// How a target takes flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// IPFIX in datagrams.
    IpfixUdp,
    /// IPFIX in a stream.
    IpfixTcp,
    /// Antrea's FlowExportService.
    Grpc,
}

impl Protocol {
    const ALL: [(Self, &'static str); 3] =
        [(Self::IpfixUdp, "ipfix:udp:"), (Self::IpfixTcp, "ipfix:tcp:"), (Self::Grpc, "grpc:")];
}

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) protocol: Protocol,
    /// A name or an address; of IPv6 in brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// Whether flows name Pods of other Nodes. Antrea's aggregator puts the halves of a connection
    /// together: it tells them by the name that each half lacks.
    pub(super) fn wants_remote_names(&self) -> bool {
        self.protocol != Protocol::Grpc
    }

    /// As sockets and URLs take it.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = Protocol::ALL.iter().find(|(protocol, _)| *protocol == self.protocol);
        write!(f, "{}{}", scheme.map(|(_, scheme)| *scheme).unwrap_or_default(), self.authority())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Protocol::ALL.iter().find_map(|(of, scheme)| Some((*of, text.strip_prefix(scheme)?)));
        let (protocol, rest) = found.ok_or(FORMS)?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| format!("the port is missing: {FORMS}"))?;
        let port = match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("{port:?} is no port: give 1 to 65535")),
        };
        let is_address = |host: &str| host.parse::<std::net::Ipv6Addr>().is_ok();
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
        let is_name = !host.is_empty() && host.len() <= HOST_LEN_MAX && host.bytes().all(is_char);
        if is_name || inner.is_some_and(is_address) {
            return Ok(Self { protocol, host: host.to_owned(), port });
        }
        let hint = if is_address(host) { format!("write [{host}]") } else { FORMS.to_owned() };
        Err(format!("{host:?} is no name and no address of a host: {hint}"))
    }
}

/// Files of certificates in PEM. Without `ca` gRPC has no TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of authorities that the target's certificate is of.
    pub ca: Option<PathBuf>,
    /// The agent's certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Seconds of a text such as `5s`, `2m` or `90`: 1 second to 1 day.
///
/// # Errors
/// The text is none: what is expected.
pub fn seconds(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix('s') {
        Some(number) => (number, 1),
        None => text.strip_suffix('m').map_or((text, 1), |number| (number, 60)),
    };
    let is_number = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
    let seconds = number.parse::<u32>().ok().filter(|_| is_number).and_then(|number| number.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    seconds.ok_or_else(|| format!("{text:?} is no time from 1s to 1440m, such as 5s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_printed_alike() {
        for text in
            ["ipfix:udp:10.0.0.1:4739", "ipfix:tcp:[fd00::1]:4739", "grpc:flow-aggregator.flow-aggregator.svc:14739"]
        {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()).as_deref(), Ok(text));
        }
        for (text, expected) in [
            ("udp:h:1", "write ipfix:udp:"),
            ("ipfix:udp:h", "the port is missing"),
            ("ipfix:udp:h:0", "\"0\" is no port"),
            ("grpc::1", "\"\" is no name"),
            ("grpc:a b:1", "\"a b\" is no name"),
            ("grpc:fd00::1:80", "write [fd00::1]"),
            ("grpc:[10.0.0.1]:80", "is no name"),
        ] {
            let error = text.parse::<Target>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(["5s", "5", "2m", "86400s"].map(seconds), [Ok(5), Ok(5), Ok(120), Ok(86_400)]);
        for wrong in ["", "s", "0s", "-1s", "+1s", "1h", "1441m", "99999999999s", "5 s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
