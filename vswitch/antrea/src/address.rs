//! Addresses, prefixes and families, and how flows write them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A family of internet protocols, and what flows call its things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// Of an address.
    #[must_use]
    pub const fn of(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Match of all its packets: `ip`.
    #[must_use]
    pub const fn ip(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ipv6",
        }
    }

    /// Ethernet type: `0x800`.
    #[must_use]
    pub const fn eth_type(self) -> &'static str {
        match self {
            Self::V4 => "0x800",
            Self::V6 => "0x86dd",
        }
    }

    /// Field of the source address: `nw_src`.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::V4 => "nw_src",
            Self::V6 => "ipv6_src",
        }
    }

    /// Field of the destination address: `nw_dst`.
    #[must_use]
    pub const fn destination(self) -> &'static str {
        match self {
            Self::V4 => "nw_dst",
            Self::V6 => "ipv6_dst",
        }
    }

    /// The name of the destination address in `move` and `learn`.
    #[must_use]
    pub const fn destination_nxm(self) -> &'static str {
        match self {
            Self::V4 => "NXM_OF_IP_DST[]",
            Self::V6 => "NXM_NX_IPV6_DST[]",
        }
    }

    /// Likewise of the source address.
    #[must_use]
    pub const fn source_nxm(self) -> &'static str {
        match self {
            Self::V4 => "NXM_OF_IP_SRC[]",
            Self::V6 => "NXM_NX_IPV6_SRC[]",
        }
    }

    /// Register of the selected endpoint's address: `reg3`.
    #[must_use]
    pub const fn endpoint_register(self) -> &'static str {
        match self {
            Self::V4 => "reg3",
            Self::V6 => "xxreg3",
        }
    }

    /// The same register in `load` and `learn`: `NXM_NX_REG3[]`.
    #[must_use]
    pub const fn endpoint_register_nxm(self) -> &'static str {
        match self {
            Self::V4 => "NXM_NX_REG3[]",
            Self::V6 => "NXM_NX_XXREG3[]",
        }
    }
}

/// Field of a tunnel's other or own end, by the family of the underlay: `tun_dst`.
#[must_use]
pub(crate) const fn tunnel_destination(address: &IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "tun_dst",
        IpAddr::V6(_) => "tun_ipv6_dst",
    }
}

/// An address as a register's value: `0xa0a0018`.
#[must_use]
pub(crate) fn hex(address: &IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => format!("{:#x}", u32::from(*v4)),
        IpAddr::V6(v6) => format!("{:#x}", u128::from(*v6)),
    }
}

/// An address and a port as `nat()` has them: IPv6 in brackets.
#[must_use]
pub(crate) fn with_port(address: &IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(v4) => format!("{v4}:{port}"),
        IpAddr::V6(v6) => format!("[{v6}]:{port}"),
    }
}

/// A prefix without bits behind its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

const fn mask(length: u8) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - length) }
}

/// An address in the high bits of 128.
fn high(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(*v4)) << 96,
        IpAddr::V6(v6) => u128::from(*v6),
    }
}

fn from_high(family: Family, bits: u128) -> IpAddr {
    match family {
        #[allow(clippy::cast_possible_truncation)] // the upper 32 bits
        Family::V4 => IpAddr::V4(((bits >> 96) as u32).into()),
        Family::V6 => IpAddr::V6(bits.into()),
    }
}

impl Cidr {
    /// None: the length is too long.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let family = Family::of(&address);
        (length <= family.bits()).then(|| Self { address: from_high(family, high(&address) & mask(length)), length })
    }

    /// An address alone.
    #[must_use]
    pub const fn host(address: IpAddr) -> Self {
        Self { address, length: Family::of(&address).bits() }
    }

    /// Its first address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Its length in bits.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Its family.
    #[must_use]
    pub const fn family(&self) -> Family {
        Family::of(&self.address)
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: &IpAddr) -> bool {
        Family::of(address) == self.family() && high(address) & mask(self.length) == high(&self.address)
    }

    /// Whether another prefix lies in it, or is it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(&other.address)
    }

    /// Whether they have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The two halves; None: it is one address.
    #[must_use]
    pub fn halves(&self) -> Option<[Self; 2]> {
        let length = self.length + 1;
        (length <= self.family().bits()).then(|| {
            let upper = high(&self.address) | (1 << (128 - u32::from(length)));
            [Self { length, ..*self }, Self { address: from_high(self.family(), upper), length }]
        })
    }

    /// The first address behind its own: `10.10.1.1` of `10.10.1.0/24`.
    #[must_use]
    pub fn first_host(&self) -> IpAddr {
        let one = 1 << (128 - u32::from(self.family().bits()));
        from_high(self.family(), high(&self.address) | one)
    }
}

impl fmt::Display for Cidr {
    /// As flows have it: a whole address without a length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == self.family().bits() {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.length)
        }
    }
}

impl FromStr for Cidr {
    type Err = String;

    /// `10.10.0.0/24`, without bits behind the length.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = text.split_once('/').ok_or_else(|| format!("{text:?} is no prefix: ADDRESS/LENGTH"))?;
        let address: IpAddr = parse_address(address)?;
        let family = Family::of(&address);
        let bits = (!length.starts_with('+')).then(|| length.parse::<u8>().ok()).flatten();
        let cidr = bits.and_then(|length| Self::new(address, length));
        let cidr = cidr.ok_or_else(|| format!("{text:?} is no prefix: its length is 0 to {}", family.bits()))?;
        if cidr.address != address {
            return Err(format!("{text:?} has bits behind its length: {}/{}", cidr.address, cidr.length));
        }
        Ok(cidr)
    }
}

/// An address as Kubernetes writes it; IPv4 in IPv6 form is refused.
///
/// # Errors
/// What is wrong.
pub(crate) fn parse_address(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("{text:?} is no address"))?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("{text:?} is an IPv4 address in IPv6 form: write it as IPv4"))
        }
        _ => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn prefixes_are_read_as_kubernetes_writes_them() {
        for good in ["10.10.0.0/24", "0.0.0.0/0", "fd00::/64", "::/0"] {
            assert_eq!(cidr(good).to_string(), good);
        }
        assert_eq!(cidr("10.0.0.1/32").to_string(), "10.0.0.1");
        for bad in [
            "10.10.0.1/24",
            "10.10.0.0",
            "10.10.0.0/33",
            "10.10.0.0/+8",
            "10.10.0.0/-1",
            "fd00::1/64",
            "::ffff:10.0.0.0/104",
            "/8",
            "",
        ] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn halves_cover_their_whole_and_nothing_else() {
        for whole in ["10.0.0.0/8", "0.0.0.0/0", "10.0.0.0/31", "fd00::/63", "::/0", "fd00::/127"] {
            let whole = cidr(whole);
            let [low, high] = whole.halves().unwrap_or_else(|| panic!("{whole}"));
            assert!(whole.covers(&low) && whole.covers(&high) && !low.overlaps(&high), "{whole}: {low} {high}");
            assert_eq!(low.address(), whole.address());
        }
        assert_eq!(cidr("10.0.0.1/32").halves(), None);
        assert_eq!(cidr("10.10.1.0/24").first_host().to_string(), "10.10.1.1");
        assert_eq!(cidr("fd00:1::/64").first_host().to_string(), "fd00:1::1");
    }
}
