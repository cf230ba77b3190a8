//! What each connection begins with: hello, features, configuration.

use crate::wire::{Reader, Result, Writer};

/// Says which versions are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// One bit for each version's number. None: the version of the message's header is the highest.
    pub versions: Option<u32>,
}

impl Hello {
    /// The element that has the versions.
    const BITMAP: u16 = 1;

    /// The highest version that both ends serve. `header`: the version of the peer's hello.
    #[must_use]
    pub fn common(self, header: u8) -> Option<crate::Version> {
        let serves = |version: &crate::Version| match self.versions {
            Some(versions) => versions & 1 << version.number() != 0,
            // Without a bitmap the lower one of both highest versions is meant.
            None => version.number() == header.min(crate::Version::V15.number()),
        };
        crate::Version::ALL.into_iter().rev().find(serves)
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Self {
        let mut versions = None;
        // What is not understood is skipped: a hello of a later version has other elements.
        while let (Ok(kind), Ok(len)) = (input.u16(), input.u16()) {
            let len = usize::from(len);
            let Some(Ok(mut data)) = len.checked_sub(4).map(|len| input.part(len, "OFPBRC_BAD_LEN")) else {
                break;
            };
            if kind == Self::BITMAP && versions.is_none() {
                versions = data.u32().ok();
            }
            if input.skip(len.next_multiple_of(8) - len).is_err() {
                break;
            }
        }
        input.rest();
        Self { versions }
    }

    pub(crate) fn put(self, out: &mut Writer) {
        if let Some(versions) = self.versions {
            out.u16(Self::BITMAP);
            out.u16(8);
            out.u32(versions);
        }
    }
}

/// What a switch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Its id.
    pub datapath_id: u64,
    /// Packets that it buffers.
    pub buffers: u32,
    /// Number of its tables.
    pub tables: u8,
    /// Number of the connection; 0: the main one.
    pub auxiliary: u8,
    /// Bits of OpenFlow.
    pub capabilities: u32,
}

impl Features {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (datapath_id, buffers, tables, auxiliary) = (input.u64()?, input.u32()?, input.u8()?, input.u8()?);
        input.skip(2)?;
        let capabilities = input.u32()?;
        input.skip(4)?;
        Ok(Self { datapath_id, buffers, tables, auxiliary, capabilities })
    }

    pub(crate) fn put(self, out: &mut Writer) {
        out.u64(self.datapath_id);
        out.u32(self.buffers);
        out.u8(self.tables);
        out.u8(self.auxiliary);
        out.zeros(2);
        out.u32(self.capabilities);
        out.u32(0);
    }
}

/// How a switch treats fragments, and how much of a packet it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchConfig {
    /// 0: as usual, 1: drops fragments, 2: reassembles them.
    pub flags: u16,
    /// Bytes of a packet that a packet-in has.
    pub miss_send_len: u16,
}

impl SwitchConfig {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { flags: input.u16()?, miss_send_len: input.u16()? })
    }

    pub(crate) fn put(self, out: &mut Writer) {
        out.u16(self.flags);
        out.u16(self.miss_send_len);
    }
}
