//! Bundles: messages that take effect together.

use crate::Codec;
use crate::header::{HEADER, header, may_be_bundled};
use crate::wire::{Reader, Result, Writer, refuse};

/// A step in the life of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleStep {
    /// Begin it.
    OpenRequest,
    /// It has begun.
    OpenReply,
    /// Add no more.
    CloseRequest,
    /// No more are added.
    CloseReply,
    /// Let all take effect.
    CommitRequest,
    /// All have taken effect.
    CommitReply,
    /// Forget it.
    DiscardRequest,
    /// It is forgotten.
    DiscardReply,
}

impl BundleStep {
    const ALL: [Self; 8] = [
        Self::OpenRequest,
        Self::OpenReply,
        Self::CloseRequest,
        Self::CloseReply,
        Self::CommitRequest,
        Self::CommitReply,
        Self::DiscardRequest,
        Self::DiscardReply,
    ];
}

/// Begins, ends or commits a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// The bundle.
    pub id: u32,
    /// What happens to it.
    pub step: BundleStep,
    /// Bits: 1 atomic, 2 ordered.
    pub flags: u16,
}

impl BundleControl {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (id, step, flags) = (input.u32()?, input.u16()?, input.u16()?);
        let Some(step) = BundleStep::ALL.get(usize::from(step)) else {
            return refuse("OFPBFC_BAD_TYPE", format!("bundles have no step {step}"));
        };
        check_flags(flags)?;
        // Properties of OpenFlow 1.5 (a time to commit at) are not served, and are skipped.
        input.rest();
        Ok(Self { id, step: *step, flags })
    }

    #[allow(clippy::cast_possible_truncation)] // eight steps
    pub(crate) fn put(self, out: &mut Writer) {
        out.u32(self.id);
        out.u16(self.step as u16);
        out.u16(self.flags);
    }
}

fn check_flags(flags: u16) -> Result<()> {
    if flags & !3 != 0 {
        return refuse("OFPBFC_BAD_FLAGS", format!("bundles have no flags {flags:#x}"));
    }
    Ok(())
}

/// A message in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd<M> {
    /// The bundle.
    pub id: u32,
    /// Bits, as in [`BundleControl::flags`].
    pub flags: u16,
    /// A mod of flows, groups or ports, or a packet-out; its xid is that of the message around it.
    pub message: Box<M>,
}

impl<M> BundleAdd<M> {
    /// `decode` reads the message in it.
    pub(crate) fn read(
        codec: Codec,
        xid: u32,
        decode: impl FnOnce(Codec, &[u8]) -> Result<M>,
        input: &mut Reader<'_>,
    ) -> Result<Self> {
        let id = input.u32()?;
        input.skip(2)?;
        let flags = input.u16()?;
        check_flags(flags)?;
        let bytes = input.rest();
        let header = header(bytes).ok_or_else(|| {
            crate::wire::refusal("OFPBFC_MSG_BAD_LEN", format!("a message of {} bytes in a bundle", bytes.len()))
        })?;
        let len = usize::from(header.len);
        if len > bytes.len() || len < HEADER {
            return refuse(
                "OFPBFC_MSG_BAD_LEN",
                format!("a message of {len} bytes, of which {} are there", bytes.len()),
            );
        }
        if header.version != codec.version.number() {
            return refuse("OFPBFC_BAD_VERSION", format!("a message of version {} in a bundle", header.version));
        }
        if header.xid != xid {
            return refuse(
                "OFPBFC_MSG_BAD_XID",
                "the xid of a message in a bundle is not that of the message around it",
            );
        }
        if !may_be_bundled(header.kind) {
            return refuse("OFPBFC_MSG_UNSUP", format!("messages of type {} have no place in a bundle", header.kind));
        }
        let message = decode(codec, &bytes[..len])?;
        Ok(Self { id, flags, message: Box::new(message) })
    }

    /// `message`: the message in it, as bytes.
    pub(crate) fn put(&self, message: &[u8], out: &mut Writer) {
        out.u32(self.id);
        out.u16(0);
        out.u16(self.flags);
        out.bytes(message);
    }
}
