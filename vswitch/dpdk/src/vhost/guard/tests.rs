use super::*;
use crate::vhost::message::{
    CONTEXT_LEN, GET_VRING_BASE, RESET_OWNER, SET_FEATURES, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_ERR,
    SET_VRING_KICK, SET_VRING_NUM, for_tests, with_fd,
};
use std::os::fd::AsRawFd;

const PACKED: u32 = 1 << (34 - 32);
const MQ: u32 = 1 << 22;

fn message(request: u32, ring: u32, value: u32) -> [u8; CONTEXT_LEN] {
    for_tests(request, &[ring, value].map(u32::to_ne_bytes).concat())
}

/// Sends a message that the library accepts, and returns the value that it saw; none if it saw
/// nothing.
fn send_to(guard: &mut Guard, state: State, request: u32, ring: u32, value: u32) -> Option<u32> {
    let mut bytes = message(request, ring, value);
    let mut message = Message::new(&mut bytes);
    let verdict = guard.before(&mut message, state, |features| features & 1 << 34 != 0);
    if let GuardVerdict::Refuse(_) = verdict {
        return None;
    }
    guard.after(&message, state, |features| features & u64::from(MQ) != 0);
    (verdict == GuardVerdict::Pass).then(|| message.value())
}

fn send(guard: &mut Guard, packed: bool, request: u32, ring: u32, value: u32) -> Option<u32> {
    send_to(guard, State { packed, running: false }, request, ring, value)
}

fn started(packed: bool) -> Guard {
    let mut guard = Guard::default();
    for ring in 0..2 {
        start_ring(&mut guard, packed, ring);
    }
    guard
}

fn start_ring(guard: &mut Guard, packed: bool, ring: u32) {
    send(guard, packed, SET_VRING_NUM, ring, 256);
    send(guard, packed, SET_VRING_BASE, ring, 0x8000);
    send(guard, packed, SET_VRING_ADDR, ring, 0);
}

#[test]
fn the_usual_order_runs_and_restarts() {
    for packed in [false, true] {
        let mut guard = started(packed);
        assert!(guard.may_run(0, packed) && guard.may_run(1, packed) && !guard.may_run(2, packed));
        send(&mut guard, packed, GET_VRING_BASE, 0, 0);
        assert!(!guard.may_run(0, packed) && guard.may_run(1, packed));
        assert_eq!(send(&mut guard, packed, SET_VRING_NUM, 0, 1024), Some(1024), "a stopped ring may get another size");
    }
}

#[test]
fn requests_that_were_not_offered_are_refused() {
    // Dirty log, RARP, back-end channel, IOTLB, configuration, crypto, post-copy, in-flight; and
    // what nobody knows.
    let named = [0, 6, 7, 19].into_iter().chain(21..=38);
    for request in named.chain(41..=60).chain([9999, 1 << 31, u32::MAX]) {
        let mut bytes = message(request, 0, 0);
        let verdict = Guard::default().before(&mut Message::new(&mut bytes), State::default(), |_| false);
        assert!(matches!(verdict, GuardVerdict::Refuse(_)), "request {request}: {verdict:?}");
    }
    for request in [1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 39, 40] {
        // A message for a descriptor, without one, says that it has none.
        let mut bytes = message(request, u32::from((12..=14).contains(&request)) << 8, 0);
        let verdict = Guard::default().before(&mut Message::new(&mut bytes), State::default(), |_| false);
        assert_eq!(verdict, GuardVerdict::Pass, "request {request}");
    }
}

#[test]
fn descriptors_are_as_many_as_a_message_says_or_takes() {
    let file = tempfile::tempfile_in("/dev/shm").expect("a file");
    let verdict = |request: u32, says: bool, has: bool| {
        let mut bytes = message(request, u32::from(!says) << 8, 0);
        if has {
            with_fd(&mut bytes, file.as_raw_fd());
        }
        Guard::default().before(&mut Message::new(&mut bytes), State::default(), |_| false)
    };
    for request in [1, 2, 3, 4, 8, 9, 10, 11, 15, 16, 17, 18, 20, 39, 40] {
        assert!(matches!(verdict(request, true, true), GuardVerdict::Refuse(_)), "request {request} takes none");
        assert!(!matches!(verdict(request, true, false), GuardVerdict::Refuse(_)), "request {request} without one");
    }
    for request in [SET_VRING_KICK, SET_VRING_ERR] {
        for (says, has) in [(false, false), (false, true), (true, false), (true, true)] {
            let refused = matches!(verdict(request, says, has), GuardVerdict::Refuse(_));
            assert_eq!(refused, says != has, "request {request}: says {says}, has {has}");
        }
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
fn size_is_fixed_once_addresses_are_given_and_bounded() {
    let mut guard = started(false);
    assert_eq!(send(&mut guard, false, SET_VRING_NUM, 1, 1024), None);
    assert!(guard.may_run(1, false), "the ring runs on with its old size");
    assert_eq!(send(&mut guard, false, SET_VRING_NUM, 2, 8192), None);
    assert_eq!(send(&mut guard, false, SET_VRING_NUM, 128, 256), None, "a pair that is not served");
}

#[test]
fn a_refused_size_is_no_size() {
    let mut guard = Guard::default();
    // The library refuses it: no `after`.
    guard.before(&mut Message::new(&mut message(SET_VRING_NUM, 0, 3)), State::default(), |_| false);
    send(&mut guard, false, SET_VRING_ADDR, 0, 0);
    assert!(!guard.may_run(0, false));
}

#[test]
fn rings_are_aligned() {
    for (at, offsets) in [(8, [1, 8, 15]), (16, [1, 2, 3]), (24, [1, 3, 5])] {
        for offset in offsets {
            let mut bytes = message(SET_VRING_ADDR, 0, 0);
            bytes[12 + at] = offset;
            let verdict = Guard::default().before(&mut Message::new(&mut bytes), State::default(), |_| false);
            assert!(matches!(verdict, GuardVerdict::Refuse(_)), "field at {at}, offset {offset}: {verdict:?}");
        }
    }
}

#[test]
fn a_packed_base_outside_the_ring_becomes_zero() {
    let mut guard = started(true);
    assert_eq!(send(&mut guard, true, SET_VRING_BASE, 0, 0x8000 | 256), Some(0x8000));
    assert_eq!(send(&mut guard, true, SET_VRING_BASE, 0, 0x8000 | 255), Some(0x8000 | 255));
    assert_eq!(send(&mut guard, false, SET_VRING_BASE, 0, 40000), Some(40000), "split indexes are free-running");
    let mut guard = Guard::default();
    send(&mut guard, true, SET_VRING_NUM, 0, 256);
    send(&mut guard, true, SET_VRING_ADDR, 0, 0);
    assert!(!guard.may_run(0, true), "it would start where the last one stopped");
}

#[test]
fn the_ring_format_is_fixed_once_a_ring_is_sized() {
    let mut guard = Guard::default();
    assert_eq!(send(&mut guard, false, SET_FEATURES, 0, PACKED), Some(PACKED));
    let mut guard = started(false);
    assert_eq!(send(&mut guard, false, SET_FEATURES, 0, PACKED), None);
    assert_eq!(send(&mut guard, false, SET_FEATURES, 7, 1), Some(1), "other features are the library's business");
    assert_eq!(send(&mut guard, false, RESET_OWNER, 0, 0), None, "the library does not see it");
    assert!(guard.may_run(0, false), "and nothing changes");
    assert_eq!(send(&mut guard, false, SET_FEATURES, 0, PACKED), None);
}

#[test]
fn without_multiqueue_all_rings_but_the_first_two_are_gone() {
    let with_four = || {
        let mut guard = started(false);
        start_ring(&mut guard, false, 2);
        start_ring(&mut guard, false, 3);
        guard
    };
    let mut guard = with_four();
    send(&mut guard, false, SET_FEATURES, MQ, 0);
    assert_eq!((guard.may_run_pairs(0, false), guard.may_run_pairs(1, false)), (0b11, 0b11));
    send(&mut guard, false, SET_FEATURES, 0, 0);
    assert_eq!((guard.may_run_pairs(0, false), guard.may_run_pairs(1, false)), (0b1, 0b1));
    // Of a running device the library frees nothing: its rings still are what they are.
    let mut guard = with_four();
    send_to(&mut guard, State { packed: false, running: true }, SET_FEATURES, 0, 0);
    assert!(guard.may_run(3, false));
    assert_eq!(send(&mut guard, false, SET_VRING_NUM, 3, 512), None);
}
