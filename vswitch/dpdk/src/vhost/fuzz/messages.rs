//! Messages of a front end, in any order, through the guard.

use super::super::guard::{Guard, GuardVerdict, State};
use super::super::message::{
    self, CONTEXT_LEN, FD_COUNT, FDS, GET_VRING_BASE, HEADER, Message, REGIONS_MAX, Region, SET_FEATURES,
    SET_MEM_TABLE, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_NUM,
};
use super::{byte, take, word};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::LazyLock;

/// Messages of one input.
const MESSAGES_MAX: usize = 64;

const PAGE: u64 = 4096;
/// Bytes of the file that memory tables may name.
const FILE_LEN: u64 = 64 * PAGE;

/// Rings that are served, and entries of one.
const RINGS: usize = 2 * super::super::PAIRS_MAX as usize;
const RING_MAX: u32 = 4096;

/// Features (virtio 1.1, 5.1.3 and 6).
const MQ: u64 = 1 << 22;
const PACKED: u64 = 1 << 34;

/// What front ends send: memory, an eventfd, and what is neither.
static FILES: LazyLock<[File; 3]> = LazyLock::new(|| {
    // SAFETY: NUL-terminated; a new descriptor, and nobody else's.
    let memory = unsafe { File::from_raw_fd(libc::memfd_create(c"vhost-fuzz".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.set_len(FILE_LEN).expect("a file in memory has any size");
    // SAFETY: a new descriptor, and nobody else's.
    let event = unsafe { File::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) };
    [memory, event, File::open("/dev/null").expect("it is there")]
});

/// A ring by what was accepted, and no more than that.
#[derive(Clone, Copy, Default)]
struct Told {
    size: Option<u32>,
    base: Option<u32>,
    addressed: bool,
}

/// One message as bytes say it: request, descriptors, how its payload is said.
fn message(input: &mut &[u8]) -> ([u8; CONTEXT_LEN], u8) {
    let (request, fds, how) = (byte(input), byte(input), byte(input));
    let mut bytes = [0; CONTEXT_LEN];
    // Requests that nobody knows, too.
    let request = if request == 0xff { u32::from(word(input)) << 16 } else { u32::from(request) };
    bytes[..4].copy_from_slice(&request.to_ne_bytes());
    bytes[FDS..FD_COUNT].fill(0xff);
    let count = usize::from(fds & 15);
    let fd =
        |i: usize| -> RawFd { FILES[(usize::from(fds >> 4) + i * usize::from(how >> 7)) % FILES.len()].as_raw_fd() };
    for i in 0..count.min(REGIONS_MAX) {
        bytes[FDS + 4 * i..][..4].copy_from_slice(&fd(i).to_ne_bytes());
    }
    bytes[FD_COUNT..].copy_from_slice(&u32::try_from(count).unwrap_or(0).to_ne_bytes());
    if how & 1 == 0 {
        let len = 2 * usize::from(byte(input));
        let payload = take(input, len);
        bytes[HEADER..HEADER + payload.len()].copy_from_slice(payload);
    } else if request == SET_MEM_TABLE {
        table(&mut bytes[HEADER..], count, input);
    } else {
        // A ring and a value; with a descriptor, as its message says.
        let ring = u32::from(byte(input)) | u32::from(count == 0) << 8;
        let of_fd = (message::SET_VRING_KICK..=message::SET_VRING_ERR).contains(&request);
        let ring = if of_fd { ring } else { ring & 0xff };
        bytes[HEADER..HEADER + 4].copy_from_slice(&ring.to_ne_bytes());
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&u32::from(word(input)).to_ne_bytes());
    }
    (bytes, how)
}

/// A memory table of pages: numbers so small that regions meet.
fn table(payload: &mut [u8], count: usize, input: &mut &[u8]) {
    payload[..4].copy_from_slice(&u32::try_from(count).unwrap_or(0).to_ne_bytes());
    for region in payload[8..].chunks_exact_mut(32).take(count.min(REGIONS_MAX)) {
        for field in region.chunks_exact_mut(8) {
            // The highest bit: at the end of the address space.
            let page = byte(input);
            let at =
                if page & 0x80 == 0 { u64::from(page) * PAGE } else { 0_u64.wrapping_sub(u64::from(!page) * PAGE) };
            field.copy_from_slice(&at.to_ne_bytes());
        }
    }
}

/// A front end sends any messages; the library accepts some of those that pass. Returns how many
/// passed.
///
/// # Panics
/// When memory passes that overlaps, is odd, or is not in its file; when what was refused leaves a
/// trace; when a ring may run that has not a size, addresses and (packed) a base that were accepted
/// since it was stopped, or has a size that came behind its addresses.
pub fn messages(mut input: &[u8]) -> usize {
    let (mut guard, mut told) = (Guard::default(), [Told::default(); RINGS]);
    let mut state = State { packed: byte(&mut input) & 1 != 0, running: false };
    let mut passed = 0;
    for _ in 0..MESSAGES_MAX {
        if input.is_empty() {
            break;
        }
        let (mut bytes, how) = message(&mut input);
        let (sent, before) = (bytes, guard.clone());
        let mut message = Message::new(&mut bytes);
        let verdict = guard.before(&mut message, state, |features| features & PACKED != 0);
        if verdict == GuardVerdict::Pass {
            passed += 1;
            pass(&message, state, &told);
            note(&message, &mut told);
            if how & 2 == 0 {
                guard.after(&message, state, |features| features & MQ != 0);
                accept(&message, &mut state, &mut told);
            }
        } else {
            assert!(guard == before, "{verdict:?} and remembered: {before:?}, {guard:?}");
            assert!(bytes == sent, "{verdict:?} and changed");
        }
        if how & 4 != 0 {
            state.running = how & 8 != 0;
        }
        for (ring, told) in (0..).zip(&told) {
            for is_packed in [false, true] {
                let may = guard.may_run(ring, is_packed);
                assert!(!may || may_run(told, is_packed), "ring {ring}, packed {is_packed}: {guard:?}");
            }
        }
    }
    assert!(!guard.may_run(u16::MAX, false) && !guard.may_run(u16::try_from(RINGS).unwrap_or(0), false));
    passed
}

/// Whether a ring may run by what was accepted.
fn may_run(told: &Told, is_packed: bool) -> bool {
    let has_size = told.size.is_some_and(|size| (1..=RING_MAX).contains(&size));
    has_size && told.addressed && (!is_packed || told.base.zip(told.size).is_some_and(|(base, size)| base < size))
}

/// What passes is what the library can take.
fn pass(message: &Message<'_>, state: State, told: &[Told; RINGS]) {
    match message.request() {
        SET_MEM_TABLE => {
            let regions: Vec<Region> = message.regions().expect("a table").collect();
            assert!(!regions.is_empty() && regions.len() == message.fds().len(), "{regions:?}");
            assert!(regions.iter().all(is_whole), "{regions:?}");
            for (i, a) in regions.iter().enumerate() {
                assert!(regions[..i].iter().all(|b| !meet(a, b)), "{regions:?} overlap");
            }
        }
        SET_VRING_NUM => {
            assert!(message.value() <= RING_MAX, "a ring of {} entries", message.value());
            assert!(!told[message.ring()].addressed, "another size for a ring with addresses");
        }
        SET_VRING_ADDR => {
            let [descriptors, used, available] = message.ring_addresses();
            assert!(descriptors % 16 == 0 && used % 4 == 0 && available % 2 == 0, "{:?}", message.ring_addresses());
            assert!(message.ring() < RINGS);
        }
        SET_FEATURES if told.iter().any(|told| told.size.is_some()) => {
            assert_eq!(message.features() & PACKED != 0, state.packed, "another format for rings with a size");
        }
        _ => {}
    }
}

/// A region of pages that is in its file and goes around nothing.
fn is_whole(region: &Region) -> bool {
    let Region { guest, size, user, offset } = *region;
    let is_paged = [guest, size, user, offset].iter().all(|number| number % PAGE == 0);
    let is_in = |at: u64, end: u128| u128::from(at) + u128::from(size) <= end;
    let space = u128::from(u64::MAX);
    size > 0 && is_paged && is_in(guest, space) && is_in(user, space) && is_in(offset, FILE_LEN.into())
}

/// Whether two regions have an address in common, of the guest or of the front end.
fn meet(a: &Region, b: &Region) -> bool {
    let common = |a: u64, a_len: u64, b: u64, b_len: u64| {
        let [a, a_len, b, b_len] = [a, a_len, b, b_len].map(u128::from);
        a.max(b) < (a + a_len).min(b + b_len)
    };
    common(a.guest, a.size, b.guest, b.size) || common(a.user, a.size, b.user, b.size)
}

/// What counts as soon as it passes, whether or not the library takes it.
fn note(message: &Message<'_>, told: &mut [Told; RINGS]) {
    let Some(told) = told.get_mut(message.ring()) else { return };
    match message.request() {
        SET_VRING_NUM => told.size = None,
        SET_VRING_ADDR => told.addressed = true,
        SET_VRING_BASE => told.base = Some(message.value() & 0x7fff),
        GET_VRING_BASE => *told = Told::default(),
        _ => {}
    }
}

/// What counts when the library has taken it.
fn accept(message: &Message<'_>, state: &mut State, told: &mut [Told; RINGS]) {
    match message.request() {
        SET_VRING_NUM => told[message.ring()].size = Some(message.value()).filter(|size| *size > 0),
        SET_FEATURES if !state.running => {
            state.packed = message.features() & PACKED != 0;
            if message.features() & MQ == 0 {
                told[2..].fill(Told::default());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message whose ring and value are said, and one of memory.
    fn of_ring(request: u32, ring: u8, value: u16) -> Vec<u8> {
        let [low, high] = value.to_le_bytes();
        vec![u8::try_from(request).expect("small"), 0, 1, ring, low, high]
    }

    #[test]
    fn usual_conversations_hold() {
        let memory = vec![5, 2, 1, 0, 2, 40, 0, 2, 3, 60, 2];
        let ring =
            [of_ring(SET_VRING_NUM, 0, 256), of_ring(SET_VRING_BASE, 0, 0), of_ring(SET_VRING_ADDR, 0, 0)].concat();
        let all = [vec![0], memory, ring, of_ring(GET_VRING_BASE, 0, 0)].concat();
        assert_eq!(messages(&all), 5, "all of them pass");
        let overlapping = vec![0, 5, 2, 1, 0, 2, 40, 0, 1, 3, 60, 2];
        assert_eq!(messages(&overlapping), 0, "page 1 of the guest is there twice");
        let kick = [vec![0], of_ring(message::SET_VRING_KICK, 0, 0)].concat();
        assert_eq!(messages(&kick), 1, "a ring without a descriptor, which says so");
    }
}
