//! Tunnels of our switch, by `vsctl`.

use super::Ours;
use crate::record::Effect;
use crate::scenario::PortChange;
use crate::subject::BRIDGE;
use crate::tunnels::{Tunnelling, port_name};

impl Ours {
    /// Does a step; what it prints, and what happened.
    pub(super) fn tunnelling(&mut self, step: &Tunnelling) -> Result<(String, Effect), String> {
        self.spent = true;
        let printed = match step {
            Tunnelling::Add { number, kind, options } => {
                let (name, number_text) = (port_name(*number), number.to_string());
                let mut words = vec!["add-port", BRIDGE, &name, "--type", kind, "--number", &number_text];
                words.extend(options.iter().flat_map(|option| ["--option", option.as_str()]));
                let printed = self.vsctl(&words, None)?;
                self.tunnels.insert(*number);
                printed
            }
            Tunnelling::Remove(number) => {
                self.tunnels.remove(number);
                self.vsctl(&["del-port", BRIDGE, &port_name(*number)], None)?
            }
            Tunnelling::Address(cidr) => {
                self.addresses.push(cidr.clone());
                let given = self.addresses.iter().flat_map(|cidr| ["--address", cidr.as_str()]);
                self.vsctl(&["mod-port", BRIDGE, BRIDGE].into_iter().chain(given).collect::<Vec<_>>(), None)?
            }
            Tunnelling::Route { prefix, gateway } => {
                let words = [Some("route-add"), Some(prefix.as_str()), Some(BRIDGE), gateway.as_deref()];
                self.vsctl(&words.into_iter().flatten().collect::<Vec<_>>(), None)?
            }
            Tunnelling::Unroute(prefix) => self.vsctl(&["route-del", prefix], None)?,
            Tunnelling::Neighbour { ip, mac } => self.vsctl(&["tnl-neigh-set", BRIDGE, ip, mac], None)?,
            Tunnelling::Neighbours => self.vsctl(&["tnl-neigh-show"], None)?,
            Tunnelling::FlushNeighbours => self.vsctl(&["tnl-neigh-flush"], None)?,
        };
        Ok((printed, self.sent_otherwise()))
    }

    /// A change of a tunnel port.
    pub(super) fn change_tunnel(&mut self, port: u32, change: PortChange) -> Effect {
        self.vsctl(&["mod-port", BRIDGE, &port_name(port), change.word()], None).expect("a port can be changed");
        self.settle()
    }
}
