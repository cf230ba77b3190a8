//! The configuration file: every problem has its place in the text, a text means the same each time
//! it is read, and what is accepted is within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use vswitch_control::config::{ConfigFile, PROBLEMS_MAX, Position};

/// Cores of the machine that the file is read for.
const CORES: [u32; 2] = [0, 1];

fuzz_target!(|text: &str| {
    let file = read(text);
    let report = file.report();
    assert!(report.problems().len() <= PROBLEMS_MAX, "{} problems", report.problems().len());
    let positions: Vec<Position> = report.problems().iter().filter_map(|problem| problem.position).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    for position in positions {
        assert!(is_inside(text, position), "{position} is outside of the text: {report}");
    }
    for (_, line) in report.lines() {
        assert!(line.starts_with("f:") && !line.contains(['\n', '\0']), "{line:?}");
    }
    let again = read(text);
    assert_eq!((again.report(), &again.config), (report, &file.config), "read once more");
    let Ok(config) = file.into_config() else { return };
    for (bridge, ports) in &config.bridges {
        assert_eq!(bridge.errors(), [], "accepted {bridge:?}");
        for port in ports {
            assert_eq!(port.errors(), [], "accepted {port:?}");
        }
    }
    // What says nothing changes nothing.
    for same in [format!("# a comment\n{}", text.trim_start_matches('\u{feff}')), format!("{text}\n# a comment")] {
        assert_eq!(read(&same).into_config().as_ref(), Ok(&config), "{same:?}");
    }
});

fn read(text: &str) -> ConfigFile {
    ConfigFile::read(text, Path::new("f"), &CORES)
}

/// Whether a position is one of a character, or of the end of a line.
fn is_inside(text: &str, position: Position) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line = position.line.checked_sub(1).and_then(|before| text.split('\n').nth(before));
    line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&position.column))
}
