//! Native tunnelling of Open vSwitch on dummy ports.

use super::Oracle;
use crate::record::Effect;
use crate::scenario::PortChange;
use crate::subject::BRIDGE;
use crate::tunnels::{Tunnelling, port_name};

/// Packets with a `pkt_mark` up to this are routed as those without are.
const MARKS: u32 = 15;

impl Oracle {
    /// Does a step; what it prints, and what happened.
    pub(super) fn tunnelling(&mut self, step: &Tunnelling) -> Result<(String, Effect), String> {
        self.spent = true;
        let mut printed = String::new();
        match step {
            Tunnelling::Add { number, kind, options } => self.add_tunnel(*number, kind, options)?,
            Tunnelling::Remove(number) => {
                self.tunnels.remove(number);
                self.processes.vsctl(&["del-port", BRIDGE, &port_name(*number)]);
            }
            Tunnelling::Address(cidr) => {
                // A second one of a family would take the place of the first.
                let is_v6 = cidr.contains(':');
                assert!(self.addresses.insert(is_v6), "{cidr}: a dummy device has one address of each family");
                let verb = if is_v6 { "netdev-dummy/ip6addr" } else { "netdev-dummy/ip4addr" };
                self.ctl.call(verb, &[BRIDGE, cidr])?;
                // The kernel's routes, which come with an address, a dummy port has not.
                self.route("ovs/route/add", &[cidr, BRIDGE])?;
            }
            Tunnelling::Route { prefix, gateway } => {
                let words = [Some(prefix.as_str()), Some(BRIDGE), gateway.as_deref()];
                self.route("ovs/route/add", &words.into_iter().flatten().collect::<Vec<_>>())?;
            }
            Tunnelling::Unroute(prefix) => self.route("ovs/route/del", &[prefix])?,
            Tunnelling::Neighbour { ip, mac } => drop(self.ctl.call("tnl/neigh/set", &[BRIDGE, ip, mac])?),
            Tunnelling::Neighbours => printed = self.ctl.call("tnl/neigh/show", &[])?,
            Tunnelling::FlushNeighbours => drop(self.ctl.call("tnl/neigh/flush", &[])?),
        }
        // Some rounds of the main loop later translation knows of it.
        (0..3).for_each(|_| drop(self.ctl.run("version", &[])));
        Ok((printed, self.settle()))
    }

    /// A route is one for packets with one `pkt_mark`, 0 if none is given; here it is for some.
    fn route(&mut self, verb: &str, words: &[&str]) -> Result<(), String> {
        self.ctl.call(verb, words)?;
        for mark in 1..=MARKS {
            self.ctl.call(verb, &[words, &[&format!("pkt_mark={mark}")]].concat())?;
        }
        Ok(())
    }

    fn add_tunnel(&mut self, number: u32, kind: &str, options: &[String]) -> Result<(), String> {
        let name = port_name(number);
        let (kind, request) = (format!("type={kind}"), format!("ofport_request={number}"));
        let options = options.iter().map(|option| format!("options:{option}")).collect::<Vec<_>>();
        let mut words = vec!["add-port", BRIDGE, &name, "--", "set", "interface", &name, &kind, &request];
        words.extend(options.iter().map(String::as_str));
        self.processes.try_vsctl(&words)?;
        let error = self.processes.try_vsctl(&["get", "interface", &name, "error"])?;
        let number_given = self.processes.try_vsctl(&["get", "interface", &name, "ofport"])?;
        if number_given.trim() == number.to_string() {
            self.tunnels.insert(number);
            return Ok(());
        }
        self.processes.vsctl(&["del-port", BRIDGE, &name]);
        Err(format!("{name} has number {}: {error}", number_given.trim()))
    }

    /// A change of a tunnel port, which has no device.
    pub(super) fn change_tunnel(&mut self, port: u32, change: PortChange) -> Effect {
        let arguments = ["-O", "OpenFlow10", "mod-port", BRIDGE, &port_name(port), change.word()];
        self.processes.run("ovs-ofctl", &arguments, None).expect("mod-port works");
        (0..3).for_each(|_| drop(self.ctl.run("version", &[])));
        self.settle()
    }
}
