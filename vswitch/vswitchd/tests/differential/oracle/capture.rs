//! What a port has sent: a capture file that another process appends to, read as it grows.

use std::fs::File;
use std::io::Read;
use std::path::Path;

const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;

/// A capture file (pcap 2.4, this machine's byte order) and how much of it has been read.
#[derive(Debug)]
pub(crate) struct Capture {
    file: File,
    unread: Vec<u8>,
    header_seen: bool,
}

impl Capture {
    /// Opens it; it may still be empty.
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { file, unread: Vec::new(), header_seen: false }
    }

    /// The packets that came since the last call.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.file.read_to_end(&mut self.unread).expect("a capture file can be read");
        let mut rest = self.unread.as_slice();
        if !self.header_seen && rest.len() >= FILE_HEADER {
            assert_eq!(rest[..4], 0xa1b2_c3d4_u32.to_ne_bytes(), "a capture file");
            rest = &rest[FILE_HEADER..];
            self.header_seen = true;
        }
        let mut packets = Vec::new();
        while self.header_seen && rest.len() >= PACKET_HEADER {
            let word = rest[8..12].try_into().expect("4 bytes");
            let len = usize::try_from(u32::from_ne_bytes(word)).expect("64-bit machine");
            let Some(packet) = rest.get(PACKET_HEADER..PACKET_HEADER + len) else { break };
            packets.push(packet.to_vec());
            rest = &rest[PACKET_HEADER + len..];
        }
        let read = self.unread.len() - rest.len();
        self.unread.drain(..read);
        packets
    }
}
