//! Tier.

use serde::{Deserialize, Serialize};

/// Tier without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TierBody {
    /// What is asked for.
    pub spec: Spec,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its place, 1 first.
    pub priority: u32,
    /// For people.
    #[serde(default)]
    pub description: String,
}
