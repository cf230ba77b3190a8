//! Peers that mean harm: their own port may suffer, the others never.

use super::frontend::*;
use super::*;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use vswitch_dpdk::vhost::Lost;

/// A port with a peaceful guest, and one that is attacked.
pub(super) struct Scene {
    pub(super) good: Port,
    good_path: PathBuf,
    pub(super) good_guest: Frontend,
    pub(super) bad: Port,
    pub(super) bad_path: PathBuf,
    pub(super) pool: Mempool,
    dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::offering(|config| config)
    }

    /// With an attacked port that is configured otherwise.
    pub(super) fn offering(change: impl FnOnce(VhostConfig) -> VhostConfig) -> Self {
        let alone = alone();
        let (dir, pool) = (dir(), Mempool::for_tests(1024));
        let (good, good_path) = serve(&dir, "good", &pool);
        let config = change(config(&dir, "bad", VhostMode::Server));
        let (bad, bad_path) = (Port::new(&config, &pool), config.path);
        let good_guest = running_guest(&good, &good_path, BASIC);
        Self { good, good_path, good_guest, bad, bad_path, pool, dir, _alone: alone }
    }

    pub(super) fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.bad_path).expect("connects");
        socket.set_read_timeout(Some(LIMIT)).expect("settable");
        socket
    }

    /// The good port forwards, and a new guest of it is served.
    #[track_caller]
    pub(super) fn others_are_fine(&mut self, after: &str) {
        both_ways(&mut self.good, &mut self.good_guest, &self.pool, 1);
        self.good_guest.socket.shutdown(std::net::Shutdown::Both).expect("open");
        wait(&format!("after {after}: link down"), || !self.good.device.link().up);
        self.good_guest = running_guest(&self.good, &self.good_path, BASIC);
        both_ways(&mut self.good, &mut self.good_guest, &self.pool, 2);
    }

    /// The attacked port serves the next guest.
    #[track_caller]
    pub(super) fn bad_recovers(&mut self) {
        wait("link down", || !self.bad.device.link().up);
        let mut guest = running_guest(&self.bad, &self.bad_path, BASIC);
        both_ways(&mut self.bad, &mut guest, &self.pool, 3);
    }
}

pub(super) fn header(request: u32, size: u32) -> Vec<u8> {
    [request, 1, size].map(u32::to_ne_bytes).concat()
}

#[track_caller]
pub(super) fn is_disconnected(mut socket: &UnixStream, after: &str) {
    let mut byte = [0];
    match socket.read(&mut byte) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("after {after}: not disconnected: {other:?}"),
    }
}

#[test]
fn half_messages_and_nonsense_disconnect_only_their_sender() {
    let mut scene = Scene::new();
    let garbage: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let attacks: [(&str, Vec<u8>); 8] = [
        ("five bytes of a header", header(1, 0)[..5].to_vec()),
        ("a header without its payload", header(SET_FEATURES, 8)),
        ("half a payload", [header(SET_FEATURES, 8), vec![0; 3]].concat()),
        ("a payload of 4 GiB", header(SET_FEATURES, u32::MAX)),
        ("request 9999", header(9999, 0)),
        ("request 0", header(0, 0)),
        ("ring 255 of no memory", [header(SET_VRING_ADDR, 40), vec![0xff; 40]].concat()),
        ("garbage", garbage),
    ];
    for (what, bytes) in attacks {
        let mut socket = scene.connect();
        socket.write_all(&bytes).expect("sent");
        scene.others_are_fine(what); // while the connection is open
        is_disconnected(&socket, what);
    }
    scene.bad_recovers();
}

#[test]
fn a_front_end_that_listens_may_be_hostile_too() {
    let mut scene = Scene::new();
    let config = config(&scene.dir, "client", VhostMode::Client);
    let listener = UnixListener::bind(&config.path).expect("bind");
    let port = Port::new(&config, &scene.pool);
    for bytes in [header(1, 0)[..5].to_vec(), header(SET_FEATURES, 8), header(9999, 0)] {
        let (mut socket, _) = listener.accept().expect("the port connects, again and again");
        socket.set_read_timeout(Some(LIMIT)).expect("settable");
        socket.write_all(&bytes).expect("sent");
        scene.others_are_fine("a hostile listener");
        is_disconnected(&socket, "a hostile listener");
    }
    let mut guest = Frontend::on(listener.accept().expect("connects").0).expect("memory");
    guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
    guest.start_pair(0).expect("starts");
    wait("link up", || port.device.link().up);
}

#[test]
fn a_peer_that_reads_no_replies_stalls_nobody() {
    let mut scene = Scene::new();
    let guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    guest.socket.set_nonblocking(true).expect("settable");
    // Each is handled with all locks of the device's rings held, and acknowledged.
    let call = u64::from(1 | 1_u32 << 8).to_ne_bytes();
    let end = Instant::now() + Duration::from_secs(2);
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    while Instant::now() < end && refused < 200 {
        match guest.raw(SET_VRING_CALL, 1 << 3, &call, &[]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => break,
        }
        let start = Instant::now();
        scene.bad.send(0, &[frame(1, 60)], &scene.pool);
        slowest = slowest.max(start.elapsed());
    }
    assert!(slowest < LIMIT, "a worker was held up for {slowest:?}");
    scene.others_are_fine("a flood without reading");
    drop(guest);
    scene.bad_recovers();
}

#[test]
fn rings_out_of_order_do_not_run() {
    let mut scene = Scene::new();
    // Never sized.
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
    for ring in 0..2_u32 {
        let off = u64::from(ring | 1 << 8).to_ne_bytes();
        let _ = guest.set(SET_VRING_ADDR, &Frontend::ring_addr(ring), &[]);
        let _ = guest.set(SET_VRING_KICK, &off, &[]);
        let _ = guest.set(SET_VRING_CALL, &off, &[]);
        let _ = guest.enable(ring, true);
    }
    scene.others_are_fine("unsized rings");
    assert!(!scene.bad.device.link().up);
    assert!(scene.bad.receive().is_empty());
    drop(guest);
    scene.bad_recovers();

    // Grown while it runs: refused, and it runs on.
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    for size in [32768, 512, 1, 0, 3, 65536] {
        assert!(!guest.set(SET_VRING_NUM, &Frontend::state(1, size), &[]).expect("answered"), "size {size}");
        both_ways(&mut scene.bad, &mut guest, &scene.pool, size);
    }
    assert!(!guest.set(SET_FEATURES, &(BASIC | PACKED).to_ne_bytes(), &[]).expect("answered"));
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 9);

    // Stopped (its bookkeeping is freed) and started without a size.
    guest.stop(1).expect("stopped");
    let _ = guest.set(SET_VRING_ADDR, &Frontend::ring_addr(1), &[]);
    let _ = guest.set(SET_VRING_KICK, &u64::from(1 | 1_u32 << 8).to_ne_bytes(), &[]);
    let _ = guest.set(SET_VRING_CALL, &u64::from(1 | 1_u32 << 8).to_ne_bytes(), &[]);
    let _ = guest.enable(1, true);
    let _ = guest.send(0, [0; 10], &frame(1, 60));
    assert!(scene.bad.receive().is_empty());
    scene.others_are_fine("a ring without bookkeeping");
    drop(guest);
    scene.bad_recovers();
}

#[test]
fn descriptors_that_lie_cost_their_sender_only() {
    let mut scene = Scene::new();
    let attacks: [(&str, u64, u64, u64); 9] = [
        ("length 0", 0x40_0000, 0, 0),
        ("shorter than the header", 0x40_0000, 11, 0),
        ("only the header", 0x40_0000, 12, 0),
        ("4 GiB", 0x40_0000, 0xffff_ffff, 0),
        ("outside the memory", MEMORY, 60, 0),
        ("across the end", MEMORY - 30, 60, 0),
        ("around the address space", u64::MAX - 10, 60, 0),
        ("a chain that is a loop", 0x40_0000, 60, 1),
        ("an indirect table with odd length", 0x40_0000, 17, 4),
    ];
    for (what, address, len, flags) in attacks {
        let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
        for _ in 0..40 {
            guest.offer_at(1, address, len, flags).expect("written");
        }
        for _ in 0..10 {
            for got in scene.bad.receive() {
                assert!(got.len() <= 1522, "{what}: {} bytes", got.len());
            }
        }
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
        drop(guest);
        scene.bad_recovers();
        wait("link down", || !scene.bad.device.link().up);
        assert_eq!(scene.pool.in_use(), 0, "after {what}");
    }
}

#[test]
fn a_packet_without_end_takes_its_ration_and_is_counted() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let big = Mempool::for_tests(2048);
    let budget = rx::budget(&big);
    assert!((1024..2000).contains(&budget), "{budget}: less than the pool");
    for round in 1..=20 {
        guest.offer_at(1, 0x40_0000, 8 << 20, 0).expect("written"); // 4096 mbufs
        let (mut burst, mut left) = (Burst::new(), budget);
        let received = scene.bad.device.rings.receive(0, &big, &mut burst, &mut left, None);
        assert_eq!((received.packets, received.lost, left), (0, Some(Lost::TooLong), 0));
        assert_eq!(big.in_use(), 0, "all came back");
        guest.offer_at(1, 0x40_0000, 8 << 20, 0).expect("written");
        assert!(scene.bad.receive().is_empty());
        // The scene's pool is smaller than the budget.
        assert_eq!((scene.bad.dropped(DropReason::NoMbuf).0, scene.bad.counters.rx_packets.get()), (round, round));
        guest.send(0, [0; 10], &frame(1, 60)).expect("sent");
        assert_eq!(scene.bad.receive(), [frame(1, 60)]);
    }
    // The longest packets that may be are all there.
    for _ in 0..32 {
        guest.offer_at(1, 0x40_0000, crate::limits::FRAME_MAX as u64 + 12, 0).expect("written");
    }
    let (mut burst, mut left) = (Burst::new(), budget);
    let received = scene.bad.device.rings.receive(0, &big, &mut burst, &mut left, None);
    assert_eq!((received.packets, received.lost, left), (32, None, 0));
    assert!(burst.iter().all(|mbuf| mbuf.len() == crate::limits::FRAME_MAX));
    drop(burst);
    assert_eq!((big.in_use(), scene.pool.in_use()), (0, 0));
    // Too long for the port, and counted there.
    scene.bad.rx[0] = VhostRxQueue::new(scene.bad.device.rings.clone(), big, scene.bad.device.mtu.clone(), 0, 1);
    guest.offer_at(1, 0x40_0000, 8 << 20, 0).expect("written");
    guest.offer_at(1, 0x40_0000, 1 << 20, 0).expect("written");
    assert!(scene.bad.receive().is_empty() && scene.bad.receive().is_empty());
    assert_eq!(scene.bad.dropped(DropReason::Oversize).0, 2);
}

/// V18: one look takes at most a burst, however many queue pairs are full, and the pairs take
/// turns.
#[test]
fn a_look_at_a_guest_takes_one_burst_of_all_its_queue_pairs() {
    let mut scene = Scene::offering(|config| VhostConfig { queues: 4, ..config });
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    guest.negotiate(BASIC | MQ, REPLY_ACK | MQ_PROTOCOL).expect("negotiates");
    (0..4).for_each(|pair| guest.start_bare(pair).expect("starts"));
    wait("four pairs", || scene.bad.device.rings.receive_pairs() == 0b1111);
    let rings = scene.bad.device.rings.clone();
    // All pairs are one queue's, as if the port had no other.
    scene.bad.rx = vec![VhostRxQueue::new(rings, scene.pool.clone(), scene.bad.device.mtu.clone(), 0, 1)];
    for pair in 0..4 {
        (0..200).for_each(|_| guest.send(pair, [0; 10], &frame(pair, 60)).expect("sent"));
    }
    let mut of = [0; 4];
    for look in 0..25 {
        let got = scene.bad.receive();
        assert_eq!(got.len(), crate::limits::BURST, "look {look}");
        got.iter().for_each(|frame| of[usize::from(frame[17])] += 1);
        let (least, most) = (of.iter().min(), of.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 32), "look {look}: {of:?} of the pairs");
    }
    assert_eq!((of, scene.bad.receive().len()), ([200; 4], 0));
    scene.others_are_fine("four full pairs");
}
