//! Capture files (pcap 2.4, Ethernet).

use std::path::Path;

/// Writes a capture of these frames.
///
/// # Panics
/// When the file cannot be written.
pub(crate) fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for frame in frames {
        let len = u32::try_from(frame.len()).expect("a short frame");
        for word in [0, 0, len, len] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(frame);
    }
    std::fs::write(path, file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
