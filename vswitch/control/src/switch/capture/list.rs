//! The captures that go on.

use std::sync::{Arc, Weak};
use vswitch_dataplane::capture::{SESSIONS_MAX, Session};
use vswitch_dataplane::worker::PortShared;

/// A capture as the writer has it.
#[derive(Debug)]
pub(in crate::switch) struct RunningCapture {
    /// Of its own.
    pub(in crate::switch) id: u64,
    /// What workers and the reader share.
    pub(in crate::switch) session: Arc<Session>,
    /// By interface: the port that it was begun for. It may go meanwhile.
    pub(in crate::switch) ports: Vec<Weak<PortShared>>,
}

/// All captures.
#[derive(Debug, Default)]
pub(in crate::switch) struct CaptureList {
    /// In places of their own.
    pub(in crate::switch) places: [Option<RunningCapture>; SESSIONS_MAX],
    /// Of the last one.
    pub(in crate::switch) id: u64,
}

impl CaptureList {
    /// The session of a capture, if it goes on.
    pub(in crate::switch) fn session(&self, id: u64) -> Option<&Arc<Session>> {
        self.places.iter().flatten().find(|running| running.id == id).map(|running| &running.session)
    }

    /// Takes a capture out, if it is there.
    pub(in crate::switch) fn remove(&mut self, id: u64) {
        for place in &mut self.places {
            place.take_if(|running| running.id == id);
        }
    }
}
