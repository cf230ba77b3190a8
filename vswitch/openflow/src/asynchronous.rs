//! Which messages a controller gets unasked, and its role.

use crate::property::{properties, put_property};
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, Version};

/// Reasons for which a controller gets a kind of message, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncMasks {
    /// While it is primary or equal. None: unchanged.
    pub primary: Option<u32>,
    /// While it is secondary. None: unchanged.
    pub secondary: Option<u32>,
}

/// Which messages a controller gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Packet-ins.
    pub packet_in: AsyncMasks,
    /// Status of ports.
    pub port_status: AsyncMasks,
    /// Flows that have gone.
    pub flow_removed: AsyncMasks,
    /// Changes of roles. Only in OpenFlow 1.5, as those below.
    pub role_status: AsyncMasks,
    /// Changes of tables.
    pub table_status: AsyncMasks,
    /// Requests of other controllers.
    pub request_forward: AsyncMasks,
}

impl AsyncConfig {
    const fn masks(&mut self) -> [&mut AsyncMasks; 6] {
        [
            &mut self.packet_in,
            &mut self.port_status,
            &mut self.flow_removed,
            &mut self.role_status,
            &mut self.table_status,
            &mut self.request_forward,
        ]
    }

    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let mut config = Self::default();
        let mut masks = config.masks();
        if codec.version == Version::V13 {
            for masks in &mut masks[..3] {
                **masks = AsyncMasks { primary: Some(input.u32()?), secondary: Some(input.u32()?) };
            }
            return Ok(config);
        }
        for property in properties(Reader::new(input.rest(), "OFPBPC_BAD_LEN")) {
            let property = property?;
            // Even numbers are for secondary controllers.
            let Some(masks) = masks.get_mut(usize::from(property.kind / 2)) else {
                return refuse("OFPACFC_INVALID", format!("there is no property {}", property.kind));
            };
            let mask = Some(property.number_u32()?);
            if property.kind % 2 == 0 {
                masks.secondary = mask;
            } else {
                masks.primary = mask;
            }
        }
        Ok(config)
    }

    pub(crate) fn put(mut self, codec: Codec, out: &mut Writer) {
        if codec.version == Version::V13 {
            for masks in &self.masks()[..3] {
                out.u32(masks.primary.unwrap_or_default());
                out.u32(masks.secondary.unwrap_or_default());
            }
            return;
        }
        for (masks, kind) in self.masks().into_iter().zip((0_u16..).step_by(2)) {
            for (mask, kind) in [(masks.secondary, kind), (masks.primary, kind + 1)] {
                if let Some(mask) = mask {
                    put_property(kind, &mask.to_be_bytes(), out);
                }
            }
        }
    }
}

/// What a controller is to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Only asks.
    NoChange,
    /// One of several with all rights.
    Equal,
    /// The only one with all rights.
    Primary,
    /// Reads only.
    Secondary,
}

impl Role {
    fn read(input: &mut Reader<'_>) -> Result<Self> {
        Ok(match input.u32()? {
            0 => Self::NoChange,
            1 => Self::Equal,
            2 => Self::Primary,
            3 => Self::Secondary,
            other => return refuse("OFPRRFC_BAD_ROLE", format!("there is no role {other}")),
        })
    }

    const fn number(self) -> u32 {
        match self {
            Self::NoChange => 0,
            Self::Equal => 1,
            Self::Primary => 2,
            Self::Secondary => 3,
        }
    }
}

/// Asks for a role, or tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// Of the election of the primary.
    pub generation: u64,
}

impl RoleMessage {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let role = Role::read(input)?;
        input.skip(4)?;
        Ok(Self { role, generation: input.u64()? })
    }

    pub(crate) fn put(self, out: &mut Writer) {
        out.u32(self.role.number());
        out.u32(0);
        out.u64(self.generation);
    }
}

/// Tells a controller that it has another role. Only in OpenFlow 1.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// The role.
    pub role: Role,
    /// 0: another controller is primary, 1: the switch was configured.
    pub reason: u8,
    /// Of the election of the primary.
    pub generation: u64,
}

impl RoleStatus {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (role, reason) = (Role::read(input)?, input.u8()?);
        input.skip(3)?;
        Ok(Self { role, reason, generation: input.u64()? })
    }

    pub(crate) fn put(self, out: &mut Writer) {
        out.u32(self.role.number());
        out.u8(self.reason);
        out.zeros(3);
        out.u64(self.generation);
    }
}
