//! The table in numbers: how many connections there are and may be, and how long they live.

use super::line::{protocol, tcp_state};
use super::{Said, words};
use crate::client::Client;
use crate::commands::port::usage;
use crate::error::Error;
use crate::output::{Answer, Done, Report, Warned};
use clap::error::ErrorKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use tonic::Status;
use vswitch_proto::v1;

async fn stats(client: &Client, protocols: bool, zone: Option<u32>) -> Result<v1::GetConntrackStatsResponse, Error> {
    let request = v1::GetConntrackStatsRequest { protocols, zone };
    client.answer(client.conntrack().await?.get_conntrack_stats(request).await)
}

/// `ct-stats-show [zone=N] [verbose]`.
pub(super) async fn by_protocol(client: &Client, words: &[String], more: bool) -> Answer {
    let (verbose, zone): (Vec<_>, Vec<_>) = words.iter().cloned().partition(|word| word == "verbose");
    let zone = words::one_zone(&zone)?;
    let protocols = stats(client, true, zone).await?.protocols;
    Ok(Box::new(ByProtocol { protocols, verbose: more || !verbose.is_empty() }))
}

/// The lines of `ovs-appctl dpctl/ct-stats-show`, and one for ICMPv6, which Open vSwitch counts in
/// the total only.
struct ByProtocol {
    protocols: Vec<v1::ProtocolCount>,
    verbose: bool,
}

/// Lines, in their order.
const LINES: [(&str, u32); 8] =
    [("TCP", 6), ("UDP", 17), ("UDPLITE", 136), ("SCTP", 132), ("ICMP", 1), ("ICMPV6", 58), ("DCCP", 33), ("IGMP", 2)];

impl Report for ByProtocol {
    fn text(&self) -> String {
        let total: u64 = self.protocols.iter().map(|count| count.connections).sum();
        let mut text = format!("Connections Stats:\n    Total: {total}\n");
        let mut other = total;
        for (name, number) in LINES {
            let Some(count) = self.protocols.iter().find(|count| count.protocol == number) else { continue };
            other -= count.connections;
            let _ = writeln!(text, "  {name}: {}", count.connections);
            if self.verbose && number == 6 {
                text.push_str("    Conn per TCP states:\n");
                for state in &count.tcp_states {
                    let _ = writeln!(text, "\t  [{}]={}", tcp_state(state.state()), state.connections);
                }
            }
        }
        if other > 0 {
            let _ = writeln!(text, "  Other: {other}");
        }
        text
    }

    fn json(&self) -> Value {
        let states = |count: &v1::ProtocolCount| {
            let state = |state: &v1::TcpStateCount| (tcp_state(state.state()).to_owned(), state.connections.into());
            count.tcp_states.iter().map(state).collect::<serde_json::Map<_, Value>>()
        };
        let one = |count: &v1::ProtocolCount| {
            json!({
                "protocol": count.protocol,
                "protocol_name": protocol(count.protocol),
                "connections": count.connections,
                "tcp_states": (!count.tcp_states.is_empty()).then(|| states(count)),
            })
        };
        let total: u64 = self.protocols.iter().map(|count| count.connections).sum();
        json!({ "total": total, "protocols": self.protocols.iter().map(one).collect::<Value>() })
    }
}

/// `ct-get-nconns`.
pub(super) async fn connections(client: &Client) -> Answer {
    let connections = stats(client, false, None).await?.connections;
    Ok(Box::new(Said { text: format!("{connections}\n"), json: json!({ "connections": connections }) }))
}

/// `ct-get-maxconns`.
pub(super) async fn connections_max(client: &Client) -> Answer {
    let max = stats(client, false, None).await?.connections_max;
    Ok(Box::new(Said { text: format!("{max}\n"), json: json!({ "connections_max": max }) }))
}

/// `ct-set-maxconns`: only to what it is.
pub(super) async fn set_connections_max(client: &Client, connections: u64) -> Answer {
    let max = stats(client, false, None).await?.connections_max;
    if connections == max {
        return Ok(Box::new(Said { text: "setting maxconns successful\n".to_owned(), json: json!({ "ok": true }) }));
    }
    let hint = format!("set [conntrack] connections = {connections} in the configuration file and restart vswitchd");
    let told = format!("the table is made for {max} connections when the switch starts; {hint}");
    Err(Error::Refused(Box::new(Status::failed_precondition(told))))
}

/// `ct-counters-show`.
pub(super) async fn counters(client: &Client) -> Answer {
    Ok(Box::new(Counters(stats(client, false, None).await?)))
}

struct Counters(v1::GetConntrackStatsResponse);

impl Report for Counters {
    fn text(&self) -> String {
        let stats = &self.0;
        format!(
            "Connections now/at most     : {}/{}\n\
             Memory for them, in bytes   : {}\n\
             Created                     : {}\n\
             Expired                     : {}\n\
             Flushed                     : {}\n\
             Unreplied, dropped early    : {}\n\
             Taken back (ct_forget)      : {}\n\
             Refused, table full         : {}\n\
             Refused, share of the port  : {}\n\
             Refused, limit of the zone  : {}\n\
             Refused, translations in use: {}\n\
             Refused, tuple taken        : {}\n\
             Events lost                 : {}\n",
            stats.connections,
            stats.connections_max,
            stats.memory,
            stats.created,
            stats.expired,
            stats.flushed,
            stats.dropped_early,
            stats.forgotten,
            stats.refused_full,
            stats.refused_port,
            stats.refused_zone,
            stats.refused_nat,
            stats.refused_taken,
            stats.events_lost,
        )
    }

    fn json(&self) -> Value {
        let stats = &self.0;
        json!({
            "connections": stats.connections,
            "connections_max": stats.connections_max,
            "memory": stats.memory,
            "created": stats.created,
            "expired": stats.expired,
            "flushed": stats.flushed,
            "dropped_early": stats.dropped_early,
            "forgotten": stats.forgotten,
            "refused_full": stats.refused_full,
            "refused_port": stats.refused_port,
            "refused_zone": stats.refused_zone,
            "refused_nat": stats.refused_nat,
            "refused_taken": stats.refused_taken,
            "events_lost": stats.events_lost,
        })
    }
}

/// `ct-set-limits`.
pub(super) async fn set_limits(client: &Client, words: &[String]) -> Answer {
    let request = words::limits(words)?;
    client.answer(client.conntrack().await?.set_conntrack_limits(request).await)?;
    Ok(Box::new(Done))
}

/// `ct-get-limits`.
pub(super) async fn limits(client: &Client, words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let zones = words::zones(&words)?;
    let is_all = zones.is_empty();
    let request = v1::GetConntrackLimitsRequest { zones };
    let answer = client.answer(client.conntrack().await?.get_conntrack_limits(request).await)?;
    Ok(Box::new(Limits { answer, is_all }))
}

/// The lines of `ovs-appctl dpctl/ct-get-limits`.
struct Limits {
    answer: v1::GetConntrackLimitsResponse,
    /// No zones were asked for: those without a limit of their own are not shown as text.
    is_all: bool,
}

impl Report for Limits {
    fn text(&self) -> String {
        // (Open vSwitch shows no limit as 0, too.)
        let default = self.answer.default_limit.unwrap_or_default();
        let mut text = format!("default limit={default}\n");
        for zone in self.answer.zones.iter().filter(|zone| !self.is_all || zone.limit.is_some()) {
            let _ = writeln!(text, "zone={},limit={},count={}", zone.zone, zone.limit.unwrap_or(default), zone.count);
        }
        text
    }

    fn json(&self) -> Value {
        let zone = |zone: &v1::ZoneLimit| json!({ "zone": zone.zone, "limit": zone.limit, "count": zone.count });
        json!({ "default": self.answer.default_limit, "zones": self.answer.zones.iter().map(zone).collect::<Value>() })
    }
}

/// `ct-del-limits`.
pub(super) async fn delete_limits(client: &Client, words: &[String]) -> Answer {
    let (default, zones): (Vec<_>, Vec<_>) = words.iter().map(String::as_str).partition(|word| *word == "default");
    let request = v1::DeleteConntrackLimitsRequest { default_limit: !default.is_empty(), zones: words::zones(&zones)? };
    client.answer(client.conntrack().await?.delete_conntrack_limits(request).await)?;
    Ok(Box::new(Done))
}

/// `ct-set-timeouts`.
pub(super) async fn set_timeouts(client: &Client, words: &[String]) -> Answer {
    let request = v1::SetZoneTimeoutPolicyRequest { policy: Some(words::timeouts(words)?) };
    let answer = client.answer(client.conntrack().await?.set_zone_timeout_policy(request).await)?;
    Ok(Box::new(Warned(answer.warnings)))
}

/// `ct-get-timeouts`.
pub(super) async fn timeouts(client: &Client, words: &[String]) -> Answer {
    let request = v1::ListZoneTimeoutPoliciesRequest { zone: words::one_zone(words)? };
    let answer = client.answer(client.conntrack().await?.list_zone_timeout_policies(request).await)?;
    Ok(Box::new(Timeouts(answer)))
}

/// `default` or `zone=N`, and the timeouts in the order of their names: what ct-set-timeouts takes.
struct Timeouts(v1::ListZoneTimeoutPoliciesResponse);

fn seconds(policy: Option<&v1::TimeoutPolicy>) -> BTreeMap<&str, u32> {
    let seconds = policy.into_iter().flat_map(|policy| &policy.seconds);
    seconds.map(|(name, seconds)| (name.as_str(), *seconds)).collect()
}

impl Report for Timeouts {
    fn text(&self) -> String {
        let line = |begin: &str, policy: Option<&v1::TimeoutPolicy>| {
            let pairs: String = seconds(policy).iter().map(|(name, seconds)| format!(",{name}={seconds}")).collect();
            format!("{begin}{pairs}\n")
        };
        let default = line("default", self.0.default_policy.as_ref());
        let zones = self.0.zones.iter().map(|zone| line(&format!("zone={}", zone.zone), zone.policy.as_ref()));
        std::iter::once(default).chain(zones).collect()
    }

    fn json(&self) -> Value {
        let zone =
            |zone: &v1::ZoneTimeoutPolicy| json!({ "zone": zone.zone, "seconds": seconds(zone.policy.as_ref()) });
        let default = seconds(self.0.default_policy.as_ref());
        json!({ "default": default, "zones": self.0.zones.iter().map(zone).collect::<Value>() })
    }
}

/// `ct-del-timeouts`.
pub(super) async fn delete_timeouts(client: &Client, words: &[String]) -> Answer {
    let zone = words::one_zone(words)?.ok_or_else(|| usage(ErrorKind::ValueValidation, "no zone; give zone=N"))?;
    let request = v1::DeleteZoneTimeoutPolicyRequest { zone };
    client.answer(client.conntrack().await?.delete_zone_timeout_policy(request).await)?;
    Ok(Box::new(Done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(protocol: u32, connections: u64) -> v1::ProtocolCount {
        v1::ProtocolCount { protocol, connections, tcp_states: Vec::new() }
    }

    #[test]
    fn protocols_both_ways() {
        let state = |state: v1::TcpState, connections| v1::TcpStateCount { state: state.into(), connections };
        let mut tcp = count(6, 3);
        tcp.tcp_states = vec![state(v1::TcpState::SynSent, 2), state(v1::TcpState::Established, 1)];
        let protocols = vec![count(1, 2), count(2, 1), tcp, count(17, 3), count(47, 4), count(58, 5), count(89, 2)];
        let mut stats = ByProtocol { protocols, verbose: true };
        let want = "\
Connections Stats:
    Total: 20
  TCP: 3
    Conn per TCP states:
\t  [SYN_SENT]=2
\t  [ESTABLISHED]=1
  UDP: 3
  ICMP: 2
  ICMPV6: 5
  IGMP: 1
  Other: 6
";
        assert_eq!(stats.text(), want);
        stats.verbose = false;
        let without: String = want
            .lines()
            .filter(|line| !line.contains("TCP states") && !line.starts_with('\t'))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(stats.text(), without);
        assert_eq!(ByProtocol { protocols: Vec::new(), verbose: true }.text(), "Connections Stats:\n    Total: 0\n");
        let json = stats.json();
        assert_eq!((&json["total"], json["protocols"].as_array().map(Vec::len)), (&json!(20), Some(7)));
        let tcp = json!({ "SYN_SENT": 2, "ESTABLISHED": 1 });
        assert_eq!((&json["protocols"][2]["tcp_states"], &json["protocols"][0]["tcp_states"]), (&tcp, &Value::Null));
        assert_eq!(
            (&json["protocols"][4]["protocol_name"], &json["protocols"][3]["protocol_name"]),
            (&Value::Null, &json!("udp"))
        );
    }

    #[test]
    fn limits_both_ways() {
        let zone = |zone, limit, count| v1::ZoneLimit { zone, limit, count };
        let zones = vec![zone(1, Some(5), 2), zone(2, None, 7), zone(3, Some(0), 0)];
        let answer = v1::GetConntrackLimitsResponse { default_limit: Some(10), zones };
        let all = Limits { answer: answer.clone(), is_all: true };
        assert_eq!(all.text(), "default limit=10\nzone=1,limit=5,count=2\nzone=3,limit=0,count=0\n");
        let some = Limits { answer, is_all: false };
        let want = "default limit=10\nzone=1,limit=5,count=2\nzone=2,limit=10,count=7\nzone=3,limit=0,count=0\n";
        assert_eq!(some.text(), want);
        let want = json!({
            "default": 10,
            "zones": [
                { "zone": 1, "limit": 5, "count": 2 }, { "zone": 2, "limit": null, "count": 7 },
                { "zone": 3, "limit": 0, "count": 0 },
            ],
        });
        assert_eq!(all.json(), want);
        let none = Limits { answer: v1::GetConntrackLimitsResponse::default(), is_all: true };
        assert_eq!((none.text().as_str(), none.json()), ("default limit=0\n", json!({ "default": null, "zones": [] })));
    }

    #[test]
    fn timeouts_both_ways() {
        let policy = |pairs: &[(&str, u32)]| {
            let seconds = pairs.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect();
            Some(v1::TimeoutPolicy { seconds })
        };
        let timeouts = Timeouts(v1::ListZoneTimeoutPoliciesResponse {
            default_policy: policy(&[("udp_single", 60), ("tcp_close", 30), ("icmp_first", 60)]),
            zones: vec![v1::ZoneTimeoutPolicy { zone: 7, policy: policy(&[("udp_single", 5)]) }],
        });
        let want = "default,icmp_first=60,tcp_close=30,udp_single=60\nzone=7,udp_single=5\n";
        assert_eq!(timeouts.text(), want);
        let want = json!({
            "default": { "icmp_first": 60, "tcp_close": 30, "udp_single": 60 },
            "zones": [{ "zone": 7, "seconds": { "udp_single": 5 } }],
        });
        assert_eq!(timeouts.json(), want);
        let warned = Warned(vec!["odd".to_owned()]);
        assert_eq!(
            (warned.json(), warned.warnings()),
            (json!({ "ok": true, "warnings": ["odd"] }), vec!["odd".to_owned()])
        );
    }

    #[test]
    fn counters_both_ways() {
        let counters = Counters(v1::GetConntrackStatsResponse {
            connections: 3,
            connections_max: 1024,
            memory: 9,
            created: 5,
            events_lost: 1,
            ..Default::default()
        });
        let text = counters.text();
        assert!(
            text.starts_with("Connections now/at most     : 3/1024\nMemory for them, in bytes   : 9\nCreated "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 13);
        let json = counters.json();
        assert_eq!((&json["connections"], &json["created"], &json["events_lost"]), (&json!(3), &json!(5), &json!(1)));
    }
}
