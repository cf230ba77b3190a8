//! Open vSwitch 3.1, userspace datapath, on dummy ports: what is right.
//!
//! **Design**: a private [`OpenVswitch`], started once and kept for all scenarios. Its clock is
//! stopped and moves only by [`Subject::warp`]. A packet costs about half a millisecond:
//! `netdev-dummy/receive` on a persistent control socket; a barrier on each controller's
//! connection, behind which everything that the packet caused has happened; `revalidator/purge`,
//! without which Open vSwitch answers from caches that are out of date and counts late.

mod capture;
mod openflow;
mod tunnels;
mod unixctl;

use crate::behind;
use crate::common::OpenVswitch;
use crate::masks::{Decision, datapath};
use crate::record::Effect;
use crate::scenario::{Command, PortChange};
use crate::subject::{BRIDGE, LOCAL, SECOND_CONTROLLER, Subject, limited, port_name};
use crate::tunnels::{Tunnelling, VTEP_MAC};
use capture::Capture;
use openflow::Controller;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use unixctl::UnixCtl;

/// An Open vSwitch that takes longer than this for anything hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Begins what a panic says of that.
const HANGS: &str = "Open vSwitch hangs";
/// Milliseconds that time goes on at once.
const PIECE: usize = 2000;
/// When it is long.
const LARGE_PIECE: usize = 600_000;
/// How often a packet may go from one bridge to the other.
const MOST_CROSSINGS: usize = 8;
/// The newest protocol: its dumps are the normal form.
const PROTOCOL: &str = "OpenFlow15";

/// A private Open vSwitch. Dropping it ends its processes.
#[derive(Debug)]
pub(crate) struct Oracle {
    captures: Vec<(String, Capture)>,
    controllers: [Controller; 2],
    ctl: UnixCtl,
    /// For a command that waits while others run.
    second_ctl: UnixCtl,
    /// Ports that are down, and ports that do not flood.
    changed: BTreeSet<(u32, PortChange)>,
    /// Tables have names.
    named: bool,
    /// `zone=N` that has a limit.
    limited: BTreeSet<String>,
    /// Numbers of the tunnel ports.
    tunnels: BTreeSet<u32>,
    /// Whether LOCAL has an address of IPv4 (false), of IPv6 (true).
    addresses: BTreeSet<bool>,
    /// It has what no command takes away: it is started anew.
    spent: bool,
    /// Tell decisions.
    decides: bool,
    ports: Vec<(String, u32)>,
    processes: OpenVswitch,
}

impl Oracle {
    /// Starts it with these ports (LOCAL comes by itself).
    ///
    /// # Panics
    /// When it does not start: Debian's `openvswitch-switch` is missing (tools/setup installs it).
    pub(crate) fn start(ports: &[(String, u32)]) -> Self {
        // Not of all types: tunnel ports are what they are.
        let processes = OpenVswitch::start(None, &["--enable-dummy", "--disable-system-route"]);
        make_ports(&processes, ports);
        let mut names = ports.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        // Between ports no order is compared.
        names.sort();
        names.push(BRIDGE.to_owned());
        let captures = names
            .into_iter()
            .map(|name| (name.clone(), Capture::open(&processes.path(&format!("{name}.pcap")))))
            .collect::<Vec<_>>();
        let management = processes.path(&format!("{BRIDGE}.mgmt"));
        let controllers =
            [Controller::connect(&management, 0, true), Controller::connect(&management, SECOND_CONTROLLER, false)];
        let connect = || UnixCtl::connect(&processes.control()).expect("ovs-vswitchd's control socket");
        let (mut ctl, second_ctl) = (connect(), connect());
        ctl.run("vlog/set", &["off"]);
        ctl.run("time/stop", &[]);
        second_ctl.set_patience(Duration::from_millis(1));
        Self {
            captures,
            controllers,
            ctl,
            second_ctl,
            changed: BTreeSet::new(),
            named: false,
            limited: BTreeSet::new(),
            tunnels: BTreeSet::new(),
            addresses: BTreeSet::new(),
            spent: false,
            decides: false,
            ports: ports.to_vec(),
            processes,
        }
    }

    /// Whether a panic while it was used is its own fault: it has crashed, or hangs.
    pub(crate) fn has_died(&mut self, panic: &(dyn std::any::Any + Send)) -> bool {
        if panic.downcast_ref::<String>().is_some_and(|text| text.starts_with(HANGS)) {
            return true;
        }
        // A process that crashes takes a moment to end.
        std::thread::sleep(Duration::from_millis(200));
        self.processes.has_ended()
    }

    fn ofctl(&self, options: &[&str], input: Option<&str>) -> Result<String, String> {
        let limit = format!("--timeout={}", ANSWER_LIMIT.as_secs());
        let result = self.processes.run("ovs-ofctl", &[&[&limit, "-O", PROTOCOL], options].concat(), input);
        // What the limit's end looks like.
        if result.as_ref().is_err_and(|error| error.contains("signal 14")) {
            hangs(&format!("ovs-ofctl {options:?}"));
        }
        result
    }

    /// Waits until everything so far has happened, and collects what came out.
    fn settle(&mut self) -> Effect {
        for controller in &mut self.controllers {
            controller.barrier();
        }
        self.ctl.run("revalidator/purge", &[]);
        self.collect()
    }

    /// Makes the revalidators look at all megaflows: afterwards flows have expired, and what waited
    /// for all threads is done.
    fn revalidate(&mut self) -> Effect {
        let mut effect = self.settle();
        self.second_ctl.send("revalidator/wait", &[]);
        self.ctl.run("version", &[]);
        self.controllers[0].make_a_change();
        let start = Instant::now();
        // Open vSwitch sleeps unless it is asked something.
        while self.second_ctl.try_answer().is_none() {
            if start.elapsed() > ANSWER_LIMIT {
                hangs("its revalidators");
            }
            self.ctl.run("version", &[]);
        }
        effect.merge(self.settle());
        effect
    }

    /// What its datapath holds when everything so far has happened.
    fn decisions(&mut self) -> Vec<Decision> {
        self.controllers.iter_mut().for_each(Controller::barrier);
        datapath::megaflows(&self.ctl.run("dpctl/dump-flows", &["-m"]))
    }

    /// Takes what left towards the other bridge in at the other end, until nothing is on its way.
    fn carried(&mut self, mut effect: Effect) -> Effect {
        if !behind::is_in(&self.ports) {
            return effect;
        }
        for _ in 0..MOST_CROSSINGS {
            let outputs = std::mem::take(&mut effect.outputs);
            let (crossing, out): (Vec<_>, Vec<_>) = outputs
                .into_iter()
                .map(|(name, packet)| (behind::other_end(&name), name, packet))
                .partition(|(end, ..)| end.is_some());
            effect.outputs = out.into_iter().map(|(_, name, packet)| (name, packet)).collect();
            effect.outputs.sort_by_key(|(port, _)| (port == BRIDGE, port.clone()));
            if crossing.is_empty() {
                return effect;
            }
            for (end, _, packet) in crossing {
                let end = end.expect("it leads to the other bridge");
                self.ctl.run("netdev-dummy/receive", &[&end, &crate::record::hex(&packet)]);
                let later = self.settle();
                effect.merge(later);
            }
        }
        panic!("a packet goes to and fro between the bridges");
    }

    fn collect(&mut self) -> Effect {
        let mut effect = Effect::default();
        let down = |name: &str| {
            self.changed.iter().any(|(port, change)| *change == PortChange::Down && port_name(*port) == name)
        };
        for (name, capture) in &mut self.captures {
            let packets = capture.take();
            // A dummy device sends even when it is down; no other device does.
            let packets = if down(name) { Vec::new() } else { packets };
            effect.outputs.extend(packets.into_iter().map(|packet| (name.clone(), packet)));
        }
        self.controllers.iter_mut().for_each(|controller| effect.merge(controller.take()));
        effect
    }
}

impl Subject for Oracle {
    fn name(&self) -> &'static str {
        "Open vSwitch"
    }

    fn expect_packet_ins(&mut self, _: bool) {
        // They come with each step anyhow.
    }

    fn decide(&mut self, told: bool) {
        self.decides = told;
    }

    fn rest(&mut self) -> Effect {
        self.revalidate()
    }

    fn reset(&mut self) {
        if self.spent {
            let decides = self.decides;
            *self = Self::start(&self.ports.clone());
            self.decides = decides;
            return;
        }
        for verb in ["del-flows", "del-groups", "del-meters"] {
            self.ofctl(&[verb, BRIDGE], None).unwrap_or_else(|error| panic!("{verb}: {error}"));
        }
        for (port, change) in self.changed.clone() {
            self.change_port(port, change.undone());
        }
        if std::mem::take(&mut self.named) {
            self.processes.vsctl(&["clear", "bridge", BRIDGE, "flow_tables"]);
        }
        self.ctl.run("fdb/flush", &[BRIDGE]);
        self.ctl.run("dpctl/flush-conntrack", &[]);
        for zone in std::mem::take(&mut self.limited) {
            self.ctl.run("dpctl/ct-del-limits", &[&zone]);
        }
        self.settle();
    }

    fn add_flows(&mut self, lines: &[&str]) -> Result<Effect, String> {
        self.ofctl(&["--bundle", "add-flows", BRIDGE, "-"], Some(&lines.join("\n")))?;
        Ok(self.settle())
    }

    fn control(&mut self, command: &Command) -> Result<(String, Effect), String> {
        let mut arguments: Vec<&str> = command.options.iter().map(String::as_str).collect();
        arguments.extend([command.verb.as_str(), BRIDGE]);
        if command.input.is_some() {
            arguments.push("-");
        }
        arguments.extend(command.argument.as_deref());
        self.spent |= command.verb.ends_with("tlv-map");
        let printed = self.ofctl(&arguments, command.input.as_deref())?;
        Ok((printed, self.settle()))
    }

    fn load_behind(&mut self, mode: &str) -> Result<(), String> {
        self.spent = true;
        let [groups, flows] = behind::program(mode);
        self.ofctl(&["add-groups", behind::BRIDGE, "-"], Some(&groups))?;
        self.ofctl(&["--bundle", "add-flows", behind::BRIDGE, "-"], Some(&flows)).map(drop)
    }

    fn name_table(&mut self, number: u8, name: &str) {
        let create = ["--id=@t", "create", "flow_table"];
        let (name, table) = (format!("name={name}"), format!("flow_tables:{number}=@t"));
        let arguments = [&create[..], &[&name, "--", "set", "bridge", BRIDGE, &table]].concat();
        self.processes.vsctl(&[&["--"], &arguments[..]].concat());
        self.named = true;
    }

    fn change_port(&mut self, port: u32, change: PortChange) -> Effect {
        if self.tunnels.contains(&port) {
            return self.change_tunnel(port, change);
        }
        let name = port_name(port);
        let was = self.changed.contains(&(port, change.undone()));
        if change.is_default() != was {
            return Effect::default();
        }
        if was {
            self.changed.remove(&(port, change.undone()));
        } else {
            self.changed.insert((port, change));
        }
        let before = self.controllers[0].port_changes;
        match change {
            PortChange::Up | PortChange::Down => {
                self.ctl.run("netdev-dummy/set-admin-state", &[&name, change.word()]);
            }
            _ => {
                // Only OpenFlow 1.0 knows all flags.
                let arguments = ["-O", "OpenFlow10", "mod-port", BRIDGE, &name, change.word()];
                self.processes.run("ovs-ofctl", &arguments, None).expect("mod-port works");
            }
        }
        // Of devices it tells when it has seen the change; a flag it has seen before it answers.
        let device = matches!(change, PortChange::Up | PortChange::Down);
        let start = Instant::now();
        while device && self.controllers[0].port_changes == before {
            if start.elapsed() > ANSWER_LIMIT {
                hangs("a change of a port's state");
            }
            self.controllers[0].barrier();
        }
        // The port's new state is known; some rounds of the main loop later translation knows it
        // too.
        (0..3).for_each(|_| drop(self.ctl.run("version", &[])));
        self.settle()
    }

    fn packet(&mut self, port: u32, packet: &[u8]) -> Effect {
        if self.changed.contains(&(port, PortChange::Down)) {
            return Effect::default();
        }
        let hex = crate::record::hex(packet);
        self.ctl.run("netdev-dummy/receive", &[&port_name(port), &hex]);
        let decisions = if self.decides { self.decisions() } else { Vec::new() };
        let effect = self.settle();
        Effect { decisions, ..self.carried(effect) }
    }

    fn packet_out(&mut self, text: &str) -> Result<Effect, String> {
        self.ofctl(&["packet-out", BRIDGE, text], None)?;
        Ok(self.settle())
    }

    fn resume(&mut self) -> Effect {
        self.controllers[0].resume();
        self.settle()
    }

    fn warp(&mut self, ms: u64) -> Effect {
        // In pieces: a controller that says nothing for 5 s is thought to be dead, unless much more
        // passes at once. A piece takes 10 ms.
        let mut effect = Effect::default();
        let most = if ms > 10_000 { LARGE_PIECE } else { PIECE };
        for piece in (0..ms).step_by(most).map(|start| (ms - start).min(most as u64)) {
            let piece = piece.to_string();
            self.ctl.run("time/warp", &[&piece, &piece]);
            self.controllers.iter_mut().for_each(Controller::barrier);
        }
        effect.merge(self.revalidate());
        effect
    }

    fn connections(&mut self) -> Vec<String> {
        self.ctl.run("dpctl/dump-conntrack", &["-s"]).lines().map(str::to_owned).collect()
    }

    fn conntrack(&mut self, verb: &str, arguments: &[&str]) -> Result<String, String> {
        self.limited.extend(limited(verb, arguments));
        self.ctl.call(&format!("dpctl/{verb}"), arguments)
    }

    fn tunnel(&mut self, step: &Tunnelling) -> Result<(String, Effect), String> {
        self.tunnelling(step)
    }

    fn trace(&mut self, port: u32, packet: &[u8]) -> String {
        let (flow, hex) = (format!("in_port={port}"), crate::record::hex(packet));
        let port = if port == LOCAL { "in_port=LOCAL".to_owned() } else { flow };
        self.ctl.call("ofproto/trace", &[BRIDGE, &port, &hex]).unwrap_or_else(|error| error)
    }
}

/// Adds the bridge and its ports, all of which write what they send into files.
fn make_ports(processes: &OpenVswitch, ports: &[(String, u32)]) {
    let pcap = |name: &str| format!("options:tx_pcap={}", processes.path(&format!("{name}.pcap")).display());
    let mut words = format!(
        "add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=dummy fail_mode=secure \
         protocols=OpenFlow10,OpenFlow13,OpenFlow15 other-config:hwaddr={VTEP_MAC} -- set interface {BRIDGE} {}",
        pcap(BRIDGE)
    );
    if behind::is_in(ports) {
        let second = behind::BRIDGE;
        words += &format!(
            " -- add-br {second} -- set bridge {second} datapath_type=dummy fail_mode=secure \
             protocols=OpenFlow10,OpenFlow13,OpenFlow15"
        );
    }
    for (name, number) in ports {
        let (bridge, number) = behind::place(*number);
        words += &format!(
            " -- add-port {bridge} {name} -- set interface {name} type=dummy ofport_request={number} {}",
            pcap(name)
        );
    }
    processes.vsctl(&words.split_whitespace().collect::<Vec<_>>());
}

/// Gives up on an Open vSwitch that does not get on.
fn hangs(what: &str) -> ! {
    panic!("{HANGS}: {what} does not answer within {ANSWER_LIMIT:?}")
}
