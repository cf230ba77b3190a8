//! Packets to and from controllers, and what the caches hold.

use super::Switch;
use super::pipeline::{NameMap, PacketStream, WriteError, names};
use crate::info::SwitchError;
use std::sync::Arc;
use vswitch_dataplane::cache::Megaflow;
use vswitch_dataplane::pipeline::state::Refused;
use vswitch_dataplane::pipeline::translate::format_ops;
use vswitch_dataplane::pipeline::{ControllerInfo, Interest, PacketIns, Program, World};
use vswitch_dataplane::port::FieldError;
use vswitch_dataplane::time::Millis;
use vswitch_dataplane::worker::{Begin, InjectError, Injection, needs_tables};
use vswitch_flow::Action;
use vswitch_flow::action::{CheckContext, ListPlace, check};
use vswitch_flow::text::{PacketOut, Style, format_match};

/// A megaflow as listed: of which worker, its text (`dump-megaflows` line) and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MegaflowInfo {
    /// Worker that has it.
    pub worker: u32,
    /// Bridge that its packets entered.
    pub bridge: String,
    /// What its packets have in common.
    pub matching: String,
    /// What happens to them.
    pub actions: String,
    /// Packets that it decided, the one that made it included.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Milliseconds since the last one.
    pub used_ms_ago: Option<u64>,
}

impl Switch {
    /// Sends a packet through actions, and returns when it has left.
    ///
    /// # Errors
    /// When the bridge does not exist, the actions are refused, or no worker took the packet.
    pub fn packet_out(&self, bridge: &str, packet: &PacketOut) -> Result<(), WriteError> {
        let refused = |code, reason| Refused { index: 0, code, reason, field: "actions", hint: String::new() };
        let context = CheckContext { matching: None, place: ListPlace::PacketOut };
        check(&packet.actions, &context).map_err(|error| refused(error.code, error.reason))?;
        let program = self.program(bridge)?;
        if let Some((code, reason)) = missing(&packet.actions, &program) {
            return Err(refused(code, reason).into());
        }
        let injection = Injection {
            bridge: bridge.into(),
            metadata: packet.metadata.clone(),
            packet: packet.packet.clone(),
            begin: Begin::Actions(packet.actions.as_slice().into()),
        };
        Ok(self.inject(injection)?)
    }

    /// Packet-ins from now on, until the subscription is dropped.
    ///
    /// # Errors
    /// When the bridge does not exist, or has too many subscribers.
    pub fn subscribe_packets(&self, bridge: &str, interest: Interest) -> Result<PacketStream, SwitchError> {
        let limit = vswitch_dataplane::limits::PACKET_IN_SUBSCRIBERS_MAX;
        let exhausted = SwitchError::Exhausted { what: "subscribers to packet-ins", limit };
        self.packet_ins(bridge)?.subscribe(interest).ok_or(exhausted)
    }

    /// What became of packets for controllers, by controller id.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn controllers(&self, bridge: &str) -> Result<Vec<ControllerInfo>, SwitchError> {
        Ok(self.packet_ins(bridge)?.controllers())
    }

    /// Lets a paused packet go on, with these bytes or, when there are none, with its own; returns
    /// when it has left.
    ///
    /// # Errors
    /// When the bridge does not exist, the token is not one of its, or no worker took the packet.
    pub fn resume_packet(&self, bridge: &str, token: &[u8], packet: &[u8]) -> Result<(), SwitchError> {
        let Some(paused) = self.packet_ins(bridge)?.resume(token) else {
            let problem = "no paused packet has this token: it was resumed, or too many were paused since".to_owned();
            return Err(FieldError::new("token", problem, "send the token of a packet-in, once").into());
        };
        self.inject(Injection {
            bridge: bridge.into(),
            metadata: paused.metadata,
            packet: if packet.is_empty() { paused.packet } else { packet.to_vec() },
            begin: Begin::Resume(paused.continuation, paused.met),
        })
    }

    /// Lets paused packets go on as they are, in this order; returns when the last one has left,
    /// and how many did. Those that do not wait any more are left out.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn resume_packets(&self, bridge: &str, tokens: &[Vec<u8>]) -> Result<usize, SwitchError> {
        let packet_ins = self.packet_ins(bridge)?;
        let bridge: Arc<str> = bridge.into();
        let paused = tokens.iter().filter_map(|token| packet_ins.resume(token));
        let injections = paused.map(|paused| Injection {
            bridge: Arc::clone(&bridge),
            metadata: paused.metadata,
            packet: paused.packet,
            begin: Begin::Resume(paused.continuation, paused.met),
        });
        Ok(self.publisher.inbox().map_or(0, |inbox| inbox.inject_all(injections.collect())))
    }

    /// Credits what workers' caches have counted to rules, groups and tables: what is read after
    /// this is exact up to now.
    pub fn collect(&self) {
        self.collector.lock().collect();
    }

    /// Cached megaflows, of one bridge or all.
    #[must_use]
    pub fn megaflows(&self, bridge: Option<&str>) -> Vec<MegaflowInfo> {
        let view = self.shown.view();
        let world = &view.world;
        let (now, names) = (Millis::now(), |bridge| names(&view, bridge).unwrap_or_default());
        let by_bridge: Vec<(String, NameMap)> =
            world.bridges.iter().map(|bridge| (bridge.name.to_string(), names(&bridge.name))).collect();
        let mut collector = self.collector.lock();
        collector.collect();
        let mut infos = Vec::new();
        for (worker, megaflow) in collector.megaflows() {
            let Some((name, names)) = by_bridge.get(megaflow.bridge()) else { continue };
            if bridge.is_none_or(|wanted| wanted == name) {
                infos.push(info(worker, name, megaflow, world, names, now));
            }
        }
        infos
    }

    /// Hands a packet to a worker. Not under the lock: the caller waits.
    fn inject(&self, injection: Injection) -> Result<(), SwitchError> {
        let Some(inbox) = self.publisher.inbox() else { return Err(InjectError::Stopping.into()) };
        let name = Arc::clone(&injection.bridge);
        let is_plain = || {
            let snapshot = self.publisher.current();
            snapshot.world.bridges.iter().any(|bridge| bridge.name == name && !needs_tables(bridge))
        };
        let was_plain = is_plain();
        let result = inbox.inject(injection);
        if was_plain && !is_plain() {
            // It has learned the first flow of a plain learning switch. Workers look for that when
            // they adopt a snapshot.
            self.change(|state| Ok::<_, SwitchError>(self.program_step(state, &name, || ())))?;
        }
        Ok(result?)
    }

    fn packet_ins(&self, bridge: &str) -> Result<Arc<PacketIns>, SwitchError> {
        Ok(Arc::clone(&self.shown.view().bridge(bridge)?.packet_ins))
    }
}

fn info(worker: usize, bridge: &str, megaflow: &Megaflow, world: &World, names: &NameMap, now: Millis) -> MegaflowInfo {
    let (mut matching, mut actions) = (String::new(), String::new());
    format_match(megaflow.matching(), Style { names: true }, names, &mut matching);
    match megaflow.chooser() {
        Some(group) => actions = format!("group:{}", group.spec.id),
        None => format_ops(megaflow.ops(), world, &mut actions),
    }
    MegaflowInfo {
        worker: u32::try_from(worker).unwrap_or(u32::MAX),
        bridge: bridge.to_owned(),
        matching,
        actions,
        packets: megaflow.packets(),
        bytes: megaflow.bytes(),
        used_ms_ago: Some(now.0.saturating_sub(megaflow.last_used().0)),
    }
}

/// The first group or meter that actions name and that does not exist.
fn missing(actions: &[Action], program: &Program) -> Option<(&'static str, String)> {
    let no_meter = |id: &u32| {
        let there = program.meters.contains_key(id);
        (!there).then(|| ("OFPMMFC_INVALID_METER", format!("meter {id} does not exist; add it first")))
    };
    actions.iter().find_map(|action| match action {
        Action::Group(id) if !program.groups.contains_key(id) => {
            Some(("OFPBAC_BAD_OUT_GROUP", format!("group {id} does not exist; add it first")))
        }
        Action::Meter(id) => no_meter(id),
        Action::Controller(controller) => controller.meter.as_ref().and_then(no_meter),
        Action::Clone(actions) => missing(actions, program),
        Action::Reject(reject) => missing(&reject.actions, program),
        _ => None,
    })
}

impl From<InjectError> for SwitchError {
    fn from(error: InjectError) -> Self {
        match error {
            InjectError::Length(_) => {
                FieldError::new("packet", error.to_string(), "send a whole Ethernet frame").into()
            }
            error => Self::Precondition(error.to_string()),
        }
    }
}

impl From<InjectError> for WriteError {
    fn from(error: InjectError) -> Self {
        Self::Switch(error.into())
    }
}
