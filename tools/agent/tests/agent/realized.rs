//! Statuses of policies: on the server of the tests, and on a real one if there is one.

pub mod bed;
mod both;
mod hurt;
mod whole;
