//! What can be asked: the arguments.

use crate::frame::{Plan, Protocol};
use anyhow::ensure;
use clap::Parser;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;
use vswitch_dataplane::packet::Mac;

/// The longest that packets which are still on their way are waited for.
pub(crate) const DRAIN: Duration = Duration::from_millis(50);
/// Beyond what it is asked to take: starting EAL, draining, writing.
const GRACE: Duration = Duration::from_secs(10);

/// Sends packets at a steady rate through a switch, and tells how long each took: a line of JSON
/// per event on stdout.
#[derive(Debug, Parser)]
#[command(
    name = "vsgen",
    version,
    after_help = "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the other side did not come."
)]
pub(crate) struct Cli {
    /// Devargs of a port, e.g. net_virtio_user0,path=/tmp/a.sock,server=1. The first one sends, the
    /// last one receives.
    #[arg(long = "port", value_name = "DEVARGS", required = true, num_args = 1)]
    pub(crate) ports: Vec<String>,
    /// Rate in packets per second; `max`: as fast as it goes; `50%`: of what came through at `max`
    /// before. In turn, one trial each.
    #[arg(long = "rate", value_name = "RATE", required = true, num_args = 1)]
    pub(crate) rates: Vec<Rate>,
    /// Core of the thread that sends and receives; EAL's threads are there too.
    #[arg(long, default_value_t = 0)]
    pub(crate) core: u32,
    /// Memory in MiB.
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(u32).range(32..=65536))]
    pub(crate) memory_mb: u32,
    /// Ordinary pages instead of hugepages: slow, and no vhost-user.
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// Bytes of a frame on the wire, with its checksum.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub(crate) size: u16,
    /// Flows, by source port from 1024 on, in shuffled order.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=60_000))]
    pub(crate) flows: u16,
    /// Data of TCP connections, which the switch has seen opened by others (sequence numbers 1000
    /// and 5000), instead of UDP.
    #[arg(long)]
    pub(crate) tcp: bool,
    /// Address of the end that sends.
    #[arg(long, default_value = "02:00:00:00:01:01")]
    pub(crate) from_mac: Mac,
    /// Address of the end that receives.
    #[arg(long, default_value = "02:00:00:00:01:02")]
    pub(crate) to_mac: Mac,
    /// Address of the end that sends.
    #[arg(long, default_value = "198.18.0.1")]
    pub(crate) from: Ipv4Addr,
    /// Address of the end that receives.
    #[arg(long, default_value = "198.18.0.2")]
    pub(crate) to: Ipv4Addr,
    /// Port of the end that receives.
    #[arg(long, default_value_t = 80)]
    pub(crate) to_port: u16,
    /// The end that receives sends a few frames first, so that a learning switch knows where it is.
    #[arg(long)]
    pub(crate) announce: bool,
    /// Seconds for the other side to connect.
    #[arg(long, default_value = "30", value_parser = seconds)]
    pub(crate) connect: Duration,
    /// Seconds of a trial before it measures.
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub(crate) warm_up: Duration,
    /// Seconds that a trial measures.
    #[arg(long, default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
}

/// How fast a trial sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As fast as it goes.
    Max,
    /// Packets per second.
    Pps(u64),
    /// Of what came through in the last trial as fast as it goes.
    Percent(u32),
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rate = match text.strip_suffix('%') {
            _ if text == "max" => Some(Self::Max),
            Some(percent) => percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Self::Percent),
            None => text.parse().ok().filter(|pps| (1..=1_000_000_000).contains(pps)).map(Self::Pps),
        };
        rate.ok_or("give packets per second, max, or a share such as 50%")
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Pps(pps) => write!(f, "{pps}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// At most ten minutes, so that a trial's time in cycles, scaled, fits the pacer's word.
fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=600.0).contains(&value) { Ok(Duration::from_secs_f64(value)) } else { Err("0 to 600 seconds".to_owned()) }
}

impl Cli {
    /// What its packets look like.
    ///
    /// # Errors
    /// When arguments do not fit each other.
    pub(crate) fn plan(&self) -> anyhow::Result<Plan> {
        ensure!(self.ports.len() <= 2, "two ports at most");
        ensure!(self.rates.len() <= 100, "100 rates at most");
        let shares = self.rates.iter().position(|rate| matches!(rate, Rate::Percent(_)));
        let max = self.rates.iter().position(|rate| *rate == Rate::Max);
        ensure!(shares.is_none_or(|share| max.is_some_and(|max| max < share)), "a share needs a rate of max before it");
        Ok(Plan {
            protocol: if self.tcp { Protocol::Tcp } else { Protocol::Udp },
            size: self.size,
            flows: self.flows,
            macs: [self.from_mac, self.to_mac],
            addresses: [self.from, self.to],
            to_port: self.to_port,
        })
    }

    /// The longest that all of it may take.
    pub(crate) fn longest(&self) -> Duration {
        let trials = u32::try_from(self.rates.len()).unwrap_or(u32::MAX);
        let trial = self.warm_up + self.seconds + DRAIN;
        self.connect.saturating_add(trial.saturating_mul(trials)).saturating_add(GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parsed(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["vsgen", "--port", "net_null0"].iter().chain(words))
    }

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rates() {
        for (text, rate) in [("max", Rate::Max), ("50%", Rate::Percent(50)), ("1000000", Rate::Pps(1_000_000))] {
            assert_eq!((text.parse(), rate.to_string()), (Ok(rate), text.to_owned()));
        }
        for text in ["", "0", "-1", "0%", "101%", "%", "fast", "1e6", "1000000001"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_comes_after_what_it_is_a_share_of() {
        let plan =
            |words: &[&str]| parsed(words).expect("parses").plan().map(|plan| plan.flows).map_err(|e| e.to_string());
        assert_eq!(plan(&["--rate", "max", "--rate", "50%", "--flows", "7"]), Ok(7));
        assert!(plan(&["--rate", "50%", "--rate", "max"]).is_err());
        assert!(plan(&["--rate", "50%"]).is_err());
        assert!(plan(&["--rate", "1", "--port", "net_null1", "--port", "net_null2"]).is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for words in [
            ["--size", "63"],
            ["--size", "1519"],
            ["--flows", "0"],
            ["--seconds", "-1"],
            ["--seconds", "601"],
            ["--seconds", "NaN"],
        ] {
            assert!(parsed(&[&["--rate", "1"], &words[..]].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn it_is_bounded_by_what_was_asked() {
        let cli = parsed(&["--rate", "1", "--rate", "2", "--warm-up", "1", "--seconds", "3", "--connect", "5"])
            .expect("parses");
        assert_eq!(cli.longest(), Duration::from_secs(5 + 2 * 4) + 2 * DRAIN + GRACE);
    }
}
