//! Every limit of the switch in one place, each with its reason. A full table refuses by name; it
//! never grows.

pub use vswitch_dpdk::limits::{BURST, FRAME_MAX, L2_OVERHEAD};

/// Ports of all bridges together. A node has up to 250 Pods; four times that leaves room for patch
/// and tunnel ports.
pub const PORTS_MAX: usize = 1024;
/// The tracker counts connections of each of them.
#[cfg(not(loom))]
const _: () = assert!(PORTS_MAX <= vswitch_conntrack::PORTS);

/// Bridges per switch.
pub const BRIDGES_MAX: usize = 64;

/// Queues of one port in one direction. More than the workers of a big node helps nobody.
pub const QUEUES_MAX: u16 = 64;

/// Workers. Bounded by the counter blocks that are laid out per worker.
pub const WORKERS_MAX: usize = 64;
/// How late guests may be called, in microseconds.
pub const CALL_DELAYS_US: std::ops::RangeInclusive<u32> = 0..=1000;

/// Addresses of one port that is a VTEP: packets for remote Egress come to the Egress IP, of which
/// a Node has up to 255 (marks have 8 bits), beside its own.
pub const VTEP_ADDRESSES_MAX: usize = 512;

/// Tunnels that may be inside one another, as they are taken off.
pub const TUNNEL_DEPTH_MAX: u32 = 2;

/// Packets that wait for the address of one next hop, per worker: some begin at once when a Pod
/// starts.
pub const WAITING_DEFAULT: u32 = 16;
/// What may be configured of that.
pub const WAITING: std::ops::RangeInclusive<u32> = 0..=64;
/// Mbufs in packets that wait, per worker, for whatever next hop.
pub const WAITING_MBUFS_MAX: usize = 512;
/// Milliseconds that a packet waits: three questions long (RFC 4861, 7.2.2: three of a second
/// each).
pub const WAITING_MS: u64 = 3000;
/// Messages to senders of packets that are too long, per port and worker (RFC 4443, 2.4 f, asks for
/// a limit). One is enough for a path.
pub const TOO_BIGS_PER_SECOND: u32 = 100;
/// Answers to packets that flows refuse (`reject`), per port and worker. Each costs about what a
/// packet of a new kind costs.
pub const REJECTS_PER_SECOND: u32 = 5000;
/// Payload below which no segment is made shorter for a tunnel: the MTU is no sensible one.
pub const SEGMENT_MIN: usize = 64;

/// Samples of drops that wait for the control side, per worker. It looks ten times a second: a
/// reason has one of each look at the default rate, and there are not 100 reasons.
pub const DROP_SAMPLES_QUEUED: usize = 256;
/// Samples of drops that wait for the reader of a capture, per worker: some milliseconds of what a
/// fast port can lose.
pub const DROP_TAP_QUEUED: usize = 4096;
/// Bytes that a sample of a drop has: all headers of a packet in a tunnel.
pub const SAMPLE_BYTES: usize = 128;

/// Samples of drops per second that a reason may have on each worker, unless a watcher asks for
/// more.
pub const DROP_RATE_DEFAULT: u32 = 10;
/// What a watcher may ask for.
pub const DROP_RATE_MAX: u32 = 1000;
/// Watchers of drops: 16 calls, and the switch's own observer.
pub const DROP_WATCHERS_MAX: usize = 17;
/// Samples that a slow watcher may fall behind before it is told how many it lost.
pub const DROP_EVENTS_QUEUED: usize = 1024;
/// Counters of drops that rise at a time and have a rate: 500 bytes each.
pub const DROP_RATES_MAX: usize = 8192;

/// Observations that the switch keeps unless `[observe] ring` says another number: some minutes of
/// drops at the default rate, about 6 MB. Connections have as many places of their own.
pub const OBSERVE_RING_DEFAULT: usize = 4096;
/// What `[observe] ring` may say. 0: nothing is observed without a client that follows.
pub const OBSERVE_RING: std::ops::RangeInclusive<usize> = 0..=65_536;
/// Calls of `WatchObservations` that follow, and as many that only read what is kept.
pub const OBSERVE_WATCHERS_MAX: usize = 16;
/// Names of addresses that an agent may tell: Pods and Services of a big cluster, both families.
pub const OBSERVE_NAMES_MAX: usize = 262_144;
/// Bytes of all of them, as in their messages.
pub const OBSERVE_NAMES_BYTES: usize = 128 << 20;
/// Names that one call may tell or take away.
pub const OBSERVE_NAMES_PER_CALL: usize = 8192;

/// Patch ports that one packet may cross (the resubmit depth of Open vSwitch).
pub const DEPTH_MAX: u32 = 64;

/// Outputs that one packet may lead to in all, flooded copies and patch ports included (the
/// resubmit limit of Open vSwitch). A depth of 64 alone would allow 2^64 copies between two bridges
/// joined by three patches.
pub const OUTPUTS_MAX: u32 = 4096;

/// Resubmits of one packet in all, gotos and patch ports included (`MAX_RESUBMITS` of Open
/// vSwitch).
pub const RESUBMITS_MAX: u32 = 4096;

/// Actions that one packet may execute: 4,096 resubmits to lists of 64. A list of 10,000 actions,
/// resubmitted to 4,096 times, would otherwise hold a worker for a second.
pub const ACTIONS_EXECUTED_MAX: u32 = 1 << 18;

/// Actions as which a learn counts among them: it changes a table that other workers read, and
/// takes some 10 us. 4,096 of them take 40 ms.
pub const LEARN_WORK: u32 = 64;

/// Ops that one translation may yield. With nested clones, what is committed inside each of them
/// counts.
pub const OPS_MAX: u32 = 1 << 16;

/// Clones and length checks that may be nested in one another. Ops are nested likewise, and
/// executed by recursion.
pub const CLONES_NESTED_MAX: u32 = 64;

/// Entries of a packet's stack (`push`). Open vSwitch allows 64 KiB, in entries of up to 17 bytes.
pub const STACK_MAX: usize = 4096;

/// Flows of a table that trace looks at to tell why it had none for a packet.
pub const TRACE_LOOKS_MAX: usize = 1 << 17;

/// Groups that a watch_group may lead through (`MAX_LIVENESS_RECURSION` of Open vSwitch).
pub const LIVENESS_DEPTH_MAX: u32 = 128;
/// Buckets that are looked at to judge those of one group: groups may watch each other in circles.
pub const LIVENESS_LOOKS_MAX: u32 = 1 << 16;

/// Mbufs that the floods of one burst may take for copies, software segments included: 32 small
/// broadcasts to 250 ports, or one GSO packet of 64 KiB. Beyond, copies are dropped: the pool is
/// everybody's.
pub const FLOOD_MBUFS_MAX: u32 = 8192;

/// Largest OpenFlow port number of a real port (`OFPP_MAX` of OpenFlow 1.0 minus one: 0xfeff).
pub const PORT_NUMBER_MAX: u32 = 0xfeff;

/// Bytes of a port or bridge name: one less than the kernel's IFNAMSIZ, so that a port can be an
/// interface.
pub const NAME_MAX: usize = 15;

/// Smallest MTU: what IPv4 promises to carry (RFC 791).
pub const MTU_MIN: u16 = 68;
/// Largest MTU: what fits a GSO buffer with its Ethernet header.
pub const MTU_MAX: u16 = 9702;

/// Bytes of the shortest frame that can be parsed: two addresses and a type.
pub const FRAME_MIN: usize = 14;

/// Segments that one GSO packet may be cut into for a port without GSO. 64 KiB at an MSS of 64:
/// less than any path has, and one descriptor of a guest shall not become 65,535 packets.
pub const GSO_SEGMENTS_MAX: usize = 1024;

/// Learned and static addresses per bridge, unless configured otherwise (Open vSwitch:
/// mac-table-size 8192 since 3.0).
pub const FDB_ENTRIES_DEFAULT: u32 = 8192;
/// Largest configurable MAC table.
pub const FDB_ENTRIES_MAX: u32 = 1 << 18;
/// Seconds after which an unused learned address goes (Open vSwitch: mac-aging-time 300).
pub const FDB_AGEING_S_DEFAULT: u32 = 300;
/// Configurable ageing times, in seconds: a day is as good as never.
pub const FDB_AGEING_S: std::ops::RangeInclusive<u32> = 1..=86_400;
/// Addresses that one port may hold of a bridge's table, in percent: an uplink may own most of
/// them, and a flooding guest still leaves room for others.
pub const FDB_PORT_QUOTA_PERCENT: u32 = 75;

/// Buckets that are searched for an address to give way when the table is full and a new address's
/// own buckets have none. A full table has one address per bucket, so that a few suffice.
pub const FDB_EVICTION_SEARCH: usize = 64;

/// External ids of a port.
pub const EXTERNAL_IDS_MAX: usize = 64;
/// Bytes of one key or value of an external id.
pub const EXTERNAL_ID_LEN_MAX: usize = 256;

/// Bytes of a configuration file.
pub const CONFIG_LEN_MAX: u64 = 4 << 20;

/// Port events a slow subscriber may fall behind before it is told how many it lost.
pub const PORT_EVENTS_QUEUED: usize = 1024;

/// Bytes at a packet's front that lie in its first segment before its headers are read; else the
/// packet is copied into segments that are full. Every header that rules match fits, with some IPv6
/// extension headers.
pub const HEAD_LEN: usize = 512;

/// Packet-ins that a slow subscriber may fall behind before it loses some.
pub const PACKET_INS_QUEUED: usize = 1024;

/// Subscribers to the packet-ins of one bridge: agents, a few monitors.
pub const PACKET_IN_SUBSCRIBERS_MAX: usize = 64;

/// Controller ids of one bridge whose packet-ins are counted each for themselves: 288 bytes each,
/// made by the first packet. Antrea has five.
pub const CONTROLLERS_COUNTED_MAX: usize = 1024;

/// Packets of one bridge that wait to be resumed; beyond, the oldest cannot be resumed any more. An
/// agent answers in milliseconds.
pub const PAUSED_MAX: usize = 4096;

/// Packet-outs that wait for one worker. Callers wait for theirs: more than there are callers is of
/// no use.
pub const INJECTED_QUEUED: usize = 256;

/// Bytes of a packet-out: a frame of the largest MTU.
pub const PACKET_OUT_MAX: usize = MTU_MAX as usize + L2_OVERHEAD;

/// Updates of one transaction. Nine times the largest policy set that is known (115,000 flows).
pub const TRANSACTION_UPDATES_MAX: usize = 1 << 20;

/// Bytes that all transactions that are being received may take together, as estimated from their
/// messages.
pub const TRANSACTIONS_LEN_MAX: usize = 2 << 30;

/// Flows of one table (Open vSwitch reports `max_entries=1000000`), learned ones included.
pub const FLOWS_PER_TABLE_MAX: usize = 1_000_000;
/// Flows of one bridge. At about 1 KB each this is 2 GB of the node's memory.
pub const FLOWS_PER_BRIDGE_MAX: usize = 2_000_000;
/// Learned flows of one table: a Service with session affinity has one per client, and clients are
/// not ours to count.
pub const LEARNED_PER_TABLE_MAX: usize = 131_072;
/// Learned flows of one bridge. At about 1 KB each this is 256 MB that packets may claim.
pub const LEARNED_PER_BRIDGE_MAX: usize = 262_144;

/// Flow-removed events that a slow subscriber may fall behind before it is told how many it lost.
pub const FLOW_EVENTS_QUEUED: usize = 8192;

/// Groups of one bridge: one per Service port and direction on a node of the largest clusters, four
/// times over.
pub const GROUPS_MAX: usize = 65_536;
/// Buckets of one group: as many as outputs that one packet may lead to.
pub const BUCKETS_MAX: usize = 4096;
/// Buckets of one select group, of which a packet takes one: endpoints of the largest Services,
/// three times over. Each has four slots of the largest table on average
/// ([`crate::group::SLOTS_MAX`]).
pub const SELECT_BUCKETS_MAX: usize = 16_384;
/// Slots of the tables of all select groups of one bridge: 1 GiB. A table has 256 to 65,536 slots
/// of two bytes, of a Maglev group always the latter: of those 8,192 fit.
pub const GROUP_SLOTS_MAX: usize = 1 << 29;

/// Meters of one bridge (Open vSwitch's userspace datapath: `max_meter`).
pub const METERS_MAX: usize = 262_144;
/// Bands of one meter.
pub const BANDS_MAX: usize = vswitch_flow::spec::limits::MAX_BANDS;

/// Changes of a table that it remembers, so that megaflows which they have nothing to do with need
/// not be decided anew. With 1,000 changes a second those that packets hit every 32 ms.
pub const CHANGES_LOGGED_MAX: usize = 32;
/// Rules of one such change: to compare with more takes as long as to decide.
pub const CHANGE_MATCHES_MAX: usize = 64;

/// Bytes of a table's name (OpenFlow 1.3's `OFP_MAX_TABLE_NAME_LEN` minus the terminator).
pub const TABLE_NAME_MAX: usize = 31;

/// Packets that may wait at a dummy port.
pub const DUMMY_QUEUED: usize = 4096;
/// Packets that dummy ports have sent and nobody has asked for.
pub const DUMMY_SENT_MAX: usize = 1 << 20;

/// Megaflows per worker (Open vSwitch keeps at most 65,536 per PMD thread too). With ops and
/// credits one takes about 1 KB.
pub const MEGAFLOWS_MAX: usize = 65_536;
/// Bytes of a megaflow that is kept. Enough for a flood to 600 ports, or ten learns; what is larger
/// is decided for every packet anew, which costs less than what it does. Without such a limit
/// 65,536 decisions with 4,000 outputs or 900 learns each would take 10 or 40 GB.
pub const MEGAFLOW_LEN_MAX: usize = 16 << 10;
/// Masks per worker of the packets of one port, in one stage, of one Ethernet type: every mask
/// costs a lookup that misses one probe. An attacker who makes masks (Csikor et al. 2019) gets no
/// more, and what others send is not looked up in them.
pub const MEGAFLOW_MASKS_MAX: usize = 64;
/// Packets of a new kind that one port may bring to each worker per second, unless configured
/// otherwise. One costs a worker about 10 us with a pipeline such as Antrea's, with all that it
/// pushes out of the core's caches (measured: `perf/run --case miss-storm`; of 5,000, 10,000 and
/// 20,000 other ports keep 90, 83 and 76 % of their rate, packets that are refused included). So a
/// port that storms takes a twentieth of it. What was not used up in a fifth of a second may come
/// at once. A new connection is of no new kind, unless its 5-tuple chooses what nobody's did
/// before: an endpoint of a Service that nobody uses.
pub const MISSES_PER_SECOND_DEFAULT: u32 = 5_000;
/// Packets for controllers likewise. Agents take some thousands per second in all.
pub const PACKET_INS_PER_SECOND_DEFAULT: u32 = 1000;
/// Flows that its packets may teach likewise. Each takes some 10 us, and makes other decisions be
/// looked at once more.
pub const LEARNS_PER_SECOND_DEFAULT: u32 = 5000;
/// Such rates that may be configured.
pub const RATES: std::ops::RangeInclusive<u32> = 0..=10_000_000;
/// What may come at once is what a rate allows in this part of a second. A port that starts brings
/// all its kinds at once.
pub const BURST_OF_A_SECOND: u32 = 5;
/// How many kinds that were known until something changed count as one that is new: the port did
/// not ask for the change. At once, as many as there may be megaflows: so no single change makes a
/// port lose packets.
pub const RENEWALS_PER_MISS: u32 = 4;
/// The part of a busy worker's time that goes to packets that are refused for being of new kinds:
/// one in so many. To see that no cache knows a packet costs about as much as to forward some that
/// they know, and a port may send such packets as fast as it likes.
pub const REFUSED_SHARE: u64 = 40;
/// Actions that a translation may execute for one token of its port; one that executes more takes
/// more of them.
pub const ACTIONS_PER_MISS: u32 = 256;
/// Milliseconds after which an unused megaflow goes (Open vSwitch: max-idle 10000).
pub const MEGAFLOW_IDLE_MS: u64 = 10_000;

/// Entries of a worker's exact-match cache for IPv4, one per direction and kind of segment of a
/// connection: 64 bytes each, 32 MiB, and 6 MiB of a directory.
pub const EXACT_V4_ENTRIES: usize = if cfg!(any(test, fuzzing)) { 1 << 10 } else { 1 << 19 };
/// Likewise for IPv6: 128 bytes each, 16 MiB, and 1.5 MiB of a directory.
pub const EXACT_V6_ENTRIES: usize = if cfg!(any(test, fuzzing)) { 1 << 10 } else { 1 << 17 };
/// Paths per worker: chains of megaflows that packets of connections take. Many connections share
/// one.
pub const PATHS_MAX: usize = if cfg!(any(test, fuzzing)) { 64 } else { 16_384 };
/// Paths of the same megaflows whose packets leave with different MAC addresses: beyond, each
/// connection has its own, apart. A sender that varies its address, where no rule looks at that,
/// does not take others' paths.
pub const PATH_VARIANTS_MAX: usize = if cfg!(any(test, fuzzing)) { 2 } else { 64 };

/// MPLS labels that a strict port looks through for the bottom of the stack. Segment routing makes
/// stacks of about ten.
pub const STRICT_MPLS_LABELS_MAX: usize = 16;
/// IPv6 extension headers that a strict port lets pass (RFC 8504, 5.3, allows such limits; RFC 8200
/// names six kinds).
pub const STRICT_IP6_EXTENSIONS_MAX: usize = 8;
/// Options of one IPv6 extension header that a strict port lets pass, padding included. (RFC 8504,
/// 5.3, suggests 8 without it.)
pub const STRICT_IP6_OPTIONS_MAX: usize = 32;
/// Options of one neighbour discovery message that a strict port lets pass.
pub const STRICT_ND_OPTIONS_MAX: usize = 32;

/// Connections that are tracked, unless configured otherwise: what a Linux host of 16 GB tracks
/// (`nf_conntrack_max`). Their memory is taken at start.
pub const CONNECTIONS_DEFAULT: usize = 1 << 18;
/// Connections that may be configured: less is no switch's table, and 16 Mi take some GB.
pub const CONNECTIONS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 24;
/// Events of connections that the tracker keeps until they are distributed, a few milliseconds
/// later.
pub const CONNECTION_EVENTS_KEPT: usize = 1 << 14;
/// Events of connections that are distributed at a time.
pub const CONNECTION_EVENTS_BATCH: usize = 1 << 10;
/// Batches of them that a slow subscriber may fall behind before it is told how many events it
/// lost.
pub const CONNECTION_EVENTS_QUEUED: usize = 64;
/// Subscribers to events of connections: agents, a few monitors.
pub const CONNECTION_WATCHERS_MAX: usize = 64;
/// `ct()` actions with a table that one packet may meet one behind the other. (Open vSwitch: 6.
/// Antrea's pipelines have up to 8.)
pub const RECIRCULATIONS_MAX: u32 = 64;
/// Stages that one packet may enter in all, its copies included. A multicast to a thousand Pods
/// with a `ct()` each; a program that forks at every `ct()` gets no further.
pub const STAGES_ENTERED_MAX: u32 = 1024;
/// Datagrams of which fragments wait for others before `ct()`.
pub const FRAGMENTED_MAX: usize = 1024;
/// Likewise, of one port: four that flood leave nothing to others but what they push out.
pub const FRAGMENTED_PER_PORT_MAX: usize = FRAGMENTED_MAX / 4;
/// Fragments of one datagram. The largest takes 119 at an MTU of 576, 45 at 1500.
pub const FRAGMENTS_PER_DATAGRAM_MAX: usize = 128;
/// Mbufs that wait in all: the pool is everybody's. (Open vSwitch holds 1,000 fragments.)
pub const FRAGMENT_MBUFS_MAX: usize = 4096;
/// Likewise, of one port.
pub const FRAGMENT_MBUFS_PER_PORT_MAX: usize = FRAGMENT_MBUFS_MAX / 4;
/// Fragments that were given up and wait for a worker's [`crate::conntrack::Conntrack::maintain`],
/// which comes every millisecond.
pub const FRAGMENTS_GIVEN_UP_MAX: usize = 4096;
/// Milliseconds that a fragment waits for the others of its datagram (Open vSwitch: 15 s).
pub const FRAGMENT_TIMEOUT_MS: u64 = 15_000;
/// Events for agents of Antrea's kind that a slow one may fall behind, of each kind, before it is
/// told how many it lost.
pub const ANTREA_EVENTS_QUEUED: usize = 65_536;
/// Bytes of such events, about, that wait for the slowest of all who read a kind.
pub const ANTREA_EVENTS_BYTES: usize = 16 << 20;
/// Subscribers to such events, and to flow records, each: 64 calls, and the switch's own observer.
pub const ANTREA_WATCHERS_MAX: usize = 65;
/// Packets that wait for an agent's answer, of each category that it has taken over.
pub const ANTREA_TO_ANSWER_MAX: usize = 4096;
/// Packets that wait for others like them, to be told as one log or one denied connection. Beyond,
/// the oldest is told early.
pub const ANTREA_MERGED_MAX: usize = 1 << 14;
/// Connections that wait some milliseconds for what else happens to them, to be told as one record.
/// Beyond, the oldest is told early.
pub const ANTREA_RECORDS_HELD_MAX: usize = 1 << 15;
/// Connections whose Pods, Service and rules are remembered, so that their last record has them
/// though objects have gone. Of others it tells what there is then.
pub const ANTREA_RECORDS_KNOWN_MAX: usize = 1 << 18;
/// Walks through all connections for records at a time.
pub const ANTREA_RECORD_WALKS_MAX: usize = 4;
