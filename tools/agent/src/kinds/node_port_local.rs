//! NodePortLocal in a NodeConfig: ports of the Node for ports of its Pods, in the words of Antrea's
//! agent.

use super::wellformed::error;
use crate::source::FieldError;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Antrea's default: behind the ports that Linux gives to clients.
const DEFAULT: RangeInclusive<u16> = 61000..=62000;
/// Ports below are those of the Node's own services.
const FIRST: u16 = 1024;

/// Whether Pods get ports of the Node, and which.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct NodePortLocal {
    /// They do.
    pub enable: bool,
    /// `FIRST-LAST`; default 61000-62000.
    pub port_range: Option<String>,
}

impl NodePortLocal {
    /// Ports that Pods may get. None: the text is no range.
    pub fn ports(&self) -> Option<RangeInclusive<u16>> {
        let Some(text) = &self.port_range else { return Some(DEFAULT) };
        let number = |text: &str| text.parse::<u16>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let (first, last) = text.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        (FIRST <= first && first <= last).then_some(first..=last)
    }

    /// What is wrong with it by itself.
    pub(super) fn check(&self) -> Option<FieldError> {
        let text = self.port_range.as_ref().filter(|_| self.ports().is_none())?;
        Some(error("spec.nodePortLocal.portRange", text, "range of ports from 1024, such as 61000-62000"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports() {
        let of = |text: &str| NodePortLocal { enable: true, port_range: Some(text.to_owned()) }.ports();
        assert_eq!(of("61000-62000"), Some(61000..=62000));
        assert_eq!(of("40000-40000"), Some(40000..=40000));
        for wrong in ["", "61000", "62000-61000", "80-90", "61000-70000", "+61000-62000", "a-b", "61000-62000-63000"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(NodePortLocal::default().ports(), Some(DEFAULT));
    }
}
