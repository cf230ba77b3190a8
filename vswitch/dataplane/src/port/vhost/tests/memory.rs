//! Memory that cannot be, and memory of hugepages that is taken away.

use super::frontend::*;
use super::hostile::Scene;
use super::*;
use std::os::fd::AsFd;
use vswitch_dpdk::vhost::testing::{huge_memory, punch};

/// Bytes of a hugepage.
const HUGE: u64 = 2 << 20;

/// A table of regions: guest address, size, user address, offset. It says that it has `n` of them.
fn table(n: u32, regions: &[[u64; 4]]) -> Vec<u8> {
    let head = u64::from(n).to_ne_bytes().to_vec();
    [head, regions.concat().iter().flat_map(|word| word.to_ne_bytes()).collect()].concat()
}

/// V04. Each case has as many descriptors as regions, up to the eight that a message can have.
#[test]
fn tables_of_memory_that_cannot_be_leave_the_old_memory() {
    let mut scene = Scene::new();
    let page = |i: u64| [i * 4096, 4096, USER + i * 4096, i * 4096];
    let pages = |n: u64| (0..n).map(page).collect::<Vec<_>>();
    let half = MEMORY / 2;
    let one = |guest: u64, size: u64, user: u64, offset: u64| vec![[guest, size, user, offset]];
    let cases = [
        ("no region", table(0, &[])),
        ("no region, and one behind", table(0, &pages(1))),
        ("nine regions, eight of them there", table(9, &pages(8))),
        ("nine regions, all there", table(9, &pages(9))),
        ("512 regions, eight of them there", table(512, &pages(8))),
        ("2^32 - 1 regions", table(u32::MAX, &pages(8))),
        ("eight regions, seven of them there", table(8, &pages(7))),
        ("size 0", table(1, &one(0, 0, USER, 0))),
        ("size 1", table(1, &one(0, 1, USER, 0))),
        ("size that is no multiple of a page", table(1, &one(0, 4097, USER, 0))),
        ("size 2^63", table(1, &one(0, 1 << 63, USER, 0))),
        ("size 2^64 - 4096", table(1, &one(0, 4096_u64.wrapping_neg(), USER, 0))),
        ("size 2^64 - 4096, and an offset that makes it none", table(1, &one(0, 4096_u64.wrapping_neg(), 4096, 4096))),
        ("guest addresses around the end", table(1, &one(4096_u64.wrapping_neg(), 8192, USER, 0))),
        ("user addresses around the end", table(1, &one(0, 8192, 4096_u64.wrapping_neg(), 0))),
        ("an offset beyond the file", table(1, &one(0, 4096, USER, MEMORY))),
        ("an end beyond the file", table(1, &one(0, MEMORY, USER, 4096))),
        ("an offset of 2^63", table(1, &one(0, 4096, USER, 1 << 63))),
        ("an offset that goes around", table(1, &one(0, 8192, USER, 4096_u64.wrapping_neg()))),
        ("an offset that is no multiple of a page", table(1, &one(0, 4096, USER, 8))),
        ("a guest address that is none", table(1, &one(1, 4096, USER, 0))),
        ("a user address that is none", table(1, &one(0, 4096, USER + 1, 0))),
        ("the same region twice", table(2, &[page(0), page(0)])),
        ("guest addresses that overlap", table(2, &[[0, half, USER, 0], [half - 4096, half, USER + half, half]])),
        ("user addresses that overlap", table(2, &[[0, half, USER, 0], [half, half, USER + half - 4096, half]])),
        ("one region in the other", table(2, &[[0, MEMORY, USER, 0], [4096, 4096, USER + 2 * MEMORY, 0]])),
    ];
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let before = open_fds();
    let mut disconnected = Vec::new();
    for round in 0..20 {
        for (what, table) in &cases {
            let memory = guest.memory.try_clone().expect("a descriptor");
            let n = (table.len() - 8).div_euclid(32).min(8);
            match guest.set(SET_MEM_TABLE, table, &vec![memory.as_fd(); n]) {
                Ok(accepted) => {
                    assert!(!accepted, "{what}: accepted");
                    both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
                }
                Err(_) => {
                    disconnected.push(*what);
                    drop((guest, memory));
                    wait("link down", || !scene.bad.device.link().up);
                    guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
                }
            }
        }
    }
    // Its size contradicts what it says: more than any message may have.
    disconnected.sort_unstable();
    disconnected.dedup();
    scene.others_are_fine("memory that cannot be");
    assert!(disconnected.len() < 3, "disconnected by {disconnected:?}");
    wait(&format!("{before} descriptors, and not {}", open_fds()), || open_fds() <= before);
    drop(guest);
    scene.bad_recovers();
}

/// While it is there, the kernel may take some hugepages more than are reserved, of which there may
/// be none.
struct MoreHugepages(String);

impl MoreHugepages {
    const LIMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";

    fn allow() -> Self {
        let before = std::fs::read_to_string(Self::LIMIT).expect("the kernel has hugepages");
        std::fs::write(Self::LIMIT, "8").expect("tests run as root");
        Self(before)
    }
}

impl Drop for MoreHugepages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::LIMIT, &self.0);
    }
}

/// V05, with hugepages: what lies in a page that is gone kills nobody, in the rings' buffers of
/// both directions.
#[test]
fn hugepages_that_are_taken_away_cost_their_owner_only() {
    let _more = MoreHugepages::allow();
    let mut scene = Scene::new();
    for (what, left) in [("all", Some(0)), ("the second page", Some(HUGE)), ("a hole", None)] {
        let huge = huge_memory(2 * HUGE).expect("hugepages of 2 MiB: tools/setup --hugepages 8");
        let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
        guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
        let regions = table(2, &[[0, MEMORY, USER, 0], [MEMORY, 2 * HUGE, USER + MEMORY, 0]]);
        let small = guest.memory.try_clone().expect("a descriptor");
        assert!(
            guest.set(SET_MEM_TABLE, &regions, &[small.as_fd(), huge.as_fd()]).expect("answered"),
            "{what}: two regions"
        );
        guest.start_bare(0).expect("starts");
        wait("link up", || scene.bad.device.link().up);
        let exchange = |scene: &mut Scene, guest: &mut Frontend| {
            for at in [0, HUGE - 30, HUGE, 2 * HUGE - 2048] {
                guest.offer_at(0, MEMORY + at, 2048, WRITE).expect("written");
                scene.bad.send(0, &[frame(3, 1000)], &scene.pool);
                guest.offer_at(1, MEMORY + at, 1012, 0).expect("written");
                let got = scene.bad.receive();
                assert!(got.len() < 2 && got.iter().all(|frame| frame.len() == 1000), "{what}: {} packets", got.len());
            }
        };
        exchange(&mut scene, &mut guest);
        assert_eq!(guest.used(1).expect("readable"), 4, "{what}: as long as it is there");
        match left {
            Some(len) => huge.set_len(len).expect("shrinks"),
            None => punch(&huge, 0, 2 << 20).expect("punched"),
        }
        exchange(&mut scene, &mut guest);
        scene.others_are_fine("hugepages that are gone");
        vswitch_dpdk::vhost::maintain();
        if left.is_some() {
            wait(&format!("it is disconnected: {what}"), || !scene.bad.device.link().up);
        } else {
            // There are pages left to fill it with.
            assert!(scene.bad.device.link().up, "{what}");
            exchange(&mut scene, &mut guest);
            assert_eq!(guest.used(1).expect("readable"), 12, "{what}: it goes on");
        }
        drop(guest);
        scene.bad_recovers();
        wait("link down", || !scene.bad.device.link().up);
        assert_eq!(scene.pool.in_use(), 0, "{what}");
    }
}
