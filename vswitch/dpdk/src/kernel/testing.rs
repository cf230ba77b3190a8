//! What tests on real interfaces need: network namespaces that clean up after themselves, and a
//! packet socket whose way of sending and receiving shares no code with the ones under test.

use super::{check, ifreq, netns, packet_socket};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A name that no other test, process or machine user has: at most 14 characters, so that one may
/// be appended.
pub fn unique_name(suffix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("kernel{:x}{suffix}{}", std::process::id(), NEXT.fetch_add(1, Relaxed))
}

/// Bytes that differ from their neighbours.
pub fn filler(len: usize) -> Vec<u8> {
    (0..251).cycle().take(len).collect()
}

/// Waits up to two seconds for something.
///
/// # Panics
/// When it does not come.
pub fn eventually<R>(what: &str, mut poll: impl FnMut() -> Option<R>) -> R {
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        if let Some(result) = poll() {
            return result;
        }
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a command to its end and returns its output.
///
/// # Panics
/// With its error output when it fails.
pub fn run<S: AsRef<OsStr>>(args: &[S]) -> String {
    let output = Command::new(&args[0]).args(&args[1..]).output().expect("the program is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown: Vec<_> = args.iter().map(AsRef::as_ref).collect();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown:?}: {error}{text} (these tests run as root)");
    text
}

/// Runs `ip` with blank-separated arguments.
pub fn ip(args: &str) -> String {
    run(&[&["ip"], &args.split(' ').collect::<Vec<_>>()[..]].concat())
}

/// A network namespace without IPv6 noise. Goes when dropped, with the interfaces in it.
#[derive(Debug)]
pub struct Netns(String);

impl Netns {
    /// A new one, its loopback interface up.
    #[allow(clippy::new_without_default)] // it runs programs
    pub fn new() -> Self {
        let this = Self(unique_name("n"));
        ip(&format!("netns add {}", this.0));
        this.ip("link set lo up");
        this.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        this
    }

    /// A namespace with an interface `eth0` whose veth peer is in ours. Both are up; returns the
    /// peer's name.
    pub fn with_veth() -> (Self, String) {
        let (this, host) = (Self::new(), unique_name("v"));
        ip(&format!("link add {host} type veth peer name eth0 netns {}", this.0));
        run(&["sysctl", "-qw", &format!("net.ipv6.conf.{host}.disable_ipv6=1")]);
        this.ip("link set eth0 up");
        ip(&format!("link set {host} up"));
        // Until the kernel has noticed both carriers, some time after, it drops what is sent
        // without a word.
        let ready = |shown: String| shown.contains("state UP");
        eventually("both ends are up", || {
            (ready(this.ip("link show eth0")) && ready(ip(&format!("link show {host}")))).then_some(())
        });
        (this, host)
    }

    /// Its name, for `ip netns`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Runs `ip` in it.
    pub fn ip(&self, args: &str) -> String {
        ip(&format!("-n {} {args}", self.0))
    }

    fn command<'a>(&'a self, args: &'a str) -> Vec<&'a str> {
        ["ip", "netns", "exec", &self.0].into_iter().chain(args.split(' ')).collect()
    }

    /// Runs a command with blank-separated arguments to its end.
    pub fn run(&self, args: &str) -> String {
        run(&self.command(args))
    }

    /// Starts a command in the background.
    pub fn spawn(&self, args: &str) -> Background {
        let args = self.command(args);
        let child = Command::new(args[0]).args(&args[1..]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Background(child.expect("the program is installed"))
    }

    fn file(&self) -> File {
        File::open(format!("/run/netns/{}", self.0)).expect("the namespace exists")
    }

    /// A packet socket on an interface in here.
    pub fn plain_socket(&self, interface: &str) -> PlainSocket {
        netns::inside(&self.file(), || PlainSocket::new(interface)).expect("a packet socket")
    }

    /// Sends `n` broadcasts out of an interface in here.
    pub fn flood(&self, interface: &str, n: usize) {
        let socket = self.plain_socket(interface);
        for _ in 0..n {
            let _ = socket.send([0; 10], &[0xff; 60]);
        }
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // First the interface: TCP connections that could not end hold the namespace for minutes.
        let _ = Command::new("ip").args(["-n", &self.0, "link", "delete", "eth0"]).stderr(Stdio::null()).status();
        let _ = Command::new("ip").args(["netns", "del", &self.0]).stderr(Stdio::null()).status();
    }
}

/// A process that ends with this value.
#[derive(Debug)]
pub struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A frame as a [`PlainSocket`] receives it.
#[derive(Debug)]
pub struct PlainFrame {
    /// Its virtio-net header, which counts without the tag that the kernel took out.
    pub header: [u8; 10],
    /// That tag.
    pub tag: Option<[u8; 4]>,
    bytes: Vec<u8>,
}

impl PlainFrame {
    /// The frame as it was on the wire: the tag back in its place.
    pub fn on_the_wire(&self) -> Vec<u8> {
        [&self.bytes[..12], self.tag.as_ref().map_or(&[][..], |tag| tag), &self.bytes[12..]].concat()
    }
}

/// A packet socket by `sendmsg` and `recvmsg`, with virtio-net headers.
#[derive(Debug)]
pub struct PlainSocket(OwnedFd);

impl PlainSocket {
    /// On an interface of this thread's namespace.
    pub fn new(interface: &str) -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor is fresh; plain data is zeroed; lengths are those of
        // what is pointed to.
        unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let fd = libc::socket(libc::AF_PACKET, kind, 0);
            check(fd.into())?;
            let fd = OwnedFd::from_raw_fd(fd);
            for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
                let one: libc::c_int = 1;
                let value = (&raw const one).cast();
                check(libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, value, 4).into())?;
            }
            packet_socket::bind(fd.as_fd(), ifreq::index(fd.as_fd(), interface)?)?;
            Ok(Self(fd))
        }
    }

    /// Sends a frame behind a header.
    pub fn send(&self, header: [u8; 10], frame: &[u8]) -> io::Result<usize> {
        let bytes = [&header[..], frame].concat();
        // SAFETY: the kernel reads `bytes`.
        check(unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) } as i64)
    }

    /// The next frame whose destination begins with `prefix`.
    pub fn receive(&self, prefix: &[u8]) -> PlainFrame {
        eventually("a frame", || {
            std::iter::from_fn(|| self.receive_any()).find(|frame| frame.bytes.starts_with(prefix))
        })
    }

    fn receive_any(&self) -> Option<PlainFrame> {
        let mut bytes = vec![0; 80_000];
        let mut control = [0_u64; 16];
        let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: everything that the message points to lives through the calls; an auxdata message
        // is read as what it is.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut iov, 1);
            (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
            let n = check(libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) as i64).ok()?;
            let mut tag = None;
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            if !first.is_null() && (*first).cmsg_type == libc::PACKET_AUXDATA {
                let aux = libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>().read_unaligned();
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let ([a, b], [c, d]) = (aux.tp_vlan_tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes());
                    tag = Some([a, b, c, d]);
                }
            }
            bytes.truncate(n);
            let frame = bytes.split_off(10);
            Some(PlainFrame { header: bytes.try_into().ok()?, tag, bytes: frame })
        }
    }
}
