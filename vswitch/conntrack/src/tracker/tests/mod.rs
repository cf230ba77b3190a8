//! Behaviour of the tracker, told as conversations.

mod life;
mod plain;
mod talk;
mod tcp;
mod translated;
