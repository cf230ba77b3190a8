//! The text of a host plan: one line for each thing, close to what iproute2 prints.
//!
//! Problems name things by these lines, and goldens of plans consist of them.

use crate::antrea::v1::{HostAddress, HostLink, HostNeighbour, HostPlan, HostRoute, HostRule, HostSysctl};
use crate::v1::MacAddress;
use std::fmt;

/// A MAC address as text. One of another length than six octets is printed as it is.
fn mac(address: Option<&MacAddress>) -> String {
    let octets = address.map_or(&[][..], |address| &address.octets);
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

impl fmt::Display for HostLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} address {}", self.interface, mac(self.mac.as_ref()))?;
        if self.up { f.write_str(" up") } else { Ok(()) }
    }
}

impl fmt::Display for HostSysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sysctl {} = {}", self.path, self.value)
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address {}", self.address)?;
        match self.interface.as_str() {
            "" => write!(f, " beside {}", self.beside)?,
            interface => write!(f, " dev {interface}")?,
        }
        if self.deprecated { f.write_str(" deprecated") } else { Ok(()) }
    }
}

impl fmt::Display for HostNeighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "neighbour {} dev {} lladdr {} permanent", self.address, self.interface, mac(self.mac.as_ref()))
    }
}

impl fmt::Display for HostRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}", self.destination)?;
        for (word, value) in [("via", &self.via), ("dev", &self.interface), ("src", &self.source)] {
            if !value.is_empty() {
                write!(f, " {word} {value}")?;
            }
        }
        if self.table != 0 {
            write!(f, " table {}", self.table)?;
        }
        if self.onlink { f.write_str(" onlink") } else { Ok(()) }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.ipv6 { 6 } else { 4 };
        write!(f, "rule -{family} priority {} fwmark {:#x}/{:#x}", self.priority, self.mark, self.mask)?;
        write!(f, " iif {} table {}", self.in_interface, self.table)
    }
}

impl fmt::Display for HostPlan {
    /// All of it, without its generation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.links.iter().try_for_each(|one| writeln!(f, "{one}"))?;
        self.sysctls.iter().try_for_each(|one| writeln!(f, "{one}"))?;
        self.addresses.iter().try_for_each(|one| writeln!(f, "{one}"))?;
        self.neighbours.iter().try_for_each(|one| writeln!(f, "{one}"))?;
        self.routes.iter().try_for_each(|one| writeln!(f, "{one}"))?;
        self.rules.iter().try_for_each(|one| writeln!(f, "{one}"))?;
        if self.nft.is_empty() { Ok(()) } else { write!(f, "table inet vswitch {{\n{}}}\n", self.nft) }
    }
}
