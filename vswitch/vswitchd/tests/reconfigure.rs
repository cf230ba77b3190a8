//! The configuration of a switch that runs: exported, applied, confirmed, read again at SIGHUP,
//! kept over a kill.

mod generated;

use crate::common::{Host, Switch, Wire, run, wait_for, write_pcap};
use generated::generated;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

fn dummy(name: &str, number: u32) -> String {
    format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\ntype = \"dummy\"\n\n")
}

/// A switch of dummy ports.
fn start(config: &str) -> Switch {
    Switch::start_with(config, &["--enable-dummy"])
}

fn file(switch: &Switch) -> PathBuf {
    switch.dir().join("vswitchd.toml")
}

/// The sections of the harness: what stands in front of the first bridge.
fn head(switch: &Switch) -> String {
    let text = fs::read_to_string(file(switch)).expect("the configuration");
    text.split("[[bridge]]").next().unwrap_or_default().to_owned()
}

fn export(switch: &Switch) -> String {
    switch.vsctl_ok(&["config", "export"])
}

/// Applies a text, and returns what it printed.
fn apply(switch: &Switch, text: &str, args: &[&str]) -> String {
    let output = switch.vsctl_with(&[&["config", "apply", "-"], args].concat(), Some(text));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}\n{text}");
    out.into_owned()
}

/// What refuses a text.
fn refused(switch: &Switch, text: &str) -> String {
    let output = switch.vsctl_with(&["config", "apply", "-"], Some(text));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn state(switch: &Switch) -> Value {
    switch.json(&["config", "state"])
}

#[test]
fn an_export_starts_the_same_switch() {
    let mut switch = start("");
    let (head, dir) = (head(&switch), switch.dir().to_str().expect("UTF-8").to_owned());
    for seed in 1..=5 {
        let text = head.clone() + &generated(seed, &dir);
        let changes = apply(&switch, &text, &[]);
        assert!(!changes.is_empty());
        assert_eq!(apply(&switch, &text, &["--dry-run"]), "nothing differs\n", "seed {seed}: {text}");
        let exported = export(&switch);
        assert_eq!(apply(&switch, &exported, &["--dry-run"]), "nothing differs\n", "seed {seed}: {exported}");
        fs::write(file(&switch), &exported).expect("written");
        assert_eq!(switch.terminate().code(), Some(0), "seed {seed}");
        switch.start_again();
        assert_eq!(export(&switch), exported, "seed {seed}: {text}");
        let log = switch.log();
        assert!(!log.contains("is not in force"), "seed {seed}: {log}");
    }
}

#[test]
fn what_clients_have_set_is_exported() {
    let mut switch = start(&[BRIDGE, &dummy("p1", 1), &dummy("p2", 2)].concat());
    for args in [
        &["add-br", "br1"][..],
        &["add-port", "br1", "q1", "--type", "dummy", "--external-id", "owner=x"],
        &["mod-port", "br0", "p2", "no-flood", "down", "--mtu", "1400"],
        &["add-table", "br0", "Out", "--number", "7"],
        &["add-tlv-map", "br0", "{class=0xffff,type=0,len=4}->tun_metadata0"],
        &["add-meter", "br0", "meter=1 pktps bands=type=drop rate=10"],
        &["add-group", "br0", "group_id=1,type=all,bucket=output:p1,bucket=output:p2"],
        &["add-flow", "br0", "priority=7,in_port=p1,tcp,tun_metadata0=3,actions=meter:1,resubmit(,Out)"],
        &["add-flow", "br0", "table=Out,cookie=0x9,actions=group:1"],
        &["add-flow", "br0", "hard_timeout=3600,priority=8,actions=drop"],
        &["fdb-add", "br0", "p1", "5", "02:00:00:00:00:07"],
        &["worker-rxq-pin", "p1", "0", &worker_core()],
        &["ct-set-limits", "zone=3,limit=12"],
    ] {
        switch.vsctl_ok(args);
    }
    let before = export(&switch);
    for line in [
        "# Not in this file: 1 flows with a timeout in bridge br0.",
        "tables = { 7 = \"Out\" }",
        "    \"{class=0xffff,type=0x0,len=4}->tun_metadata0\",",
        "    { port = \"p1\", mac = \"02:00:00:00:00:07\", vlan = 5 },",
        "rxq_affinity = ",
        "external_ids = { \"owner\" = \"x\" }",
        "[[conntrack.zone]]\nzone = 3\nlimit = 12\n",
        "no_flood = true",
        "mtu = 1400",
        "admin_up = false",
    ] {
        assert!(before.contains(line), "no {line:?} in {before}");
    }
    fs::write(file(&switch), &before).expect("written");
    switch.terminate();
    switch.start_again();
    // The flow with a timeout has gone, and the comment that tells of it.
    let told = "# Not in this file: 1 flows with a timeout in bridge br0.\n";
    assert_eq!(export(&switch), before.replace(told, ""));
}

/// The core of the harness's worker: the highest that this process may use.
fn worker_core() -> String {
    let text = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    line.trim().rsplit([',', '-']).next().expect("a core").to_owned()
}

#[test]
fn a_dry_run_and_a_refused_text_change_nothing() {
    let switch = start(&[BRIDGE, &dummy("p1", 1), &dummy("p2", 2)].concat());
    let (head, before) = (head(&switch), export(&switch));
    let other = [&head, BRIDGE, &dummy("p1", 7), &dummy("p3", 3)].concat();
    let told = apply(&switch, &other, &["--dry-run"]);
    assert_eq!(
        told,
        "replace port p1: number 1 -> 7\ndelete port p2 of bridge br0\nadd port p1 again, as it is to be\n\
         add port p3 (dummy) to bridge br0\n"
    );
    let wrong = [&head, BRIDGE, "flows = [\"actions=output:nobody\"]\n[[bridge.port]]\nname = \"x\"\ntype = \"tap\"\n"]
        .concat();
    let told = refused(&switch, &wrong);
    assert!(told.contains("standard input:") && told.contains("interface: missing"), "{told}");
    let memory = other.replace("memory_mb = 256", "memory_mb = 300");
    let told = refused(&switch, &memory);
    assert!(told.contains("need a restart of the switch: [dpdk] memory_mb 256 -> 300"), "{told}");
    let dry = apply(&switch, &memory, &["--dry-run"]);
    assert!(dry.contains("needs a restart: [dpdk] memory_mb 256 -> 300\n"), "{dry}");
    // The last step fails: the ones before are taken back.
    let device = "[[bridge.port]]\nname = \"zz\"\ntype = \"dpdk\"\ndevargs = \"net_null0,nonsense=1\"\n";
    let told = refused(&switch, &(other.clone() + device));
    assert!(told.contains("nothing is changed"), "{told}");
    assert_eq!(export(&switch), before);
    assert_eq!(state(&switch)["last"], Value::Null);
    apply(&switch, &other, &[]);
    assert_eq!(state(&switch)["last"]["state"], "applied");
    apply(&switch, &before, &[]);
    assert_eq!(export(&switch), before);
}

#[test]
fn what_is_not_confirmed_is_taken_back_and_other_ports_lose_nothing() {
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::AfPacket, 2));
    let ports = [a.config(1), b.config(2)].concat();
    let switch = Switch::start_with(&[BRIDGE, &ports].concat(), &["--enable-dummy"]);
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    let before = export(&switch);
    let text =
        [&head(&switch), BRIDGE, "strict = false\n", &ports, &dummy("p9", 9), "[[bridge]]\nname = \"br9\"\n"].concat();
    let text = text.replace("[[bridge.port]]\nname = \"p9\"", "[[bridge.port]]\nno_flood = true\nname = \"p9\"");
    let ping = ["netns", "exec", a.ns.name(), "ping", "-n", "-q", "-i", "0.01", "-c", "500", "-W", "2", &b.v4];
    let pinging = Command::new("ip").args(ping).stdout(std::process::Stdio::piped()).spawn().expect("ping");
    let told = apply(&switch, &text, &["--confirm", "1s"]);
    assert!(told.contains("add bridge br9\n") && told.contains("taken back in 1 s"), "{told}");
    assert!(export(&switch).contains("p9"), "it is in force");
    wait_for("it is taken back", SOON, || {
        state(&switch)["last"]["state"] == "taken back: it was not confirmed in time"
    });
    assert_eq!(export(&switch), before);
    // What is confirmed stays; what is taken back by hand goes at once.
    apply(&switch, &text, &["--confirm", "1h"]);
    assert!(state(&switch)["last"]["seconds_left"].as_u64().is_some_and(|left| left > 3000));
    switch.vsctl_ok(&["config", "rollback"]);
    assert_eq!(export(&switch), before);
    apply(&switch, &text, &["--confirm", "1h"]);
    let during = refused(&switch, &before);
    assert!(during.contains("more for its confirmation"), "{during}");
    switch.vsctl_ok(&["config", "confirm"]);
    assert_eq!(state(&switch)["last"]["state"], "confirmed");
    assert_eq!(switch.vsctl(&["config", "confirm"]).status.code(), Some(1));
    let output = pinging.wait_with_output().expect("ping ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("500 received"), "packets of other ports were lost: {text}");
}

fn hangup(switch: &Switch) {
    run(&["kill", "-HUP", &switch.pid().to_string()]);
}

#[test]
fn sighup_applies_the_file_and_leaves_what_clients_added() {
    let switch = start(&[BRIDGE, &dummy("p1", 1), &dummy("p2", 2)].concat());
    let head = head(&switch);
    switch.vsctl_ok(&["add-port", "br0", "client", "--type", "dummy"]);
    fs::write(file(&switch), [&head, BRIDGE, &dummy("p1", 1), &dummy("p3", 30)].concat()).expect("written");
    hangup(&switch);
    wait_for("the file is in force", SOON, || switch.log().contains("SIGHUP: the configuration file is in force"));
    let ports = switch.vsctl_ok(&["list-ports", "br0"]);
    for (name, there) in [("p1", true), ("p2", false), ("p3", true), ("client", true)] {
        assert_eq!(ports.contains(name), there, "{name}: {ports}");
    }
    let before = export(&switch);
    for bad in ["nonsense = 1\n", "[worker]\nidle_sleep_us = 77\n"] {
        fs::write(file(&switch), [&head.replace("[control]", &format!("{bad}[control]")), BRIDGE].concat())
            .expect("written");
        let refusals = switch.log().matches("is refused, and nothing is changed").count();
        hangup(&switch);
        wait_for("the file is refused", SOON, || {
            switch.log().matches("is refused, and nothing is changed").count() > refusals
        });
    }
    let log = switch.log();
    assert!(log.contains("unknown key") && log.contains("[worker] idle_sleep_us"), "{log}");
    assert_eq!(export(&switch), before);
}

#[test]
fn what_is_kept_survives_a_kill_and_a_broken_file_is_put_aside() {
    let persist = "[control]\nsocket = \"@DIR@/vswitch.sock\"\npersist = \"@DIR@/runtime.toml\"\n\n";
    let mut switch = start(&[BRIDGE, &dummy("p1", 1), &dummy("p2", 2)].concat());
    // The harness writes [control] itself.
    let text = fs::read_to_string(file(&switch)).expect("the configuration");
    let (_, rest) = text.split_once("\n\n").expect("[control] is first");
    let control = persist.replace("@DIR@", &switch.dir().to_string_lossy());
    fs::write(file(&switch), control + rest).expect("written");
    switch.terminate();
    switch.start_again();
    switch.vsctl_ok(&["del-port", "br0", "p2"]);
    switch.vsctl_ok(&["add-port", "br0", "p4", "--type", "dummy"]);
    switch.vsctl_ok(&["add-flow", "br0", "priority=3,in_port=p4,actions=drop"]);
    let saved = switch.dir().join("runtime.toml");
    let has = |what: &str| fs::read_to_string(&saved).is_ok_and(|text| text.contains(what));
    wait_for("the change is saved", SOON, || has("in_port=p4"));
    let before = export(&switch);
    switch.kill();
    switch.start_again();
    assert_eq!(export(&switch), before);
    // The operator's file wins where it has changed; what clients added stays.
    let edited = fs::read_to_string(file(&switch)).expect("readable") + &dummy("p5", 5);
    switch.kill();
    fs::write(file(&switch), edited).expect("written");
    switch.start_again();
    let ports = switch.vsctl_ok(&["list-ports", "br0"]);
    for name in ["p1", "p2", "p4", "p5"] {
        assert!(ports.contains(name), "{name}: {ports}");
    }
    switch.kill();
    fs::write(&saved, "[[bridge]\nname = 7\n").expect("written");
    switch.start_again();
    assert!(switch.dir().join("runtime.toml.refused").exists(), "{}", switch.log());
    let ports = switch.vsctl_ok(&["list-ports", "br0"]);
    assert!(ports.contains("p5") && !ports.contains("p4"), "{ports}");
}

#[test]
fn clients_change_ports_while_texts_are_applied() {
    let switch = start(&[BRIDGE, &dummy("p1", 1)].concat());
    let head = head(&switch);
    let texts = [
        [&head, BRIDGE, &dummy("p1", 1), &dummy("a", 11)].concat(),
        [&head, BRIDGE, &dummy("p1", 1), &dummy("b", 12), "[[bridge]]\nname = \"br1\"\n"].concat(),
    ];
    std::thread::scope(|scope| {
        let applying = scope.spawn(|| {
            for round in 0..20 {
                let output = switch.vsctl_with(&["config", "apply", "-"], Some(&texts[round % 2]));
                // A client may have deleted what the plan was to delete.
                let told = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() || told.contains("nothing is changed"), "{told}");
            }
        });
        while !applying.is_finished() {
            let _ = switch.vsctl(&["add-port", "br0", "mine", "--type", "dummy"]);
            let _ = switch.vsctl(&["del-port", "br0", "mine"]);
        }
        applying.join().expect("no panic");
    });
    apply(&switch, &texts[0], &[]);
    assert_eq!(apply(&switch, &texts[0], &["--dry-run"]), "nothing differs\n");
    let ports = switch.vsctl_ok(&["list-ports", "br0"]);
    assert!(ports.contains("p1") && ports.contains('a') && !ports.contains("mine"), "{ports}");
    assert_eq!(switch.vsctl_ok(&["list-br"]).trim(), "br0");
}

#[test]
fn a_client_may_not_name_what_only_the_file_may() {
    let switch = start(BRIDGE);
    let capture = std::path::Path::new("/var/tmp").join(format!("vt{}.pcap", std::process::id()));
    write_pcap(&capture, &[vec![2; 60]]);
    let port = format!("[[bridge.port]]\nname = \"in\"\ntype = \"pcap\"\nrx_file = {capture:?}\n");
    let text = [&head(&switch), BRIDGE, &port].concat();
    let told = refused(&switch, &text);
    assert!(told.contains("a client may not name"), "{told}");
    fs::write(file(&switch), &text).expect("written");
    hangup(&switch);
    wait_for("the file is in force", SOON, || switch.vsctl_ok(&["list-ports", "br0"]).contains("in"));
    // It is there, and a client's text that leaves it alone is taken.
    assert_eq!(apply(&switch, &export(&switch), &[]), "nothing differs\n");
    fs::remove_file(capture).expect("removed");
}

#[test]
fn the_filter_of_the_log_changes_for_a_time() {
    let switch = start(BRIDGE);
    assert_eq!(switch.json(&["log", "show"])["filter"], "info");
    let set = switch.vsctl_ok(&["log", "set", "warn", "--for", "1h"]);
    assert!(set.starts_with("filter: warn for 3") && set.ends_with(" s, then info\n"), "{set}");
    switch.vsctl_ok(&["add-br", "quiet"]);
    switch.vsctl_ok(&["log", "set", "error", "--for", "1s"]);
    wait_for("the filter of the start is back", SOON, || switch.json(&["log", "show"])["filter"] == "info");
    switch.vsctl_ok(&["add-br", "loud"]);
    wait_for("a line", SOON, || switch.log().contains("subject=\"\\\"loud\\\"\"") || switch.log().contains("loud"));
    assert!(!switch.log().contains("quiet"), "{}", switch.log());
    let refused = switch.vsctl(&["log", "set", "info,vswitch=loud"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("column 14: \"loud\" is no level; use off, error"), "{told}");
    switch.vsctl_ok(&["log", "set", "debug"]);
    assert_eq!(switch.vsctl_ok(&["log", "reset"]), "filter: info\n");
}
