//! A TAP interface and its descriptors, one per queue (the kernel's
//! Documentation/networking/tuntap.rst).

use super::ifreq::{self, IfReq};
use super::{Gather, KernelError, Outgoing, VNET_LEN, check, netns};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;

/// Kernel memory that packets from us may hold until something behind the interface took them:
/// about 60 GSO packets. The kernel's default is no bound, which lets one slow receiver behind a
/// bridge hold any amount of memory.
const SNDBUF: libc::c_int = 4 << 20;

/// What the kernel may hand us unfinished. No UDP trains by default: few ways out take them.
const OFFLOADS: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// What the descriptor says of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapState {
    /// Deleted; the descriptor is of no more use.
    Gone,
    /// Its owner set it down.
    Down,
    /// Up and taking packets.
    Up,
}

/// An interface that lives as long as this value. It may be renamed and moved to another network
/// namespace meanwhile.
#[derive(Debug)]
pub struct Tap {
    /// One descriptor per queue; at least one. What is asked of the interface is asked of the
    /// first.
    queues: Vec<File>,
    name: String,
    uso: bool,
}

impl Tap {
    /// Makes the interface in the calling thread's network namespace, with its address (none: a
    /// random one) and MTU, and brings it up. `queues`: how many each way, at least 1.
    ///
    /// # Errors
    /// Names the call that the kernel refused; nothing is left behind.
    pub fn create(name: &str, mac: Option<[u8; 6]>, mtu: u16, queues: u16) -> Result<Self, KernelError> {
        let multi = if queues > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
        // Exclusive: else TUNSETIFF would join an interface that somebody else made persistent.
        let mut tap =
            Self { queues: vec![attach(name, multi | libc::IFF_TUN_EXCL)?], name: name.to_owned(), uso: false };
        for _ in 1..queues {
            let queue = attach(name, multi)?;
            tap.queues.push(queue);
        }
        tap.configure(mac, mtu)?;
        Ok(tap)
    }

    fn configure(&mut self, mac: Option<[u8; 6]>, mtu: u16) -> Result<(), KernelError> {
        let header = libc::c_int::try_from(VNET_LEN).expect("10");
        self.ioctl_int(libc::TUNSETVNETHDRSZ, header).map_err(self.at("TUNSETVNETHDRSZ"))?;
        // The kernel takes UDP trains from us, whatever is set here, if it knows these two flags.
        let uso = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        self.uso = self.ioctl_value(libc::TUNSETOFFLOAD, OFFLOADS | uso).is_ok();
        self.ioctl_value(libc::TUNSETOFFLOAD, OFFLOADS).map_err(self.at("TUNSETOFFLOAD"))?;
        self.ioctl_int(libc::TUNSETSNDBUF, SNDBUF).map_err(self.at("TUNSETSNDBUF"))?;
        if let Some(mac) = mac {
            let mut request = IfReq::unnamed();
            request.set_mac(mac);
            // SAFETY: reads the ifreq.
            unsafe { request.ioctl(self.control(), libc::SIOCSIFHWADDR) }.map_err(self.at("SIOCSIFHWADDR"))?;
        }
        let socket = ifreq::control_socket().map_err(self.at("socket"))?;
        ifreq::set_mtu(socket.as_fd(), &self.name, mtu).map_err(self.at("SIOCSIFMTU"))?;
        ifreq::bring_up(socket.as_fd(), &self.name).map_err(self.at("SIOCSIFFLAGS"))
    }

    fn at(&self, call: &'static str) -> impl FnOnce(io::Error) -> KernelError + '_ {
        KernelError::at(&self.name, call)
    }

    /// An ioctl that reads an int.
    fn ioctl_int(&self, request: libc::Ioctl, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the requests used here read an int behind the pointer.
        check(unsafe { libc::ioctl(self.control().as_raw_fd(), request, &raw const value) }.into()).map(drop)
    }

    /// An ioctl whose argument is the value.
    fn ioctl_value(&self, request: libc::Ioctl, value: libc::c_uint) -> io::Result<()> {
        // SAFETY: TUNSETOFFLOAD follows no pointer.
        check(unsafe { libc::ioctl(self.control().as_raw_fd(), request, libc::c_ulong::from(value)) }.into()).map(drop)
    }

    /// Queues each way.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The descriptor of a queue, to read from ([`super::SegmentReader::read`]).
    #[must_use]
    pub fn fd(&self, queue: usize) -> BorrowedFd<'_> {
        self.queues[queue].as_fd()
    }

    /// The descriptor that the interface is asked and told by.
    fn control(&self) -> BorrowedFd<'_> {
        self.fd(0)
    }

    /// Whether the kernel takes UDP datagram trains from us.
    #[must_use]
    pub fn takes_uso(&self) -> bool {
        self.uso
    }

    /// Sends one packet by a queue, never blocking. What the host answers comes by the same queue:
    /// the kernel remembers it by the flow's hash.
    ///
    /// # Errors
    /// `EAGAIN`: packets of 4 MiB are on their way already. `EIO`: the interface is down. `EBADFD`:
    /// it was deleted. Others: the packet was refused.
    pub fn write(&self, queue: usize, gather: &mut Gather, packet: &Outgoing) -> io::Result<()> {
        gather.write(self.fd(queue), packet)
    }

    /// State of the interface, wherever it is now.
    #[must_use]
    pub fn state(&self) -> TapState {
        let mut poll = libc::pollfd { fd: self.control().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one pollfd of ours; returns at once.
        let rc = unsafe { libc::poll(&raw mut poll, 1, 0) };
        if rc > 0 && poll.revents & (libc::POLLERR | libc::POLLNVAL) != 0 {
            return TapState::Gone;
        }
        if rc > 0 && poll.revents & libc::POLLOUT != 0 {
            return TapState::Up;
        }
        // Not writable: down, or up with a full send buffer.
        match self.with_interface(ifreq::flags) {
            Ok(flags) if flags & ifreq::flag(libc::IFF_UP) != 0 => TapState::Up,
            _ => TapState::Down,
        }
    }

    /// Its name when it was made.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address (`SIOCGIFHWADDR` on the descriptor); none when the interface is gone.
    #[must_use]
    pub fn mac(&self) -> Option<[u8; 6]> {
        let mut request = IfReq::unnamed();
        // SAFETY: writes the address.
        unsafe { request.ioctl(self.control(), libc::SIOCGIFHWADDR) }.ok()?;
        Some(request.mac())
    }

    /// Shows the host a link or none (`TUNSETCARRIER`). Whether the interface is up stays its
    /// owner's business.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn set_carrier(&self, up: bool) -> Result<(), KernelError> {
        self.ioctl_int(libc::TUNSETCARRIER, up.into()).map_err(self.at("TUNSETCARRIER"))
    }

    /// Sets the MTU in bytes, wherever the interface is now.
    ///
    /// # Errors
    /// When the kernel refuses it, or its namespace may not be entered (`setns`).
    pub fn set_mtu(&self, mtu: u16) -> Result<(), KernelError> {
        let result = self.with_interface(|socket, name| {
            Ok(ifreq::set_mtu(socket, name, mtu).map_err(KernelError::at(&self.name, "SIOCSIFMTU")))
        });
        result.map_err(self.at("setns"))?
    }

    /// Asks about the interface if it is in this network namespace: a thread in another one costs
    /// more than the answer is worth.
    fn asked_here<R>(&self, ask: impl FnOnce(BorrowedFd<'_>, &str) -> io::Result<R>) -> Option<R> {
        if self.foreign_netns().ok()?.is_some() {
            return None;
        }
        ask(ifreq::control_socket().ok()?.as_fd(), &self.present_name().ok()?).ok()
    }

    /// Its index; none when it is gone, or in another network namespace.
    #[must_use]
    pub fn index_here(&self) -> Option<u32> {
        self.asked_here(ifreq::index).and_then(|index| u32::try_from(index).ok())
    }

    /// Its MTU in bytes; none when it is gone, or in another network namespace.
    #[must_use]
    pub fn mtu_here(&self) -> Option<u32> {
        self.asked_here(ifreq::mtu)
    }

    /// Packets of the host that found the TAP's queue full (the interface's `tx_dropped`); 0 where
    /// the kernel does not say.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let Ok(name) = self.present_name() else { return 0 };
        let Ok(Some(netns)) = self.foreign_netns() else {
            let path = format!("/sys/class/net/{name}/statistics/tx_dropped");
            return std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        };
        let table = netns::inside(&netns, || std::fs::read_to_string("/proc/thread-self/net/dev"));
        table.ok().and_then(|table| tx_dropped(&table, &name)).unwrap_or(0)
    }

    /// The interface's present name (`TUNGETIFF`).
    fn present_name(&self) -> io::Result<String> {
        let mut request = IfReq::unnamed();
        // SAFETY: writes the name.
        unsafe { request.ioctl(self.control(), libc::TUNGETIFF) }?;
        Ok(request.name())
    }

    /// The interface's namespace (`TUNGETDEVNETNS`), if it is not this thread's. A kernel that does
    /// not tell (before 5.9) is taken to mean ours.
    fn foreign_netns(&self) -> io::Result<Option<File>> {
        // SAFETY: takes no argument, returns a descriptor.
        let fd = unsafe { libc::ioctl(self.control().as_raw_fd(), libc::TUNGETDEVNETNS) };
        match check(fd.into()) {
            Ok(_) => {
                // SAFETY: a fresh descriptor that nobody else owns.
                let netns = unsafe { File::from_raw_fd(fd) };
                Ok((!netns::is_ours(&netns)?).then_some(netns))
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls `f` with a socket in the interface's namespace and its present name. The socket is
    /// closed at once: it keeps the namespace alive, and with it a Pod's interfaces.
    fn with_interface<R>(&self, f: impl FnOnce(BorrowedFd<'_>, &str) -> io::Result<R>) -> io::Result<R> {
        let name = self.present_name()?;
        let socket = match self.foreign_netns()? {
            Some(netns) => netns::inside(&netns, ifreq::control_socket)?,
            None => ifreq::control_socket()?,
        };
        f(socket.as_fd(), &name)
    }
}

/// One more descriptor, and with it one more queue, of the interface; the first of them makes it.
/// `flags` beside those of all.
fn attach(name: &str, flags: libc::c_int) -> Result<File, KernelError> {
    let at = |call| KernelError::at(name, call);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(at("open /dev/net/tun"))?;
    let mut request = IfReq::named(name).map_err(at("TUNSETIFF"))?;
    request.set_flags(ifreq::flag(libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | flags));
    // SAFETY: reads and writes the ifreq.
    unsafe { request.ioctl(file.as_fd(), libc::TUNSETIFF) }.map_err(at("TUNSETIFF"))?;
    Ok(file)
}

/// The column "transmit drop" of an interface in `/proc/net/dev`.
fn tx_dropped(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{Netns, eventually, ip, unique_name};

    #[test]
    fn drop_column_of_proc_net_dev() {
        let table = "Inter-|   Receive     |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    \
                     packets errs drop fifo colls carrier compressed\n  tap0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n tap01:\
                     0 0 0 0 0 0 0 0 0 0 0 99 0 0 0 0\n";
        assert_eq!(tx_dropped(table, "tap0"), Some(12));
        assert_eq!(tx_dropped(table, "tap01"), Some(99));
        assert_eq!(tx_dropped(table, "tap"), None);
    }

    #[test]
    fn works_after_a_move_to_another_namespace_and_a_rename() {
        for queues in [1, 3] {
            moves_and_renames(queues);
        }
    }

    fn moves_and_renames(queues: u16) {
        let name = unique_name("t");
        let mac = [0x02, 0, 0, 0, 0xab, 1];
        let tap = Tap::create(&name, Some(mac), 1400, queues).expect("a TAP");
        assert_eq!((tap.state(), tap.mac(), tap.queues()), (TapState::Up, Some(mac), queues.into()));
        let netns = Netns::new();
        ip(&format!("link set {name} netns {}", netns.name()));
        assert_eq!(tap.state(), TapState::Down, "the move sets it down");
        netns.ip(&format!("link set {name} name inside"));
        netns.ip("link set inside up");
        assert_eq!((tap.state(), tap.mac()), (TapState::Up, Some(mac)));
        tap.set_mtu(9000).expect("MTU set in the other namespace");
        let shown = netns.ip("link show inside");
        assert!(shown.contains("mtu 9000"), "{shown}");
        tap.set_carrier(false).expect("carrier");
        let shown = netns.ip("link show inside");
        assert!(shown.contains("NO-CARRIER"), "{shown}");
        tap.set_carrier(true).expect("carrier");
        let shown = netns.ip("link show inside");
        assert!(shown.contains("LOWER_UP"), "{shown}");
        // Nobody reads: a queue of 1000 packets overflows (all are of one flow) and the kernel
        // counts.
        let before = tap.missed();
        netns.flood("inside", 1200);
        assert!((before + 100..=before + 1200).contains(&tap.missed()), "missed {before}, then {}", tap.missed());
        drop(netns);
        // It would not be if our descriptor kept the namespace alive.
        eventually("the interface is gone", || (tap.state() == TapState::Gone).then_some(()));
        let error = tap.set_mtu(1500).expect_err("no interface");
        assert!(error.to_string().contains(&name), "{error}");
        assert_eq!((tap.mac(), tap.missed()), (None, 0));
    }

    #[test]
    fn a_taken_name_is_refused_with_a_hint_and_closing_frees_it() {
        let name = unique_name("t");
        let tap = Tap::create(&name, None, 1500, 1).expect("a TAP");
        let error = Tap::create(&name, None, 1500, 1).expect_err("the name is taken");
        assert_eq!((error.call, error.error.raw_os_error()), ("TUNSETIFF", Some(libc::EBUSY)));
        assert!(error.to_string().contains("taken by another interface"), "{error}");
        drop(tap);
        // A process that another test starts at this moment holds a copy of the descriptor until it
        // execs.
        let create = |mac, mtu| {
            eventually("the name is free again", || match Tap::create(&name, mac, mtu, 1) {
                Err(error) if error.error.raw_os_error() == Some(libc::EBUSY) => None,
                other => Some(other),
            })
        };
        let error = create(Some([1; 6]), 1500).expect_err("a multicast address");
        assert_eq!(error.call, "SIOCSIFHWADDR", "{error}");
        let error = create(None, 20).expect_err("an MTU of 20");
        assert_eq!(error.call, "SIOCSIFMTU", "{error}");
        create(None, 1500).expect("nothing is left of the attempts");
        let error = Tap::create("bad%d", None, 1500, 1).expect_err("a pattern");
        assert_eq!(error.error.raw_os_error(), Some(libc::EINVAL), "{error}");
    }
}
