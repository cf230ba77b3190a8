//! What agents declared, over a restart.
//!
//! Two files of `[antrea] state_dir`. `state`: the messages as they came, and numbers, written
//! behind the calls, at most once a second. `unwritten`, empty: there are answered calls that
//! `state` does not know. It is made, and on the disk, before such a call changes anything, and
//! goes when `state` has caught up. So a switch that finds it was killed in between: a deny may be
//! missing, and it forwards nothing before an agent has synced. The answer to a call waits for
//! nothing but that mark, which most calls find there.
//!
//! Nothing in `state` is believed that does not fit: length, checksum, version, every number;
//! objects are read and judged as if an agent had sent them.

use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Notify;
use vswitch_antrea::{Kept, KeptError, Snapshot};
use vswitch_conntrack::Checksum;
use vswitch_control::stored;

/// What the file begins with.
const MAGIC: &[u8; 8] = b"vswnode\n";

/// Of the format.
const VERSION: u64 = 1;

/// Bytes of a file: what 2^20 objects take, amply.
const LEN_MAX: u64 = 1 << 30;

/// Bytes in front of the message: magic, version, length, checksum.
const HEAD: usize = 32;

/// Between two writings.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Until it is tried again.
pub const RETRY: Duration = Duration::from_secs(10);

/// Why there is no state of before.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is no state of a Node")]
    Magic,
    #[error("it has format {0}, and this is a switch of format {VERSION}")]
    Version(u64),
    #[error("it has {0} bytes, at most {LEN_MAX}")]
    Len(u64),
    #[error("it was not written to its end, or was cut")]
    Truncated,
    #[error("its checksum is wrong: it was changed after it was written")]
    Checksum,
    #[error(transparent)]
    Kept(#[from] KeptError),
}

/// The directory, and who writes there.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    /// Held while the state is written: one at a time, and the last one last.
    pub(super) writing: Mutex<()>,
    /// Something is to be written.
    pub(super) wake: Notify,
    /// Why the disk does not know of something, if it cannot be written.
    pub(super) problem: Mutex<Option<String>>,
}

impl Disk {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, writing: Mutex::default(), wake: Notify::new(), problem: Mutex::default() }
    }

    /// Where the state is.
    pub(super) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    fn mark_path(&self) -> PathBuf {
        self.directory.join("unwritten")
    }

    /// There are, or will be, answered calls that are not in the state.
    pub(super) fn mark(&self) -> io::Result<()> {
        stored::mark(&self.mark_path())
    }

    /// The state has all answered calls.
    pub(super) fn unmark(&self) -> io::Result<()> {
        stored::remove(&self.mark_path())
    }

    /// Whether there are answered calls that are not in the state. What cannot be known is taken
    /// for yes.
    pub(super) fn is_marked(&self) -> bool {
        !matches!(self.mark_path().try_exists(), Ok(false))
    }

    /// Writes the state.
    pub(super) fn write(&self, snapshot: &Snapshot) -> io::Result<()> {
        let message = snapshot.encode();
        if message.len() as u64 > LEN_MAX {
            return Err(io::Error::other(format!("it would have {} bytes, at most {LEN_MAX}", message.len())));
        }
        stored::replace(&self.state(), |file| {
            file.write_all(&head(&message))?;
            file.write_all(&message)
        })
    }

    /// Reads the state; none if there is none.
    pub(super) fn read(&self) -> Result<Option<Kept>, DiskError> {
        let Some((file, len)) = stored::open(&self.state())? else { return Ok(None) };
        if len > LEN_MAX + HEAD as u64 {
            return Err(DiskError::Len(len));
        }
        let mut bytes = Vec::new();
        file.take(LEN_MAX + HEAD as u64).read_to_end(&mut bytes)?;
        decode(&bytes).map(Some)
    }

    /// Puts a state aside that cannot be used.
    pub(super) fn put_aside(&self) -> Option<PathBuf> {
        stored::put_aside(&self.state()).ok()
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }
}

fn checksum(message: &[u8]) -> u64 {
    let mut checksum = Checksum::default();
    checksum.add_bytes(message);
    checksum.value()
}

/// What stands in front of the message.
fn head(message: &[u8]) -> [u8; HEAD] {
    let words = [u64::from_le_bytes(*MAGIC), VERSION, message.len() as u64, checksum(message)];
    let mut head = [0; HEAD];
    head.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    head
}

/// What a file says.
fn decode(bytes: &[u8]) -> Result<Kept, DiskError> {
    let Some((magic, bytes)) = bytes.split_first_chunk::<8>() else { return Err(DiskError::Truncated) };
    if magic != MAGIC {
        return Err(DiskError::Magic);
    }
    let Some((head, message)) = bytes.split_first_chunk::<24>() else { return Err(DiskError::Truncated) };
    let (words, _) = head.as_chunks::<8>();
    let [version, len, sum] = std::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_le_bytes(*word)));
    if version != VERSION {
        return Err(DiskError::Version(version));
    }
    if len != message.len() as u64 {
        return Err(DiskError::Truncated);
    }
    if sum != checksum(message) {
        return Err(DiskError::Checksum);
    }
    Ok(Kept::decode(message)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_antrea::NodeState;

    fn written() -> (tempfile::TempDir, Disk, Vec<u8>) {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Disk::new(dir.path().to_owned());
        let mut snapshot = NodeState::default().snapshot();
        (snapshot.round, snapshot.gate_open) = (7, true);
        disk.write(&snapshot).expect("a file");
        let bytes = std::fs::read(disk.state()).expect("a file");
        (dir, disk, bytes)
    }

    #[test]
    fn a_state_is_read_as_it_was_written_or_not_at_all() {
        let (_dir, disk, bytes) = written();
        let kept = disk.read().expect("a state").expect("a file");
        assert_eq!((kept.round, kept.gate_open, kept.len(), kept.node), (7, true, 0, None));
        for len in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..len]), Err(DiskError::Truncated)), "{len} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&other).is_err(), "bit {bit}");
        }
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        let version = [&bytes[..8], &2_u64.to_le_bytes(), &bytes[16..]].concat();
        assert_eq!(
            decode(&version).expect_err("another").to_string(),
            "it has format 2, and this is a switch of format 1"
        );
    }

    /// Files of every format that a release wrote, the oldest first. `vswitch_antrea` tests what
    /// the message comes to.
    const GOLDEN: [&[u8]; 1] = [include_bytes!("../tests/golden/state-v1")];

    #[test]
    fn files_of_all_formats_are_read_and_the_newest_is_what_is_written() {
        for (version, bytes) in (1_u64..).zip(GOLDEN) {
            assert_eq!(bytes[8..16], version.to_le_bytes());
            let kept = decode(bytes).expect("a state");
            assert_eq!((kept.round, kept.gate_open, kept.committed_unix_ms), (9, true, 1_700_000_000_000));
            assert!(kept.node.is_some() && kept.len() > 7, "version {version}: {} objects", kept.len());
        }
        let newest = GOLDEN[GOLDEN.len() - 1];
        assert_eq!(newest[..HEAD], head(&newest[HEAD..]), "a change of the format is a new version and a new file");
    }

    #[test]
    fn a_mark_is_there_until_it_is_taken_away() {
        let (_dir, disk, _) = written();
        assert!(!disk.is_marked());
        disk.mark().expect("a mark");
        disk.mark().expect("the same mark");
        assert!(disk.is_marked());
        disk.unmark().expect("no mark");
        disk.unmark().expect("no mark still");
        assert!(!disk.is_marked() && disk.put_aside().is_some() && disk.read().expect("no file").is_none());
        assert!(Disk::new("/nowhere".into()).mark().is_err());
    }
}
