//! Ports: descriptions, mods, status, statistics.

use crate::property::{properties, put_property};
use crate::wire::{Reader, Result, Writer, refuse, text};
use crate::{Codec, Version};

/// Bytes of a port's name, with a 0 behind it.
const NAME: usize = 16;
/// The property of Ethernet ports.
const ETHERNET: u16 = 0;

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its address.
    pub address: [u8; 6],
    /// Up to 15 bytes; longer names are cut.
    pub name: String,
    /// Bits of what is configured: 1 down, 4 no receiving, 0x20 no forwarding, 0x40 no packet-ins.
    pub config: u32,
    /// Bits of what it is: 1 link down, 2 blocked, 4 live.
    pub state: u32,
    /// Features in use, advertised, supported, and of the peer.
    pub features: [u32; 4],
    /// Speed now and at most, in kilobits per second.
    pub speed: [u32; 2],
}

impl Port {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let number = input.u32()?;
        let mut port = Self { number, ..Self::default() };
        let mut body = match codec.version {
            Version::V13 => {
                input.skip(4)?;
                input.part(56, "OFPBRC_BAD_LEN")?
            }
            Version::V15 => {
                let len = usize::from(input.u16()?);
                input.skip(2)?;
                input.part(len.saturating_sub(8), "OFPBRC_BAD_LEN")?
            }
        };
        port.address = body.array()?;
        body.skip(2)?;
        port.name = text(body.take(NAME)?);
        (port.config, port.state) = (body.u32()?, body.u32()?);
        if codec.version == Version::V13 {
            port.read_features(&mut body)?;
            return Ok(port);
        }
        for property in properties(body) {
            let mut property = property?;
            if property.kind == ETHERNET {
                property.data.skip(4)?;
                port.read_features(&mut property.data)?;
            }
        }
        Ok(port)
    }

    fn read_features(&mut self, input: &mut Reader<'_>) -> Result<()> {
        for number in self.features.iter_mut().chain(&mut self.speed) {
            *number = input.u32()?;
        }
        Ok(())
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        let start = out.len();
        out.u32(self.number);
        out.u32(0);
        out.bytes(&self.address);
        out.u16(0);
        out.text(&self.name, NAME);
        out.u32(self.config);
        out.u32(self.state);
        let numbers = self.features.iter().chain(&self.speed);
        match codec.version {
            Version::V13 => numbers.for_each(|number| out.u32(*number)),
            Version::V15 => {
                let mut data = Writer::default();
                data.u32(0);
                numbers.for_each(|number| data.u32(*number));
                put_property(ETHERNET, &data.0, out);
                out.length(start + 4, start);
            }
        }
    }
}

/// What has happened to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// It has come.
    Add,
    /// It has gone.
    Delete,
    /// It has changed.
    Modify,
}

/// Tells of a port that has come, gone or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What has happened.
    pub reason: PortReason,
    /// The port as it is, or was.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let reason = match input.u8()? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            other => return refuse("NXBRC_BAD_REASON", format!("ports have no status {other}")),
        };
        input.skip(7)?;
        Ok(Self { reason, port: Port::read(codec, input)? })
    }

    #[allow(clippy::cast_possible_truncation)] // three reasons
    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        out.u8(self.reason as u8);
        out.zeros(7);
        self.port.put(codec, out);
    }
}

/// Changes a port's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortMod {
    /// Its number.
    pub number: u32,
    /// Its address, which must be right.
    pub address: [u8; 6],
    /// Bits of [`Port::config`].
    pub config: u32,
    /// Which of them change.
    pub mask: u32,
    /// Features to advertise; 0: as they are.
    pub advertise: u32,
}

impl PortMod {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let number = input.u32()?;
        input.skip(4)?;
        let address = input.array()?;
        input.skip(2)?;
        let (config, mask) = (input.u32()?, input.u32()?);
        let mut port = Self { number, address, config, mask, advertise: 0 };
        if codec.version == Version::V13 {
            port.advertise = input.u32()?;
            input.skip(4)?;
            return Ok(port);
        }
        for property in properties(Reader::new(input.rest(), "OFPBPC_BAD_LEN")) {
            let property = property?;
            match property.kind {
                ETHERNET => port.advertise = property.number_u32()?,
                kind => return refuse("OFPBPC_BAD_TYPE", format!("port mods have no property {kind}")),
            }
        }
        Ok(port)
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        out.u32(self.number);
        out.u32(0);
        out.bytes(&self.address);
        out.u16(0);
        out.u32(self.config);
        out.u32(self.mask);
        if codec.version == Version::V13 {
            out.u32(self.advertise);
            out.u32(0);
        } else if self.advertise != 0 {
            put_property(ETHERNET, &self.advertise.to_be_bytes(), out);
        }
    }
}

/// What has gone through a port. All ones: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Its number.
    pub number: u32,
    /// Seconds and nanoseconds that it has been there.
    pub duration: (u32, u32),
    /// Received and sent: packets, bytes, dropped, errors.
    pub counters: [u64; 8],
    /// Frame errors, overruns, checksum errors, collisions.
    pub errors: [u64; 4],
    /// Further properties of OpenFlow 1.5, as they are sent.
    pub properties: Vec<u8>,
}

impl PortStats {
    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let mut stats = Self::default();
        if codec.version == Version::V13 {
            stats.number = input.u32()?;
            input.skip(4)?;
            for counter in stats.counters.iter_mut().chain(&mut stats.errors) {
                *counter = input.u64()?;
            }
            stats.duration = (input.u32()?, input.u32()?);
            return Ok(stats);
        }
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2), "OFPBRC_BAD_LEN")?;
        body.skip(2)?;
        (stats.number, stats.duration) = (body.u32()?, (body.u32()?, body.u32()?));
        for counter in &mut stats.counters {
            *counter = body.u64()?;
        }
        if body.peek_u16() == Some(ETHERNET) {
            let mut ethernet = body.part(40, "OFPBPC_BAD_LEN")?;
            ethernet.skip(8)?;
            for counter in &mut stats.errors {
                *counter = ethernet.u64()?;
            }
        }
        stats.properties = body.rest().to_vec();
        Ok(stats)
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        if codec.version == Version::V13 {
            out.u32(self.number);
            out.u32(0);
            self.counters.iter().chain(&self.errors).for_each(|counter| out.u64(*counter));
            out.u32(self.duration.0);
            return out.u32(self.duration.1);
        }
        let start = out.len();
        out.u32(0);
        out.u32(self.number);
        out.u32(self.duration.0);
        out.u32(self.duration.1);
        self.counters.iter().for_each(|counter| out.u64(*counter));
        let mut data = Writer::default();
        data.u32(0);
        self.errors.iter().for_each(|counter| data.u64(*counter));
        put_property(ETHERNET, &data.0, out);
        out.bytes(&self.properties);
        out.length(start, start);
    }
}
