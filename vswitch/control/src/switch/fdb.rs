//! The MAC tables, from the control side.

use super::Switch;
use crate::info::{FdbFilter, FdbInfo, FdbStats, SwitchError};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::FdbKey;
use vswitch_dataplane::port::FieldError;
use vswitch_dataplane::time::Millis;

impl Switch {
    /// Addresses of a bridge, by port number, then VLAN, then address.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn fdb(&self, bridge: &str) -> Result<Vec<FdbInfo>, SwitchError> {
        let now_s = Millis::now().seconds();
        let view = self.shown.view();
        let entries = view.bridge(bridge)?.fdb.entries();
        let mut infos: Vec<FdbInfo> = entries
            .into_iter()
            .filter_map(|entry| {
                let port = view.ports.get(entry.port.index())?.as_ref()?;
                Some(FdbInfo {
                    port_number: port.number,
                    port: port.config.name.clone(),
                    vlan: entry.key.vlan(),
                    mac: entry.key.mac(),
                    age_s: entry.seen_s.map(|seen| now_s.saturating_sub(seen)),
                })
            })
            .collect();
        infos.sort_by_key(|info| (info.port_number, info.vlan, info.mac));
        Ok(infos)
    }

    /// A bridge's MAC table in numbers.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn fdb_stats(&self, bridge: &str) -> Result<FdbStats, SwitchError> {
        Ok(self.shown.view().bridge(bridge)?.fdb.stats())
    }

    /// Adds a static address, or moves one.
    ///
    /// # Errors
    /// When bridge or port does not exist, the address is a group's, the VLAN is none, or the table
    /// is full.
    pub fn fdb_add(&self, bridge: &str, port: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        check(vlan, mac)?;
        self.edit(|state| {
            let id = state.usable_port(bridge, port)?;
            let fdb = &state.bridge(bridge)?.fdb;
            if fdb.add_static(FdbKey::new(mac.to_u64(), vlan), id) {
                return Ok(());
            }
            let limit = usize::try_from(fdb.stats().limit).unwrap_or(usize::MAX);
            Err(SwitchError::Exhausted { what: "addresses in the MAC table", limit })
        })
    }

    /// Removes one address, static or learned.
    ///
    /// # Errors
    /// When it is not there.
    pub fn fdb_delete(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        let key = FdbKey::new(mac.to_u64(), vlan);
        self.edit(|state| match state.bridge(bridge)?.fdb.flush(|entry| entry.key == key) {
            0 => Err(SwitchError::NotFound {
                what: "address",
                name: format!("{mac} in VLAN {vlan}"),
                hint: format!("see vsctl fdb-show {bridge}"),
            }),
            _ => Ok(()),
        })
    }

    /// Removes addresses; returns how many.
    ///
    /// # Errors
    /// When the bridge or the filter's port does not exist.
    pub fn fdb_flush(&self, bridge: &str, filter: &FdbFilter) -> Result<u64, SwitchError> {
        self.edit(|state| {
            let port = filter.port.as_ref().map(|port| state.port(bridge, port)).transpose()?;
            Ok(state.bridge(bridge)?.fdb.flush(|entry| {
                port.is_none_or(|port| entry.port == port)
                    && filter.vlan.is_none_or(|vlan| entry.key.vlan() == vlan)
                    && filter.mac.is_none_or(|mac| entry.key.mac() == mac)
                    && (filter.statics || entry.seen_s.is_some())
            }))
        })
    }
}

fn check(vlan: u16, mac: Mac) -> Result<(), SwitchError> {
    let mut errors = Vec::new();
    if vlan > 4095 {
        errors.push(FieldError::new("vlan", format!("{vlan} is no VLAN"), "use 0 (untagged) to 4095"));
    }
    if mac.is_multicast() {
        errors.push(FieldError::new("mac", format!("{mac} is a group address"), "use a host's address"));
    }
    if errors.is_empty() { Ok(()) } else { Err(SwitchError::Invalid(errors)) }
}
