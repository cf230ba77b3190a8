//! What translation sees: all bridges and ports of one snapshot.

use super::{Changes, Fdb, PacketIns, Program, Stages};
use crate::pipeline::FailMode;
use crate::port::{PortId, TunnelConfig};
use crate::tunnel::{LocalEndpoint, Tunnels};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vswitch_flow::action::PortNo;
use vswitch_overlay::OptionMap;

/// All bridges and ports. Never changes once published.
///
/// Worlds are numbered. A part remembers the number of the world that it last changed in, so that a
/// cached decision made in an earlier world is still good if none of the parts it used
/// ([`super::Deps`]) has changed since.
#[derive(Debug, Default)]
pub struct World {
    /// Its number: rises with every world.
    pub number: u64,
    /// World in which a bridge or port was last added, removed or changed.
    pub ports_changed: u64,
    /// A port names its bridge by index.
    pub bridges: Vec<Bridge>,
    /// By [`PortId`].
    pub ports: Vec<Option<PortFacts>>,
    /// What changes beside it: learned rules, MAC tables, links.
    pub changes: Arc<Changes>,
    /// Where packets go on behind `ct()`, by any decision that is kept.
    pub stages: Arc<Stages>,
    /// Tunnels: ports, routes, neighbours.
    pub tunnels: Arc<Tunnels>,
}

/// A bridge as one snapshot has it.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// Its name.
    pub name: Arc<str>,
    /// A number that no other bridge has while the switch runs.
    pub id: u32,
    /// What Geneve's options are called.
    pub options: OptionMap,
    /// What it does before anything is programmed.
    pub fail_mode: FailMode,
    /// Its MAC table, shared with later snapshots.
    pub fdb: Arc<Fdb>,
    /// Ports that take flooded packets: up, and not no-flood. In order of their numbers.
    pub flood: Vec<PortId>,
    /// All its ports by number (LOCAL included).
    pub numbers: Arc<HashMap<PortNo, PortId>>,
    /// Tables, groups and meters.
    pub program: Arc<Program>,
    /// Who gets packet-ins.
    pub packet_ins: Arc<PacketIns>,
    /// Malformed packets are dropped by name instead of forwarded as Open vSwitch does.
    pub strict: bool,
}

/// A port as translation sees it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // OpenFlow's port flags
pub struct PortFacts {
    /// Index of its bridge.
    pub bridge: usize,
    /// OpenFlow number.
    pub number: PortNo,
    /// Its name.
    pub name: Arc<str>,
    /// Administratively up.
    pub admin_up: bool,
    /// Has a link now (watch ports of groups).
    pub link_up: Arc<AtomicBool>,
    /// Left out of FLOOD and of NORMAL's floods.
    pub no_flood: bool,
    /// Nothing may leave by it.
    pub no_forward: bool,
    /// What comes in by it is dropped.
    pub no_receive: bool,
    /// The other end, of a patch port that has one; patch ports without it have `patch` alone.
    pub peer: Option<PortId>,
    /// It is a patch port.
    pub patch: bool,
    /// Malformed packets that come in by it are dropped by name.
    pub strict: bool,
    /// Packets that come in by it may be for our end of tunnels.
    pub underlay: bool,
    /// It is the end of a tunnel.
    pub tunnel: Option<Arc<TunnelConfig>>,
    /// It has addresses of the switch.
    pub vtep: Option<Arc<LocalEndpoint>>,
}

impl Bridge {
    /// A bridge without ports and rules.
    #[must_use]
    pub fn new(name: &str, fail_mode: FailMode, fdb: Arc<Fdb>) -> Self {
        Self {
            name: name.into(),
            id: 0,
            options: OptionMap::default(),
            fail_mode,
            fdb,
            flood: Vec::new(),
            numbers: Arc::default(),
            program: Arc::default(),
            packet_ins: Arc::default(),
            strict: false,
        }
    }
}
