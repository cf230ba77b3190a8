//! Watches the messages of one connection for orders that librte_vhost 22.11 follows to its (and our) harm.
//!
//! The library checks a ring's addresses against the guest's memory when it gets them, for the size that the ring has *then*;
//! it lets the size change later, lets a ring run that was never sized (its bookkeeping is a null pointer), and lets the ring
//! format change under bookkeeping made for the other. Each is memory corruption or a crash in the hands of a hostile front
//! end. Front ends send, per ring: size, base, addresses, kick; and read the base when they stop. Whoever leaves that order
//! has the message refused (it is made invalid, so that the library refuses it and closes its descriptors), or the ring not
//! served.
//!
//! Source of message numbers and layouts: QEMU, docs/interop/vhost-user.rst.

use super::PAIRS_MAX;

/// Bytes of a message that are looked at: request, flags and size (4 each, host byte order), and the longest payload that
/// matters (`struct vhost_vring_addr`: 40).
pub(super) const MESSAGE_LEN: usize = 12 + 40;

const SET_FEATURES: u32 = 2;
const RESET_OWNER: u32 = 4;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const GET_VRING_BASE: u32 = 11;

/// A feature that is never offered: features with it are refused.
const NEVER_OFFERED: u64 = 1 << 63;

/// A ring size that the library refuses.
const NO_SIZE: u32 = u32::MAX;

/// A ring since it was last stopped.
#[derive(Clone, Copy, Default)]
struct Ring {
    /// Entries, once the library accepted them.
    size: Option<u32>,
    /// Where it starts.
    base: Option<u32>,
    /// Its addresses were given: from here on its size is fixed.
    addressed: bool,
}

/// What one connection did so far.
pub(super) struct Guard {
    rings: Box<[Ring; 2 * PAIRS_MAX as usize]>,
}

impl Default for Guard {
    fn default() -> Self {
        Self { rings: Box::new([Ring::default(); 2 * PAIRS_MAX as usize]) }
    }
}

/// A message in the library's hands.
struct Message<'a>(&'a mut [u8; MESSAGE_LEN]);

impl Message<'_> {
    fn u32(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(word)
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn request(&self) -> u32 {
        self.u32(0)
    }

    /// The ring that a message about a ring names.
    fn ring(&self) -> usize {
        self.u32(12) as usize
    }

    /// The value of a `struct vhost_vring_state`.
    fn value(&self) -> u32 {
        self.u32(16)
    }

    fn features(&self) -> u64 {
        u64::from(self.u32(16)) << 32 | u64::from(self.u32(12))
    }
}

impl Guard {
    /// Before the library handles a message: makes it invalid if it must be refused. `is_packed` is the format of the rings
    /// before the message, `would_be_packed` tells it of a set of features.
    pub(super) fn before(
        &mut self,
        message: &mut [u8; MESSAGE_LEN],
        is_packed: bool,
        would_be_packed: impl Fn(u64) -> bool,
    ) {
        let mut message = Message(message);
        let request = message.request();
        match request {
            SET_FEATURES => {
                let sized = self.rings.iter().any(|ring| ring.size.is_some());
                if sized && would_be_packed(message.features()) != is_packed {
                    message.set_u32(16, (NEVER_OFFERED >> 32) as u32);
                }
                return;
            }
            RESET_OWNER => {
                *self = Self::default();
                return;
            }
            _ => {}
        }
        let Some(ring) = self.rings.get_mut(message.ring()) else { return };
        match request {
            SET_VRING_NUM if ring.addressed => message.set_u32(16, NO_SIZE),
            SET_VRING_NUM => ring.size = None, // until the library accepted it
            SET_VRING_ADDR => ring.addressed = true,
            SET_VRING_BASE => {
                // Bit 15 of a packed ring's base is its wrap counter.
                let at = message.value() & 0x7fff;
                if is_packed && ring.size.is_none_or(|size| at >= size) {
                    message.set_u32(16, message.value() & !0x7fff);
                }
                ring.base = Some(message.value() & 0x7fff);
            }
            GET_VRING_BASE => *ring = Ring::default(),
            _ => {}
        }
    }

    /// After the library accepted a message.
    pub(super) fn after(&mut self, message: &mut [u8; MESSAGE_LEN]) {
        let message = Message(message);
        if message.request() == SET_VRING_NUM
            && let Some(ring) = self.rings.get_mut(message.ring())
        {
            ring.size = Some(message.value()).filter(|size| *size > 0);
        }
    }

    /// Whether a ring that the library calls ready may be served.
    pub(super) fn may_run(&self, ring: u16, is_packed: bool) -> bool {
        let Some(ring) = self.rings.get(usize::from(ring)) else { return false };
        let Some(size) = ring.size else { return false };
        ring.addressed && (!is_packed || ring.base.is_some_and(|base| base < size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(request: u32, ring: u32, value: u32) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        let mut message = Message(&mut bytes);
        message.set_u32(0, request);
        message.set_u32(12, ring);
        message.set_u32(16, value);
        bytes
    }

    /// Sends a message that the library accepts, and returns the value that it saw.
    fn send(guard: &mut Guard, packed: bool, request: u32, ring: u32, value: u32) -> u32 {
        let mut bytes = message(request, ring, value);
        guard.before(&mut bytes, packed, |features| features & 1 << 34 != 0);
        let seen = Message(&mut bytes).value();
        if seen != NO_SIZE {
            guard.after(&mut bytes);
        }
        seen
    }

    fn started(packed: bool) -> Guard {
        let mut guard = Guard::default();
        for ring in 0..2 {
            send(&mut guard, packed, SET_VRING_NUM, ring, 256);
            send(&mut guard, packed, SET_VRING_BASE, ring, 0x8000);
            send(&mut guard, packed, SET_VRING_ADDR, ring, 0);
        }
        guard
    }

    #[test]
    fn the_usual_order_runs_and_restarts() {
        for packed in [false, true] {
            let mut guard = started(packed);
            assert!(guard.may_run(0, packed) && guard.may_run(1, packed) && !guard.may_run(2, packed));
            send(&mut guard, packed, GET_VRING_BASE, 0, 0);
            assert!(!guard.may_run(0, packed) && guard.may_run(1, packed));
            assert_eq!(send(&mut guard, packed, SET_VRING_NUM, 0, 1024), 1024, "a stopped ring may get another size");
        }
    }

    #[test]
    fn a_ring_that_was_never_sized_does_not_run() {
        let mut guard = Guard::default();
        send(&mut guard, false, SET_VRING_ADDR, 0, 0);
        assert!(!guard.may_run(0, false));
        let mut guard = started(false);
        send(&mut guard, false, GET_VRING_BASE, 1, 0);
        send(&mut guard, false, SET_VRING_ADDR, 1, 0);
        assert!(!guard.may_run(1, false), "stopping frees the bookkeeping");
        assert!(!guard.may_run(u16::MAX, false));
    }

    #[test]
    fn size_is_fixed_once_addresses_are_given() {
        let mut guard = started(false);
        assert_eq!(send(&mut guard, false, SET_VRING_NUM, 1, 32768), NO_SIZE);
        assert!(guard.may_run(1, false), "the ring runs on with its old size");
    }

    #[test]
    fn a_refused_size_is_no_size() {
        let mut guard = Guard::default();
        guard.before(&mut message(SET_VRING_NUM, 0, 3), false, |_| false); // the library refuses it: no `after`
        send(&mut guard, false, SET_VRING_ADDR, 0, 0);
        assert!(!guard.may_run(0, false));
    }

    #[test]
    fn a_packed_base_outside_the_ring_becomes_zero() {
        let mut guard = started(true);
        assert_eq!(send(&mut guard, true, SET_VRING_BASE, 0, 0x8000 | 256), 0x8000);
        assert_eq!(send(&mut guard, true, SET_VRING_BASE, 0, 0x8000 | 255), 0x8000 | 255);
        assert_eq!(send(&mut guard, false, SET_VRING_BASE, 0, 40000), 40000, "split indexes are free-running");
        let mut guard = Guard::default();
        send(&mut guard, true, SET_VRING_NUM, 0, 256);
        send(&mut guard, true, SET_VRING_ADDR, 0, 0);
        assert!(!guard.may_run(0, true), "it would start where the last one stopped");
    }

    #[test]
    fn the_ring_format_is_fixed_once_a_ring_is_sized() {
        let mut guard = Guard::default();
        let packed = 1 << (34 - 32);
        assert_eq!(send(&mut guard, false, SET_FEATURES, 0, packed), packed);
        let mut guard = started(false);
        assert_eq!(send(&mut guard, false, SET_FEATURES, 0, packed), (NEVER_OFFERED >> 32) as u32);
        assert_eq!(send(&mut guard, false, SET_FEATURES, 7, 1), 1, "other features are the library's business");
        send(&mut guard, false, RESET_OWNER, 0, 0);
        assert_eq!(send(&mut guard, false, SET_FEATURES, 0, packed), packed);
        assert!(!guard.may_run(0, false));
    }
}
