//! Families of addresses.

use super::own::Own;
use crate::problem::Problem;

/// Families of a Node. Both, if no document says.
pub(super) fn families(own: &Result<Own, Vec<Problem>>) -> [bool; 2] {
    own.as_ref().map_or([true, true], |own| own.spec.families(own.pod_cidrs()))
}
