//! Places of Services that have lost their effect, though the Service still names them: what was
//! learned and what is connected there.

use super::flush;
use super::Places;
use crate::{Claim, Desired, Flush, Key, CompiledObject};
use std::collections::BTreeSet;

/// What a Service's part had, and has no more.
pub(crate) fn lost(old: &CompiledObject, new: Option<&CompiledObject>, desired: &Desired, to: &mut BTreeSet<Flush>) {
    let none = Places::new();
    let after = new.map_or(&none, |new| &new.places);
    for (place, (port, learns)) in &old.places {
        if after.get(place).is_some_and(|(now, _)| now == port) {
            continue;
        }
        flush::forget(*place, None, *learns, to);
        // A Pod has the address now: nothing that was translated there is the Pod's.
        if let Some(address) = place.1.filter(|address| desired.holder(&Claim::Address(*address)).is_some()) {
            to.insert(Flush::Address(address));
        }
    }
}

/// Whether it ends what is a place's or an address's that this object does not have: another one
/// has it, before and after.
pub(crate) fn is_others(flush: &Flush, key: &Key, holder: impl Fn(&Claim) -> Option<Key>) -> bool {
    let claim = match *flush {
        Flush::Address(address) => Claim::Address(address),
        Flush::Service { protocol, address, port, .. }
        | Flush::Affinity { protocol, address, port, .. }
        | Flush::Clients { protocol, address, port } => match address {
            Some(address) => Claim::Service(address, protocol, port),
            None => Claim::NodePort(protocol, port),
        },
    };
    holder(&claim).is_some_and(|holder| holder != *key)
}
