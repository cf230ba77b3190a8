//! Addresses with a length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and how many of its bits count: `192.168.1.1/24`. Of a port: its own address, and
/// what is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// With all its bits, those behind the prefix too.
    pub address: IpAddr,
    /// At most 32 or 128.
    pub len: u8,
}

impl Cidr {
    /// Bits of an address.
    pub(super) const fn bits(address: IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// The length is one of such an address.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.len <= Self::bits(self.address)
    }

    /// The address without the bits that do not count.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        let len = u32::from(self.len);
        match self.address {
            IpAddr::V4(ip) => {
                let host = u32::MAX.checked_shr(len).unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & !host).into()
            }
            IpAddr::V6(ip) => {
                let host = u128::MAX.checked_shr(len).unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & !host).into()
            }
        }
    }

    /// Another address is in the same network.
    #[must_use]
    pub fn contains(&self, other: IpAddr) -> bool {
        self.address.is_ipv4() == other.is_ipv4() && Self { address: other, len: self.len }.network() == self.network()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Why a text is no [`Cidr`], or none of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// It is not an address with a length.
    #[error("{}", self.hint())]
    Syntax,
    /// An address alone does not say who is on its link.
    #[error("{0} has no length: {hint}", hint = self.hint())]
    NoLength(IpAddr),
}

impl CidrError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Syntax => "write ADDRESS/LENGTH, such as 192.168.1.1/24 or 2001:db8::1/64".to_owned(),
            Self::NoLength(address) => {
                let usual = if address.is_ipv4() { 24 } else { 64 };
                format!("write {address}/{usual}, or whatever is on its link")
            }
        }
    }
}

impl Cidr {
    /// Reads an address of a port, which must have its length: who forgot it would have a port
    /// whose link nobody is on, and no route to any other end. (`ip address add` takes that
    /// silently.)
    ///
    /// # Errors
    /// When it is no address, or has no length.
    pub fn of_port(text: &str) -> Result<Self, CidrError> {
        text.parse().map_or(text.parse(), |address| Err(CidrError::NoLength(address)))
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// An address without a length is a host's, all its bits count, as in `ip route add` and
    /// `ovs-appctl ovs/route/add`. For addresses of ports see [`Cidr::of_port`].
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let address: IpAddr = address.parse().map_err(|_| CidrError::Syntax)?;
        let len = match len {
            // Not a sign, which `parse` would take.
            Some(len) if len.bytes().all(|byte| byte.is_ascii_digit()) => len.parse().map_err(|_| CidrError::Syntax)?,
            Some(_) => return Err(CidrError::Syntax),
            None => Self::bits(address),
        };
        Some(Self { address, len }).filter(Self::is_valid).ok_or(CidrError::Syntax)
    }
}
