//! Requests of a running guest that are refused: it runs on.

use super::frontend::*;
use super::hostile::Scene;
use super::*;
use std::os::fd::{AsFd, BorrowedFd};

#[test]
fn what_was_not_offered_is_refused_and_the_guest_runs_on() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let memory = tempfile::tempfile_in("/dev/shm").expect("a file");
    memory.set_len(4096).expect("sizes");
    let inflight =
        |size: u64, queues: u64, entries: u64| [size, 0, queues | entries << 16].map(u64::to_ne_bytes).concat();
    let region = [0, 0, 4096, USER + (1 << 40), 0].map(u64::to_ne_bytes).concat();
    let attacks: [(&str, u32, Vec<u8>, &[BorrowedFd<'_>]); 9] = [
        ("in-flight buffers of 256 rings in one page", SET_INFLIGHT_FD, inflight(4096, 256, 32768), &[memory.as_fd()]),
        ("64 GiB of in-flight buffers", GET_INFLIGHT_FD, inflight(0, 65535, 65535), &[]),
        (
            "a dirty log behind its mapping",
            SET_LOG_BASE,
            [4096_u64, 1 << 30].map(u64::to_ne_bytes).concat(),
            &[memory.as_fd()],
        ),
        ("one more region of memory", ADD_MEM_REG, region.clone(), &[memory.as_fd()]),
        ("a region less that there is not", REM_MEM_REG, region, &[]),
        ("an entry for an IOMMU", IOTLB_MSG, [0, 4096, USER, 2].map(u64::to_ne_bytes).concat(), &[]),
        ("an announcement", SEND_RARP, vec![2, 0, 0, 0, 0, 1, 0, 0], &[]),
        ("post-copy", POSTCOPY_ADVISE, Vec::new(), &[]),
        ("post-copy, second part", POSTCOPY_LISTEN, Vec::new(), &[]),
    ];
    let before = open_fds();
    for round in 0..50 {
        for (what, request, payload, fds) in &attacks {
            assert!(!guest.set(*request, payload, fds).expect("answered"), "{what}");
            both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
        }
    }
    assert!(open_fds() < before + 60, "{before} descriptors before, {} after", open_fds());
    scene.others_are_fine("what was not offered");
}

#[test]
fn memory_that_cannot_be_mapped_leaves_the_old_memory() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let null = std::fs::File::open("/dev/null").expect("there");
    let (pipe, _other) = io::pipe().expect("a pipe");
    let small = tempfile::tempfile_in("/dev/shm").expect("a file");
    small.set_len(1 << 20).expect("sizes");
    let none = [0, 0].map(u64::to_ne_bytes).concat();
    let attacks: [(&str, Vec<u8>, &[BorrowedFd<'_>]); 8] = [
        ("a device", Frontend::table(MEMORY, 0), &[null.as_fd()]),
        ("a pipe", Frontend::table(MEMORY, 0), &[pipe.as_fd()]),
        ("more than the file", Frontend::table(MEMORY, 0), &[small.as_fd()]),
        ("an offset that overflows", Frontend::table(MEMORY, 4096_u64.wrapping_neg()), &[small.as_fd()]),
        ("nothing", Frontend::table(0, 0), &[small.as_fd()]),
        ("two files for one region", Frontend::table(1 << 20, 0), &[small.as_fd(), small.as_fd()]),
        ("no descriptor", Frontend::table(1 << 20, 0), &[]),
        ("no region", none, &[]),
    ];
    let before = open_fds();
    for round in 0..50 {
        for (what, table, fds) in &attacks {
            assert!(!guest.set(SET_MEM_TABLE, table, fds).expect("answered"), "{what}");
            both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
        }
    }
    assert!(open_fds() < before + 60, "{before} descriptors before, {} after", open_fds());
    // Memory that can be mapped, and has the same rings in it, is taken.
    guest.mem_table(MEMORY / 2).expect("accepted");
    std::thread::sleep(Duration::from_millis(2));
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 7);
    // And memory without the rings stops them.
    assert!(guest.set(SET_MEM_TABLE, &Frontend::table(4096, 0), &[small.as_fd()]).expect("answered"));
    scene.bad.send(0, &[frame(1, 60)], &scene.pool);
    assert!(scene.bad.receive().is_empty());
    scene.others_are_fine("other memory");
    drop(guest);
    scene.bad_recovers();
}

#[test]
fn an_owner_that_resets_changes_nothing() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    for round in 0..100 {
        assert!(guest.set(RESET_OWNER, &[], &[]).expect("answered"), "it may be ignored");
        both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
    }
    assert!(!guest.set(SET_FEATURES, &(BASIC | PACKED).to_ne_bytes(), &[]).expect("answered"));
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 7);
}

#[test]
fn a_flood_of_memory_tables_stalls_nobody() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let (end, mut slowest) = (Instant::now() + Duration::from_secs(2), Duration::ZERO);
    std::thread::scope(|scope| {
        let guest = &mut guest;
        let flood = scope.spawn(move || {
            let mut tables = 0_u64;
            while Instant::now() < end {
                guest.mem_table(MEMORY >> (tables % 2)).expect("accepted");
                tables += 1;
            }
            tables
        });
        while Instant::now() < end {
            let start = Instant::now();
            scene.bad.send(0, &[frame(1, 60)], &scene.pool);
            slowest = slowest.max(start.elapsed());
        }
        assert!(flood.join().expect("the front end lives") > 1000);
    });
    // Held up for ever is what must not be; how long a preempted thread of the library keeps a lock
    // is the kernel's affair.
    assert!(slowest < LIMIT, "a worker was held up for {slowest:?}");
    assert!(scene.bad.counters.tx_packets.get() > 0);
    while guest.receive(0).expect("readable").is_some() {}
    std::thread::sleep(Duration::from_millis(2));
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 7);
    scene.others_are_fine("a flood of memory tables");
}
