//! Where the switch keeps something over a restart: directories that exist.

use super::{Check, ConfigKey};
use std::path::Path;

impl Check<'_> {
    pub(super) fn state(&mut self) {
        let files = [
            (&self.config.conntrack.state_file, ConfigKey::Conntrack("state_file")),
            (&self.config.persist, ConfigKey::Control("persist")),
        ];
        for (file, place) in files {
            let Some(file) = file else { continue };
            self.directory(&place, file.parent().unwrap_or(Path::new("/")));
            if file.is_dir() {
                let problem = format!("{file:?} is a directory");
                self.found.push(self.error(&place, problem, "name a file in it"));
            }
        }
        if let Some(dir) = &self.config.antrea.state_dir {
            self.directory(&ConfigKey::Antrea("state_dir"), dir);
        }
    }

    fn directory(&mut self, place: &ConfigKey, directory: &Path) {
        if !directory.is_dir() {
            let problem = format!("there is no directory {directory:?}");
            let hint = format!("mkdir -p -m 0700 {}", directory.display());
            self.found.push(self.error(place, problem, hint));
        }
    }
}
