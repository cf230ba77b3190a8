//! The verb `observe`, with the options of `hubble observe`.

use clap::{Args, Parser, ValueEnum};
use std::ffi::OsString;

/// What is to be observed.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// Go on with what is observed from now on, until interrupted.
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// The last N of those that the switch keeps [default: 20, without --follow].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) last: Option<u32>,
    /// End after N of them, the oldest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "last")]
    pub(crate) first: Option<u64>,
    /// All that the switch keeps.
    #[arg(long, conflicts_with_all = ["last", "since"])]
    pub(crate) all: bool,
    /// Those since then: a duration such as 5m or 1h30m, or a time such as 2026-11-30T15:04:05Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Those until then, likewise.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// How each is shown.
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "compact")]
    pub(crate) output: ObserveOutput,
    /// Which are meant.
    #[command(flatten)]
    pub(crate) filter: ObserveFilter,
    /// Reverse the option that follows: `--not --port 53`. Repeatable.
    #[arg(long, value_name = "OPTION", num_args = 1, require_equals = true)]
    pub(crate) not: Vec<String>,
}

/// Options that filter, by themselves.
#[derive(Debug, Parser)]
pub(crate) struct OnlyFilter {
    /// Which are meant.
    #[command(flatten)]
    pub(crate) filter: ObserveFilter,
}

/// How an observation is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObserveOutput {
    /// A line each.
    Compact,
    /// A line for each property.
    Dict,
    /// JSON with the names of Hubble's flows, a line each.
    Json,
    /// The same as json.
    Jsonpb,
    /// Columns.
    Tab,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// They were forwarded.
    Forwarded,
    /// They were dropped.
    Dropped,
    /// The sender was told that they are refused.
    Refused,
}

/// What an observation is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObserveKind {
    /// A connection began.
    Begin,
    /// A connection ended.
    End,
    /// A connection began or ended.
    Trace,
    /// A policy decided, and is logged.
    #[value(alias = "policy")]
    PolicyVerdict,
    /// A connection to a Service without endpoints was refused.
    Refused,
    /// A packet was dropped.
    Drop,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrafficDirection {
    /// To a Pod.
    Ingress,
    /// From a Pod.
    Egress,
}

/// Which observations are meant. Values of one option are alternatives; options have to hold
/// together.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters: repeatable; several values of one are alternatives")]
pub(crate) struct ObserveFilter {
    /// What became of the packets.
    #[arg(long, ignore_case = true, value_delimiter = ',')]
    pub(crate) verdict: Vec<Verdict>,
    /// Drop reasons or classes of them, as in `vsctl drop-reasons`.
    #[arg(long = "drop-reason", visible_alias = "reason", alias = "drop-reason-desc", value_delimiter = ',')]
    pub(crate) drop_reason: Vec<String>,
    /// What they are of.
    #[arg(long = "type", ignore_case = true, value_name = "TYPE", value_delimiter = ',')]
    pub(crate) kind: Vec<ObserveKind>,
    /// Pod at either end: NAMESPACE/NAME or NAME; a name may end with `*`.
    #[arg(long, value_name = "POD", value_delimiter = ',')]
    pub(crate) pod: Vec<String>,
    /// Pod that sent.
    #[arg(long, value_name = "POD", value_delimiter = ',')]
    pub(crate) from_pod: Vec<String>,
    /// Pod that was to receive.
    #[arg(long, value_name = "POD", value_delimiter = ',')]
    pub(crate) to_pod: Vec<String>,
    /// Namespace of either end.
    #[arg(short = 'n', long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) namespace: Vec<String>,
    /// Namespace of the sender.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) from_namespace: Vec<String>,
    /// Namespace of the receiver.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) to_namespace: Vec<String>,
    /// Address or block of addresses of either end.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) ip: Vec<String>,
    /// Address or block of the sender.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) from_ip: Vec<String>,
    /// Address or block of the receiver.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) to_ip: Vec<String>,
    /// Port of either end.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
    /// Port of the sender.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) from_port: Vec<u16>,
    /// Port of the receiver.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) to_port: Vec<u16>,
    /// tcp, udp, sctp, icmp, icmpv4, icmpv6, or a number.
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',', value_parser = protocol)]
    pub(crate) protocol: Vec<Protocols>,
    /// Service that was spoken to: NAMESPACE/NAME, with or without :PORT, or NAME.
    #[arg(long, value_name = "SERVICE", value_delimiter = ',')]
    pub(crate) service: Vec<String>,
    /// Policy that decided: NAMESPACE/NAME or NAME.
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Labels of either end: KEY or KEY=VALUE; those joined by commas have to hold together.
    #[arg(long, value_name = "LABELS")]
    pub(crate) label: Vec<String>,
    /// Labels of the sender.
    #[arg(long, value_name = "LABELS")]
    pub(crate) from_label: Vec<String>,
    /// Labels of the receiver.
    #[arg(long, value_name = "LABELS")]
    pub(crate) to_label: Vec<String>,
    /// Workload of either end: KIND/NAME or NAME.
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',')]
    pub(crate) workload: Vec<String>,
    /// Workload of the sender.
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',')]
    pub(crate) from_workload: Vec<String>,
    /// Workload of the receiver.
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',')]
    pub(crate) to_workload: Vec<String>,
    /// Which way the policy looks that decided, or the packets go.
    #[arg(long, ignore_case = true, value_name = "DIRECTION", value_delimiter = ',')]
    pub(crate) traffic_direction: Vec<TrafficDirection>,
    /// IPv4.
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// IPv6.
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
}

/// Numbers that a word stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocols(pub(crate) &'static [u32], pub(crate) Option<u32>);

fn protocol(text: &str) -> Result<Protocols, String> {
    let numbers: &[u32] = match text.to_ascii_lowercase().as_str() {
        "icmp" => &[1, 58],
        "icmpv4" => &[1],
        "icmpv6" => &[58],
        "tcp" => &[6],
        "udp" => &[17],
        "sctp" => &[132],
        number => {
            let number = number.parse::<u8>().map_err(|_| "give tcp, udp, sctp, icmp or a number".to_owned())?;
            return Ok(Protocols(&[], Some(number.into())));
        }
    };
    Ok(Protocols(numbers, None))
}

/// Joins `--not` with the option that it reverses: `--not --port 53` is `--not=--port=53`.
pub(super) fn joined(words: Vec<OsString>) -> Vec<OsString> {
    if !words.iter().any(|word| word == "observe") {
        return words;
    }
    let (mut joined, mut words) = (Vec::new(), words.into_iter().peekable());
    while let Some(word) = words.next() {
        let option =
            words.peek().and_then(|next| next.to_str()).filter(|next| word == "--not" && next.starts_with('-'));
        let Some(option) = option.map(str::to_owned) else {
            joined.push(word);
            continue;
        };
        words.next();
        let mut text = format!("--not={option}");
        let is_flag = ["--ipv4", "--ipv6", "-4", "-6"].contains(&option.as_str());
        if !is_flag
            && !option.contains('=')
            && let Some(value) = words.next().and_then(|value| value.into_string().ok())
        {
            text.push_str(&format!("={value}"));
        }
        joined.push(text.into());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_is_of_the_option_that_follows() {
        for (line, expected) in [
            ("vsctl observe --not --port 53 -f", "vsctl observe --not=--port=53 -f"),
            ("vsctl observe --not --port=53 --not --ipv4 -f", "vsctl observe --not=--port=53 --not=--ipv4 -f"),
            ("vsctl observe --not -n kube-system", "vsctl observe --not=-n=kube-system"),
            ("vsctl observe --not", "vsctl observe --not"),
            ("vsctl show --not --x 3", "vsctl show --not --x 3"),
        ] {
            let words = joined(line.split(' ').map(OsString::from).collect());
            let words: Vec<_> = words.iter().map(|word| word.to_str().expect("UTF-8")).collect();
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn protocols_have_names_and_numbers() {
        assert_eq!(protocol("TCP"), Ok(Protocols(&[6], None)));
        assert_eq!(protocol("icmp"), Ok(Protocols(&[1, 58], None)));
        assert_eq!(protocol("47"), Ok(Protocols(&[], Some(47))));
        assert!(protocol("256").is_err() && protocol("x").is_err());
    }
}
