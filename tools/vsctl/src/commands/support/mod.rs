//! `support-bundle`: what others need to understand a fault, in one file.
//!
//! **Design**: a list of verbs, each of which becomes one file; files of the machine; and the last
//! lines of the log. A verb that fails becomes a file, too: what it said. Everything passes
//! [`redact`] on its way. Packets are in none of these answers.
//!
//! **Limits**: a file has at most [`FILE_LEN_MAX`] bytes, of the log at most [`LOG_LINES`] lines.
//! `manifest.json` says which files were cut, and how many texts were redacted.

mod archive;
mod redact;

use crate::cli::{Cli, SupportBundle, parse};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report, print};
use archive::Archive;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use vswitch_proto::v1;

/// Bytes of one file of the archive.
const FILE_LEN_MAX: usize = 32 << 20;

/// Lines of the log.
const LOG_LINES: &str = "5000";

/// Verbs that are asked once: the name of the file, and the words.
const VERBS: &[(&str, &[&str])] = &[
    ("version.json", &["--json", "version"]),
    ("doctor.txt", &["doctor", "--all"]),
    ("capabilities.json", &["--json", "capabilities"]),
    ("health.txt", &["health-show"]),
    ("bridges.txt", &["show"]),
    ("bridges.json", &["--json", "show"]),
    ("workers.txt", &["worker-show"]),
    ("workers-perf.txt", &["worker-perf-show"]),
    ("rxqs.txt", &["worker-rxq-show"]),
    ("mbufs.txt", &["mempool-show"]),
    ("limits.txt", &["limits"]),
    ("log-state.txt", &["log-show"]),
    ("megaflows.txt", &["dump-megaflows"]),
    ("connections.txt", &["ct-counters-show"]),
    ("connections-by-protocol.txt", &["ct-stats-show", "verbose"]),
    ("connections-limits.txt", &["ct-get-limits"]),
    ("routes.txt", &["route-show"]),
    ("neighbours.txt", &["tnl-neigh-show"]),
    ("tunnels.txt", &["tnl-ports-show"]),
    ("antrea-state.txt", &["antrea", "status"]),
    ("antrea-pods.txt", &["antrea", "pods"]),
    ("antrea-services.txt", &["antrea", "services"]),
    ("antrea-policies.txt", &["antrea", "policies"]),
];

/// Verbs that are asked of each bridge. The last word is the bridge's name.
const BRIDGE_VERBS: &[(&str, &[&str])] = &[
    ("ports.txt", &["dump-ports"]),
    ("port-capabilities.txt", &["port-caps"]),
    ("tables.txt", &["dump-tables"]),
    ("flows.txt", &["dump-flows"]),
    ("groups.txt", &["dump-groups"]),
    ("group-stats.txt", &["dump-group-stats"]),
    ("meters.txt", &["meter-stats"]),
    ("controllers.txt", &["dump-controllers"]),
    ("mac-table.txt", &["fdb-show"]),
];

/// Files of the machine.
const MACHINE: &[&str] = &[
    "/etc/os-release",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/interrupts",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/version",
    "/sys/devices/system/cpu/isolated",
];

/// Collects everything, and writes it.
pub(super) async fn collect(client: &Client, args: &SupportBundle, cli: &Cli) -> Answer {
    let path = args.output.clone().unwrap_or_else(default_name);
    let mut archive = Archive::create(&path).map_err(|error| failed(&path, error))?;
    let mut manifest = Manifest::default();
    let mut files: Vec<(String, String)> = Vec::new();
    for (name, words) in VERBS {
        files.push(((*name).to_owned(), said(client, cli, words).await));
    }
    for bridge in bridges(client).await {
        for (name, words) in BRIDGE_VERBS {
            let words: Vec<&str> = words.iter().copied().chain([bridge.as_str()]).collect();
            files.push((format!("bridge-{bridge}/{name}"), said(client, cli, &words).await));
        }
    }
    let config = args.config.as_deref().unwrap_or_else(|| Path::new("/etc/vswitch/vswitchd.toml"));
    files.push(("vswitchd.toml".to_owned(), read(config)));
    files.extend(MACHINE.iter().map(|file| (format!("machine{file}"), read(Path::new(file)))));
    files.push(("log.txt".to_owned(), log(args.log.as_deref())));
    for (name, text) in files {
        let text = manifest.add(&name, text);
        archive.add(&name, text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    let told = serde_json::to_vec_pretty(&manifest.json()).unwrap_or_default();
    archive.add("manifest.json", &told).map_err(|error| failed(&path, error))?;
    archive.finish().map_err(|error| failed(&path, error))?;
    Ok(Box::new(Written { path, files: manifest.files.len() + 1, redacted: manifest.redacted }))
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::Input { name: path.display().to_string(), error }
}

/// A name that no other bundle of the machine has.
fn default_name() -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    format!("vswitch-support-{}.tar.gz", now.as_secs()).into()
}

/// Names of bridges. None if the switch cannot be asked: its answers say that.
async fn bridges(client: &Client) -> Vec<String> {
    let Ok(mut service) = client.bridges().await else { return Vec::new() };
    let Ok(answer) = service.list_bridges(v1::ListBridgesRequest {}).await else { return Vec::new() };
    answer.into_inner().bridges.into_iter().filter_map(|bridge| Some(bridge.config?.name)).collect()
}

/// What a verb says, or why it cannot.
async fn said(client: &Client, cli: &Cli, words: &[&str]) -> String {
    let verb = match parse(["vsctl"].iter().chain(words).map(OsString::from)) {
        Ok(verb) => Cli { timeout: cli.timeout, ..verb },
        Err(error) => return format!("vsctl {}: {error}\n", words.join(" ")),
    };
    let mut out = Vec::new();
    let asked = async {
        let mut unused = std::io::sink();
        let reply = Box::pin(super::ask(client, &verb, &mut unused)).await?;
        match reply.report().await? {
            Some(report) => Ok(print(&*report, verb.json, &mut out)?),
            None => Ok(()),
        }
    };
    // Long enough for those that read counters twice.
    let asked: Result<(), Error> = match tokio::time::timeout(cli.timeout + Duration::from_secs(2), asked).await {
        Ok(result) => result,
        Err(_) => Err(client.unreachable("no answer")),
    };
    let mut text = String::from_utf8_lossy(&out).into_owned();
    if let Err(error) = asked {
        let _ = writeln!(text, "vsctl {}: {error}", words.join(" "));
    }
    text
}

/// A file, or why it cannot be read.
fn read(path: &Path) -> String {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("{}: {error}\n", path.display()),
    }
}

/// The last lines of the log: of a file, or of systemd's journal.
fn log(file: Option<&Path>) -> String {
    if let Some(file) = file {
        return read(file);
    }
    let journal = ["-u", "vswitchd", "-u", "vswitch-agent", "-n", LOG_LINES, "--no-pager", "-o", "short-iso-precise"];
    match Command::new("journalctl").args(journal).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => format!("journalctl: {}\n", String::from_utf8_lossy(&output.stderr)),
        Err(error) => format!("journalctl: {error}; --log FILE names a file of the log\n"),
    }
}

/// What is in the archive.
#[derive(Default)]
struct Manifest {
    files: Vec<Value>,
    redacted: usize,
}

impl Manifest {
    /// Notes a file; its text as it may leave the machine.
    fn add(&mut self, name: &str, text: String) -> String {
        let (mut text, redacted) = redact::redact(text);
        let whole = text.len();
        if whole > FILE_LEN_MAX {
            // The end of a log tells more than its beginning; others are sorted anyway.
            let from = text.ceil_char_boundary(whole - FILE_LEN_MAX);
            text.drain(..from);
        }
        self.redacted += redacted;
        self.files.push(json!({
            "name": name,
            "bytes": text.len(),
            "cut_bytes": whole - text.len(),
            "redacted": redacted,
        }));
        text
    }

    fn json(&self) -> Value {
        json!({ "vsctl": env!("CARGO_PKG_VERSION"), "redacted": self.redacted, "files": self.files })
    }
}

/// `support-bundle`.
struct Written {
    path: PathBuf,
    files: usize,
    redacted: usize,
}

impl Report for Written {
    fn text(&self) -> String {
        let Self { path, files, redacted } = self;
        format!("{}: {files} files, {redacted} texts redacted; look through them before you send it\n", path.display())
    }

    fn json(&self) -> Value {
        json!({ "path": self.path, "files": self.files, "redacted": self.redacted })
    }
}
