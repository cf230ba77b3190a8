//! A compressed archive: tar, gzip.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// Directory of all files in it.
const DIRECTORY: &str = "vswitch-support";

/// An archive that is being written.
pub(super) struct Archive(tar::Builder<GzEncoder<File>>);

impl Archive {
    /// A new file, for its owner only. One that is there stays as it is.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self(tar::Builder::new(GzEncoder::new(file, Compression::default()))))
    }

    /// A file with this text. Slashes in its name are directories.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        header.set_mtime(now.as_secs());
        self.0.append_data(&mut header, format!("{DIRECTORY}/{name}"), bytes)
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> io::Result<()> {
        self.0.into_inner()?.finish()?.sync_all()
    }
}
