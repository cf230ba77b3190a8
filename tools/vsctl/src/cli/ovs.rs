//! Lines of Open vSwitch's tools that vsctl does not take, and what to write in their place.
//!
//! **Where in the walk.** `mistakes` asks for advice about words that clap refused.
//!
//! **Design.** vsctl has no database: `set`, `get` and `list` have no counterpart of their own. The
//! advice is a whole line wherever the words say enough for one. Nothing is executed.
//!
//! **Limits.** Advice is text for people. A word that the table does not know is named as left out.

/// Verbs of ovs-vsctl, ovs-ofctl and ovs-appctl with other names here.
const NAMES: &[(&str, &str)] = &[
    ("list-ifaces", "list-ports BRIDGE"),
    ("iface-to-br", "show"),
    ("port-to-br", "show"),
    ("br-exists", "list-br"),
    ("br-to-vlan", "show"),
    ("br-to-parent", "show"),
    ("get-fail-mode", "show"),
    ("del-fail-mode", "set-fail-mode BRIDGE standalone"),
    ("dump-ports-desc", "dump-ports BRIDGE"),
    ("snoop", "monitor BRIDGE"),
    ("dump-desc", "capabilities"),
    ("fdb/show", "fdb-show BRIDGE"),
    ("fdb/flush", "fdb-flush BRIDGE"),
    ("fdb/add", "fdb-add BRIDGE PORT VLAN MAC"),
    ("fdb/del", "fdb-del BRIDGE VLAN MAC"),
    ("fdb/stats-show", "fdb-stats BRIDGE"),
    ("dpctl/show", "show"),
    ("dpctl/dump-flows", "dump-megaflows"),
    ("dpctl/dump-dps", "list-br"),
    ("dpif/show", "show"),
    ("dpif/dump-flows", "dump-megaflows BRIDGE"),
    ("dpif-netdev/pmd-stats-show", "worker-show"),
    ("dpif-netdev/pmd-stats-clear", "worker-clear"),
    ("dpif-netdev/pmd-perf-show", "worker-perf-show"),
    ("dpif-netdev/pmd-rxq-show", "worker-rxq-show"),
    ("dpif-netdev/pmd-rxq-rebalance", "worker-rxq-rebalance"),
    ("netdev-dpdk/get-mempool-info", "mempool-show"),
    ("ovs/route/show", "route-show"),
    ("ovs/route/lookup", "route-lookup ADDRESS"),
    ("ovs/route/add", "route-add PREFIX PORT"),
    ("ovs/route/del", "route-del PREFIX"),
    ("tnl/neigh/show", "tnl-neigh-show"),
    ("tnl/neigh/set", "tnl-neigh-set BRIDGE ADDRESS MAC"),
    ("tnl/neigh/flush", "tnl-neigh-flush"),
    ("tnl/ports/show", "tnl-ports-show"),
    ("coverage/show", "worker-perf-show"),
    ("list-commands", "help"),
];

/// Verbs of ovs-vsctl without a counterpart, and what there is in place of each.
const ABSENT: &[(&str, &str)] = &[
    (
        "add-bond",
        "the switch has no bonds; each device is a port: vsctl add-port BRIDGE PORT --type dpdk --devargs ...",
    ),
    ("set-controller", "controllers call the switch by gRPC (docs/api.md); none is configured"),
    ("get-controller", "controllers call the switch by gRPC (docs/api.md); none is configured"),
    ("del-controller", "controllers call the switch by gRPC (docs/api.md); none is configured"),
    ("set-manager", "the switch is managed by gRPC (docs/api.md); there is no database"),
    ("emer-reset", "there is no database; remove bridges: vsctl del-br BRIDGE"),
    ("vlog/set", "the log level is [log] of the configuration file"),
];

/// What to write in place of the words (without the program's name), if they are a line of Open
/// vSwitch's.
pub(super) fn advice(words: &[&str]) -> Option<String> {
    let switches = ["--may-exist", "--if-exists", "--no-wait", "--db"];
    let is_switch = |word: &&&str| switches.contains(&word.split_once('=').map_or(**word, |(name, _)| name));
    let plain: Vec<&str> = words.iter().filter(|word| !is_switch(word)).copied().collect();
    let verb = *plain.iter().find(|word| !word.starts_with('-'))?;
    if let Some((_, line)) = NAMES.iter().find(|(theirs, _)| *theirs == verb) {
        return Some(format!("the same here: vsctl {line}"));
    }
    if let Some((_, why)) = ABSENT.iter().find(|(theirs, _)| *theirs == verb) {
        return Some((*why).to_owned());
    }
    match verb {
        "add-port" => add_port(&plain),
        "set" | "remove" | "clear" => Some(set(&plain)),
        "get" | "list" | "find" => Some(get(&plain).to_owned()),
        _ => None,
    }
    .or_else(|| {
        let switches: Vec<_> = words.iter().filter(is_switch).copied().collect();
        // What is left without them may be a line of ours.
        (!switches.is_empty()).then(|| format!("without {}: vsctl {}", switches.join(" "), plain.join(" ")))
    })
}

/// `get TABLE RECORD COLUMN`, `list TABLE`
fn get(words: &[&str]) -> &'static str {
    let table = words.iter().skip_while(|word| !["get", "list", "find"].contains(word)).nth(1);
    match table.map(|table| table.to_lowercase()).as_deref() {
        Some("interface" | "port") => {
            "there is no database; `vsctl show --json` and `vsctl dump-ports BRIDGE --json` have all of ports"
        }
        Some("bridge") => "there is no database; `vsctl show --json` has all of bridges",
        _ => {
            "there is no database; `vsctl show --json`, `vsctl capabilities` and `vsctl limits` have what is configured"
        }
    }
}

/// `add-port BRIDGE PORT -- set interface PORT type=...`, and with switches in front.
fn add_port(words: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| *word == "--" || word.eq_ignore_ascii_case("set"));
    let front = &words[..at.unwrap_or(words.len())];
    let names: Vec<&str> = front.iter().filter(|word| !word.starts_with('-')).skip(1).take(2).copied().collect();
    let (Some(bridge), Some(port)) = (names.first(), names.get(1)) else { return None };
    let given = at.map_or(&[][..], |at| &words[at..]);
    if given.is_empty() && words.iter().any(|word| word.starts_with("--")) {
        return None; // our own options: clap's words say what is wrong
    }
    let columns: Vec<_> = given.iter().filter_map(|word| word.split_once('=')).collect();
    let (options, left_out) = options(&columns);
    let left_out = if left_out.is_empty() { String::new() } else { format!(" (left out: {})", left_out.join(", ")) };
    if columns.is_empty() {
        return Some(format!(
            "each port has a type: vsctl add-port {bridge} {port} --type af_packet (an interface of the host), tap, internal, dpdk, ..."
        ));
    }
    Some(format!("here one line does that: vsctl add-port {bridge} {port} {}{left_out}", options.join(" ")))
}

/// Options of `add-port` for columns of a record of Interface, and what has none.
fn options<'a>(columns: &[(&'a str, &'a str)]) -> (Vec<String>, Vec<&'a str>) {
    let theirs = columns.iter().find(|(key, _)| *key == "type").map_or("system", |(_, kind)| *kind);
    let (kind, mode) = match theirs {
        "system" | "" => ("af_packet", None),
        "dpdkvhostuserclient" => ("vhost-user", None),
        "dpdkvhostuser" => ("vhost-user", Some("server")),
        other => (other, None),
    };
    let is_tunnel = matches!(kind, "geneve" | "vxlan" | "gre");
    let mut ours = vec![format!("--type {kind}")];
    ours.extend(mode.map(|mode| format!("--mode {mode}")));
    let mut left_out = Vec::new();
    for (key, value) in columns {
        let value = value.trim_matches('"');
        let (column, name) = key.split_once(':').unwrap_or((key, ""));
        match (column, name) {
            ("type", _) => {}
            ("options", "dpdk-devargs") => ours.push(format!("--devargs {value}")),
            ("options", "vhost-server-path") => ours.push(format!("--path {value}")),
            ("options", "peer") => ours.push(format!("--peer {value}")),
            ("options", "n_rxq") => ours.push(format!("--queues {value}")),
            ("options", name) if is_tunnel => ours.push(format!("--option {name}={value}")),
            ("mtu_request", _) => ours.push(format!("--mtu {value}")),
            ("ofport_request", _) => ours.push(format!("--number {value}")),
            ("mac", _) => ours.push(format!("--mac {value}")),
            ("external_ids" | "external-ids", name) => ours.push(format!("--external-id {name}={value}")),
            _ => left_out.push(*key),
        }
    }
    (ours, left_out)
}

/// `set TABLE RECORD COLUMN=VALUE ...`
fn set(words: &[&str]) -> String {
    let at = words.iter().position(|word| ["set", "remove", "clear"].contains(word)).unwrap_or_default();
    let table = words.get(at + 1).map(|table| table.to_lowercase()).unwrap_or_default();
    let record = words.get(at + 2).copied().unwrap_or("NAME");
    let columns: Vec<_> = words.iter().filter_map(|word| word.split_once('=')).collect();
    let value = |key: &str| columns.iter().find(|(other, _)| *other == key).map(|(_, value)| value.trim_matches('"'));
    match table.as_str() {
        "interface" | "port" => {
            if value("type").is_some() {
                let options = options(&columns).0.join(" ");
                return format!("a port gets its type when it is added: vsctl add-port BRIDGE {record} {options}");
            }
            if let Some(mtu) = value("mtu_request") {
                return format!("here: vsctl mod-port BRIDGE {record} --mtu {mtu}");
            }
            let ids = columns.iter().filter_map(|(key, value)| Some((key.strip_prefix("external_ids:")?, value)));
            let ids: Vec<_> = ids.map(|(key, value)| format!("--external-id {key}={value}")).collect();
            if !ids.is_empty() {
                return format!("here: vsctl mod-port BRIDGE {record} {}", ids.join(" "));
            }
            format!("there is no database; `vsctl mod-port BRIDGE {record} --help` lists what can be changed")
        }
        "bridge" => match (value("fail_mode"), value("datapath_type")) {
            (Some(mode), _) => format!("here: vsctl set-fail-mode {record} {mode}"),
            (None, Some(_)) => format!("bridges have no datapath type; all are of DPDK: vsctl add-br {record}"),
            (None, None) => "there is no database; `vsctl set-fail-mode`, `vsctl set-strict` and options of `vsctl add-br` set what bridges have".to_owned(),
        },
        _ => "there is no database; what is global stands in the configuration file (docs/configuration.md)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use std::ffi::OsString;

    fn said(line: &str) -> clap::Error {
        let words = std::iter::once("vsctl").chain(line.split_whitespace()).map(OsString::from);
        parse(words).expect_err(line)
    }

    #[test]
    fn lines_of_open_vswitch_get_the_line_for_here() {
        for (theirs, ours) in [
            ("add-port br0 p1 -- set interface p1 type=tap", "vsctl add-port br0 p1 --type tap"),
            (
                "add-port br0 p1 -- set Interface p1 type=dpdk options:dpdk-devargs=0000:01:00.0 options:n_rxq=2",
                "vsctl add-port br0 p1 --type dpdk --devargs 0000:01:00.0 --queues 2",
            ),
            (
                "--may-exist add-port br0 v1 -- set Interface v1 type=dpdkvhostuserclient options:vhost-server-path=/run/v1",
                "vsctl add-port br0 v1 --type vhost-user --path /run/v1",
            ),
            (
                "add-port br0 t0 -- set interface t0 type=vxlan options:remote_ip=10.0.0.1 options:key=5 ofport_request=9",
                "vsctl add-port br0 t0 --type vxlan --option remote_ip=10.0.0.1 --option key=5 --number 9",
            ),
            ("add-port br0 eth0", "vsctl add-port br0 eth0 --type af_packet"),
            ("set interface p1 type=internal", "vsctl add-port BRIDGE p1 --type internal"),
            ("set interface p1 mtu_request=9000", "vsctl mod-port BRIDGE p1 --mtu 9000"),
            ("set Interface p1 external_ids:a=b", "vsctl mod-port BRIDGE p1 --external-id a=b"),
            ("set bridge br0 fail_mode=secure", "vsctl set-fail-mode br0 secure"),
            ("set bridge br0 datapath_type=netdev", "vsctl add-br br0"),
            ("--may-exist add-br br0", "vsctl add-br br0"),
            ("--if-exists del-br br0", "vsctl del-br br0"),
            ("dpif-netdev/pmd-rxq-show", "vsctl worker-rxq-show"),
        ] {
            let error = said(theirs);
            let text = error.render().to_string();
            assert_eq!(error.exit_code(), 2, "{theirs}");
            let tip = text.lines().find(|line| line.contains("tip:")).unwrap_or_else(|| panic!("{theirs}: {text}"));
            let line = &tip[tip.find("vsctl ").expect("a line")..];
            assert_eq!(line.split(" (").next(), Some(ours), "{theirs}");
            // What is advised can be meant, with a name for what the words did not say.
            let ours = ours.replace("BRIDGE", "br0");
            let words = ours.split_whitespace().map(OsString::from);
            parse(words).unwrap_or_else(|error| panic!("{ours}: {error}"));
        }
    }

    #[test]
    fn what_has_no_counterpart_is_told() {
        for (line, told) in [
            ("add-bond br0 b0 p1 p2", "no bonds"),
            ("set-controller br0 tcp:127.0.0.1", "gRPC"),
            ("set Open_vSwitch . other_config:dpdk-init=true", "configuration file"),
            ("get interface p1 ofport", "vsctl show --json"),
            ("add-port br0 p1 -- set interface p1 type=tap ingress_policing_rate=5", "left out: ingress_policing_rate"),
        ] {
            let text = said(line).render().to_string();
            assert!(text.contains(told), "{line}: {text}");
        }
        let text = said("add-port br0 p1 --type foo").render().to_string();
        assert!(!text.contains("tip:"), "our own mistakes have clap's words: {text}");
    }

    #[test]
    fn names_lead_to_verbs() {
        let description = super::super::description::description();
        for (_, line) in NAMES {
            let verb = line.split(' ').next().unwrap_or_default();
            assert!(verb == "help" || description.find_subcommand(verb).is_some(), "{line}");
        }
    }
}
