//! A packet socket bound to one interface (packet(7)).

use super::{Gather, KernelError, Outgoing, RxRing, check, ifreq};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Kernel memory that packets from us may hold until the interface took them. The kernel doubles
/// it.
const SNDBUF: libc::c_int = 4 << 20;

/// The socket. The interface belongs to somebody else: it may be renamed, set down, moved or
/// deleted at any time.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    interface: String,
    index: i32,
}

impl PacketSocket {
    /// Opens a socket on the interface, with its receive ring: promiscuous, without the packets
    /// that the host sends out of the interface itself.
    ///
    /// # Errors
    /// Names the call that the kernel refused; nothing is left behind.
    pub fn open(interface: &str) -> Result<(Arc<Self>, RxRing), KernelError> {
        let at = |call| KernelError::at(interface, call);
        // Protocol 0: nothing is received before bind().
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        check(fd.into()).map_err(at("socket AF_PACKET"))?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let index = ifreq::index(fd.as_fd(), interface).map_err(at("SIOCGIFINDEX"))?;
        let socket = Arc::new(Self { fd, interface: interface.to_owned(), index });
        let ring = socket.configure()?;
        Ok((socket, ring))
    }

    fn configure(self: &Arc<Self>) -> Result<RxRing, KernelError> {
        let at = |call| KernelError::at(&self.interface, call);
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, TPACKET_V2).map_err(at("PACKET_VERSION"))?;
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).map_err(at("PACKET_VNET_HDR"))?;
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1).map_err(at("PACKET_IGNORE_OUTGOING"))?;
        // Beyond net.core.wmem_max with CAP_NET_ADMIN, up to it without.
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SNDBUF)
            .or_else(|_| self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, SNDBUF))
            .map_err(at("SO_SNDBUF"))?;
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, RxRing::request()).map_err(at("PACKET_RX_RING"))?;
        let ring = RxRing::new(self.fd.as_fd(), Arc::clone(self)).map_err(at("mmap"))?;
        bind(self.fd.as_fd(), self.index).map_err(at("bind"))?;
        if self.name().is_some_and(|address| address.sll_hatype != libc::ARPHRD_ETHER) {
            return Err(at("hardware type")(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        }
        let promiscuous =
            libc::packet_mreq { mr_ifindex: self.index, mr_type: PACKET_MR_PROMISC, mr_alen: 0, mr_address: [0; 8] };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, promiscuous).map_err(at("PACKET_ADD_MEMBERSHIP"))?;
        Ok(ring)
    }

    /// Sets a socket option whose value is a `T`.
    fn set<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
        let len = libc::socklen_t::try_from(size_of::<T>()).expect("a small struct");
        // SAFETY: the kernel reads `len` bytes of `value`, plain data without padding.
        let rc = unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
        check(rc.into()).map(drop)
    }

    /// What the socket is bound to, with the interface's present address; none when the interface
    /// is gone.
    fn name(&self) -> Option<libc::sockaddr_ll> {
        // SAFETY: plain data.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).expect("20");
        // SAFETY: the kernel writes at most `len` bytes to `address`.
        let rc = unsafe { libc::getsockname(self.fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
        (rc == 0 && address.sll_halen > 0).then_some(address)
    }

    /// Sends as many packets as one `sendmmsg` takes, and returns how many. The interface's
    /// queueing discipline applies; the kernel copies the bytes.
    ///
    /// # Errors
    /// What the kernel said of the first packet; none has been sent then.
    pub fn send(&self, gather: &mut Gather, packets: &[Outgoing]) -> io::Result<usize> {
        gather.send(self.fd.as_fd(), packets)
    }

    /// Packets that found the ring full since the last call: the kernel starts over at each.
    #[must_use]
    pub fn take_missed(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = libc::socklen_t::try_from(size_of::<libc::tpacket_stats>()).expect("8");
        // SAFETY: the kernel writes at most `len` bytes to `stats`.
        let rc = unsafe {
            let value = (&raw mut stats).cast();
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut len)
        };
        if rc == 0 { stats.tp_drops.into() } else { 0 }
    }

    /// The interface's address; none when it is gone.
    #[must_use]
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.name().map(|address| std::array::from_fn(|i| address.sll_addr[i]))
    }

    /// The interface's name when the socket was made.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Whether the interface exists, is up and has carrier.
    #[must_use]
    pub fn running(&self) -> bool {
        let wanted = ifreq::flag(libc::IFF_UP | libc::IFF_RUNNING);
        let flags = self.present_name().and_then(|name| ifreq::flags(self.fd.as_fd(), &name));
        flags.is_ok_and(|flags| flags & wanted == wanted)
    }

    /// Speed of the interface in Mbit/s; 0: unknown.
    #[must_use]
    pub fn speed_mbps(&self) -> u32 {
        self.present_name().map_or(0, |name| ifreq::speed_mbps(self.fd.as_fd(), &name))
    }

    /// Index of the interface; none when it is gone.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        self.name().and_then(|_| u32::try_from(self.index).ok())
    }

    /// MTU of the interface in bytes; none when it is gone.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        self.present_name().and_then(|name| ifreq::mtu(self.fd.as_fd(), &name)).ok()
    }

    /// Sets the MTU of the interface, in bytes.
    ///
    /// # Errors
    /// When the kernel refuses it or the interface is gone.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), KernelError> {
        let result = self.present_name().and_then(|name| ifreq::set_mtu(self.fd.as_fd(), &name, mtu));
        result.map_err(KernelError::at(&self.interface, "SIOCSIFMTU"))
    }

    /// The interface's name now: the socket is bound by index, which a rename keeps. An interface
    /// that went to another namespace and came back with its index is not bound any more, so it is
    /// gone.
    fn present_name(&self) -> io::Result<String> {
        self.name().ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        ifreq::name_of(self.fd.as_fd(), self.index)
    }
}

/// Lets a packet socket receive everything that comes in by an interface.
pub(super) fn bind(fd: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    // SAFETY: plain data.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).expect("17");
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL).expect("3").to_be();
    address.sll_ifindex = index;
    let len = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).expect("20");
    // SAFETY: the kernel reads `len` bytes of `address`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }.into()).map(drop)
}

/// `TPACKET_V2` of linux/if_packet.h.
const TPACKET_V2: libc::c_int = 1;

const PACKET_MR_PROMISC: libc::c_ushort = 1;
