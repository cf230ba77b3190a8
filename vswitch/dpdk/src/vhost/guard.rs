//! Watches the messages of one connection for orders that librte_vhost 22.11 follows to its (and
//! our) harm.
//!
//! The library checks a ring's addresses against the guest's memory when it gets them, for the size
//! that the ring has *then*; it lets the size change later, lets a ring run that was never sized
//! (its bookkeeping is a null pointer), and lets the ring format change under bookkeeping made for
//! the other. Each is memory corruption or a crash in the hands of a hostile front end. Front ends
//! send, per ring: size, base, addresses, kick; and read the base when they stop. Whoever leaves
//! that order has the message refused, or the ring not served.
//!
//! It also follows requests that were never offered. Those are refused: in-flight tracking writes
//! where the front end says, post-copy hands guest memory's page faults to the front end (a worker
//! would wait in one), a dirty log with an offset is written beyond its mapping, an announcement
//! (RARP) overruns a burst on packed rings, and the others have no use here.
//!
//! A refused message is answered with an error if the front end asked for an answer; else the
//! connection is closed.

use super::message::{self, Message};
use super::{PAIRS_MAX, call_fd, memory};

/// Largest ring: four times what QEMU gives. The library allocates 40 bytes per entry for the rings
/// of all guests from one heap.
const RING_MAX: u32 = 4096;

/// A ring since it was last stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ring {
    /// Entries, once the library accepted them.
    size: Option<u32>,
    /// Where it starts.
    base: Option<u32>,
    /// Its addresses were given: from here on its size is fixed.
    addressed: bool,
}

/// What one connection did so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    rings: Box<[Ring; 2 * PAIRS_MAX as usize]>,
}

impl Default for Guard {
    fn default() -> Self {
        Self { rings: Box::new([Ring::default(); 2 * PAIRS_MAX as usize]) }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardVerdict {
    /// The library handles it.
    Pass,
    /// It counts as done; the library does not see it.
    Done,
    /// It is answered with an error; the library does not see it. Says why.
    Refuse(&'static str),
}

/// The device when a message comes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Its rings are packed.
    pub(super) packed: bool,
    /// Workers use it.
    pub(super) running: bool,
}

/// What was offered, or belongs to every conversation.
const fn is_offered(request: u32) -> bool {
    matches!(
        request,
        message::GET_FEATURES..=message::SET_MEM_TABLE
            | message::SET_VRING_NUM..=message::SET_VRING_ERR
            | message::GET_PROTOCOL_FEATURES..=message::SET_VRING_ENABLE
            | message::NET_SET_MTU
            | message::SET_STATUS
            | message::GET_STATUS
    )
}

/// How many descriptors come with a message that was offered; none for those of memory, which are
/// one for each region.
fn descriptors(message: &Message<'_>) -> Option<usize> {
    match message.request() {
        message::SET_MEM_TABLE => None,
        message::SET_VRING_KICK | message::SET_VRING_CALL | message::SET_VRING_ERR => Some(message.has_fd().into()),
        _ => Some(0),
    }
}

impl Guard {
    /// Before the library handles a message. `would_be_packed` reads a set of features.
    pub(super) fn before(
        &mut self,
        message: &mut Message<'_>,
        state: State,
        would_be_packed: impl Fn(u64) -> bool,
    ) -> GuardVerdict {
        let request = message.request();
        if !is_offered(request) {
            return GuardVerdict::Refuse("a request that was not offered");
        }
        // The library would refuse it, too, but behind us: it would keep the descriptor that it
        // has.
        if descriptors(message).is_some_and(|expected| message.fds().len() != expected) {
            return GuardVerdict::Refuse("more or fewer descriptors than it says or takes");
        }
        match request {
            message::SET_FEATURES => {
                let sized = self.rings.iter().any(|ring| ring.size.is_some());
                if sized && would_be_packed(message.features()) != state.packed {
                    return GuardVerdict::Refuse("another ring format for rings that have a size");
                }
                return GuardVerdict::Pass;
            }
            message::SET_VRING_CALL => {
                let checked = message.fds().first().map_or(Ok(()), |fd| call_fd::check(*fd));
                return checked.map_or_else(GuardVerdict::Refuse, |()| GuardVerdict::Pass);
            }
            // Obsolete, and may be ignored; the library would forget its rings without a word, and
            // leak their bookkeeping.
            message::RESET_OWNER => return GuardVerdict::Done,
            message::SET_MEM_TABLE => {
                let checked = message.regions().ok_or("too many memory regions");
                return match checked.and_then(|regions| memory::check(regions, &message.fds())) {
                    Ok(()) => GuardVerdict::Pass,
                    Err(reason) => GuardVerdict::Refuse(reason),
                };
            }
            _ => {}
        }
        self.before_ring(request, message, state)
    }

    /// As `before`, for messages about one ring.
    fn before_ring(&mut self, request: u32, message: &mut Message<'_>, state: State) -> GuardVerdict {
        let ring = self.rings.get_mut(message.ring());
        match (request, ring) {
            (message::SET_VRING_NUM | message::SET_VRING_ADDR, None) => {
                return GuardVerdict::Refuse("a ring beyond those that are served");
            }
            (message::SET_VRING_NUM, Some(ring)) => {
                if ring.addressed {
                    return GuardVerdict::Refuse("another size for a ring in use");
                }
                if message.value() > RING_MAX {
                    return GuardVerdict::Refuse("a ring of more than 4096 entries");
                }
                ring.size = None; // until the library accepted it
            }
            (message::SET_VRING_ADDR, Some(ring)) => {
                let aligned = message.ring_addresses().iter().zip([16, 4, 2]).all(|(at, to)| at % to == 0);
                if !aligned {
                    return GuardVerdict::Refuse("ring addresses that are not aligned");
                }
                ring.addressed = true;
            }
            (message::SET_VRING_BASE, Some(ring)) => {
                // Bit 15 of a packed ring's base is its wrap counter.
                let at = message.value() & 0x7fff;
                if state.packed && ring.size.is_none_or(|size| at >= size) {
                    message.set_value(message.value() & !0x7fff);
                }
                ring.base = Some(message.value() & 0x7fff);
            }
            (message::GET_VRING_BASE, Some(ring)) => *ring = Ring::default(),
            _ => {}
        }
        GuardVerdict::Pass
    }

    /// After the library accepted a message. `has_multiqueue` reads a set of features.
    pub(super) fn after(&mut self, message: &Message<'_>, state: State, has_multiqueue: impl Fn(u64) -> bool) {
        match message.request() {
            message::SET_VRING_NUM => {
                if let Some(ring) = self.rings.get_mut(message.ring()) {
                    ring.size = Some(message.value()).filter(|size| *size > 0);
                }
            }
            // The library frees all rings but the first two. Of a running device it changes
            // nothing.
            message::SET_FEATURES if !state.running && !has_multiqueue(message.features()) => {
                self.rings[2..].fill(Ring::default());
            }
            _ => {}
        }
    }

    /// Whether a ring that the library calls ready may be served.
    pub(super) fn may_run(&self, ring: u16, is_packed: bool) -> bool {
        let Some(ring) = self.rings.get(usize::from(ring)) else { return false };
        let Some(size) = ring.size else { return false };
        ring.addressed && (!is_packed || ring.base.is_some_and(|base| base < size))
    }

    /// Queue pairs, one bit each, whose ring of one direction may be served: 0 the guest's receive
    /// rings, 1 its transmit rings.
    pub(super) fn may_run_pairs(&self, direction: u16, is_packed: bool) -> u64 {
        (0..PAIRS_MAX)
            .filter(|pair| self.may_run(2 * pair + direction, is_packed))
            .fold(0, |bits, pair| bits | 1 << pair)
    }
}

#[cfg(test)]
mod tests;
