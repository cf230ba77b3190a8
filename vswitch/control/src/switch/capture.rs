//! Captures: which ports workers copy packets of, for whom.
//!
//! **Where in the walk**: beside it; [`vswitch_dataplane::capture`] is the part in the walk.
//!
//! **Design**: a capture is one [`Session`] in a place of its own. It is published with a snapshot
//! whose world is that of the last one, so that caches stay valid. Each later snapshot has the
//! capture, too, without the ports that have gone meanwhile. When none of its ports is left, the
//! session is over, and its reader ends it.
//!
//! **Limits**: [`SESSIONS_MAX`] captures. Ports that come later are not captured.
//!
//! **Threads**: those of the writer. The reader takes buffers out of the session by itself.

pub(super) mod list;

use super::Switch;
use super::change::Step;
use super::port_state::PortState;
use super::state::State;
use crate::info::SwitchError;
use list::RunningCapture;
use std::sync::{Arc, Weak};
use vswitch_dataplane::capture::{Captures, Interface, Point, SESSIONS_MAX, Session, SessionSpec};
use vswitch_dataplane::port::{FieldError, PortId, PortKind};
use vswitch_dataplane::worker::{PortShared, Snapshot};
use vswitch_flow::{FIRST_PACKET_WORD, LAST_PACKET_WORD, SparseMatch};

/// What is to be captured.
#[derive(Clone, Debug, Default)]
pub struct CaptureSpec {
    /// Name of the bridge.
    pub bridge: String,
    /// Names of its ports; none: all that can be captured.
    pub ports: Vec<String>,
    /// Where; at least one.
    pub points: Vec<Point>,
    /// Which packets, by fields of their headers; none: all.
    pub matching: Option<SparseMatch>,
    /// Bytes that are kept of a packet at most.
    pub snaplen: usize,
}

/// A capture that goes on, for its reader.
#[derive(Clone, Debug)]
pub struct Capture {
    /// For [`Switch::stop_capture`].
    pub id: u64,
    /// What workers have copied.
    pub session: Arc<Session>,
    /// By interface of the session: OpenFlow number of its port.
    pub numbers: Vec<u32>,
}

impl Switch {
    /// Begins a capture: when this returns, all workers copy.
    ///
    /// # Errors
    /// When the bridge or a port does not exist, a port has no packets of its own, the match names
    /// metadata, or there are too many captures.
    pub fn start_capture(&self, spec: &CaptureSpec) -> Result<Capture, SwitchError> {
        let mut begun = None;
        let started = self.change(|state| {
            let capture = state.begin_capture(spec)?;
            begun = Some(capture.id);
            Ok(Step::publish(self.recaptured(state), move |_, _| capture))
        });
        match (&started, begun) {
            (Ok(capture), _) => {
                let taps = self.publisher.samplers.iter().zip(capture.session.drops());
                taps.for_each(|(sampler, tap)| sampler.add_tap(tap));
            }
            // A worker is late, and the caller gets no capture that it could stop.
            (Err(_), Some(id)) => self.forget_capture(id),
            (Err(_), None) => {}
        }
        started
    }

    /// Ends a capture: when this returns, no worker copies for it any more, and the session has all
    /// that was copied. One that has ended is no error.
    ///
    /// # Errors
    /// When a worker has not let go in time. It is going to.
    pub fn stop_capture(&self, id: u64) -> Result<(), SwitchError> {
        let _ = self.edit(|state| {
            if let Some(session) = state.captures.session(id) {
                let taps = self.publisher.samplers.iter().zip(session.drops());
                taps.for_each(|(sampler, tap)| sampler.remove_tap(tap));
            }
            Ok(())
        });
        let stopped = self.change(|state| {
            state.captures.remove(id);
            Ok(Step::publish(self.recaptured(state), |_, _| ()))
        });
        if stopped.is_err() {
            self.forget_capture(id);
        }
        stopped
    }

    /// The next snapshot goes without it.
    fn forget_capture(&self, id: u64) {
        let _ = self.edit(|state| {
            state.captures.remove(id);
            Ok(())
        });
    }

    /// The last snapshot with the captures that there are now.
    fn recaptured(&self, state: &State) -> Snapshot {
        let last = self.publisher.current();
        Snapshot {
            world: Arc::clone(&last.world),
            ports: last.ports.clone(),
            rxqs: last.rxqs.clone(),
            captures: state.captures(),
        }
    }
}

impl State {
    /// Captures as workers see them.
    pub(super) fn captures(&self) -> Option<Arc<Captures>> {
        let places = &self.captures.places;
        if places.iter().all(Option::is_none) {
            return None;
        }
        let sessions = std::array::from_fn(|place| places[place].as_ref().map(|running| Arc::clone(&running.session)));
        let is_open = |place: usize, interface: usize, port: PortId| {
            let running = places[place].as_ref();
            let begun = running.and_then(|running| running.ports.get(interface)).map(Weak::as_ptr);
            begun.is_some() && begun == self.shared_of(port).map(Arc::as_ptr)
        };
        Some(Arc::new(Captures::new(sessions, is_open)))
    }

    fn shared_of(&self, port: PortId) -> Option<&Arc<PortShared>> {
        let port = self.ports.get(port.index())?.as_ref()?;
        port.opened.as_ref().ok().map(|opened| &opened.shared)
    }

    fn begin_capture(&mut self, spec: &CaptureSpec) -> Result<Capture, SwitchError> {
        let ports = self.captured_ports(spec)?;
        check_match(spec)?;
        let exhausted = SwitchError::Exhausted { what: "captures", limit: SESSIONS_MAX };
        let place = self.captures.places.iter().position(Option::is_none).ok_or(exhausted)?;
        let (mut interfaces, mut shared, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for id in ports {
            let (Some(port), Some(opened)) = (self.ports[id.index()].as_ref(), self.shared_of(id)) else { continue };
            for point in &spec.points {
                interfaces.push(Interface { port: id, name: port.config.name.clone(), point: *point });
                shared.push(Arc::downgrade(opened));
                numbers.push(port.number);
            }
        }
        let spec = SessionSpec { interfaces, matching: spec.matching.clone(), snaplen: spec.snaplen };
        let session = Arc::new(Session::new(spec, self.cores.len(), place));
        self.captures.id += 1;
        let id = self.captures.id;
        self.captures.places[place] = Some(RunningCapture { id, session: Arc::clone(&session), ports: shared });
        Ok(Capture { id, session, numbers })
    }

    /// The ports that are meant, each once.
    fn captured_ports(&self, spec: &CaptureSpec) -> Result<Vec<PortId>, SwitchError> {
        self.bridge(&spec.bridge)?;
        let mut ports = Vec::new();
        if spec.ports.is_empty() {
            let of_bridge = self.ports.of(&spec.bridge).filter(|(_, port)| obstacle(port).is_none());
            ports.extend(of_bridge.map(|(id, _)| id));
            if ports.is_empty() {
                let text = format!("bridge {:?} has no port that packets can be captured of", spec.bridge);
                return Err(SwitchError::Precondition(text));
            }
        }
        for name in &spec.ports {
            let id = self.usable_port(&spec.bridge, name)?;
            let port = self.ports.get(id.index()).and_then(Option::as_ref);
            if let Some(obstacle) = port.and_then(|port| obstacle(port)) {
                return Err(SwitchError::Precondition(format!("port {name:?} {obstacle}")));
            }
            if !ports.contains(&id) {
                ports.push(id);
            }
        }
        Ok(ports)
    }
}

/// Why no packets of a port can be captured.
fn obstacle(port: &PortState) -> Option<String> {
    let elsewhere = "capture at the ports by which its packets enter and leave the switch";
    match (&port.config.kind, &port.opened) {
        (PortKind::Patch { .. }, _) => Some(format!("is a patch port, and has no queues; {elsewhere}")),
        (PortKind::Tunnel(_), _) => Some(format!("is a tunnel, and has no queues; {elsewhere}")),
        (_, Err(reason)) => Some(format!("is not open: {reason}")),
        (_, Ok(_)) => None,
    }
}

/// Workers look at packets before and behind the tables: there is no metadata.
fn check_match(spec: &CaptureSpec) -> Result<(), SwitchError> {
    let packet_words = (1_u64 << LAST_PACKET_WORD) - (1 << FIRST_PACKET_WORD);
    match &spec.matching {
        Some(matching) if matching.map() & !packet_words != 0 => {
            let problem = "it names metadata, and packets have none where they are captured".to_owned();
            let hint = "name fields of packet headers only, and the port as port";
            Err(FieldError::new("match", problem, hint).into())
        }
        _ => Ok(()),
    }
}
