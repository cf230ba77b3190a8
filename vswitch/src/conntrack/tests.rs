//! Packets in, messages and rewritten packets out.
