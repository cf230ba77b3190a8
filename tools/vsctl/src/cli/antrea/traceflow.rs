//! Arguments of `vsctl antrea trace-flow`.

use super::object;
use clap::{Args, ValueEnum};
use std::net::IpAddr;
use std::time::Duration;

/// What is to be traced. Without an end and a role: which Traceflows run.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceFlow {
    /// Where it begins: a Pod of this Node (NAMESPACE/NAME), or an address; of live traffic also
    /// any.
    #[arg(value_name = "SOURCE", value_parser = end)]
    pub(crate) source: Option<End>,
    /// Where it is to go: a Pod of this Node, service/NAMESPACE/NAME, or an address; of live
    /// traffic also any.
    #[arg(value_name = "DESTINATION", value_parser = end)]
    pub(crate) destination: Option<End>,
    /// Its protocol: given none, that of the Service, else ICMP; of live traffic any.
    #[arg(long, value_enum)]
    pub(crate) protocol: Option<Protocol>,
    /// Its destination port: given none, that of the Service, else 80; of live traffic any.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires = "protocol")]
    pub(crate) port: Option<u16>,
    /// Its source port: given none, one is chosen; of live traffic any.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires = "protocol")]
    pub(crate) source_port: Option<u16>,
    /// Its flags of TCP, as a number; 2 is SYN.
    #[arg(long, value_name = "FLAGS", value_parser = clap::value_parser!(u32).range(1..=0x1ff), requires = "protocol")]
    pub(crate) tcp_flags: Option<u32>,
    /// Its TTL.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "live")]
    pub(crate) ttl: Option<u8>,
    /// Bytes behind its headers.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=1000), conflicts_with = "live")]
    pub(crate) payload: Option<u32>,
    /// IPv4.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// IPv6.
    #[arg(short = '6')]
    pub(crate) ipv6: bool,
    /// Look at the first packet of a new connection of real traffic instead of sending one.
    #[arg(long)]
    pub(crate) live: bool,
    /// Only at one that is dropped.
    #[arg(long, requires = "live")]
    pub(crate) dropped_only: bool,
    /// Tell what comes in from another Node with the tag.
    #[arg(long, requires = "tag", conflicts_with_all = ["source", "destination", "protocol"])]
    pub(crate) receiver: bool,
    /// The tag, the same on all Nodes; given none, one that is free here.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=63))]
    pub(crate) tag: Option<u8>,
    /// Its name; given none, one is made up.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Seconds to wait for its packet, 1 to 300.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=300))]
    pub(crate) wait: u16,
    /// Tell what TraceService says would happen to the packet, table by table, too.
    #[arg(long)]
    pub(crate) tables: bool,
}

impl TraceFlow {
    /// Which ones run is asked for.
    pub(crate) const fn is_listing(&self) -> bool {
        self.source.is_none() && self.destination.is_none() && !self.receiver
    }

    /// How long it takes at most.
    pub(crate) fn takes(&self) -> Duration {
        if self.is_listing() { Duration::ZERO } else { Duration::from_secs(self.wait.into()) }
    }
}

/// One end of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Of live traffic.
    Any,
    /// `namespace/name`
    Pod(String),
    /// `namespace/name`
    Service(String),
    Address(String),
}

/// Protocols of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

fn end(text: &str) -> Result<End, String> {
    if text == "any" {
        return Ok(End::Any);
    }
    if text.parse::<IpAddr>().is_ok() {
        return Ok(End::Address(text.to_owned()));
    }
    let parts: Vec<&str> = text.split('/').collect();
    let (kind, name) = match parts.as_slice() {
        [_, _] => ("pod", text),
        [kind, _, _] => (*kind, &text[kind.len() + 1..]),
        _ => ("", ""),
    };
    let named = match kind.to_ascii_lowercase().as_str() {
        "pod" => object::pod(name).ok().map(End::Pod),
        "service" | "services" | "svc" => {
            object::object(&format!("service/{name}")).ok().map(|found| End::Service(found.name))
        }
        _ => None,
    };
    named.ok_or_else(|| {
        format!(
            "{text:?} is no end; give NAMESPACE/NAME of a Pod of this Node, service/NAMESPACE/NAME, an address, or any"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Antrea, Cli, Command};
    use clap::Parser;

    fn parse(line: &str) -> Result<TraceFlow, String> {
        let words = ["vsctl", "antrea", "trace-flow"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Antrea { verb: Antrea::TraceFlow(args) } => Ok(*args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn ends_are_pods_services_and_addresses() {
        for (text, want) in [
            ("a/web", End::Pod("a/web".to_owned())),
            ("pod/a/web", End::Pod("a/web".to_owned())),
            ("service/a/web", End::Service("a/web".to_owned())),
            ("svc/a/web", End::Service("a/web".to_owned())),
            ("10.0.0.1", End::Address("10.0.0.1".to_owned())),
            ("fd00::1", End::Address("fd00::1".to_owned())),
            ("any", End::Any),
        ] {
            assert_eq!(end(text), Ok(want), "{text}");
        }
        for text in ["", "web", "a/", "service/a/b/c", "egress/a/b", "10.0.0"] {
            assert!(end(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(parse("").is_ok_and(|args| args.is_listing() && args.takes() == Duration::ZERO));
        let args = parse("a/b 10.0.0.1 --protocol tcp --port 80 --wait 5 -6").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            (args.port, args.takes(), args.ipv6, args.is_listing()),
            (Some(80), Duration::from_secs(5), true, false)
        );
        assert!(parse("--receiver --tag 5").is_ok_and(|args| !args.is_listing()));
        for wrong in [
            "a/b a/c --port 80",
            "a/b a/c --dropped-only",
            "a/b a/c --live --ttl 3",
            "a/b a/c -4 -6",
            "a/b a/c --tag 64",
            "a/b a/c --wait 301",
            "--receiver",
            "a/b a/c --receiver --tag 5",
            "a/b a/c --protocol tcp --port 0",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
