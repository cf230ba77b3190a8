//! Meters: mods, configurations, statistics, features.

use crate::wire::{Reader, Result, Writer, refuse};
use vswitch_flow::spec::{Band, BandKind, MeterSpec, Update};

/// All meters.
pub(crate) const ALL_METERS: u32 = 0xffff_ffff;

mod flag {
    pub(super) const KBPS: u16 = 1;
    pub(super) const PKTPS: u16 = 2;
    pub(super) const BURST: u16 = 4;
    pub(super) const STATS: u16 = 8;
}

/// What a meter mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterCommand {
    /// Adds a meter.
    Add,
    /// Changes it.
    Modify,
    /// Deletes it, or all.
    Delete,
}

/// Adds, changes or deletes meters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What it does.
    pub command: MeterCommand,
    /// The meter. Its id alone counts where meters are deleted; 0xffffffff: all.
    pub spec: MeterSpec,
    /// Whether rates are said to be in kilobits. Not where meters are deleted.
    pub kbps: bool,
}

impl MeterMod {
    /// What it asks the switch for.
    ///
    /// # Errors
    /// What Open vSwitch refuses of it, whatever meters there are.
    pub fn update(&self) -> Result<Update> {
        let id = self.spec.id;
        if self.command == MeterCommand::Delete {
            return Ok(Update::DeleteMeters((id != ALL_METERS).then_some(id)));
        }
        if self.kbps == self.spec.pktps {
            return refuse("OFPMMFC_BAD_FLAGS", "a meter counts either kilobits or packets");
        }
        self.spec.check()?;
        let spec = self.spec.clone();
        Ok(if self.command == MeterCommand::Add { Update::AddMeter(spec) } else { Update::ModifyMeter(spec) })
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (command, flags, id) = (input.u16()?, input.u16()?, input.u32()?);
        let command = match command {
            0 => MeterCommand::Add,
            1 => MeterCommand::Modify,
            2 => MeterCommand::Delete,
            _ => return refuse("OFPMMFC_BAD_COMMAND", format!("meter mods have no command {command}")),
        };
        let (spec, kbps) = read_spec(flags, id, input)?;
        Ok(Self { command, spec, kbps })
    }

    #[allow(clippy::cast_possible_truncation)] // three commands
    pub(crate) fn put(&self, out: &mut Writer) {
        out.u16(self.command as u16);
        out.u16(flags(&self.spec, self.kbps));
        out.u32(self.spec.id);
        put_bands(&self.spec, out);
    }
}

fn read_spec(flags: u16, id: u32, input: &mut Reader<'_>) -> Result<(MeterSpec, bool)> {
    if flags & !0xf != 0 {
        return refuse("OFPMMFC_BAD_FLAGS", format!("meters have no flags {flags:#x}"));
    }
    let mut bands = Vec::new();
    while !input.is_empty() {
        bands.push(read_band(input)?);
    }
    let has = |flag: u16| flags & flag != 0;
    let spec = MeterSpec { id, pktps: has(flag::PKTPS), burst: has(flag::BURST), stats: has(flag::STATS), bands };
    Ok((spec, has(flag::KBPS)))
}

fn read_band(input: &mut Reader<'_>) -> Result<Band> {
    let (kind, len) = (input.u16()?, usize::from(input.u16()?));
    if len != 16 {
        return refuse("OFPBRC_BAD_LEN", format!("a meter's band has 16 bytes, not {len}"));
    }
    let mut body = input.part(12, "OFPBRC_BAD_LEN")?;
    let (rate, burst, precedence) = (body.u32()?, body.u32()?, body.u8()?);
    let kind = match kind {
        1 => BandKind::Drop,
        2 => BandKind::DscpRemark { precedence },
        _ => return refuse("OFPMMFC_BAD_BAND", format!("bands of type {kind} are not served")),
    };
    Ok(Band { kind, rate, burst })
}

fn flags(spec: &MeterSpec, kbps: bool) -> u16 {
    let flag = |given: bool, flag: u16| if given { flag } else { 0 };
    flag(kbps, flag::KBPS)
        | flag(spec.pktps, flag::PKTPS)
        | flag(spec.burst, flag::BURST)
        | flag(spec.stats, flag::STATS)
}

fn put_bands(spec: &MeterSpec, out: &mut Writer) {
    for band in &spec.bands {
        let (kind, precedence) = match band.kind {
            BandKind::Drop => (1, 0),
            BandKind::DscpRemark { precedence } => (2, precedence),
        };
        out.u16(kind);
        out.u16(16);
        out.u32(band.rate);
        out.u32(band.burst);
        out.u8(precedence);
        out.zeros(3);
    }
}

/// Reads a meter's configuration.
pub(crate) fn read_config(input: &mut Reader<'_>) -> Result<MeterSpec> {
    let len = usize::from(input.u16()?);
    let mut body = input.part(len.saturating_sub(2), "OFPBRC_BAD_LEN")?;
    let (flags, id) = (body.u16()?, body.u32()?);
    read_spec(flags, id, &mut body).map(|(spec, _)| spec)
}

/// Writes the same.
pub(crate) fn put_config(spec: &MeterSpec, out: &mut Writer) {
    let start = out.len();
    out.u16(0);
    out.u16(flags(spec, !spec.pktps));
    out.u32(spec.id);
    put_bands(spec, out);
    out.length(start, start);
}

/// What a band has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandCounters {
    /// Packets above its rate.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a meter has met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// Its id.
    pub id: u32,
    /// Flows that use it.
    pub flows: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds and nanoseconds that it has been there.
    pub duration: (u32, u32),
    /// In the order of the bands.
    pub bands: Vec<BandCounters>,
}

impl MeterStats {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (id, len) = (input.u32()?, usize::from(input.u16()?));
        let mut body = input.part(len.saturating_sub(6), "OFPBRC_BAD_LEN")?;
        body.skip(6)?;
        let (flows, packets, bytes) = (body.u32()?, body.u64()?, body.u64()?);
        let duration = (body.u32()?, body.u32()?);
        let mut bands = Vec::new();
        while !body.is_empty() {
            bands.push(BandCounters { packets: body.u64()?, bytes: body.u64()? });
        }
        Ok(Self { id, flows, packets, bytes, duration, bands })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        let start = out.len();
        out.u32(self.id);
        out.zeros(8);
        out.u32(self.flows);
        out.u64(self.packets);
        out.u64(self.bytes);
        out.u32(self.duration.0);
        out.u32(self.duration.1);
        for band in &self.bands {
            out.u64(band.packets);
            out.u64(band.bytes);
        }
        out.length(start + 4, start);
    }
}

/// What meters can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFeatures {
    /// Most meters.
    pub max_meters: u32,
    /// Types of bands, one bit for each number.
    pub band_types: u32,
    /// Flags of meters that are served.
    pub capabilities: u32,
    /// Most bands of a meter.
    pub max_bands: u8,
    /// Highest color.
    pub max_color: u8,
}

impl MeterFeatures {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (max_meters, band_types, capabilities) = (input.u32()?, input.u32()?, input.u32()?);
        let (max_bands, max_color) = (input.u8()?, input.u8()?);
        input.skip(2)?;
        Ok(Self { max_meters, band_types, capabilities, max_bands, max_color })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        out.u32(self.max_meters);
        out.u32(self.band_types);
        out.u32(self.capabilities);
        out.u8(self.max_bands);
        out.u8(self.max_color);
        out.zeros(2);
    }
}
