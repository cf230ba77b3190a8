//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Group bit set: multicast or broadcast.
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The address of one station: no group bit, and not zero.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }

    /// All zero.
    #[inline]
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }

    /// The address as the low 48 bits of a number, first byte most significant.
    #[inline]
    #[must_use]
    pub fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The low 48 bits of a number, first byte most significant.
    #[inline]
    #[must_use]
    pub fn from_u64(value: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Self([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Not of the form `aa:bb:cc:dd:ee:ff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an Ethernet address has the form aa:bb:cc:dd:ee:ff")]
pub struct MacError;

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len())).ok_or(MacError)?;
            if !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(MacError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| MacError)?;
        }
        if parts.next().is_some() { Err(MacError) } else { Ok(Self(octets)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_forms_agree() {
        let mac: Mac = "0a:1B:2c:3d:4e:f".parse().expect("an address");
        assert_eq!(mac.to_string(), "0a:1b:2c:3d:4e:0f");
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        assert_eq!(mac.to_u64(), 0x0a1b_2c3d_4e0f);
        for bad in ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "+1:2:3:4:5:6", "100:2:3:4:5:6", "1:2:3:4:5:"] {
            assert_eq!(bad.parse::<Mac>(), Err(MacError), "{bad:?}");
        }
    }

    #[test]
    fn stations_and_groups_are_told_apart() {
        let read = |text: &str| text.parse::<Mac>().expect("an address");
        assert!(read("02:00:00:00:00:01").is_unicast());
        for other in [Mac::default(), Mac::BROADCAST, read("01:00:5e:00:00:01"), read("33:33:00:00:00:01")] {
            assert!(!other.is_unicast(), "{other}");
        }
        assert!(Mac::BROADCAST.is_multicast() && !Mac::default().is_multicast() && Mac::default().is_zero());
    }
}
