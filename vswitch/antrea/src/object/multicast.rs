//! `MulticastGroup`.

use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Facts, Flush, Ids, Part, Problem, Reference};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;

/// See the message.
#[derive(Clone, Debug, PartialEq)]
pub struct MulticastGroup {}

impl MulticastGroup {
    pub(crate) fn name_of(message: &v1::MulticastGroup) -> String {
        message.address.clone()
    }

    /// Not built yet: each is refused.
    pub(crate) fn read(_message: &v1::MulticastGroup, problems: &mut Problems) -> Option<Self> {
        problems.push(Code::Feature, "", "this version has no multicast");
        None
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    pub(crate) fn judge(&self, _name: &str, _facts: &Facts<'_>, _problems: &mut Problems) {}

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _desired: &Desired, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, _name: &str, _facts: &Facts<'_>, _part: &mut Part) {}
}

/// It is gone: its numbers are free.
pub(crate) fn release(_name: &str, _ids: &mut Ids) {}

