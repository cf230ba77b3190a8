//! The file in which the switch keeps changes at run time (`[control] persist`), and which of it
//! counts at a start.
//!
//! **Rules**: the sections that are read at the start only come from the operator's file, always.
//! Of what can be changed at run time (bridges, ports, routes, zones, programs, pins):
//!
//! - The operator's file is the one that the switch was told last: the saved state counts.
//! - It has changed since: what it names is as it says. What it named before and does not name any
//!   more is gone. What clients added, and no file named, stays as it was saved.
//!
//! So a port that a client deleted stays deleted, until the operator changes the file.

use super::file::ConfigFile;
use super::value::SwitchConfig;
use crate::stored;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use vswitch_dataplane::limits::CONFIG_LEN_MAX;
use vswitch_dataplane::port::{PortConfig, PortKind};

/// The file of the saved state.
#[derive(Clone, Debug)]
pub struct SavedFile(PathBuf);

/// A mark of a text: FNV-1a of 64 bits. It tells edits apart, and protects nothing.
pub(crate) fn mark_of(text: &[u8]) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// What a file names: `bridge br0`, `port p0`, `route 10.0.0.0/8`, `zone 7`.
pub(crate) fn names_of(config: &SwitchConfig) -> BTreeSet<String> {
    let bridges = config.bridges.iter().map(|(bridge, _)| format!("bridge {}", bridge.name));
    let ports = ports_of(config).map(|port| format!("port {}", port.name));
    let routes = config.routes.iter().map(|route| format!("route {}", route.prefix));
    let zones = config.conntrack.zones.iter().map(|zone| format!("zone {}", zone.zone));
    bridges.chain(ports).chain(routes).chain(zones).collect()
}

fn ports_of(config: &SwitchConfig) -> impl Iterator<Item = &PortConfig> {
    config.bridges.iter().flat_map(|(_, ports)| ports)
}

/// The kinds of ports that a file names: devices that the operator has chosen.
pub(crate) fn kinds_of(config: &SwitchConfig) -> BTreeMap<String, PortKind> {
    ports_of(config).map(|port| (port.name.clone(), port.kind.clone())).collect()
}

impl SavedFile {
    /// At this path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces it, whole or not at all.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, text: &str) -> io::Result<()> {
        stored::replace(&self.0, |file| file.write_all(text.as_bytes()))
    }

    /// What the switch is to start with: the operator's file, and what is saved. A file that cannot
    /// be used is put aside and logged, and the operator's counts alone.
    #[must_use]
    pub fn load(&self, operator: SwitchConfig, operator_text: &[u8], cores: &[u32]) -> SwitchConfig {
        match self.read(cores) {
            Ok(None) => operator,
            Ok(Some(saved)) => {
                let path = self.0.display();
                tracing::info!(file = %path, "the state of the last run is known");
                merge(operator, &mark_of(operator_text), saved)
            }
            Err(problem) => {
                let aside =
                    stored::put_aside(&self.0).map_or_else(|error| error.to_string(), |p| p.display().to_string());
                tracing::error!(
                    file = %self.0.display(), problem, aside,
                    "the state of the last run cannot be used: the configuration file counts alone"
                );
                operator
            }
        }
    }

    fn read(&self, cores: &[u32]) -> Result<Option<SwitchConfig>, String> {
        let Some((file, _)) = stored::open(&self.0).map_err(|error| error.to_string())? else { return Ok(None) };
        let mut text = String::new();
        let len = file.take(CONFIG_LEN_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if len as u64 > CONFIG_LEN_MAX {
            return Err(format!("it has more than {CONFIG_LEN_MAX} bytes"));
        }
        let config = ConfigFile::read(&text, &self.0, cores).into_config().map_err(|report| report.to_string())?;
        // The last lines of what the switch writes.
        if config.saved.is_none() {
            Err("it has no section [saved]: it is not whole".to_owned())
        } else {
            Ok(Some(config))
        }
    }
}

/// The saved state below the operator's file, by the rules above.
fn merge(mut operator: SwitchConfig, mark: &str, mut state: SwitchConfig) -> SwitchConfig {
    let mut saved = state.saved.take().unwrap_or_default();
    if saved.file != mark {
        tracing::info!("the configuration file has changed since: what it names is as it says");
        state = overlay(&state, &operator, &saved.names);
    }
    // A port that is as the operator names it is the operator's.
    let kinds = kinds_of(&operator);
    saved
        .client_ports
        .retain(|name| !ports_of(&state).any(|port| port.name == *name && kinds.get(name) == Some(&port.kind)));
    operator.saved = Some(saved);
    operator.conntrack.tcp_seq_check = state.conntrack.tcp_seq_check;
    operator.conntrack.default_limit = state.conntrack.default_limit;
    operator.conntrack.zones = state.conntrack.zones;
    operator.bridges = state.bridges;
    operator.routes = state.routes;
    operator.programs = state.programs;
    operator.pins = state.pins;
    operator
}

/// What there is to be when a file is applied to a state that others have changed, too: what the
/// file names is as it says; of the rest, what the file before named goes, and the others stay.
pub(crate) fn overlay(now: &SwitchConfig, file: &SwitchConfig, before: &BTreeSet<String>) -> SwitchConfig {
    let mut want = file.clone();
    let named = names_of(file);
    let stays = |name: String| !before.contains(&name) && !named.contains(&name);
    for (bridge, ports) in &now.bridges {
        let kept = ports.iter().filter(|port| stays(format!("port {}", port.name)));
        let kept: Vec<_> = kept.cloned().collect();
        for port in &kept {
            let pins = now.pins.range((port.name.clone(), 0)..=(port.name.clone(), u16::MAX));
            want.pins.extend(pins.map(|(place, core)| (place.clone(), *core)));
        }
        if let Some((_, ports)) = want.bridges.iter_mut().find(|(own, _)| own.name == bridge.name) {
            ports.extend(kept);
        } else if stays(format!("bridge {}", bridge.name)) {
            want.bridges.push((bridge.clone(), kept));
            if let Some(program) = now.programs.get(&bridge.name) {
                want.programs.insert(bridge.name.clone(), program.clone());
            }
        }
    }
    // What the file does not say of a bridge's program stays.
    for (bridge, _) in &file.bridges {
        let Some(program) = now.programs.get(&bridge.name) else { continue };
        let own = want.programs.entry(bridge.name.clone()).or_default();
        own.tables = own.tables.take().or_else(|| program.tables.clone());
        own.options = own.options.take().or_else(|| program.options.clone());
        own.macs = own.macs.take().or_else(|| program.macs.clone());
        own.pipeline = own.pipeline.take().or_else(|| program.pipeline.clone());
    }
    want.routes.extend(now.routes.iter().filter(|route| stays(format!("route {}", route.prefix))).cloned());
    want.conntrack.zones.extend(now.conntrack.zones.iter().filter(|zone| stays(format!("zone {}", zone.zone))));
    want
}
