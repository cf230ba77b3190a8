//! Statistics and features of groups.

use crate::wire::{Reader, Result, Writer};

/// What has gone through a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketCounters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What has gone through a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Its id.
    pub id: u32,
    /// Flows and groups that use it.
    pub references: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds and nanoseconds that it has been there.
    pub duration: (u32, u32),
    /// In the order of the buckets.
    pub buckets: Vec<BucketCounters>,
}

impl GroupStats {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2), "OFPBRC_BAD_LEN")?;
        body.skip(2)?;
        let (id, references) = (body.u32()?, body.u32()?);
        body.skip(4)?;
        let (packets, bytes, duration) = (body.u64()?, body.u64()?, (body.u32()?, body.u32()?));
        let mut buckets = Vec::new();
        while !body.is_empty() {
            buckets.push(BucketCounters { packets: body.u64()?, bytes: body.u64()? });
        }
        Ok(Self { id, references, packets, bytes, duration, buckets })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        let start = out.len();
        out.u32(0);
        out.u32(self.id);
        out.u32(self.references);
        out.u32(0);
        out.u64(self.packets);
        out.u64(self.bytes);
        out.u32(self.duration.0);
        out.u32(self.duration.1);
        for bucket in &self.buckets {
            out.u64(bucket.packets);
            out.u64(bucket.bytes);
        }
        out.length(start, start);
    }
}

/// What groups can do; by type: all, select, indirect, fast failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Types that are served, one bit each.
    pub types: u32,
    /// Bits: 1 weights, 2 liveness, 4 chaining, 8 checks for loops.
    pub capabilities: u32,
    /// Most groups of a type.
    pub max_groups: [u32; 4],
    /// Actions that buckets of a type may have, one bit for each number.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let mut features = Self { types: input.u32()?, capabilities: input.u32()?, ..Self::default() };
        for number in features.max_groups.iter_mut().chain(&mut features.actions) {
            *number = input.u32()?;
        }
        Ok(features)
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        out.u32(self.types);
        out.u32(self.capabilities);
        self.max_groups.iter().chain(&self.actions).for_each(|number| out.u32(*number));
    }
}
