//! Anything in: a report out, never a panic.

use super::super::place::LineIndex;
use super::super::{ConfigFile, Environment, PROBLEMS_MAX};
use super::{EXAMPLE, read};
use proptest::prelude::*;
use std::path::Path;

/// Pieces that mean something to the parser.
const PIECES: [&str; 24] = [
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\"",
    "'",
    "'''",
    "\n",
    "\r\n",
    "#",
    "0x",
    "-",
    "nan",
    "true",
    "\0",
    "\u{feff}",
    "[[bridge]]\n",
    "[[bridge.port]]\n",
    "type = 'patch'\n",
];

/// What must hold for every text.
fn check(text: &str) -> Result<(), TestCaseError> {
    let mut file = read(text);
    let nowhere = Environment { root: "/nonexistent".into(), cores: vec![0, 1], has_dpdk: true };
    file.check(&nowhere);
    let lines: Vec<_> = file.report().lines().map(|(_, line)| line).collect();
    prop_assert!(lines.len() <= PROBLEMS_MAX + 1);
    prop_assert!(lines.iter().all(|line| line.starts_with("f:") && !line.contains(['\n', '\0'])), "{lines:?}");
    let last = LineIndex::new(text.as_bytes()).position(text.len());
    let positions: Vec<_> = file.report().problems().iter().filter_map(|problem| problem.position).collect();
    prop_assert!(positions.is_sorted(), "{positions:?}");
    prop_assert!(positions.iter().all(|position| position.line <= last.line), "{positions:?} beyond {last}");
    if let Ok(config) = file.into_config() {
        for (bridge, ports) in &config.bridges {
            prop_assert!(bridge.errors().is_empty(), "accepted {bridge:?}");
            for port in ports {
                prop_assert!(port.errors().is_empty(), "accepted {port:?}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        check(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn random_pieces(picks in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        check(&picks.into_iter().map(|pick| PIECES[pick]).collect::<String>())?;
    }

    #[test]
    fn mutations_of_the_example(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..20_usize, 0..PIECES.len() + 20, any::<u8>()), 1..6),
    ) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for (at, removed, piece, byte) in edits {
            let at = at.index(bytes.len());
            let end = (at + removed).min(bytes.len());
            let inserted = PIECES.get(piece).map_or(vec![byte], |piece| piece.as_bytes().to_vec());
            bytes.splice(at..end, inserted);
        }
        check(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn files_of_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &bytes).expect("written");
        let read = ConfigFile::load(file.path(), &[0, 1]);
        prop_assert_eq!(read.is_ok(), std::str::from_utf8(&bytes).is_ok());
        if let Err(report) = read {
            prop_assert!(report.has_errors());
        }
    }
}

#[test]
fn every_prefix_of_the_example_is_survived() {
    for (end, _) in EXAMPLE.char_indices() {
        check(&EXAMPLE[..end]).unwrap_or_else(|error| panic!("the first {end} bytes: {error}"));
    }
    let _ = ConfigFile::read(EXAMPLE, Path::new(""), &[]);
}
