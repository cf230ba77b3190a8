//! What the Node's agent owns of the switch, for an export of the configuration and for applying
//! one.

use super::Antrea;
use vswitch_antrea::{Key, ObjectKind};
use vswitch_control::SwitchError;
use vswitch_control::running::{Owned, Owner, Subject};

impl Owner for Antrea {
    fn owned(&self) -> Owned {
        let state = self.state.lock();
        let Some((config, node)) = state.node_state.node() else { return Owned::default() };
        let mut owned = Owned::default();
        owned.bridges.insert(node.bridge.clone(), "the Node's agent programs it".to_owned());
        if let Some(uplink) = config.uplink.as_ref().filter(|uplink| uplink.gateway.is_some()) {
            let why = "the Node's gateway bridge, its agent programs it".to_owned();
            owned.bridges.insert(uplink.underlay_bridge.clone(), why);
        }
        for (port, key) in state.node_state.held_ports() {
            let why = match key {
                Key { kind: ObjectKind::Node, .. } => "the Node's, its agent adds it".to_owned(),
                key => format!("of {key}, its agent adds it"),
            };
            owned.ports.insert(port, why);
        }
        for port in state.under.ports() {
            owned.ports.insert(port.to_owned(), "the Node's way to the wire".to_owned());
        }
        let strict = self.switch.conntrack().tracker().zones_established_after_answer();
        owned.zones = strict.into_iter().filter(|zone| node.zones.contains(*zone)).collect();
        owned
    }

    fn unless_owned(
        &self,
        subject: Subject<'_>,
        change: &mut dyn FnMut() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError> {
        match subject {
            Subject::Bridge(bridge) => self.unless_either_bridge(bridge, change),
            Subject::Port(bridge, port) => self.unless_held(bridge, port, change),
        }
    }
}
