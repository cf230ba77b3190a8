//! nftables' table `inet vswitch`, by nft(8).
//!
//! The table is written as a whole, in one transaction, and has a comment of the agent's. It is
//! compared with what nft(8) listed after it was written. So the agent need not know how nft
//! prints a rule.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

/// How the table is called.
pub(super) const TABLE: &str = "table inet vswitch";
/// What tells that the table is the agent's.
const COMMENT: &str = "comment \"vswitch-agent --host\"";
/// What nft(8) says where there is no such table.
const ABSENT: &str = "No such file or directory";

/// Why nft(8) did not do it.
#[derive(Debug)]
pub(super) enum NftError {
    /// There is no nft(8).
    Missing,
    /// The agent lacks a capability.
    Permission(String),
    /// The table is somebody else's.
    Foreign,
    /// It refused.
    Refused(String),
}

/// What the agent knows of the table.
#[derive(Debug, Default)]
pub(super) struct Nft {
    /// What was written last, and how nft(8) listed it.
    written: Option<(String, String)>,
}

/// What a look at the table came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// It is as it should be.
    Right,
    /// It was written for the first time, or with other rules.
    Written,
    /// It was not as it had been written, and has been written again.
    Repaired,
}

impl Nft {
    /// Has the table hold these rules; none: there is no such table.
    pub(super) fn look(&mut self, rules: &str) -> Result<Looked, NftError> {
        let there = list()?;
        let is_known = self.written.as_ref().is_some_and(|(written, _)| written == rules);
        if is_known && self.written.as_ref().map(|(_, listed)| listed.as_str()) == there.as_deref() {
            return Ok(Looked::Right);
        }
        if there.as_ref().is_some_and(|there| !there.contains(COMMENT)) {
            return Err(NftError::Foreign);
        }
        if rules.is_empty() {
            self.written = None;
            return there.map_or(Ok(Looked::Right), |_| remove().map(|()| Looked::Written));
        }
        run(&["-f", "-"], &format!("{TABLE}\ndelete {TABLE}\n{TABLE} {{\n  {COMMENT}\n{rules}}}\n"))?;
        let listed = list()?.unwrap_or_default();
        self.written = Some((rules.to_owned(), listed));
        Ok(if is_known { Looked::Repaired } else { Looked::Written })
    }
}

/// Removes the table, if it is there and the agent's.
pub(super) fn clear() -> Result<bool, NftError> {
    match list()? {
        None => Ok(false),
        Some(there) if !there.contains(COMMENT) => Err(NftError::Foreign),
        Some(_) => remove().map(|()| true),
    }
}

fn remove() -> Result<(), NftError> {
    run(&["-f", "-"], &format!("delete {TABLE}\n")).map(drop)
}

/// The table as it is, without counters; None: there is none.
fn list() -> Result<Option<String>, NftError> {
    match run(&["-s", "list", "table", "inet", "vswitch"], "") {
        Ok(listed) => Ok(Some(listed)),
        Err(NftError::Refused(reason)) if reason.contains(ABSENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn run(words: &[&str], input: &str) -> Result<String, NftError> {
    let output = run_io(words, input).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NftError::Missing,
        io::ErrorKind::PermissionDenied => NftError::Permission(error.to_string()),
        _ => NftError::Refused(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed without a word").to_owned();
    Err(if said.contains("Operation not permitted") { NftError::Permission(reason) } else { NftError::Refused(reason) })
}

fn run_io(words: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new("nft");
    command.args(words).env("LC_ALL", "C");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ended early tells why by its output.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}
