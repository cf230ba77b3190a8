//! Where our switch does something else than Open vSwitch 3.1, by choice. Each deviation has a case, which shows it; the harness accepts no
//! other difference, and no deviation without its case.

/// A chosen difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deviation {
    /// What cases call it (`# deviation: NAME`).
    pub(crate) name: &'static str,
    /// Why. For whoever reads the list.
    #[allow(dead_code)]
    pub(crate) reason: &'static str,
}

/// All of them.
pub(crate) const DEVIATIONS: [Deviation; 0] = [];
