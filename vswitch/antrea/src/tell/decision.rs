//! What registers say of a packet that policies tell of.

use crate::Table;
use vswitch_flow::{Field, FlowKey};

/// Bits of operations (reg0[25..31]).
const LOG: u32 = 1;
const REFUSE: u32 = 2;
const RECORD: u32 = 4;
/// reg0[10]: a rule with a number denied it (Antrea: `APDenyRegMark`).
const DENIED: u32 = 0x400;

/// reg0[11..12]: what was decided (Antrea: `APDispositionField`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Disposition {
    Allow = 0,
    Drop = 1,
    Reject = 2,
    Pass = 3,
}

impl Disposition {
    /// In Antrea's words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "Allow",
            Self::Drop => "Drop",
            Self::Reject => "Reject",
            Self::Pass => "Pass",
        }
    }
}

/// What a policy decided about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    operations: u32,
    /// Number of the table that decided.
    pub table: u8,
    /// What it decided.
    pub disposition: Disposition,
    /// Number of the rule; 0: isolation has none.
    pub rule: u32,
}

impl Decision {
    /// What a packet's registers say.
    #[must_use]
    pub fn of(metadata: &FlowKey) -> Self {
        let register = |field| u32::try_from(metadata.get(field) & 0xffff_ffff).unwrap_or_default();
        let (flags, table) = (register(Field::Reg0), register(Field::Reg2).to_le_bytes()[0]);
        let disposition = match flags >> 11 & 3 {
            0 => Disposition::Allow,
            1 => Disposition::Drop,
            2 => Disposition::Reject,
            _ => Disposition::Pass,
        };
        let decision = Self { operations: flags >> 25, table, disposition, rule: 0 };
        let is_multicast =
            matches!(Table::by_number(table), Some(Table::MulticastEgressRule | Table::MulticastIngressRule));
        let rule = match disposition {
            // reg3 may have an endpoint's address still, unless a rule wrote it.
            Disposition::Drop | Disposition::Reject if flags & DENIED == 0 => 0,
            Disposition::Drop | Disposition::Reject => register(Field::Reg3),
            _ if is_multicast => register(Field::Reg3),
            _ if decision.is_egress() == Some(true) => register(Field::Reg5),
            _ => register(Field::Reg6),
        };
        Self { rule, ..decision }
    }

    /// It is to be told as a log.
    #[must_use]
    pub const fn is_logged(&self) -> bool {
        self.operations & LOG != 0
    }

    /// Its sender is to be told.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        self.operations & REFUSE != 0
    }

    /// It is to be told as the record of a denied connection.
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        self.operations & RECORD != 0
    }

    /// Whether policies of the sender decided, or of the receiver; None: not a table that decides.
    #[must_use]
    pub fn is_egress(&self) -> Option<bool> {
        match Table::by_number(self.table)?.stage() {
            "egressSecurity" => Some(true),
            "ingressSecurity" => Some(false),
            _ => None,
        }
    }

    /// Name of the table; of one that Antrea does not have, its number.
    #[must_use]
    pub fn table_name(&self) -> String {
        Table::by_number(self.table).map_or_else(|| self.table.to_string(), |table| table.name().to_owned())
    }
}
