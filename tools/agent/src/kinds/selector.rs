//! Selectors of labels.

use super::Labels;
use serde::{Deserialize, Serialize};

/// A label selector; the empty one selects all.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Selector {
    /// Labels that must be there with these values.
    #[serde(default)]
    pub match_labels: Labels,
    /// More conditions.
    #[serde(default)]
    pub match_expressions: Vec<Expression>,
}

/// A condition on one label.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub struct Expression {
    /// Which label.
    pub key: String,
    /// How.
    pub operator: Operator,
    /// Values of In and NotIn.
    #[serde(default)]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// It is there with one of the values.
    In,
    /// It is not there, or with another value.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}
