//! multipath and bundle.

use super::run::{Frame, Step, Translator};
use vswitch_flow::action::{Bundle, Multipath};

impl Translator<'_, '_> {
    pub(super) fn multipath(&mut self, multipath: &Multipath) {
        let _ = multipath;
    }

    pub(super) fn bundle(&mut self, bundle: &Bundle, frame: &Frame<'_>) -> Step {
        let _ = (bundle, frame);
        Step::Next
    }
}
