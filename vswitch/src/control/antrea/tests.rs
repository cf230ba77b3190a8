//! The room with a bridge.
