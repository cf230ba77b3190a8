//! The same values under names that other programs gave them.
//!
//! **Design**: dashboards and rules for those programs show the switch unchanged. So names, labels
//! and units are theirs, even where Prometheus would name a metric otherwise.

mod antrea;
mod ovs;

use super::family::Family;
use vswitch_control::config::Compat;

/// The metrics with these names.
pub(super) fn families(compat: Compat) -> &'static [Family] {
    match compat {
        Compat::Ovs => ovs::FAMILIES,
        Compat::Antrea => antrea::FAMILIES,
    }
}
