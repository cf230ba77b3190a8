//! Devices that are being opened.
//!
//! **Design**: a driver may wait for its peer as long as that wishes: a virtio_user device for the
//! answer of the socket's owner. So a device is opened by a thread of its own, which holds no lock
//! of the switch. The call that adds the port waits for that thread, [`OPEN_MAX`] at most.
//! Meanwhile the port is there in the state "opening": its name, its number and its place are
//! taken. A probe cannot be interrupted. A device that comes later is closed again, and nobody has
//! it.
//!
//! **Limits**: EAL's one thread probes the devices of DPDK. While it waits for one, further ones
//! are refused by name ([`vswitch_dpdk`], `eal`). Other kinds of ports are opened beside it.

use super::Switch;
use crate::info::SwitchError;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vswitch_dataplane::port::{self, OpenContext, OpenPort, PortConfig, PortId, PortKind};

/// A device answers within this time, or the call that asks for it ends. A card's driver takes up
/// to three seconds; clients (`vsctl`) wait for ten.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(8);

/// Between two looks whether the switch stops.
const LOOK: Duration = Duration::from_millis(50);

/// Of a port of the configuration file.
pub(super) const TOO_LATE: &str =
    "its device did not answer in time; set the port up to try again (vsctl mod-port BRIDGE PORT up)";

/// A device that is being opened.
#[derive(Debug)]
pub(super) struct Opening {
    since: Instant,
    /// The port stays if its device does not come.
    kept: bool,
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
enum Progress {
    /// Its thread is at work, and somebody waits.
    Working,
    /// No call waits any more.
    GivenUp,
    /// It is there, or failed, for the call that waits.
    Done(Box<Result<OpenPort, String>>),
    /// The call that waited has it, and makes it the port's.
    Taken,
    /// Nobody waited, and nothing is left of it.
    Over,
}

/// Why there is no device.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// The device or the driver said so.
    Failed(String),
    /// It did not answer in time: the port stays "opening".
    Late,
    /// The switch stops.
    Stopping,
}

/// A port in the state "opening", and what its device is opened with.
pub(super) struct Reserved {
    pub(super) id: PortId,
    pub(super) opening: Arc<Opening>,
    pub(super) context: OpenContext,
    pub(super) config: PortConfig,
    pub(super) kind: PortKind,
}

impl Opening {
    /// Of a port that stays (`kept`), or goes, if its device does not come.
    pub(super) fn new(kept: bool) -> Arc<Self> {
        let (state, changed) = (Mutex::new(Progress::Working), Condvar::new());
        Arc::new(Self { since: Instant::now(), kept, state, changed })
    }

    /// What the API says of the port.
    pub(super) fn text(&self) -> String {
        format!("opening since {} s: its device has not answered", self.since.elapsed().as_secs())
    }

    /// Whether its port stays if its device does not come.
    pub(super) const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Nobody waited, and nothing of it is left.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.state.lock(), Progress::Over)
    }

    /// The thread's part: tells who waits, or closes what nobody waits for.
    fn work(&self, open: impl FnOnce() -> Result<OpenPort, String>) {
        let result = Box::new(open());
        let mut state = self.state.lock();
        if matches!(*state, Progress::Working) {
            *state = Progress::Done(result);
            self.changed.notify_all();
            return;
        }
        // Closing takes as long as it takes, too.
        drop(state);
        drop(result);
        *self.state.lock() = Progress::Over;
    }

    /// Waits for the thread, for `patience` at most.
    fn wait(&self, patience: Duration, stops: impl Fn() -> bool) -> Result<OpenPort, NotOpened> {
        let until = self.since + patience;
        let mut state = self.state.lock();
        loop {
            if matches!(*state, Progress::Done(_)) {
                let Progress::Done(result) = std::mem::replace(&mut *state, Progress::Taken) else { continue };
                return result.map_err(NotOpened::Failed);
            }
            let stopping = stops();
            if stopping || Instant::now() >= until {
                *state = Progress::GivenUp;
                return Err(if stopping { NotOpened::Stopping } else { NotOpened::Late });
            }
            self.changed.wait_for(&mut state, LOOK);
        }
    }
}

impl Reserved {
    /// A port without a device of its own opens at once, and needs no thread.
    fn is_at_once(&self) -> bool {
        matches!(self.kind, PortKind::Patch { .. } | PortKind::Tunnel(_) | PortKind::Dummy)
    }

    fn opener(&self) -> impl FnOnce() -> Result<OpenPort, String> + Send + 'static {
        let (context, config, kind) = (self.context.clone(), self.config.clone(), self.kind.clone());
        move || {
            let opened = port::open(&context, &config, &kind)?;
            if !config.admin_up {
                opened.device.set_admin(false)?;
            }
            Ok(opened)
        }
    }
}

impl Switch {
    /// Opens the device of a port that is there in the state "opening". No lock is held.
    pub(super) fn open(&self, reserved: &Reserved) -> Result<OpenPort, NotOpened> {
        let (open, opening) = (reserved.opener(), Arc::clone(&reserved.opening));
        if reserved.is_at_once() {
            return open().map_err(NotOpened::Failed);
        }
        let thread = std::thread::Builder::new().name("open".to_owned()).spawn(move || opening.work(open));
        thread.map_err(|error| NotOpened::Failed(format!("no thread can be started to open it: {error}")))?;
        reserved.opening.wait(OPEN_MAX, || self.is_hurried())
    }

    /// What a client is told.
    pub(super) fn not_opened(name: &str, error: NotOpened) -> SwitchError {
        match error {
            NotOpened::Failed(reason) => SwitchError::Device { name: name.to_owned(), reason },
            NotOpened::Late => SwitchError::Late(format!(
                "port {name:?}: its device has not answered for {} s; the port stays in state opening, and goes when \
                 the device answers or fails (vsctl del-port removes it now)",
                OPEN_MAX.as_secs()
            )),
            NotOpened::Stopping => stopping(),
        }
    }
}

/// The switch stops.
pub(super) fn stopping() -> SwitchError {
    SwitchError::Precondition("the switch is stopping".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use vswitch_dataplane::port::Device;

    fn opened() -> Result<OpenPort, String> {
        Ok(OpenPort { rx: Vec::new(), tx: Vec::new(), device: Device::Patch })
    }

    #[test]
    fn who_waits_gets_the_device_or_the_reason() {
        let opening = Opening::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| opening.work(opened));
            opening.wait(Duration::from_secs(60), || false).expect("a device");
        });
        assert!(!opening.is_over(), "the port is not taken away before it has its device");
        let opening = Opening::new(false);
        opening.work(|| Err("no such device".to_owned()));
        let failed = opening.wait(Duration::ZERO, || false);
        assert!(matches!(&failed, Err(NotOpened::Failed(reason)) if reason == "no such device"), "{failed:?}");
    }

    #[test]
    fn a_device_that_comes_late_is_nobodys() {
        for stops in [false, true] {
            let opening = Opening::new(false);
            let (go, gone) = mpsc::channel::<()>();
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    opening.work(move || {
                        let _ = gone.recv();
                        opened()
                    });
                });
                let late = opening.wait(if stops { Duration::from_secs(60) } else { Duration::ZERO }, || stops);
                assert!(
                    matches!(&late, Err(NotOpened::Late) if !stops)
                        || matches!(&late, Err(NotOpened::Stopping) if stops)
                );
                assert!(!opening.is_over(), "the thread is at work");
                drop(go);
                thread.join().expect("no panic");
                assert!(opening.is_over(), "it was closed");
            });
        }
    }
}
