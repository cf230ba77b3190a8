//! A `vswitchd` of its own for a test.

use super::command::{self, output, unique, wait_for};
use super::netns::Netns;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{PipeWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

/// Long enough for EAL on a machine that compiles something at the same time.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Lines of the log that a failed test shows.
const LOG_LINES: usize = 80;

/// Configuration of a switch that shares few cores with guests or with other switches: its worker
/// sleeps when it is idle.
pub(crate) const IDLE_SLEEP: &str = "[worker]\nidle_sleep_us = 200\n\n";

/// A running `vswitchd` with its own directory, control socket and EAL file prefix, without
/// hugepages. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Switch {
    child: Child,
    dir: tempfile::TempDir,
    arguments: Vec<String>,
    netns: Option<String>,
}

impl Switch {
    /// Starts a switch and waits until its control socket answers. `config` is TOML for everything
    /// but `[control]`, of which it may have further keys at its beginning. The sections `[dpdk]`
    /// (256 MiB of ordinary pages) and `[paths]` (the temporary directory) are the harness's unless
    /// `config` has them. `@DIR@` in it stands for the switch's own directory, which goes with it.
    ///
    /// # Panics
    /// When it does not start; the message has its log.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, &[])
    }

    /// Likewise, with more arguments on its command line.
    ///
    /// # Panics
    /// When it does not start; the message has its log.
    pub(crate) fn start_with(config: &str, arguments: &[&str]) -> Self {
        Self::launch(config, arguments, None, None, None).ready()
    }

    /// Likewise. It writes its log into a pipe, which somebody reads or not.
    ///
    /// # Panics
    /// When it does not start.
    pub(crate) fn start_logging_to(log: PipeWriter, config: &str, arguments: &[&str]) -> Self {
        Self::launch(config, arguments, None, Some(log), None).ready()
    }

    /// Likewise, in a network namespace: the interfaces of its ports are there.
    ///
    /// # Panics
    /// When it does not start; the message has its log.
    pub(crate) fn start_in(ns: &Netns, config: &str) -> Self {
        Self::launch(config, &[], Some(ns.name().to_owned()), None, None).ready()
    }

    /// Likewise, with a shared library in front of those of DPDK (`LD_PRELOAD`).
    ///
    /// # Panics
    /// When it does not start; the message has its log.
    #[allow(dead_code)] // not every test needs it
    pub(crate) fn start_behind(library: &Path, config: &str) -> Self {
        Self::launch(config, &[], None, None, Some(library)).ready()
    }

    /// Starts a switch, and waits for nothing.
    ///
    /// # Panics
    /// When there is no such program.
    #[allow(dead_code)] // not every test needs it
    pub(crate) fn start_unready(config: &str) -> Self {
        Self::launch(config, &[], None, None, None)
    }

    /// When it is healthy.
    fn ready(mut self) -> Self {
        self.wait_until_healthy();
        self
    }

    fn launch(
        config: &str,
        arguments: &[&str],
        netns: Option<String>,
        log: Option<PipeWriter>,
        preload: Option<&Path>,
    ) -> Self {
        let dir = tempfile::Builder::new().prefix("vswitch-test-").tempdir().expect("a temporary directory");
        let (control, config) = config.split_at(config.find('[').unwrap_or(config.len()));
        let mut text = format!("[control]\nsocket = {:?}\n{control}\n", dir.path().join("vswitch.sock"));
        if !config.lines().any(|line| line.trim() == "[dpdk]") {
            let prefix = format!("vt{}-{}", std::process::id(), unique());
            text += &format!(
                "[dpdk]\nmemory_mb = 256\nhugepages = false\nfile_prefix = {prefix:?}\nallow_drivers = [\"net_af_packet\"]\n\n"
            );
        }
        if !config.lines().any(|line| line.trim() == "[paths]") {
            let temporary = [std::env::temp_dir()];
            text += &format!("[paths]\nsockets = {temporary:?}\nmemif = {temporary:?}\ncaptures = {temporary:?}\n\n");
        }
        text += &config.replace("@DIR@", &dir.path().to_string_lossy());
        fs::write(dir.path().join("vswitchd.toml"), text).expect("the configuration is written");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let child = spawn(dir.path(), &arguments, netns.as_deref(), log, preload);
        Self { child, dir, arguments, netns }
    }

    /// Starts it again after [`Switch::kill`] or [`Switch::terminate`], with the same
    /// configuration.
    pub(crate) fn start_again(&mut self) {
        assert!(self.exited().is_some(), "vswitchd {} still runs", self.pid());
        self.child = spawn(self.dir.path(), &self.arguments, self.netns.as_deref(), None, None);
        self.wait_until_healthy();
    }

    fn wait_until_healthy(&mut self) {
        let start = std::time::Instant::now();
        loop {
            if let Some(status) = self.exited() {
                panic!("vswitchd ended at start ({status}); its log:\n{}", self.log());
            }
            let health = self.vsctl(&["health"]);
            if health.status.success() {
                return;
            }
            assert!(
                start.elapsed() < START_LIMIT,
                "vswitchd is not healthy within {START_LIMIT:?}: {}\nlog:\n{}",
                command::describe(&health),
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The agent that was built with it.
    pub(crate) fn agent() -> PathBuf {
        Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vswitch-agent")
    }

    /// Has an agent tell it what the manifests in a directory say of the Node `node`, once.
    pub(crate) fn told_by(&self, manifests: &Path) {
        let (agent, socket) = (Self::agent(), self.socket());
        let (agent, manifests, socket) = (path(&agent), path(manifests), path(&socket));
        command::run(&[agent, "--no-state", "--dir", manifests, "--node", "node", "--socket", socket, "--once"]);
    }

    /// Directory of its files.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("vswitch.sock")
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it logged so far, standard output included.
    pub(crate) fn log(&self) -> String {
        let text = fs::read(self.dir.path().join("vswitchd.log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Its exit status if it has ended.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child can be waited for")
    }

    /// Runs `vsctl` on it; it may fail.
    ///
    /// # Panics
    /// When there is no `vsctl` next to `vswitchd`.
    pub(crate) fn vsctl(&self, args: &[&str]) -> Output {
        let vsctl = Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vsctl");
        assert!(vsctl.exists(), "{} does not exist: run `cargo build --workspace` first", vsctl.display());
        let socket = self.socket();
        output(&[&[path(&vsctl), "--socket", path(&socket)], args].concat())
    }

    /// Lets all users use its socket, and gives what runs `vsctl` as one of them.
    ///
    /// # Panics
    /// When the files of the harness cannot be made readable.
    pub(crate) fn open_to_all(&self) -> impl Fn(u32, &[&str]) -> Output + use<> {
        let vsctl = self.dir.path().join("vsctl");
        fs::copy(Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vsctl"), &vsctl).expect("vsctl is built");
        for (file, mode) in [(self.dir.path(), 0o755), (&vsctl, 0o755), (&self.socket(), 0o666)] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("our own file");
        }
        let socket = self.socket();
        move |uid, args| {
            let mut command = Command::new(&vsctl);
            command.arg("--socket").arg(&socket).args(args).uid(uid).gid(uid).current_dir("/");
            command.stdin(Stdio::null()).output().expect("vsctl runs")
        }
    }

    /// Runs `vsctl` on it with this on its standard input; it may fail.
    ///
    /// # Panics
    /// When there is no `vsctl` next to `vswitchd`.
    pub(crate) fn vsctl_with(&self, args: &[&str], input: Option<&str>) -> Output {
        let Some(input) = input else { return self.vsctl(args) };
        let vsctl = Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vsctl");
        let mut command = Command::new(&vsctl);
        command.arg("--socket").arg(self.socket()).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run `cargo build --workspace` first", vsctl.display()));
        // It may stop reading at a line that it does not like; its answer says so.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        child.wait_with_output().expect("a child that ends")
    }

    /// `vsctl` on it, to be started.
    ///
    /// # Panics
    /// When there is no `vsctl` next to `vswitchd`.
    #[allow(dead_code)] // not every test needs it
    pub(crate) fn vsctl_command(&self, args: &[&str]) -> Command {
        let vsctl = Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vsctl");
        assert!(vsctl.exists(), "{} does not exist: run `cargo build --workspace` first", vsctl.display());
        let mut command = Command::new(vsctl);
        command.arg("--socket").arg(self.socket()).args(args);
        command
    }

    /// Starts `vsctl` with its standard output piped, for what goes on while other things happen.
    ///
    /// # Panics
    /// When there is no `vsctl` next to `vswitchd`.
    pub(crate) fn vsctl_spawn(&self, args: &[&str]) -> Child {
        let vsctl = Path::new(env!("CARGO_BIN_EXE_vswitchd")).with_file_name("vsctl");
        let mut command = Command::new(&vsctl);
        command.arg("--socket").arg(self.socket()).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; run `cargo build --workspace` first", vsctl.display()))
    }

    /// Runs `vsctl` and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub(crate) fn vsctl_ok(&self, args: &[&str]) -> String {
        let output = self.vsctl(args);
        assert!(output.status.success(), "`vsctl {}` failed: {}", args.join(" "), command::describe(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `vsctl --json` and returns what it printed, as a value.
    ///
    /// # Panics
    /// When it fails or prints no JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.vsctl_ok(&[&["--json"], args].concat());
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("`vsctl --json {}` printed no JSON ({error}): {text}", args.join(" ")))
    }

    /// A port of a bridge as `dump-ports` shows it.
    ///
    /// # Panics
    /// When there is no such port.
    pub(crate) fn port(&self, bridge: &str, name: &str) -> Value {
        let ports = self.json(&["dump-ports", bridge]);
        let found = ports.as_array().and_then(|ports| ports.iter().find(|port| port["name"] == name));
        found.unwrap_or_else(|| panic!("bridge {bridge} has no port {name}: {ports:#}")).clone()
    }

    /// Mbufs that somebody holds now.
    pub(crate) fn mbufs_in_use(&self) -> u64 {
        let pool = self.json(&["mempool-show"]);
        command::number(pool.get(0).unwrap_or(&pool), "in_use")
    }

    /// Kills it with SIGKILL and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our own child can be killed");
        self.child.wait().expect("our own child can be waited for");
    }

    /// Asks it to end (SIGTERM) and returns how it did.
    ///
    /// # Panics
    /// When it does not end within 10 s.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        command::run(&["kill", "-TERM", &self.pid().to_string()]);
        wait_for("vswitchd ends after SIGTERM", STOP_LIMIT, || self.exited().is_some());
        self.exited().expect("it has ended")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if self.exited().is_none() {
            output(&["kill", "-TERM", &self.pid().to_string()]);
            let start = std::time::Instant::now();
            while self.exited().is_none() && start.elapsed() < STOP_LIMIT {
                std::thread::sleep(Duration::from_millis(20));
            }
            if self.exited().is_none() {
                let _ = self.child.kill();
                let _ = self.child.wait();
                // A panic during a panic would abort and hide the first.
                assert!(std::thread::panicking(), "vswitchd did not end within {STOP_LIMIT:?} after SIGTERM");
            }
        }
        if std::thread::panicking() {
            let log = self.log();
            let skip = log.lines().count().saturating_sub(LOG_LINES);
            let tail: Vec<&str> = log.lines().skip(skip).collect();
            #[allow(clippy::print_stderr)] // captured and shown by the test runner
            {
                eprintln!("--- log of vswitchd {} (last {} lines)\n{}\n---", self.pid(), tail.len(), tail.join("\n"));
            }
        }
    }
}

fn spawn(
    dir: &Path,
    arguments: &[String],
    netns: Option<&str>,
    pipe: Option<PipeWriter>,
    preload: Option<&Path>,
) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("vswitchd.log")).expect("the log can be written");
    let vswitchd = env!("CARGO_BIN_EXE_vswitchd");
    // `ip netns exec` becomes the program: its process id is the child's.
    let mut command = Command::new(if netns.is_some() { "ip" } else { vswitchd });
    if let Some(netns) = netns {
        command.args(["netns", "exec", netns, vswitchd]);
    }
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    command
        .arg("--config")
        .arg(dir.join("vswitchd.toml"))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(pipe.map_or_else(|| log.try_clone().expect("a file can be cloned").into(), Stdio::from))
        .stdout(log)
        .spawn()
        .expect("vswitchd can be started")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary and target directories have UTF-8 names")
}
