//! Behaviour of the tracker, told as conversations.

mod plain;
mod talk;
