//! The saved table of connections: any bytes are restored whole, or not at all. What was restored
//! is written, and restored again, as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;
use std::sync::LazyLock;
use vswitch_conntrack::{Checksum, Config, Connection, Filter, Moment, Restored, Tracker};

/// The clock of a tracker that has just begun, and the machine's.
const NOW: u64 = 5;
const AT: Moment =
    Moment { unix_ms: 1_700_000_000_000, boot: 0x5eed_0000_0000_0000_0000_0000_0000_b007, boot_ms: 3_600_000 };

/// Connections of a table: few, so that some files are of a larger one.
const CONNECTIONS_MAX: usize = 24;

/// Tables that are emptied in between: making one takes longer than all that is done with it.
static TABLES: LazyLock<[Tracker; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Tracker::new(Config { connections_max: CONNECTIONS_MAX })));

/// What an empty table is written as.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| saved(&Tracker::new(Config { connections_max: 1 })));

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // A checksum that is right by chance is none that a fuzzer finds.
    if let Some(mended) = with_checksum(bytes) {
        check(&mended);
    }
});

/// The same words with a checksum that is theirs.
fn with_checksum(bytes: &[u8]) -> Option<Vec<u8>> {
    let (words, _) = bytes.as_chunks::<8>();
    let (_, words) = words.split_last()?;
    let mut checksum = Checksum::default();
    words.iter().for_each(|word| checksum.add(u64::from_le_bytes(*word)));
    Some([words.as_flattened(), &checksum.value().to_le_bytes()].concat())
}

fn check(bytes: &[u8]) {
    let [tracker, other] = &*TABLES;
    match tracker.restore(NOW, &AT, bytes) {
        Ok(restored) => {
            assert!(restored.connections <= CONNECTIONS_MAX as u64, "{restored:?}");
            assert_eq!(shown(tracker).len() as u64, restored.connections, "{restored:?}");
            again(tracker, other, restored);
            empty(tracker);
            empty(other);
        }
        Err(error) => is_empty(tracker, &error.to_string()),
    }
}

/// Nothing is there, nothing is counted, and nothing is written: the table is as good as new.
fn is_empty(tracker: &Tracker, why: &str) {
    assert_eq!(shown(tracker), [], "{why}");
    assert_eq!((tracker.counts().connections, tracker.limits().1.len()), (0, 0), "{why}: counted");
    assert_eq!(tracker.zones_established_after_answer(), [0; 0], "{why}: zones");
    assert!(saved(tracker) == *EMPTY, "{why}: written");
    let after = tracker.restore(NOW, &AT, &EMPTY[..]);
    assert!(matches!(after, Ok(Restored { connections: 0, expected: 0, .. })), "{why}: {after:?}");
}

/// Takes away all that a table has.
fn empty(tracker: &Tracker) {
    tracker.flush(&Filter::default(), NOW);
    for zone in tracker.zones_established_after_answer() {
        tracker.set_established_after_answer(zone, false);
    }
    // What is refused takes what is expected with it.
    assert!(tracker.restore(NOW, &AT, &[][..]).is_err());
    is_empty(tracker, "flushed");
}

/// Written and restored once more, it is the same.
fn again(tracker: &Tracker, other: &Tracker, restored: Restored) {
    let file = saved(tracker);
    let second = other.restore(NOW, &AT, &file[..]).unwrap_or_else(|error| panic!("{error}: {restored:?}"));
    assert_eq!((second.connections, second.expired), (restored.connections, 0), "{restored:?}");
    assert!(second.expected <= restored.expected, "{second:?} of {restored:?}");
    assert_eq!(shown(other), shown(tracker));
    assert_eq!(other.limits().1, tracker.limits().1, "connections of each zone");
    assert_eq!(other.zones_established_after_answer(), tracker.zones_established_after_answer());
    // Each is found by both of its tuples.
    for connection in shown(other) {
        for tuple in [connection.original, connection.reply] {
            let found = other.connection(&tuple, NOW).map(own);
            assert_eq!(found, Some(connection), "by {tuple:?}");
        }
    }
}

fn saved(tracker: &Tracker) -> Vec<u8> {
    let mut file = Vec::new();
    tracker.save(NOW, &AT, &mut file).expect("memory takes all");
    file
}

/// A connection without what is its table's own.
fn own(connection: Connection) -> Connection {
    Connection { id: 0, ..connection }
}

/// All connections, in order.
fn shown(tracker: &Tracker) -> Vec<Connection> {
    let mut all = Vec::new();
    tracker.dump(&Filter::default(), NOW, |connection| {
        all.push(own(*connection));
        ControlFlow::Continue(())
    });
    all.sort_by_cached_key(|connection| format!("{:?}", connection.original));
    all
}
