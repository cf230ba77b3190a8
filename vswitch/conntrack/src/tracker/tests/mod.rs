//! Behaviour of the tracker, told as conversations.

mod answered;
mod expected;
mod forget;
mod golden;
mod life;
mod model;
mod oracle;
mod owned;
mod plain;
mod saved;
mod shares;
mod shares_exact;
mod stress;
mod talk;
mod tcp;
mod translated;
mod unsought;
