//! Whole files in, values and reports out.

mod bad;
mod fuzz;
mod good;
mod hostile;
mod listeners;
mod machine;
mod observe;
mod underlay;
mod written;

use super::{ConfigFile, SwitchConfig};
use std::path::Path;

const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../vswitchd.example.toml"));

/// Reads a text for a machine with two cores; the file is called `f`.
fn read(text: &str) -> ConfigFile {
    ConfigFile::read(text, Path::new("f"), &[0, 1])
}

/// The lines of the report about a text.
fn report(text: &str) -> Vec<String> {
    read(text).report().lines().map(|(_, line)| line).collect()
}

/// The values of a text that must be good.
fn good(text: &str) -> SwitchConfig {
    read(text).into_config().unwrap_or_else(|report| panic!("{text}\n{report}"))
}

/// Reports differ in these lines.
#[track_caller]
fn expect(text: &str, expected: &[&str]) {
    assert_eq!(report(text), expected, "of this text:\n{text}");
}
