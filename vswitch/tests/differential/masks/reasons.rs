//! Why masks of ours may differ from Open vSwitch's.

use super::{Decision, Program};
use vswitch_flow::Field;

/// Which of the two looks at more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Ours: for fewer packets.
    Narrower,
    /// Open vSwitch's.
    Wider,
}

/// Bits of a field that one of two decisions about a packet looks at, and the other does not.
#[derive(Debug)]
pub(crate) struct Difference<'a> {
    pub(crate) side: Side,
    pub(crate) field: Field,
    pub(crate) theirs: &'a Decision,
    pub(crate) program: &'a Program,
}

/// A known cause.
pub(crate) struct Reason {
    pub(crate) name: &'static str,
    /// Why it is so. For whoever reads the list.
    #[allow(dead_code)]
    pub(crate) why: &'static str,
    /// Whether it is the cause.
    pub(crate) explains: fn(&Difference<'_>) -> bool,
}

/// Fields whose lookups follow prefixes.
const PREFIXES: [Field; 6] = [Field::NwSrc, Field::NwDst, Field::Ipv6Src, Field::Ipv6Dst, Field::TpSrc, Field::TpDst];

/// All of them.
pub(crate) const REASONS: [Reason; 5] = [
    Reason {
        name: "fewer-bits-suffice",
        why: "ours is for more packets, all of which it fits: `a_decision_holds_for_all_packets_of_its_mask` tries that. It compares up \
              to four matches of a mask one by one, where Open vSwitch uses all bits of a stage; leaves clauses alone that cannot \
              win; and has prefixes of more fields",
        explains: |d| d.side == Side::Wider,
    },
    Reason {
        name: "bits-of-a-prefix",
        why: "both look at the field. How many of its first bits tell that no prefix fits depends on which masks of a table are \
              tried, and masks of equal priority have no order",
        explains: |d| PREFIXES.contains(&d.field) && d.theirs.mask.get(d.field) != 0,
    },
    Reason {
        name: "first-added-wins",
        why: "of two flows of one priority that a packet fits, the first added is met. So masks are looked up that have a flow added before \
              the one that was found; Open vSwitch stops at the first flow found",
        explains: |d| d.program.ties(d.field),
    },
    Reason {
        name: "moved-marks-are-read",
        why: "a move in exec() reads mark or label. Open vSwitch 3.1 forgets that it did",
        explains: |d| {
            matches!(d.field, Field::CtMark | Field::CtLabel) && d.program.says(&["move:NXM_NX_CT", "move:ct_"])
        },
    },
    Reason {
        name: "fin-timeout-looks-at-flags",
        why: "a decision that shortens timeouts is for segments that end their connection. Open vSwitch asks the flags of all \
              packets that it counted since it last looked",
        explains: |d| {
            d.field == Field::TcpFlags && d.program.says(&["fin_timeout", "fin_idle_timeout", "fin_hard_timeout"])
        },
    },
];
