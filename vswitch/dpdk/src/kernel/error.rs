//! Why the kernel refused something: which call, on which interface, and what to do about it.

use std::io;

/// A call about an interface that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("interface {interface}: {call}: {error}; {hint}")]
pub struct KernelError {
    /// The interface, as it was named when the port was opened.
    pub interface: String,
    /// The system call, ioctl or socket option.
    pub call: &'static str,
    /// What the kernel said.
    pub error: io::Error,
    /// How to fix it.
    pub hint: &'static str,
}

impl KernelError {
    /// Names the interface and finds the hint for the call and its errno.
    pub(super) fn new(interface: &str, call: &'static str, error: io::Error) -> Self {
        let hint = hint(call, error.raw_os_error().unwrap_or(0));
        Self { interface: interface.to_owned(), call, error, hint }
    }

    /// For `map_err` on a chain of calls about one interface.
    pub(super) fn at<'a>(interface: &'a str, call: &'static str) -> impl FnOnce(io::Error) -> Self + 'a {
        move |error| Self::new(interface, call, error)
    }
}

fn hint(call: &str, errno: i32) -> &'static str {
    match (call, errno) {
        ("open /dev/net/tun", libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            "load the module (modprobe tun); in a container, pass the device /dev/net/tun in"
        }
        ("open /dev/net/tun", libc::EACCES | libc::EPERM) => "run the switch with access to /dev/net/tun",
        ("TUNSETIFF", libc::EBUSY | libc::EEXIST) => {
            "the name is taken by another interface: choose another name, or remove that one (ip link delete)"
        }
        ("SIOCSIFMTU", libc::EINVAL) => "the device cannot do this MTU: see minmtu and maxmtu in `ip -d link show`",
        ("SIOCSIFHWADDR", libc::EADDRNOTAVAIL) => "use a unicast address, such as 02:00:00:00:00:01",
        ("SIOCGIFINDEX", libc::ENODEV) => {
            "there is no such interface in the switch's network namespace: see `ip link`, create it or fix the name"
        }
        ("setns", libc::EPERM) => {
            "the interface is in another network namespace, which needs CAP_SYS_ADMIN to enter: grant it, or use `ip -n`"
        }
        ("socket AF_PACKET", libc::EAFNOSUPPORT) => "the kernel lacks packet sockets: modprobe af_packet",
        ("hardware type", _) => "only Ethernet interfaces can be ports",
        ("PACKET_VNET_HDR" | "PACKET_IGNORE_OUTGOING", libc::ENOPROTOOPT) => "the kernel is older than Linux 4.20",
        ("PACKET_RX_RING" | "mmap", libc::ENOMEM) => "the kernel is short of memory: every such port takes 9 MiB",
        (_, libc::EPERM | libc::EACCES) => "run the switch as root, or with CAP_NET_ADMIN and CAP_NET_RAW",
        (_, libc::ENODEV | libc::ENXIO | libc::EBADFD) => "the interface is gone: remove the port and add it again",
        (_, libc::EMFILE | libc::ENFILE) => "raise the limit of open files (LimitNOFILE)",
        (_, libc::EINVAL) => "the name may be invalid (1 to 15 characters of A-Z a-z 0-9 . _ -), or the kernel too old",
        _ => "see the kernel's log (dmesg)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_interface_call_errno_and_fix() {
        let error = KernelError::new("pod0", "TUNSETIFF", io::Error::from_raw_os_error(libc::EBUSY));
        let text = error.to_string();
        for part in ["interface pod0", "TUNSETIFF", "Device or resource busy", "ip link delete"] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
    }
}
