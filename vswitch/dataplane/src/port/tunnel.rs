//! Tunnel ports as their owner describes them: the options of ovs-vswitchd.conf.db(5), "Tunnel
//! Options".

use super::FieldError;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use vswitch_overlay::{GENEVE_PORT, TunnelKind, VXLAN_PORT};

/// One end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Any of our addresses (only `local_ip`): the route chooses.
    Any,
    /// Each packet's metadata says it: `flow`.
    Flow,
    /// This one.
    Address(IpAddr),
}

/// The tunnel's id (VNI, GRE key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// None: in packets that come in, 0 or none.
    Absent,
    /// `tun_id` of each packet.
    Flow,
    /// This one.
    Value(u64),
}

/// A value of the outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// That of the inner packet, if it is IP.
    Inherit,
    /// This one.
    Value(u8),
}

/// A tunnel port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent options
pub struct TunnelConfig {
    /// Geneve, VXLAN or GRE.
    pub kind: TunnelKind,
    /// `remote_ip`.
    pub remote: End,
    /// `local_ip`.
    pub local: End,
    /// `in_key`.
    pub in_key: Key,
    /// `out_key`.
    pub out_key: Key,
    /// UDP port; 0 for GRE.
    pub dst_port: u16,
    /// Outer UDP (or GRE) checksum. UDP over IPv6 has one anyway.
    pub csum: bool,
    /// Outer DSCP; the ECN bits are always those of the inner packet.
    pub tos: Outer,
    /// Outer TTL.
    pub ttl: Outer,
    /// Outer "don't fragment".
    pub df: bool,
    /// Packets that are too long for the way are cut, or their senders told.
    pub pmtud: bool,
    /// VXLAN group policy (`exts=gbp`).
    pub gbp: bool,
    /// GRE sequence numbers.
    pub seq: bool,
}

/// What a kind of tunnel is called in configuration, API and output.
#[must_use]
pub const fn tunnel_word(kind: TunnelKind) -> &'static str {
    match kind {
        TunnelKind::Geneve => "geneve",
        TunnelKind::Vxlan => "vxlan",
        TunnelKind::Gre => "gre",
    }
}

/// The kind of that name.
#[must_use]
pub fn tunnel_kind(word: &str) -> Option<TunnelKind> {
    [TunnelKind::Geneve, TunnelKind::Vxlan, TunnelKind::Gre].into_iter().find(|kind| tunnel_word(*kind) == word)
}

impl TunnelConfig {
    /// A tunnel with defaults.
    #[must_use]
    pub const fn new(kind: TunnelKind, remote: End) -> Self {
        Self {
            kind,
            remote,
            local: End::Any,
            in_key: Key::Absent,
            out_key: Key::Absent,
            dst_port: default_port(kind),
            csum: false,
            tos: Outer::Value(0),
            ttl: Outer::Value(DEFAULT_TTL),
            df: true,
            pmtud: true,
            gbp: false,
            seq: false,
        }
    }

    /// Reads options.
    ///
    /// # Errors
    /// Every option that is unknown or has a wrong value.
    pub fn parse(kind: TunnelKind, options: &BTreeMap<String, String>) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut config = Self::new(kind, End::Flow);
        if !options.contains_key("remote_ip") {
            let hint = "every tunnel needs remote_ip: an address, or flow";
            errors.push(FieldError::new("options", "remote_ip is missing", hint));
        }
        // What is said of one direction beats what is said of both.
        let both_first = |(name, _): &(&String, &String)| *name != "key";
        let mut in_order: Vec<_> = options.iter().collect();
        in_order.sort_by_key(both_first);
        for (name, value) in in_order {
            if let Err(why) = config.set(name, value) {
                errors.push(FieldError::new("options", format!("{name}={value}: {why}"), hint(name)));
            }
        }
        if config.local == End::Flow && config.remote != End::Flow {
            let problem = "local_ip=flow and a remote_ip that is not";
            errors.push(FieldError::new("options", problem, "give remote_ip=flow, too"));
        }
        if let (End::Address(local), End::Address(remote)) = (config.local, config.remote)
            && local.is_ipv4() != remote.is_ipv4()
        {
            let hint = "both ends are IPv4, or both IPv6";
            errors.push(FieldError::new("options", format!("local_ip {local}, remote_ip {remote}"), hint));
        }
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "remote_ip" => self.remote = end(value).ok_or("no address")?,
            "local_ip" => self.local = end(value).ok_or("no address")?,
            "key" => {
                self.in_key = self.key(value)?;
                self.out_key = self.in_key;
            }
            "in_key" => self.in_key = self.key(value)?,
            "out_key" => self.out_key = self.key(value)?,
            "dst_port" if self.kind != TunnelKind::Gre => {
                self.dst_port = value.parse().ok().filter(|port| *port != 0).ok_or("no port")?;
            }
            "csum" => self.csum = boolean(value)?,
            "tos" => {
                self.tos = outer(value)?;
                if matches!(self.tos, Outer::Value(tos) if tos & 3 != 0) {
                    return Err("the two lowest bits are for ECN, which is the inner packet's");
                }
            }
            "ttl" => {
                self.ttl = outer(value)?;
                // As if it had not been given, in Open vSwitch, too.
                if self.ttl == Outer::Value(0) {
                    self.ttl = Outer::Value(DEFAULT_TTL);
                }
            }
            "df_default" => self.df = boolean(value)?,
            "pmtud" => self.pmtud = boolean(value)?,
            "exts" if self.kind == TunnelKind::Vxlan => {
                self.gbp = matches!(value, "gbp");
                if !self.gbp {
                    return Err("no extension");
                }
            }
            "seq" if self.kind == TunnelKind::Gre => self.seq = boolean(value)?,
            _ => return Err("no option of this type"),
        }
        Ok(())
    }

    fn key(&self, text: &str) -> Result<Key, &'static str> {
        if text == "flow" {
            return Ok(Key::Flow);
        }
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let max = if self.kind == TunnelKind::Gre { u64::from(u32::MAX) } else { 0x00ff_ffff };
        number.ok().filter(|number| *number <= max).map(Key::Value).ok_or("no key")
    }

    /// The options that are not as by default, in the words of [`Self::parse`].
    #[must_use]
    pub fn options(&self) -> BTreeMap<String, String> {
        let plain = Self::new(self.kind, self.remote);
        let mut options = BTreeMap::new();
        let mut add = |name: &str, differs: bool, value: &dyn Display| {
            if differs {
                options.insert(name.to_owned(), value.to_string());
            }
        };
        add("remote_ip", true, &self.remote);
        add("local_ip", self.local != plain.local, &self.local);
        let one_key = self.in_key == self.out_key;
        add("key", one_key && self.in_key != Key::Absent, &self.in_key);
        add("in_key", !one_key && self.in_key != Key::Absent, &self.in_key);
        add("out_key", !one_key && self.out_key != Key::Absent, &self.out_key);
        add("dst_port", self.dst_port != plain.dst_port, &self.dst_port);
        add("csum", self.csum, &self.csum);
        add("tos", self.tos != plain.tos, &self.tos);
        add("ttl", self.ttl != plain.ttl, &self.ttl);
        add("df_default", !self.df, &self.df);
        add("pmtud", !self.pmtud, &self.pmtud);
        add("exts", self.gbp, &"gbp");
        add("seq", self.seq, &self.seq);
        options
    }
}

/// Outer TTL, unless it is said.
const DEFAULT_TTL: u8 = 64;

const fn default_port(kind: TunnelKind) -> u16 {
    match kind {
        TunnelKind::Geneve => GENEVE_PORT,
        TunnelKind::Vxlan => VXLAN_PORT,
        TunnelKind::Gre => 0,
    }
}

fn hint(name: &str) -> &'static str {
    match name {
        "remote_ip" | "local_ip" => "use a unicast IPv4 or IPv6 address, or flow",
        "key" | "in_key" | "out_key" => "use a number of 24 bits (gre: 32), or flow",
        "dst_port" => "use a UDP port, 1 to 65535; gre has none",
        "csum" | "df_default" => "use true or false",
        "seq" => "use true or false; only gre has it",
        "tos" | "ttl" => "use inherit, or a number of 8 bits",
        "exts" => "use gbp; only vxlan has it",
        _ => "use remote_ip, local_ip, key, in_key, out_key, dst_port, csum, tos, ttl, df_default, exts or seq",
    }
}

fn end(text: &str) -> Option<End> {
    if text == "flow" {
        return Some(End::Flow);
    }
    let address: IpAddr = text.parse().ok()?;
    let is_host = !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    (is_host && !is_broadcast).then_some(End::Address(address))
}

fn boolean(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "neither true nor false")
}

fn outer(text: &str) -> Result<Outer, &'static str> {
    if text == "inherit" {
        return Ok(Outer::Inherit);
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map(Outer::Value).map_err(|_| "no number of 8 bits")
}

impl Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Flow => f.write_str("flow"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("none"),
            Self::Flow => f.write_str("flow"),
            Self::Value(value) => value.fmt(f),
        }
    }
}

impl Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inherit => f.write_str("inherit"),
            Self::Value(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, options: &str) -> Result<TunnelConfig, String> {
        let pairs = options.split_whitespace().filter_map(|pair| pair.split_once('='));
        let options = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let config = TunnelConfig::parse(tunnel_kind(kind).expect("a kind"), &options);
        config.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn options_come_back_as_they_were_given() {
        for (kind, options) in [
            ("geneve", "key=flow remote_ip=flow"),
            (
                "geneve",
                "csum=true df_default=false dst_port=6082 key=5 local_ip=10.0.0.1 remote_ip=10.0.0.2 tos=inherit ttl=7",
            ),
            ("vxlan", "exts=gbp in_key=1 out_key=flow remote_ip=fd00::2"),
            ("gre", "key=4294967295 remote_ip=1.2.3.4 seq=true"),
        ] {
            let config = parse(kind, options).expect(options);
            let back = config.options();
            let back: Vec<String> = back.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(back.join(" "), options, "{kind}");
        }
    }

    #[test]
    fn one_directions_key_beats_that_of_both() {
        for options in ["remote_ip=flow key=5 in_key=6", "remote_ip=flow in_key=6 key=5"] {
            let config = parse("geneve", options).expect(options);
            assert_eq!((config.in_key, config.out_key), (Key::Value(6), Key::Value(5)), "{options}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (kind, options, part) in [
            ("geneve", "key=1", "remote_ip is missing"),
            ("geneve", "remote_ip=1.2.3", "remote_ip=1.2.3"),
            ("geneve", "remote_ip=224.0.0.1", "no address"),
            ("geneve", "remote_ip=flow key=16777216", "no key"),
            ("gre", "remote_ip=flow dst_port=5", "no option of this type"),
            ("vxlan", "remote_ip=flow seq=true", "no option of this type"),
            ("vxlan", "remote_ip=flow ttl=256", "no number of 8 bits"),
            ("vxlan", "remote_ip=127.0.0.1", "no address"),
            ("vxlan", "remote_ip=255.255.255.255", "no address"),
            ("vxlan", "remote_ip=1.2.3.4 local_ip=fd00::1", "both ends are IPv4"),
            ("vxlan", "remote_ip=1.2.3.4 local_ip=flow", "local_ip=flow"),
            ("vxlan", "remote_ip=flow peer=x", "no option of this type"),
        ] {
            let problem = parse(kind, options).expect_err(options);
            assert!(problem.contains(part), "{kind} {options}: {problem}");
        }
    }
}
