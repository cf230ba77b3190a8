//! The service manager's protocol, `sd_notify(3)`: one datagram per message on a unix socket.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Time that a message may wait for room in the manager's queue.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells the service manager how the switch is. Without a service manager it tells nobody.
#[derive(Debug)]
pub(super) struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// From `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`. A socket that cannot be used is
    /// logged: the switch is not worth less because nobody watches it.
    pub(super) fn from_environment() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let socket = variable("NOTIFY_SOCKET").and_then(|name| {
            open(&name).inspect_err(|error| tracing::warn!("NOTIFY_SOCKET {name:?} cannot be used: {error}")).ok()
        });
        let usec = variable("WATCHDOG_USEC");
        let pid = variable("WATCHDOG_PID");
        let watchdog = watchdog_interval(usec.as_deref(), pid.as_deref(), std::process::id());
        Self { socket, watchdog }
    }

    /// How often [`Self::alive`] is expected: half of the manager's timeout. `None`: never.
    pub(super) fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.socket.is_some())
    }

    /// The switch forwards.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// What it is doing.
    pub(super) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    /// The workers' hearts beat.
    pub(super) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The configuration is read again. [`Self::ready`] ends that.
    pub(super) fn reloading(&self) {
        self.send("RELOADING=1\nSTATUS=reloading");
    }

    /// It stops.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::warn!("the service manager cannot be told {message:?}: {error}");
        }
    }
}

/// Line ends separate assignments.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A socket to send from, and the address `name` stands for: a path, or with `@` a name in the
/// abstract namespace.
fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok((socket, address))
}

/// Half of `WATCHDOG_USEC`, if it is meant for this process (`sd_watchdog_enabled(3)`).
fn watchdog_interval(usec: Option<&OsStr>, pid: Option<&OsStr>, own_pid: u32) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<u64>().ok());
    if pid.is_some_and(|pid| number(pid) != Some(u64::from(own_pid))) {
        return None;
    }
    number(usec?).filter(|usec| *usec > 1).map(|usec| Duration::from_micros(usec / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notifier(name: &OsStr) -> Notifier {
        Notifier { socket: Some(open(name).expect("a socket")), watchdog: None }
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let len = socket.recv(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    fn expect_all(manager: &UnixDatagram, name: &OsStr) {
        manager.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let notifier = notifier(name);
        notifier.status("starting");
        notifier.ready("2 bridges\n3 ports");
        notifier.alive();
        notifier.stopping();
        for expected in
            ["STATUS=starting", "READY=1\nSTATUS=2 bridges 3 ports", "WATCHDOG=1", "STOPPING=1\nSTATUS=stopping"]
        {
            assert_eq!(received(manager), expected);
        }
    }

    #[test]
    fn messages_reach_a_socket_with_a_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        expect_all(&manager, path.as_os_str());
    }

    #[test]
    fn messages_reach_an_abstract_socket() {
        let name = format!("@vswitch-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name[1..]).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("a socket");
        expect_all(&manager, OsStr::new(&name));
    }

    #[test]
    fn a_manager_that_went_away_or_reads_nothing_does_no_harm() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        notifier(path.as_os_str()).ready("nobody is there");
        for bad in ["relative", "vsock:2:1234", &format!("/{}", "x".repeat(200)), &format!("@{}", "x".repeat(200))] {
            assert!(open(OsStr::new(bad)).is_err(), "{bad:?}");
        }
        let _manager = UnixDatagram::bind(&path).expect("a socket");
        let notifier = notifier(path.as_os_str());
        let (socket, address) = notifier.socket.as_ref().expect("a socket");
        socket.set_nonblocking(true).expect("a flag");
        while socket.send_to_addr(b"WATCHDOG=1", address).is_ok() {}
        socket.set_nonblocking(false).expect("a flag");
        let started = std::time::Instant::now();
        notifier.alive();
        assert!(started.elapsed() < SEND_TIMEOUT * 3, "{:?}", started.elapsed());
    }

    #[test]
    fn the_watchdog_is_fed_twice_per_timeout_and_only_if_meant_for_us() {
        for (usec, pid, expected) in [
            (Some("5000000"), None, Some(2_500_000)),
            (Some("5000000"), Some("7"), Some(2_500_000)),
            (Some("5000000"), Some("8"), None),
            (Some("5000000"), Some("x"), None),
            (Some("0"), None, None),
            (Some("1"), None, None),
            (Some("-1"), None, None),
            (Some("5 s"), None, None),
            (Some("99999999999999999999"), None, None),
            (None, Some("7"), None),
        ] {
            let interval = watchdog_interval(usec.map(OsStr::new), pid.map(OsStr::new), 7);
            assert_eq!(interval, expected.map(Duration::from_micros), "{usec:?} {pid:?}");
        }
    }
}
