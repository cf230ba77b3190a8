//! vhost-user ports against real and hostile peers. Here: what the tests share.
//!
//! Hostile front ends and guests, by numbers (docs/testing.md, "Numbers of hostile inputs"), and
//! the tests that show what becomes of them. `guard` and `features` are tests of
//! [`vswitch_dpdk::vhost`]; `guests` and `linux_guests` are in `vswitch/vswitchd/tests`, with a
//! whole switch.
//!
//! | | what it does | tests |
//! |---|---|---|
//! | V01 | nonsense for messages | `hostile::half_messages_and_nonsense_disconnect_only_their_sender`, `messages::every_request_with_every_wrong_size_costs_its_sender_only`, `messages::another_version_and_flags_cost_their_sender_only` |
//! | V02 | halves of messages, silence | `hostile::half_messages_and_nonsense_disconnect_only_their_sender`, `floods::a_message_that_ends_anywhere_costs_its_sender_only`, `floods::a_thousand_silent_connections_hold_nothing_up`, `lifecycle::one_guest_at_a_time_and_a_dead_one_does_not_count` |
//! | V03 | surplus descriptors | `floods::descriptors_that_come_with_any_request_are_closed`, `floods::descriptors_of_messages_that_make_no_sense_are_closed` |
//! | V04 | memory that cannot be | `memory::tables_of_memory_that_cannot_be_leave_the_old_memory`, `refused::memory_that_cannot_be_mapped_leaves_the_old_memory`; the tests of `dpdk::vhost::memory` |
//! | V05 | memory that is taken away | `sabotage::memory_that_is_taken_away_costs_its_owner_only`, `memory::hugepages_that_are_taken_away_cost_their_owner_only` |
//! | V06 | regions added and removed, memory exchanged under way | `refused::what_was_not_offered_is_refused_and_the_guest_runs_on`, `refused::a_flood_of_memory_tables_stalls_nobody`, `borrowed::memory_that_is_exchanged_is_waited_for` |
//! | V07 | sizes of rings, rings that are not there | `floods::sizes_of_rings_again_and_again_leave_nothing`, `hostile::rings_out_of_order_do_not_run`, `messages::rings_that_are_not_there_cost_who_names_them_at_most_its_connection`, `guard::size_is_fixed_once_addresses_are_given_and_bounded` |
//! | V08 | addresses of rings | `messages::addresses_of_rings_that_cannot_be_do_not_run`, `guard::rings_are_aligned` |
//! | V09 | bases of rings, stops | `messages::bases_beyond_the_ring_and_stops_again_and_again_do_no_harm` |
//! | V10 | descriptors of the wrong kind, or full | `sabotage::descriptors_that_block_hold_nobody_up`, `sabotage::a_full_descriptor_holds_up_no_worker_and_nobody_elses_calls`, `sabotage::call_descriptors_that_contradict_their_message_are_refused`, `sabotage::a_call_descriptor_that_nobody_could_look_after_is_refused`, `messages::descriptors_for_kicks_and_errors_may_be_anything` |
//! | V11 | chains that loop or lead away | `chains::chains_that_are_none_cost_the_sender_only`, `chains::chains_that_are_none_cost_the_receiver_only`, `chains::each_chain_that_is_none_is_told_once` |
//! | V12 | lengths and addresses of buffers | `chains::each_chain_that_is_none_is_told_once`, `hostile::descriptors_that_lie_cost_their_sender_only`, `hostile::a_packet_without_end_takes_its_ration_and_is_counted`, `chains::packets_across_two_regions_of_memory_arrive_whole` |
//! | V13 | rings that change meanwhile | `sabotage::rings_that_change_while_they_are_read_cost_their_owner_only`, `borrowed::rings_and_bytes_that_change_while_they_are_lent_cost_their_owner_only` |
//! | V14 | indexes that jump | `sabotage::available_indexes_that_jump_cost_their_owner_only` |
//! | V15, P36 | lies about checksums and segments | `offload::what_a_guest_says_of_its_packets_must_fit_them`, `offload::other_lies_of_a_header_change_nothing`, `features::the_librarys_flags_are_our_words`, `features::offloads_that_were_not_negotiated_are_dropped` |
//! | V16 | 64 KiB for who takes 1500 | `linux_guests::features::every_pair_of_feature_sets_carries_tcp_unharmed`, `packet::segment::tests` |
//! | V17 | buffers of the wrong direction, packed rings of nonsense | `chains::*`, `chains::packed_rings_with_nonsense_cost_their_owner_only` |
//! | V18 | a storm, a ring of one, nothing given back | `worker::tests::turns::a_storm_gets_one_burst_a_turn_and_nobody_else_less_than_without_it`, `hostile::a_look_at_a_guest_takes_one_burst_of_all_its_queue_pairs`, `guests::a_storm_and_a_guest_that_takes_nothing_cost_only_themselves`, `unplug::rings_of_one_entry_and_guests_that_give_nothing_back_lose_their_own_packets` |
//! | V19 | muted calls, calls lost with the switch | `calls::a_guest_that_mutes_its_calls_is_called_when_it_asks`, `calls::it_is_called_by_another_thread_as_well`, `calls::calls_that_were_lost_with_the_switch_are_made_up_for` |
//! | V20 | other features, resets, status, logs | `resets::resets_under_traffic_leave_a_device_that_can_be_set_up_again`, `lifecycle::a_driver_without_multiqueue_has_one_pair_whatever_came_before`, `refused::an_owner_that_resets_changes_nothing`, `messages::a_device_whose_status_is_reset_runs_on_or_stops_and_others_go_on`, `refused::what_was_not_offered_is_refused_and_the_guest_runs_on` |
//! | V21 | an IOMMU's entries | never offered: `features::what_would_do_harm_is_never_offered`; `refused::what_was_not_offered_is_refused_and_the_guest_runs_on` |
//! | V22 | the control queue | ends in QEMU and virtio-user; what comes of it is V07: rings that are not there |
//! | V23 | ends that vanish, sockets that are something else | `linux_guests::restarts::traffic_resumes_whichever_end_goes_away`, `linux_guests::restarts::connections_survive_the_switch_and_a_pause`, `floods::front_ends_that_come_and_go_leave_nothing`, `lifecycle::a_hundred_guests_in_a_row_leak_nothing`, `socket::only_a_socket_without_a_listener_is_replaced` |
//! | V24 | ports closed under load | `unplug::ports_are_closed_under_full_load_and_everything_comes_back`, `lifecycle::guests_come_and_go_under_traffic`, `guests::a_storm_and_a_guest_that_takes_nothing_cost_only_themselves` |

mod borrowed;
mod calls;
mod chains;
mod features;
mod floods;
mod frontend;
mod hostile;
mod lifecycle;
mod memory;
mod messages;
mod offload;
mod peers;
mod refused;
mod resets;
mod sabotage;
mod testpmd;
mod unplug;

use super::*;
use crate::observe::{DropReason, PortCounters};
use frontend::{Frontend, MRG_RXBUF, PROTOCOL, VERSION_1};
use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vswitch_dpdk::Burst;

const BASIC: u64 = VERSION_1 | MRG_RXBUF | PROTOCOL;

/// A port, and the test's thread as its worker: it is in the gate while it uses the queues;
/// `quiesce` passes through.
struct Port {
    rx: Vec<VhostRxQueue>,
    tx: Vec<VhostTxQueue>,
    device: VhostDevice,
    gate: Arc<Mutex<()>>,
    pool: Mempool,
    counters: PortCounters,
}

fn open_port(config: &VhostConfig, pool: &Mempool) -> Result<Port, VhostError> {
    let gate = Arc::new(Mutex::new(()));
    let passed = Arc::clone(&gate);
    let (rx, tx, device) = open(config, 1500, Arc::new(move || drop(passed.lock())), pool)?;
    Ok(Port { rx, tx, device, gate, pool: pool.clone(), counters: PortCounters::default() })
}

impl Port {
    fn new(config: &VhostConfig, pool: &Mempool) -> Self {
        open_port(config, pool).expect("the port opens")
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let _inside = self.gate.lock();
        let (mut burst, mut all) = (Burst::new(), Vec::new());
        for queue in &mut self.rx {
            queue.receive(&mut burst, &self.counters, &mut |borrowed| {
                all.extend(borrowed.drain().map(|mbuf| mbuf.to_vec()));
            });
        }
        all.extend(burst.iter().map(vswitch_dpdk::Mbuf::to_vec));
        all
    }

    fn send(&mut self, queue: usize, frames: &[Vec<u8>], pool: &Mempool) {
        let _inside = self.gate.lock();
        for frames in frames.chunks(32) {
            let mut burst = Burst::new();
            for frame in frames {
                burst.push(pool.mbuf_from(frame).expect("an mbuf")).expect("room");
            }
            self.tx[queue].send(&mut burst, &self.counters);
            assert!(burst.is_empty());
        }
    }

    fn dropped(&self, reason: DropReason) -> (u64, u64) {
        (self.counters.rx_drops.get(reason), self.counters.tx_drops.get(reason))
    }
}

fn dir() -> TempDir {
    tempfile::Builder::new().prefix("vhost-test-").tempdir().expect("a directory")
}

fn config(dir: &TempDir, name: &str, mode: VhostMode) -> VhostConfig {
    VhostConfig::new(dir.path().join(name), mode)
}

/// One test at a time: some count the descriptors of the process. Workers call their guests.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock();
    vswitch_dpdk::vhost::set_call_delay(0);
    alone
}

/// How long a state may take to come. Only a state that never comes takes that long: a busy machine
/// stops a thread for seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits for a condition; the message says what did not come.
#[track_caller]
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len.max(60)];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]); // IEEE local experimental
    for (i, byte) in frame[18..].iter_mut().enumerate() {
        *byte = (i * 31).to_le_bytes()[0].wrapping_add(number.to_le_bytes()[0]);
    }
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn swapped(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

fn serve(dir: &TempDir, name: &str, pool: &Mempool) -> (Port, PathBuf) {
    let config = config(dir, name, VhostMode::Server);
    (Port::new(&config, pool), config.path)
}

/// A guest with these features on a server socket, its first queue pair running.
fn guest(path: &Path, features: u64, protocol: u64) -> Frontend {
    let mut guest = Frontend::connect(path).expect("connects");
    guest.negotiate(features, protocol).expect("negotiates");
    guest.start_pair(0).expect("starts");
    guest
}

/// A guest whose device the port uses: the last acknowledgement comes before that.
#[track_caller]
fn running_guest(port: &Port, path: &Path, features: u64) -> Frontend {
    let guest = guest(path, features, frontend::REPLY_ACK);
    wait("link up", || port.device.link().up);
    guest
}

/// Waits until the first pair runs. A change to a ring that runs stops it for a moment, and is
/// answered before it goes on.
#[track_caller]
fn runs(port: &Port, what: &str) {
    wait(&format!("one pair, {what}"), || {
        (port.device.rings.receive_pairs(), port.device.rings.send_pairs()) == (1, 1)
    });
}

/// One frame each way.
#[track_caller]
fn both_ways(port: &mut Port, guest: &mut Frontend, pool: &Mempool, number: u32) {
    let (there, here) = (frame(number, 100), frame(!number, 1514));
    port.send(0, std::slice::from_ref(&there), pool);
    let (header, got) = guest.receive(0).expect("readable").expect("a frame is there at once");
    assert_eq!((header, got), ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], there), "to the guest");
    guest.send(0, [0; 10], &here).expect("sent");
    assert_eq!(port.receive(), [here], "from the guest");
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}
