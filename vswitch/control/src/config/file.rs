//! From a path to bytes to text to values.

use super::parse::Walk;
use super::place::{ConfigKeys, LineIndex};
use super::report::{ConfigErrors, Problem, Report};
use super::value::SwitchConfig;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use vswitch_dataplane::limits::CONFIG_LEN_MAX;
use vswitch_dpdk::lcore;

/// A configuration file that was read: its values, where they stand, and what is wrong with them. A
/// value that was refused is replaced by its default, and a port without a usable type is left out,
/// so that the rest can be checked too.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The values.
    pub config: SwitchConfig,
    pub(super) places: ConfigKeys,
    pub(super) report: Report,
    pub(super) is_whole: bool,
}

/// Parses the text of a configuration file; `file` is its name in messages.
///
/// # Errors
/// Everything that is wrong with it by itself, in the order of the file.
pub fn parse(text: &str, file: &Path) -> Result<SwitchConfig, ConfigErrors> {
    ConfigFile::read(text, file, &lcore::available_cores()).into_config()
}

impl ConfigFile {
    /// Reads a file for a machine where the process may run on `cores`.
    ///
    /// # Errors
    /// When there is no text to parse: no file, not a regular file, not readable, too long, not
    /// UTF-8.
    pub fn load(file: &Path, cores: &[u32]) -> Result<Self, ConfigErrors> {
        let refuse = |position, problem: String, hint: &str| {
            let mut report = Report::new(file);
            report.push(Problem::error(position, "", problem, hint));
            report
        };
        let (bytes, mode) = read_bytes(file).map_err(|(problem, hint)| refuse(None, problem, hint))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let at = error.valid_up_to();
            let position = LineIndex::new(&bytes).position(at);
            let problem = format!("byte 0x{:02x} (offset {at}) is not UTF-8", bytes[at]);
            refuse(Some(position), problem, "save the file as UTF-8")
        })?;
        let mut read = Self::read(text, file, cores);
        if mode & 0o002 != 0 {
            let problem = format!("anyone may change this file (mode {:04o})", mode & 0o7777);
            read.report.push(Problem::error(None, "", problem, "chmod o-w it"));
        }
        Ok(read)
    }

    /// Reads a text; never fails, what is wrong is in [`Self::report`].
    #[must_use]
    pub fn read(text: &str, file: &Path, cores: &[u32]) -> Self {
        Walk::new(text, file, cores).run(text)
    }

    /// What is wrong so far.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The values, if nothing is wrong.
    ///
    /// # Errors
    /// The report, if it has errors.
    pub fn into_config(self) -> Result<SwitchConfig, ConfigErrors> {
        if self.report.has_errors() { Err(self.report) } else { Ok(self.config) }
    }
}

/// The bytes of a file, and its mode.
fn read_bytes(file: &Path) -> Result<(Vec<u8>, u32), (String, &'static str)> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "name an existing file with --config",
            io::ErrorKind::PermissionDenied => "make it readable for the user that runs vswitchd",
            _ => "name a readable file with --config",
        };
        (format!("cannot be read: {error}"), hint)
    };
    // Before opening: opening a FIFO would wait for a writer.
    let metadata = std::fs::metadata(file).map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
        return Err((what.to_owned(), "name a file with --config"));
    }
    let opened = std::fs::File::open(file).map_err(failed)?;
    let mut bytes = Vec::new();
    let too_long = |len: u64| {
        (format!("has {len} bytes or more, the limit is {CONFIG_LEN_MAX}"), "is this really the configuration file?")
    };
    if metadata.len() > CONFIG_LEN_MAX {
        return Err(too_long(metadata.len()));
    }
    let len = opened.take(CONFIG_LEN_MAX + 1).read_to_end(&mut bytes).map_err(failed)? as u64;
    if len > CONFIG_LEN_MAX { Err(too_long(len)) } else { Ok((bytes, metadata.permissions().mode())) }
}
