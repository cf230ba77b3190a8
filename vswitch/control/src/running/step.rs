//! Single changes of the switch, each with what undoes it.

use super::state::{plain, tables};
use super::{Owner, Subject};
use crate::access::Asker;
use crate::config::{BridgeProgram, PipelineText, StaticMac, ZoneConfig};
use crate::info::{BridgeChange, BridgeConfig, FdbFilter, LOCAL, PortChange, PortInfo, RouteConfig, SwitchError};
use crate::switch::pipeline::WriteError;
use crate::switch_api::SwitchApi;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_dataplane::port::{Cidr, FieldError, PortConfig};
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_overlay::options::Mapping;

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    DeleteRoute(Cidr),
    AddRoute(RouteConfig),
    DeletePort {
        bridge: String,
        port: String,
    },
    AddPort {
        bridge: String,
        config: PortConfig,
        asker: Asker,
    },
    ModifyPort {
        bridge: String,
        port: String,
        change: PortChange,
    },
    DeleteBridge(String),
    /// `programmed`: its flows are to come, and until then it has none.
    AddBridge {
        config: BridgeConfig,
        programmed: bool,
    },
    SetBridge {
        bridge: String,
        change: BridgeChange,
    },
    Tables {
        bridge: String,
        want: BTreeMap<u8, String>,
    },
    AddOptions {
        bridge: String,
        options: Vec<Mapping>,
    },
    DeleteOptions {
        bridge: String,
        options: Vec<Mapping>,
    },
    Macs {
        bridge: String,
        want: BTreeSet<StaticMac>,
    },
    Pipeline {
        bridge: String,
        want: PipelineText,
    },
    Updates {
        bridge: String,
        updates: Vec<Update>,
    },
    Pin {
        port: String,
        queue: u16,
        core: Option<u32>,
    },
    Zone(ZoneConfig),
    DefaultLimit(Option<u32>),
    SeqCheck(bool),
}

/// The changes that a program of a bridge without one comes to.
pub(super) fn of_program(bridge: &str, program: &BridgeProgram) -> Vec<Action> {
    let bridge = || bridge.to_owned();
    let mut actions = Vec::new();
    actions.extend(program.tables.clone().map(|want| Action::Tables { bridge: bridge(), want }));
    let options = program.options.clone().filter(|options| !options.is_empty());
    actions.extend(options.map(|options| Action::AddOptions { bridge: bridge(), options }));
    actions.extend(program.macs.clone().map(|want| Action::Macs { bridge: bridge(), want }));
    actions.extend(program.pipeline.clone().map(|want| Action::Pipeline { bridge: bridge(), want }));
    actions
}

/// Makes changes.
pub(super) struct Stepper<'a> {
    pub(super) switch: &'a dyn SwitchApi,
    pub(super) owner: Option<&'a dyn Owner>,
}

/// What a change came to: what undoes it, in this order.
type Undo = Result<Vec<Action>, SwitchError>;

impl Stepper<'_> {
    /// Makes a change.
    ///
    /// # Errors
    /// When nothing has changed, or what has is undone already.
    pub(super) fn run(&self, action: &Action) -> Undo {
        match action {
            Action::DeleteRoute(prefix) => self.delete_route(*prefix),
            Action::AddRoute(route) => self.add_route(route),
            Action::DeletePort { bridge, port } => self.delete_port(bridge, port),
            Action::AddPort { bridge, config, asker } => self.add_port(bridge, config, *asker),
            Action::ModifyPort { bridge, port, change } => self.modify_port(bridge, port, change),
            Action::DeleteBridge(bridge) => self.delete_bridge(bridge),
            Action::AddBridge { config, programmed } => self.add_bridge(config, *programmed),
            Action::SetBridge { bridge, change } => self.set_bridge(bridge, *change),
            Action::Tables { bridge, want } => self.tables(bridge, want),
            Action::AddOptions { bridge, options } => {
                done(self.switch.add_options(bridge, options))?;
                Ok(vec![Action::DeleteOptions { bridge: bridge.clone(), options: options.clone() }])
            }
            Action::DeleteOptions { bridge, options } => {
                done(self.switch.delete_options(bridge, options))?;
                Ok(vec![Action::AddOptions { bridge: bridge.clone(), options: options.clone() }])
            }
            Action::Macs { bridge, want } => self.macs(bridge, want),
            Action::Pipeline { bridge, want } => {
                let updates = want.updates(&self.switch.names(bridge)?).map_err(|problems| {
                    let errors = problems.iter().map(|problem| FieldError::new("text", problem.to_string(), ""));
                    SwitchError::Invalid(errors.collect())
                })?;
                self.write(bridge, &updates)
            }
            Action::Updates { bridge, updates } => self.write(bridge, updates),
            Action::Pin { port, queue, core } => {
                let pinned = |rxq: &crate::RxqInfo| rxq.port == *port && rxq.queue == *queue && rxq.pinned;
                let was = self.switch.rxqs().into_iter().find(pinned).map(|rxq| rxq.core);
                match self.switch.pin_rxq(port, *queue, *core) {
                    // The port is not open; a pin does not hold up the rest.
                    Err(error @ SwitchError::NotFound { .. }) => {
                        tracing::warn!(port, queue, %error, "a receive queue is not pinned");
                        return Ok(Vec::new());
                    }
                    pinned => done(pinned)?,
                }
                Ok(vec![Action::Pin { port: port.clone(), queue: *queue, core: was }])
            }
            Action::Zone(zone) => Ok(vec![self.zone(zone)]),
            Action::DefaultLimit(limit) => {
                let conntrack = self.switch.conntrack();
                let was = conntrack.tracker().limits().0.default;
                conntrack.tracker().set_default_limit(*limit);
                Ok(vec![Action::DefaultLimit(was)])
            }
            Action::SeqCheck(on) => {
                let conntrack = self.switch.conntrack();
                let was = conntrack.tracker().checks_windows();
                conntrack.tracker().check_windows(*on);
                Ok(vec![Action::SeqCheck(was)])
            }
        }
    }

    fn unless_owned(
        &self,
        subject: Subject<'_>,
        mut change: impl FnMut() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError> {
        match self.owner {
            Some(owner) => owner.unless_owned(subject, &mut change),
            None => change(),
        }
    }

    fn user_routes(&self) -> Vec<RouteConfig> {
        let routes = self.switch.routes().into_iter().filter(|route| route.user);
        routes
            .filter_map(|info| {
                let prefix = info.prefix.parse().ok()?;
                Some(RouteConfig { prefix, port: info.port, gateway: info.gateway, source: info.source })
            })
            .collect()
    }

    fn delete_route(&self, prefix: Cidr) -> Undo {
        let was = self.user_routes().into_iter().find(|route| route.prefix == prefix);
        done(self.switch.delete_route(prefix))?;
        Ok(was.into_iter().map(Action::AddRoute).collect())
    }

    fn add_route(&self, route: &RouteConfig) -> Undo {
        let was = self.user_routes().into_iter().find(|other| other.prefix == route.prefix);
        done(self.switch.add_route(route))?;
        Ok(vec![was.map_or(Action::DeleteRoute(route.prefix), Action::AddRoute)])
    }

    fn find(&self, bridge: &str, port: &str) -> Result<PortInfo, SwitchError> {
        let ports = self.switch.ports(bridge)?;
        ports.into_iter().find(|info| info.config.name == port).ok_or_else(|| SwitchError::NotFound {
            what: "port",
            name: port.to_owned(),
            hint: format!("another client has deleted it from bridge {bridge}"),
        })
    }

    fn static_macs(&self, bridge: &str) -> Result<BTreeSet<StaticMac>, SwitchError> {
        let statics = self.switch.fdb(bridge)?.into_iter().filter(|entry| entry.age_s.is_none());
        Ok(statics.map(|entry| StaticMac { port: entry.port, vlan: entry.vlan, mac: entry.mac }).collect())
    }

    fn delete_port(&self, bridge: &str, port: &str) -> Undo {
        let info = self.find(bridge, port)?;
        // Its static addresses, routes and pins go with it.
        let macs = self.static_macs(bridge)?;
        let routes: Vec<_> = self.user_routes().into_iter().filter(|route| route.port == port).collect();
        let pins: Vec<_> = self.switch.rxqs().into_iter().filter(|rxq| rxq.port == port && rxq.pinned).collect();
        done(self.unless_owned(Subject::Port(bridge, port), || self.switch.delete_port(bridge, port)))?;
        let number = (info.number != LOCAL).then_some(info.number);
        let config = PortConfig { number, ..info.config };
        let mut undo = vec![Action::AddPort { bridge: bridge.to_owned(), config, asker: Asker::File }];
        if macs.iter().any(|mac| mac.port == port) {
            undo.push(Action::Macs { bridge: bridge.to_owned(), want: macs });
        }
        undo.extend(routes.into_iter().map(Action::AddRoute));
        undo.extend(pins.into_iter().map(|rxq| Action::Pin { port: rxq.port, queue: rxq.queue, core: Some(rxq.core) }));
        Ok(undo)
    }

    fn add_port(&self, bridge: &str, config: &PortConfig, asker: Asker) -> Undo {
        let port = config.name.clone();
        match self.switch.add_port_for(bridge, config.clone(), asker) {
            Ok(_) => Ok(vec![Action::DeletePort { bridge: bridge.to_owned(), port }]),
            Err(error) => {
                if matches!(error, SwitchError::Late(_)) {
                    // Its device may still come.
                    let _ = self.switch.delete_port(bridge, &port);
                }
                Err(error)
            }
        }
    }

    fn modify_port(&self, bridge: &str, port: &str, change: &PortChange) -> Undo {
        let was = self.find(bridge, port)?.config;
        done(self.switch.modify_port(bridge, port, change))?;
        let underlay = was.may_tunnel();
        let back = PortChange {
            admin_up: change.admin_up.map(|_| was.admin_up),
            no_flood: change.no_flood.map(|_| was.no_flood),
            no_receive: change.no_receive.map(|_| was.no_receive),
            no_forward: change.no_forward.map(|_| was.no_forward),
            addresses: change.addresses.as_ref().map(|_| was.addresses),
            strict: change.strict.map(|_| was.strict),
            underlay: change.underlay.map(|_| underlay),
            mtu: change.mtu.map(|_| was.mtu),
            mtu_follows: change.mtu.map(|_| was.mtu_follows),
            external_ids: change.external_ids.as_ref().map(|_| was.external_ids),
        };
        Ok(vec![Action::ModifyPort { bridge: bridge.to_owned(), port: port.to_owned(), change: back }])
    }

    /// What undoes changes of the program of a bridge, and makes it anew.
    fn program_back(&self, bridge: &str) -> Result<Vec<Action>, SwitchError> {
        let want = tables(self.switch, bridge)?;
        let options = self.switch.option_map(bridge)?;
        let mut actions = vec![Action::Tables { bridge: bridge.to_owned(), want }];
        if !options.is_empty() {
            actions.push(Action::AddOptions { bridge: bridge.to_owned(), options });
        }
        actions.push(Action::Updates { bridge: bridge.to_owned(), updates: self.updates_back(bridge)? });
        Ok(actions)
    }

    fn updates_back(&self, bridge: &str) -> Result<Vec<Update>, SwitchError> {
        let mut updates = vec![Update::ReplaceAll { meters: true }];
        updates.extend(self.switch.meters(bridge, None)?.into_iter().map(|info| Update::AddMeter(info.meter)));
        updates.extend(self.switch.groups(bridge, None)?.into_iter().map(|info| Update::AddGroup(info.group)));
        let flows = self.switch.flows(bridge, &FlowFilter::default())?;
        updates.extend(flows.into_iter().map(|info| Update::AddFlow(info.flow)));
        Ok(updates)
    }

    fn delete_bridge(&self, bridge: &str) -> Undo {
        let bridges = self.switch.bridges();
        let Some(info) = bridges.into_iter().find(|info| info.config.name == bridge) else { return Ok(Vec::new()) };
        if let Some(port) = info.ports.first() {
            let text = format!("bridge {bridge} has a port that this change does not know: {}", port.config.name);
            return Err(SwitchError::Precondition(text));
        }
        let program = self.program_back(bridge)?;
        done(self.unless_owned(Subject::Bridge(bridge), || self.switch.delete_bridge(bridge)))?;
        let mut undo = vec![Action::AddBridge { config: info.config, programmed: true }];
        undo.extend(program);
        Ok(undo)
    }

    fn add_bridge(&self, config: &BridgeConfig, programmed: bool) -> Undo {
        done(self.switch.add_bridge(config.clone()))?;
        if programmed {
            // Before it has ports: no packet passes by the flow of the fail mode.
            let cleared = self.switch.write_pipeline(&config.name, &[Update::ReplaceAll { meters: true }]);
            if let Err(error) = done(cleared.map(drop).map_err(plain_error)) {
                let _ = self.switch.delete_bridge(&config.name);
                return Err(error);
            }
        }
        Ok(vec![Action::DeleteBridge(config.name.clone())])
    }

    fn set_bridge(&self, bridge: &str, change: BridgeChange) -> Undo {
        let was = self.switch.bridges().into_iter().find(|info| info.config.name == bridge);
        let updates = change.fail_mode.map(|_| self.updates_back(bridge)).transpose()?;
        if change.fail_mode.is_some() {
            done(self.unless_owned(Subject::Bridge(bridge), || self.switch.set_bridge(bridge, change)))?;
        } else {
            done(self.switch.set_bridge(bridge, change))?;
        }
        let Some(was) = was else { return Ok(Vec::new()) };
        let change = BridgeChange {
            fail_mode: change.fail_mode.map(|_| was.config.fail_mode),
            strict: change.strict.map(|_| was.config.strict),
        };
        let mut undo = vec![Action::SetBridge { bridge: bridge.to_owned(), change }];
        undo.extend(updates.map(|updates| Action::Updates { bridge: bridge.to_owned(), updates }));
        Ok(undo)
    }

    fn tables(&self, bridge: &str, want: &BTreeMap<u8, String>) -> Undo {
        let was = tables(self.switch, bridge)?;
        for (number, name) in &was {
            if want.get(number) != Some(name) {
                done(self.switch.delete_table(bridge, name).map(drop))?;
            }
        }
        for (number, name) in want {
            if was.get(number) != Some(name) {
                done(self.switch.add_table(bridge, Some(*number), name).map(drop))?;
            }
        }
        Ok(vec![Action::Tables { bridge: bridge.to_owned(), want: was }])
    }

    fn macs(&self, bridge: &str, want: &BTreeSet<StaticMac>) -> Undo {
        let was = self.static_macs(bridge)?;
        for StaticMac { port, vlan, mac } in was.difference(want) {
            let (port, vlan, mac) = (Some(port.clone()), Some(*vlan), Some(*mac));
            self.switch.fdb_flush(bridge, &FdbFilter { port, vlan, mac, statics: true })?;
        }
        for StaticMac { port, vlan, mac } in want.difference(&was) {
            if let Err(error) = self.switch.fdb_add(bridge, port, *vlan, *mac) {
                for StaticMac { port, vlan, mac } in was.difference(want) {
                    let _ = self.switch.fdb_add(bridge, port, *vlan, *mac);
                }
                return Err(error);
            }
        }
        Ok(vec![Action::Macs { bridge: bridge.to_owned(), want: was }])
    }

    fn write(&self, bridge: &str, updates: &[Update]) -> Undo {
        let back = self.updates_back(bridge)?;
        done(self.switch.write_pipeline(bridge, updates).map(drop).map_err(plain_error))?;
        Ok(vec![Action::Updates { bridge: bridge.to_owned(), updates: back }])
    }

    fn zone(&self, zone: &ZoneConfig) -> Action {
        let conntrack = self.switch.conntrack();
        let tracker = conntrack.tracker();
        let mut was = plain(zone.zone);
        was.limit = tracker.limits().1.iter().find(|count| count.zone == zone.zone).and_then(|count| count.limit);
        was.timeouts =
            tracker.policies().into_iter().find(|(number, _)| *number == zone.zone).map(|(_, policy)| policy);
        was.established_after_answer = tracker.established_after_answer(zone.zone);
        tracker.set_limit(zone.zone, zone.limit);
        tracker.set_policy(zone.zone, zone.timeouts);
        tracker.set_established_after_answer(zone.zone, zone.established_after_answer);
        Action::Zone(was)
    }
}

/// A change that a worker adopts late is made.
fn done<R>(result: Result<R, SwitchError>) -> Result<(), SwitchError> {
    match result {
        Ok(_) => Ok(()),
        Err(SwitchError::Late(text)) => {
            tracing::warn!("{text}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn plain_error(error: WriteError) -> SwitchError {
    match error {
        WriteError::Switch(error) => error,
        WriteError::Refused(refused) => {
            let problem = format!("{}: {}", refused.code, refused.reason);
            FieldError::new("text", problem, refused.hint).into()
        }
    }
}
