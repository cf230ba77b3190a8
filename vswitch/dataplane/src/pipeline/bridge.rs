//! What a bridge does by itself.

/// What a bridge does before anything is programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Drop everything.
    #[default]
    Secure,
    /// Learn addresses and forward like an Ethernet switch.
    Standalone,
}
