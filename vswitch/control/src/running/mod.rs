//! The configuration of the switch that runs: as the text of a file, and changed to what a text
//! says.
//!
//! **Where in the walk**: nowhere; a client of the switch like any service.
//!
//! **What an export means**: a file that starts the same switch. It has what is in force: all
//! sections, bridges, ports with their numbers, routes, static addresses, limits, timeouts and
//! options of zones, pins, names of tables, options of Geneve, meters, groups and flows. Exporting,
//! starting with the export, and exporting again gives the same bytes. Flows with a timeout,
//! learned addresses, neighbours and connections are state, not configuration.
//!
//! **What an agent owns** ([`Owned`]): the agent of Antrea's kind programs its bridges, and adds
//! its ports again. An export has its bridges without their program, and the ports that it has or
//! that the file of the start names. The rest is listed in a comment at the top of the export.
//! Applying a text leaves what the agent owns alone, and refuses to change it.
//!
//! **Design**: `state` reads the switch into the values of a file. `plan` finds the steps between
//! two such values, and says them in words (`differ`). `step` makes each, and gives back what
//! undoes it. So
//! what failed, or was not confirmed in time, is taken back step by step; what others changed
//! meanwhile stays. A port that a text does not change is not touched. Workers adopt each step
//! between two bursts.
//!
//! **Rules of applying**: the text is checked as a whole first. A change that needs a restart is
//! refused by name, and nothing is changed. A client's text makes what is in force equal to the
//! text. The file of the start, applied again (SIGHUP), changes what it names or has named, and
//! leaves what clients added.
//!
//! **Limits**: one apply at a time; texts as long as a file may be
//! ([`vswitch_dataplane::limits::CONFIG_LEN_MAX`]); a confirmation within [`CONFIRM_MAX`].
//!
//! **Threads**: any that may block. [`Running::info`] waits for no apply.

mod apply;
mod differ;
mod plan;
mod save;
mod state;
mod step;

pub use apply::{Applied, CONFIRM_MAX, How, Outcome, Source};
pub use save::SAVE_PAUSE;

use crate::config::{ObserveConfig, SavedFile, SwitchConfig};
use crate::info::SwitchError;
use crate::switch_api::SwitchApi;
use apply::Inner;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use vswitch_dataplane::limits::CONFIG_LEN_MAX;

/// What another owner programs and keeps, by name, each with why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// Bridges: their tables, options, meters, groups and flows.
    pub bridges: BTreeMap<String, String>,
    /// Ports.
    pub ports: BTreeMap<String, String>,
    /// Zones of connections: whether established means answered.
    pub zones: BTreeSet<u16>,
}

/// What a step is about, for its owner.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A bridge is to be deleted, or to forward in another way.
    Bridge(&'a str),
    /// A port of a bridge is to be deleted.
    Port(&'a str, &'a str),
}

/// Who owns bridges and ports.
pub trait Owner: Send + Sync {
    /// What is owned now.
    fn owned(&self) -> Owned;

    /// Makes a change unless the subject is owned then.
    ///
    /// # Errors
    /// When it is, or as `change`.
    fn unless_owned(
        &self,
        subject: Subject<'_>,
        change: &mut dyn FnMut() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError>;
}

/// What the daemon was started with.
#[derive(Clone, Debug)]
pub struct Started {
    /// The configuration, the saved state included.
    pub config: SwitchConfig,
    /// That of the operator's file alone.
    pub file_config: SwitchConfig,
    /// The operator's file; none: there is none.
    pub file: Option<PathBuf>,
    /// Its text.
    pub file_text: Vec<u8>,
    /// Cores that the process might run on at its start.
    pub cores: Vec<u32>,
}

impl Started {
    /// With the operator's file, and with the state of the last run if it is kept
    /// (`[control] persist`).
    #[must_use]
    pub fn load(file_config: SwitchConfig, file: &Path, cores: Vec<u32>) -> Self {
        let file_config = SwitchConfig { saved: None, ..file_config };
        let file_text = std::fs::read(file).unwrap_or_default();
        let config = match &file_config.persist {
            Some(path) => SavedFile::new(path).load(file_config.clone(), &file_text, &cores),
            None => file_config.clone(),
        };
        Self { config, file_config, file: Some(file.to_owned()), file_text, cores }
    }

    /// Without a file.
    #[must_use]
    pub fn without_file(config: SwitchConfig, cores: Vec<u32>) -> Self {
        Self { file_config: config.clone(), config, file: None, file_text: Vec::new(), cores }
    }
}

/// The text of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The text.
    pub text: String,
    /// What it does not have, as in its first lines.
    pub left_out: Vec<String>,
}

/// The configuration of a switch that runs.
pub struct Running {
    switch: Arc<dyn SwitchApi>,
    owner: OnceLock<Arc<dyn Owner>>,
    started: Started,
    /// Held by an apply as long as it takes.
    turn: Mutex<()>,
    inner: Mutex<Inner>,
    /// Something may have changed that is to be saved.
    changed: Notify,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("file", &self.started.file).finish_non_exhaustive()
    }
}

impl Running {
    /// Of a switch that was started so.
    pub fn new(switch: Arc<dyn SwitchApi>, started: Started) -> Arc<Self> {
        let inner = Mutex::new(Inner::new(&started));
        Arc::new(Self { switch, owner: OnceLock::new(), started, turn: Mutex::new(()), inner, changed: Notify::new() })
    }

    /// Who owns bridges and ports. Once, before the first client.
    pub fn owned_by(&self, owner: Arc<dyn Owner>) {
        let _ = self.owner.set(owner);
    }

    /// What the switch observes and keeps, since its start.
    #[must_use]
    pub fn observing(&self) -> &ObserveConfig {
        &self.started.config.observe
    }

    fn owned(&self) -> Owned {
        self.owner.get().map(|owner| owner.owned()).unwrap_or_default()
    }

    /// What is in force, as a file that starts the same switch.
    ///
    /// # Errors
    /// When it is longer than a file may be, or the switch stops.
    pub fn export(&self) -> Result<Export, SwitchError> {
        let read = self.read(&self.owned())?;
        let mut notes = vec!["What a switch had in force, by `vsctl config export`.".to_owned()];
        notes.extend(read.left_out.iter().map(|what| format!("Not in this file: {what}.")));
        let text = read.config.to_text(&notes);
        if text.len() as u64 > CONFIG_LEN_MAX {
            let limit = usize::try_from(CONFIG_LEN_MAX).unwrap_or(usize::MAX);
            return Err(SwitchError::Exhausted { what: "bytes of a configuration file", limit });
        }
        Ok(Export { text, left_out: read.left_out })
    }

    /// Puts in force what the configuration of the start says of tables, flows, static addresses
    /// and pins. When bridges and ports are there, and before clients are. What does not work is
    /// logged: the switch goes on without it.
    pub fn load(&self) {
        let config = &self.started.config;
        for (name, program) in &config.programs {
            for action in step::of_program(name, program) {
                self.load_one(&action, &format!("bridge {name}"));
            }
        }
        for ((port, queue), core) in &config.pins {
            let action = step::Action::Pin { port: port.clone(), queue: *queue, core: Some(*core) };
            self.load_one(&action, &format!("port {port}"));
        }
    }

    fn load_one(&self, action: &step::Action, what: &str) {
        if let Err(error) = self.step().run(action) {
            tracing::error!(what, %error, "a part of the configuration is not in force");
        }
    }

    fn step(&self) -> step::Stepper<'_> {
        step::Stepper { switch: &*self.switch, owner: self.owner.get().map(|owner| &**owner) }
    }

    fn read(&self, owned: &Owned) -> Result<state::Read, SwitchError> {
        // A bridge may go while its parts are asked for.
        let mut tries = 0..3;
        loop {
            match state::read(&*self.switch, &self.started, owned) {
                Err(SwitchError::NotFound { .. }) if tries.next().is_some() => {}
                read => return read,
            }
        }
    }
}
