//! Compares what the file asks for with what the machine has: everything that can be known before
//! anything starts.

mod cores;
mod devices;
mod listeners;
mod memory;
mod socket;
mod state;

use super::environment::Environment;
use super::file::ConfigFile;
use super::place::{ConfigKey, ConfigKeys};
use super::report::Problem;
use super::value::SwitchConfig;

/// What the checks read, and what they found.
struct Check<'a> {
    config: &'a SwitchConfig,
    places: &'a ConfigKeys,
    environment: &'a Environment,
    found: Vec<Problem>,
}

impl Check<'_> {
    /// An error about a key's value, at its position if the file has the key.
    fn error(&self, place: &ConfigKey, problem: impl Into<String>, hint: impl Into<String>) -> Problem {
        let field = match place {
            ConfigKey::Dpdk(key)
            | ConfigKey::Control(key)
            | ConfigKey::Conntrack(key)
            | ConfigKey::Antrea(key)
            | ConfigKey::Observe(key)
            | ConfigKey::Port(_, _, key)
            | ConfigKey::Listener(_, key)
            | ConfigKey::Route(_, key) => key,
            ConfigKey::WorkerCore(_) => "worker_cores",
        };
        Problem::error(self.places.position(place), field, problem, hint)
    }
}

impl ConfigFile {
    /// Adds to the report what this machine cannot give: cores, memory, devices, files, the socket.
    /// Says nothing about values that were refused already, and nothing at all if the file could
    /// not be parsed as a whole.
    pub fn check(&mut self, environment: &Environment) {
        if self.is_whole {
            let mut check = Check { config: &self.config, places: &self.places, environment, found: Vec::new() };
            check.cores();
            check.memory();
            check.devices();
            check.socket();
            check.listeners();
            check.state();
            let found = check.found;
            self.report.extend(found);
            self.report.sort();
        }
    }
}
