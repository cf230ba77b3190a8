//! Interface ioctls (netdevice(7)), by name, through any socket of the namespace that the interface
//! is in.

use super::check;
use std::ffi::c_char;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A `struct ifreq` with a checked name. All bytes are initialised, so every member of its union
/// may be read.
pub(super) struct IfReq(libc::ifreq);

impl IfReq {
    /// For an interface that may exist.
    ///
    /// # Errors
    /// `EINVAL` for what cannot be a name, patterns (`%`) included.
    pub(super) fn named(name: &str) -> io::Result<Self> {
        let mut this = Self::unnamed();
        let valid = (1..libc::IFNAMSIZ).contains(&name.len()) && !name.contains(['\0', '/', '%', ':', ' ']);
        if !valid {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        for (to, from) in this.0.ifr_name.iter_mut().zip(name.bytes()) {
            *to = c_char::from_ne_bytes([from]);
        }
        Ok(this)
    }

    /// With an empty name, for ioctls that fill it in.
    pub(super) fn unnamed() -> Self {
        // SAFETY: plain data; zero is a valid value of every member.
        Self(unsafe { std::mem::zeroed() })
    }

    /// The name in it.
    pub(super) fn name(&self) -> String {
        let bytes: Vec<u8> = self.0.ifr_name.iter().map(|c| c.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn set_flags(&mut self, flags: u16) {
        self.0.ifr_ifru.ifru_flags = flags.cast_signed();
    }

    pub(super) fn set_mac(&mut self, mac: [u8; 6]) {
        let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
        for (to, from) in address.sa_data.iter_mut().zip(mac) {
            *to = c_char::from_ne_bytes([from]);
        }
        self.0.ifr_ifru.ifru_hwaddr = address;
    }

    pub(super) fn mac(&self) -> [u8; 6] {
        // SAFETY: initialised bytes, see the type.
        let address = unsafe { self.0.ifr_ifru.ifru_hwaddr };
        std::array::from_fn(|i| address.sa_data[i].to_ne_bytes()[0])
    }

    /// Runs one ioctl on it.
    ///
    /// # Safety
    /// `request` reads and writes a `struct ifreq` and follows no pointer in it that is not valid.
    pub(super) unsafe fn ioctl(&mut self, fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<()> {
        // SAFETY: a live descriptor and an ifreq that is ours; the rest is the caller's promise.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut self.0) }.into()).map(drop)
    }
}

/// A socket for ioctls about the interfaces of the current thread's network namespace.
pub(super) fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(fd.into())?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Index of an interface (`SIOCGIFINDEX`).
pub(super) fn index(socket: BorrowedFd<'_>, name: &str) -> io::Result<i32> {
    let mut request = IfReq::named(name)?;
    // SAFETY: writes the index.
    unsafe { request.ioctl(socket, libc::SIOCGIFINDEX) }?;
    // SAFETY: initialised bytes, see the type.
    Ok(unsafe { request.0.ifr_ifru.ifru_ifindex })
}

/// Present name of an interface (`SIOCGIFNAME`).
pub(super) fn name_of(socket: BorrowedFd<'_>, index: i32) -> io::Result<String> {
    let mut request = IfReq::unnamed();
    request.0.ifr_ifru.ifru_ifindex = index;
    // SAFETY: reads the index, writes the name.
    unsafe { request.ioctl(socket, libc::SIOCGIFNAME) }?;
    Ok(request.name())
}

/// `IFF_*` of an interface (`SIOCGIFFLAGS`).
pub(super) fn flags(socket: BorrowedFd<'_>, name: &str) -> io::Result<u16> {
    let mut request = IfReq::named(name)?;
    // SAFETY: writes the flags.
    unsafe { request.ioctl(socket, libc::SIOCGIFFLAGS) }?;
    // SAFETY: initialised bytes, see the type.
    Ok(unsafe { request.0.ifr_ifru.ifru_flags }.cast_unsigned())
}

/// Adds `IFF_UP` (`SIOCSIFFLAGS`).
pub(super) fn bring_up(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let flags = flags(socket, name)?;
    let mut request = IfReq::named(name)?;
    request.set_flags(flags | flag(libc::IFF_UP));
    // SAFETY: reads the flags.
    unsafe { request.ioctl(socket, libc::SIOCSIFFLAGS) }
}

/// MTU in bytes (`SIOCGIFMTU`).
pub(super) fn mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let mut request = IfReq::named(name)?;
    // SAFETY: writes the MTU.
    unsafe { request.ioctl(socket, libc::SIOCGIFMTU) }?;
    // SAFETY: initialised bytes, see the type.
    Ok(unsafe { request.0.ifr_ifru.ifru_mtu }.cast_unsigned())
}

/// Sets the MTU in bytes (`SIOCSIFMTU`).
pub(super) fn set_mtu(socket: BorrowedFd<'_>, name: &str, mtu: u16) -> io::Result<()> {
    let mut request = IfReq::named(name)?;
    request.0.ifr_ifru.ifru_mtu = mtu.into();
    // SAFETY: reads the MTU.
    unsafe { request.ioctl(socket, libc::SIOCSIFMTU) }
}

/// `struct ethtool_cmd` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct EthtoolCmd {
    cmd: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    bytes: [u8; 6],
    max_packets: [u32; 2],
    speed_hi: u16,
    tail: [u8; 2],
    lp_advertising: u32,
    reserved: [u32; 2],
}

/// Speed in Mbit/s (`ETHTOOL_GSET`); 0 where the driver does not say.
pub(super) fn speed_mbps(socket: BorrowedFd<'_>, name: &str) -> u32 {
    const ETHTOOL_GSET: u32 = 1;
    let Ok(mut request) = IfReq::named(name) else { return 0 };
    let mut command = EthtoolCmd { cmd: ETHTOOL_GSET, ..EthtoolCmd::default() };
    request.0.ifr_ifru.ifru_data = (&raw mut command).cast();
    // SAFETY: ETHTOOL_GSET writes a struct ethtool_cmd behind the pointer, which lives through the
    // call.
    match unsafe { request.ioctl(socket, libc::SIOCETHTOOL) } {
        Ok(()) => match u32::from(command.speed_hi) << 16 | u32::from(command.speed) {
            u32::MAX => 0,
            speed => speed,
        },
        Err(_) => 0,
    }
}

/// An `IFF_*` constant as the 16 bits that it has in an ifreq.
pub(super) const fn flag(flag: i32) -> u16 {
    let [low, high, ..] = flag.to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn names_are_checked_before_the_kernel_sees_them() {
        for bad in ["", "sixteen-letters-", "tap%d", "a/b", "a b", "eth0:1", "nul\0"] {
            assert_eq!(IfReq::named(bad).err().and_then(|e| e.raw_os_error()), Some(libc::EINVAL), "{bad:?}");
        }
        assert_eq!(IfReq::named("fifteen-letters").expect("a name").name(), "fifteen-letters");
    }

    #[test]
    fn loopback_answers() {
        assert_eq!(size_of::<EthtoolCmd>(), 44);
        let socket = control_socket().expect("a socket");
        let index = index(socket.as_fd(), "lo").expect("lo has an index");
        assert_eq!(name_of(socket.as_fd(), index).expect("the index has a name"), "lo");
        assert_ne!(flags(socket.as_fd(), "lo").expect("flags") & flag(libc::IFF_LOOPBACK), 0);
        assert!(mtu(socket.as_fd(), "lo").expect("an MTU") >= 1500);
        let missing = super::index(socket.as_fd(), "no-such-name").expect_err("no such interface");
        assert_eq!(missing.raw_os_error(), Some(libc::ENODEV));
    }
}
