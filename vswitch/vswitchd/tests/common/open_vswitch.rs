//! A private Open vSwitch: a database and a daemon of its own in a directory of its own. The
//! machine's own service is left alone.

use super::netns::Netns;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Debian's binary without DPDK.
const VSWITCHD: &str = "/usr/lib/openvswitch-switch/ovs-vswitchd";

/// A running Open vSwitch 3.1. Dropping it ends its processes.
#[derive(Debug)]
pub(crate) struct OpenVswitch {
    vswitchd: Option<Child>,
    database: Option<Child>,
    /// The namespace that its daemon runs in; none: the host's.
    inside: Option<String>,
    // Last: the directory outlives the processes.
    dir: tempfile::TempDir,
}

impl OpenVswitch {
    /// Starts it without bridges, with further arguments for `ovs-vswitchd`. Its ports see the
    /// devices of the namespace, and its routes are that namespace's.
    ///
    /// # Panics
    /// When it does not start: Debian's `openvswitch-switch` is missing (tools/setup installs it).
    pub(crate) fn start(inside: Option<&Netns>, arguments: &[&str]) -> Self {
        assert!(Path::new(VSWITCHD).exists(), "{VSWITCHD} is missing: install openvswitch-switch (tools/setup does)");
        let dir = tempfile::Builder::new().prefix("vswitch-ovs-").tempdir().expect("a temporary directory");
        let inside = inside.map(|ns| ns.name().to_owned());
        let mut ovs = Self { vswitchd: None, database: None, inside, dir };
        let (socket, config, control) = (ovs.path("db.sock"), ovs.path("conf.db"), ovs.control());
        ovs.run("ovsdb-tool", &["create", text(&config), SCHEMA], None).expect("a database");
        let remote = format!("--remote=punix:{}", text(&socket));
        ovs.database = Some(ovs.spawn(&["ovsdb-server", "-vconsole:off", &remote, text(&config)]));
        wait_for_socket(&socket);
        ovs.vsctl(&["--no-wait", "init"]);
        // Two tags are read, as ours are; the default is one.
        ovs.vsctl(&["--no-wait", "set", "Open_vSwitch", ".", "other_config:vlan-limit=2"]);
        let (database, unixctl) = (format!("unix:{}", text(&socket)), format!("--unixctl={}", text(&control)));
        let words = [&[VSWITCHD, "--disable-system", "-vconsole:off", &unixctl], arguments, &[&database]].concat();
        ovs.vswitchd = Some(ovs.spawn(&words));
        wait_for_socket(&control);
        ovs
    }

    /// A file in its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The daemon's control socket.
    pub(crate) fn control(&self) -> PathBuf {
        self.path("vswitchd.ctl")
    }

    /// Whether the daemon has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !self.vswitchd.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Runs `ovs-vsctl`.
    ///
    /// # Panics
    /// When it fails.
    pub(crate) fn vsctl(&self, arguments: &[&str]) {
        self.try_vsctl(arguments).unwrap_or_else(|error| panic!("ovs-vsctl {arguments:?}: {error}"));
    }

    /// Runs `ovs-vsctl`: what it printed, or what it says when it fails.
    pub(crate) fn try_vsctl(&self, arguments: &[&str]) -> Result<String, String> {
        let database = format!("--db=unix:{}", text(&self.path("db.sock")));
        self.run("ovs-vsctl", &[&[database.as_str(), "--timeout=30"], arguments].concat(), None)
    }

    /// Runs `ovs-appctl` on the daemon and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub(crate) fn appctl(&self, arguments: &[&str]) -> String {
        let control = self.control();
        let words = [&["--timeout=30", "-t", text(&control)], arguments].concat();
        self.run("ovs-appctl", &words, None).unwrap_or_else(|error| panic!("ovs-appctl {arguments:?}: {error}"))
    }

    /// Runs a program of Open vSwitch that ends; what it says when it fails is the error.
    ///
    /// # Panics
    /// When it cannot be started.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
        let mut child = self
            .command(program)
            .args(arguments)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            // It may stop reading at a line that it does not like; its answer says so.
            let _ = stdin.write_all(input.as_bytes());
        }
        let Output { status, stdout, stderr } = child.wait_with_output().expect("a child that ends");
        if status.success() {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&stderr).trim().to_owned())
        }
    }

    /// Starts a daemon that dies with this process, however it ends.
    fn spawn(&self, argv: &[&str]) -> Child {
        let mut command = match &self.inside {
            Some(ns) => {
                let mut command = self.command("ip");
                command.args(["netns", "exec", ns, "setpriv"]);
                command
            }
            None => self.command("setpriv"),
        };
        command
            .args(["--pdeathsig", "KILL"])
            .args(argv)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {argv:?}: {error}"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.dir.path());
        }
        command.current_dir(self.dir.path());
        command
    }
}

impl Drop for OpenVswitch {
    fn drop(&mut self) {
        for child in [&mut self.vswitchd, &mut self.database].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait_for_socket(path: &Path) {
    let start = Instant::now();
    while std::os::unix::net::UnixStream::connect(path).is_err() {
        assert!(start.elapsed() < START_LIMIT, "{} does not answer within {START_LIMIT:?}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have UTF-8 names")
}
