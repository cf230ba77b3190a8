//! Keeping what is in force for the next start ([`crate::config::SavedFile`]).
//!
//! **Design**: the services say when something may have changed ([`Running::touch`]). A task of the
//! daemon then asks for the text, and writes it if it is another one: at most once in
//! [`SAVE_PAUSE`]. What waits for its confirmation is not saved.

use super::Running;
use crate::config::{Saved, SavedFile};
use crate::info::SwitchError;
use parking_lot::MutexGuard;
use std::collections::BTreeSet;
use std::time::Duration;
use vswitch_dataplane::limits::CONFIG_LEN_MAX;

/// Between two writes of the file: a switch that is killed loses the changes of this time.
pub const SAVE_PAUSE: Duration = Duration::from_secs(1);

/// What the disk part of health calls it.
const WHAT: &str = "the state for the next start";

impl Running {
    /// Something may have changed.
    pub fn touch(&self) {
        self.changed.notify_one();
    }

    /// Waits until something may have changed.
    pub async fn touched(&self) {
        self.changed.notified().await;
    }

    /// Whether changes are saved.
    #[must_use]
    pub const fn saves(&self) -> bool {
        self.started.config.persist.is_some()
    }

    /// Saves what is in force, if it is another state than `last`, which it then replaces. Health
    /// tells if that fails. Returns whether it is saved.
    pub fn save(&self, last: &mut String) -> bool {
        let Some(path) = &self.started.config.persist else { return true };
        // Not a state in the middle of an apply.
        let turn = self.turn.lock();
        if self.inner.lock().is_pending() {
            return true;
        }
        let text = self.saved_text(&turn);
        let written = text.map_err(|error| error.to_string()).and_then(|text| {
            if text != *last {
                SavedFile::new(path).write(&text).map_err(|error| format!("{}: {error}", path.display()))?;
                *last = text;
            }
            Ok(())
        });
        self.switch.report_disk(WHAT, written.as_ref().err().cloned());
        written.is_ok()
    }

    fn saved_text(&self, _: &MutexGuard<'_, ()>) -> Result<String, SwitchError> {
        let mut read = self.read(&self.owned())?;
        let inner = self.inner.lock();
        let (file, names, kinds) = (inner.file_mark.clone(), inner.file_names.clone(), inner.file_kinds.clone());
        drop(inner);
        // A client may have put another device in the place of one of the file.
        let ports = read.config.bridges.iter().flat_map(|(_, ports)| ports);
        let clients = ports.filter(|port| kinds.get(&port.name) != Some(&port.kind)).map(|port| port.name.clone());
        let clients: BTreeSet<String> = clients.collect();
        read.config.saved = Some(Saved { file, names, client_ports: clients });
        let notes = ["The switch writes this file: what it had in force last. See [control] persist.".to_owned()];
        let text = read.config.to_text(&notes);
        if text.len() as u64 > CONFIG_LEN_MAX {
            let limit = usize::try_from(CONFIG_LEN_MAX).unwrap_or(usize::MAX);
            return Err(SwitchError::Exhausted { what: "bytes of a configuration file", limit });
        }
        Ok(text)
    }
}
