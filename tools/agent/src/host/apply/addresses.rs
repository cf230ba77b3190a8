//! Interfaces, addresses and neighbours.

use super::super::plan::{Address, Item, Place};
use super::super::problem::{Code, Problem};
use super::super::state::{ChangedLink, MadeAddress, MadeNeighbour};
use super::super::there::ThereAddress;
use super::{Host, Look, refused};
use std::io;

impl Host {
    /// Interfaces have their MAC addresses, and are up. One that is missing is told once; what is
    /// to be on it waits.
    pub(super) async fn links(&mut self, look: &mut Look<'_>) {
        let plan = look.plan;
        for Item { line, what } in &plan.links {
            let Some(there) = look.there.interfaces.get(&what.interface).cloned() else {
                let item = format!("interface {}", what.interface);
                let hint = "the switch makes it with the port of this name";
                look.problems.push(Problem::new(Code::Interface, &item, "it is not there").hint(hint));
                continue;
            };
            let (other_mac, other_state) = (there.mac != what.mac, there.up != what.up);
            if !other_mac && !other_state {
                look.right.insert(line.clone());
                continue;
            }
            let is_same = |one: &ChangedLink| one.interface == what.interface && one.index == there.index;
            if !self.state.made.links.iter().any(is_same) {
                self.state.made.links.retain(|one| one.interface != what.interface);
                let (interface, index) = (what.interface.clone(), there.index);
                self.state.made.links.push(ChangedLink { interface, index, mac: there.mac, up: there.up });
            }
            if self.save(look) {
                let mac = Some(&what.mac[..]).filter(|_| other_mac);
                let result = self.kernel.set_link(there.index, mac, Some(what.up).filter(|_| other_state)).await;
                look.made(line, result, self.right.contains(line));
            }
        }
    }

    /// Addresses of the plan are there. Those that the agent made and that are not in it go.
    pub(super) async fn addresses(&mut self, look: &mut Look<'_>) {
        let plan = look.plan;
        let mut missing: Vec<(&Item<Address>, u32)> = Vec::new();
        let mut wanted = Vec::new();
        for item in &plan.addresses {
            let Some((interface, index)) = place(&item.what.place, look) else { continue };
            let made = MadeAddress { interface, address: item.what.address, length: item.what.length };
            let is_it =
                |there: &ThereAddress| (there.index, there.address, there.length) == (index, made.address, made.length);
            if look.there.addresses.iter().any(is_it) {
                look.right.insert(item.line.clone());
            } else {
                if !self.state.made.addresses.contains(&made) {
                    self.state.made.addresses.push(made.clone());
                }
                missing.push((item, index));
            }
            wanted.push(made);
        }
        if !missing.is_empty() && self.save(look) {
            for (item, index) in missing {
                let result = match self.kernel.add_address(&item.what, index).await {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    result => result,
                };
                look.made(&item.line, result, self.right.contains(&item.line));
            }
        }
        if plan.complete {
            let gone: Vec<MadeAddress> =
                self.state.made.addresses.iter().filter(|made| !wanted.contains(made)).cloned().collect();
            for made in gone {
                if self.remove_address(&made, look).await {
                    self.state.made.addresses.retain(|one| *one != made);
                }
            }
        }
    }

    /// Whether an address that the agent made is gone.
    pub(super) async fn remove_address(&self, made: &MadeAddress, look: &mut Look<'_>) -> bool {
        let Some(index) = look.there.index(&made.interface) else { return true };
        let there = ThereAddress { index, address: made.address, length: made.length };
        if !look.there.addresses.contains(&there) {
            return true;
        }
        let line = format!("address {}/{} dev {}", made.address, made.length, made.interface);
        told(&line, self.kernel.remove_address(&there).await, look)
    }

    /// Neighbours of the plan are there. One that the kernel learned gives way; a permanent one of
    /// somebody else does not.
    pub(super) async fn neighbours(&mut self, look: &mut Look<'_>) {
        let plan = look.plan;
        let mut missing = Vec::new();
        let mut wanted = Vec::new();
        for item in &plan.neighbours {
            let what = &item.what;
            let Some(index) = look.there.index(&what.interface) else { continue };
            let key = (what.interface.clone(), what.address);
            let made = MadeNeighbour { interface: what.interface.clone(), address: what.address, mac: what.mac };
            let of_place = |one: &MadeNeighbour| one.interface == key.0 && one.address == key.1;
            let there = look.there.neighbours.iter().find(|one| (one.index, one.address) == (index, what.address));
            let permanent = there.filter(|one| one.permanent);
            wanted.push(made.clone());
            match permanent {
                Some(there) if there.mac == what.mac => {
                    look.right.insert(item.line.clone());
                    continue;
                }
                Some(_) if !self.state.made.neighbours.iter().any(of_place) => {
                    let reason = "another permanent neighbour of this address is there";
                    look.problems.push(Problem::new(Code::Foreign, &item.line, reason).hint("remove it"));
                    continue;
                }
                _ => {}
            }
            self.state.made.neighbours.retain(|one| !of_place(one));
            self.state.made.neighbours.push(made);
            missing.push((item, index));
        }
        if !missing.is_empty() && self.save(look) {
            for (item, index) in missing {
                let result = self.kernel.set_neighbour(&item.what, index).await;
                look.made(&item.line, result, self.right.contains(&item.line));
            }
        }
        if plan.complete {
            let gone: Vec<MadeNeighbour> =
                self.state.made.neighbours.iter().filter(|made| !wanted.contains(made)).cloned().collect();
            for made in gone {
                if self.remove_neighbour(&made, look).await {
                    self.state.made.neighbours.retain(|one| *one != made);
                }
            }
        }
    }

    /// Whether a neighbour that the agent made is gone. One with another MAC address is not the
    /// agent's any more.
    pub(super) async fn remove_neighbour(&self, made: &MadeNeighbour, look: &mut Look<'_>) -> bool {
        let Some(index) = look.there.index(&made.interface) else { return true };
        let is_it = look.there.neighbours.iter().any(|there| {
            there.permanent && (there.index, there.address) == (index, made.address) && there.mac == made.mac
        });
        let line = format!("neighbour {} dev {}", made.address, made.interface);
        !is_it || told(&line, self.kernel.remove_neighbour(made.address, index).await, look)
    }
}

/// Whether a removal went well; else it is told.
pub(super) fn told(line: &str, result: io::Result<()>, look: &mut Look<'_>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::AddrNotAvailable].contains(&error.kind()) => true,
        Err(error) => {
            look.problems.push(refused(line, &error));
            false
        }
    }
}

/// The interface that an address is to be on.
fn place(place: &Place, look: &mut Look<'_>) -> Option<(String, u32)> {
    match place {
        Place::Interface(name) => look.there.index(name).map(|index| (name.clone(), index)),
        Place::Beside(address) => {
            let index = look.there.addresses.iter().find(|there| there.address == *address).map(|there| there.index);
            let found = index.and_then(|index| Some((look.there.name(index)?.to_owned(), index)));
            if found.is_none() {
                let item = format!("interface of {address}");
                let reason = "no interface has this address";
                look.problems.push(Problem::new(Code::Interface, &item, reason).hint("give the Node its address"));
            }
            found
        }
    }
}
