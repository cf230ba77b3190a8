//! The record of calls: in the log, or in a file of its own.
//!
//! **Design**: without a file a record is a line of the log, with the target `audit`. With one it
//! is a line of JSON there. A call puts its record into a bounded queue, and one thread writes. The
//! thread looks before each write whether its file is still the one of that name, so a file that
//! was moved away is begun anew.
//!
//! **Limits**: [`WAITING_MAX`] records wait. A record that finds no place, or that cannot be
//! written, is lost and counted; health tells it.
//!
//! **Threads**: `audit`.

use super::identity::Identity;
use parking_lot::Mutex;
use serde_json::json;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Records that wait to be written.
pub(super) const WAITING_MAX: usize = 4_096;

/// Records that are written at once.
const BATCH_MAX: usize = 256;

/// Owner and group may read the file, others may not.
const MODE: u32 = 0o640;

/// Time for the last records to be written when the server stops.
const STOP_MAX: Duration = Duration::from_secs(1);

/// The audit file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("audit file {path:?}: cannot be opened: {source}; make its directory, or change [control] audit_file")]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Record<'a> {
    pub(super) request: &'a str,
    pub(super) identity: &'a Identity,
    pub(super) rpc: &'static str,
    pub(super) names: &'a str,
    /// gRPC's name of the status.
    pub(super) outcome: &'static str,
    pub(super) duration: Duration,
}

/// Where records go.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    file: Option<Writing>,
}

#[derive(Debug)]
struct Writing {
    /// None: the server stops.
    records: Option<SyncSender<String>>,
    ended: Mutex<Receiver<()>>,
    state: Arc<State>,
}

/// What the writer tells.
#[derive(Debug, Default)]
struct State {
    lost: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Audit {
    /// Into a file, or into the log.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn new(file: Option<&Path>) -> Result<Self, AuditError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let failed = |source| AuditError { path: path.to_owned(), source };
        let mut log = LogFile::open(path).map_err(failed)?;
        let (records, waiting) = sync_channel(WAITING_MAX);
        let (end, ended) = sync_channel::<()>(1);
        let state = Arc::new(State::default());
        let told = Arc::clone(&state);
        let write = move || {
            let _end = end; // dropped when all is written
            while let Ok(first) = waiting.recv() {
                log.write_batch(first, &waiting, &told);
            }
        };
        std::thread::Builder::new().name("audit".to_owned()).spawn(write).map_err(failed)?;
        Ok(Self { file: Some(Writing { records: Some(records), ended: Mutex::new(ended), state }) })
    }

    /// Keeps a record. Never waits.
    pub(super) fn keep(&self, record: &Record<'_>) {
        let Record { request, identity, rpc, names, outcome, duration } = record;
        let listener = &identity.listener.name;
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let Some(Writing { records, state, .. }) = &self.file else {
            let (uid, pid, principal) = (identity.uid(), identity.pid(), identity.remote());
            let left_out = tracing::field::Empty;
            // A call that got as far as its names has a line of its own: changed, refused or done.
            if names.is_empty() {
                tracing::info!(target: "audit", rpc, uid, pid, principal, request, listener, outcome, ms, left_out, "call");
            } else {
                tracing::debug!(target: "audit", rpc, uid, pid, principal, request, listener, names, outcome, ms, left_out, "call");
            }
            return;
        };
        let line = json!({
            "time": timestamp(SystemTime::now()), "request": request, "principal": identity.principal.to_string(), "listener": listener,
            "rpc": rpc, "names": names, "outcome": outcome, "ms": ms,
        });
        match records.as_ref().map(|records| records.try_send(format!("{line}\n"))) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => {
                state.lose(1, "records come faster than they can be written".to_owned());
            }
            Some(Err(TrySendError::Disconnected(_))) | None => state.lose(1, "its thread has ended".to_owned()),
        }
    }

    /// Records that were lost since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.state.lost.load(Relaxed))
    }

    /// Why records are lost now.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.file.as_ref()?.state.trouble.lock().clone()?;
        Some(format!("{trouble}; {} records are lost", self.lost()))
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if let Some(file) = &mut self.file {
            file.records = None;
            // A file system that hangs does not hold up the exit.
            if file.ended.get_mut().recv_timeout(STOP_MAX) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("the last records of the audit file are not written in time");
            }
        }
    }
}

impl State {
    fn lose(&self, records: u64, why: String) {
        self.lost.fetch_add(records, Relaxed);
        let mut trouble = self.trouble.lock();
        if trouble.is_none() {
            tracing::error!(reason = why, "records of the audit file are lost");
        }
        *trouble = Some(why);
    }
}

/// The file of that name.
struct LogFile {
    path: PathBuf,
    file: File,
    device_and_inode: (u64, u64),
    /// The last write ended somewhere in a line.
    is_torn: bool,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK; // no link, and no wait for the reader of a pipe
        let open =
            |is_new| OpenOptions::new().append(true).create_new(is_new).mode(MODE).custom_flags(flags).open(path);
        let file = match open(true) {
            Ok(file) => {
                file.set_permissions(Permissions::from_mode(MODE))?; // whatever the umask has taken
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(false)?,
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(Self { path: path.to_owned(), file, device_and_inode: (metadata.dev(), metadata.ino()), is_torn: false })
    }

    /// Writes a record, and others that wait.
    fn write_batch(&mut self, first: String, waiting: &Receiver<String>, state: &State) {
        let (mut text, mut count) = (first, 1);
        while count < BATCH_MAX
            && let Ok(next) = waiting.try_recv()
        {
            text.push_str(&next);
            count += 1;
        }
        match self.write(&text) {
            Ok(()) => {
                if state.trouble.lock().take().is_some() {
                    tracing::info!(lost = state.lost.load(Relaxed), "the audit file is written again");
                }
            }
            Err(error) => state.lose(count as u64, format!("{:?} cannot be written: {error}", self.path)),
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let now = std::fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        if now.ok() != Some(self.device_and_inode) {
            *self = Self::open(&self.path)?;
        }
        let text = if self.is_torn { format!("\n{text}") } else { text.to_owned() };
        self.is_torn = true;
        self.file.write_all(text.as_bytes())?;
        self.is_torn = false;
        Ok(())
    }
}

/// A time as RFC 3339 writes it, in UTC, with milliseconds.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, ms) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = date(seconds / 86_400);
    let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a number of days since 1970 (days of eras of 400 years, which begin in
/// March).
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::fs;

    fn keep(audit: &Audit, names: &str) {
        let duration = Duration::from_millis(12);
        let identity = &Identity::of_uid(Some(7), None);
        audit.keep(&Record { request: "r-1", identity, rpc: "AddPort", names, outcome: "OK", duration });
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    #[test]
    fn records_are_lines_and_a_file_that_was_moved_away_is_begun_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, moved) = (directory.path().join("audit"), directory.path().join("audit.1"));
        let audit = Audit::new(Some(&path)).expect("a new file");
        assert_eq!(fs::metadata(&path).expect("made").permissions().mode() & 0o777, MODE);
        keep(&audit, "\"br0\"\n");
        while lines(&path).is_empty() {
            std::thread::yield_now();
        }
        fs::rename(&path, &moved).expect("moved");
        keep(&audit, "second");
        drop(audit); // waits for the writer
        let (first, second) = (&lines(&moved)[0], &lines(&path)[0]);
        assert_eq!((first["names"].as_str(), first["ms"].as_u64()), (Some("\"br0\"\n"), Some(12)));
        assert_eq!((first["principal"].as_str(), first["listener"].as_str()), (Some("uid=7"), Some("unix:/test")));
        assert_eq!((second["names"].as_str(), second["outcome"].as_str()), (Some("second"), Some("OK")));
        let audit = Audit::new(Some(&path)).expect("the same file");
        keep(&audit, "third");
        drop(audit);
        assert_eq!(lines(&path).len(), 2, "it goes on");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_told_until_it_can() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sub/audit");
        assert!(Audit::new(Some(&path)).expect_err("no directory").to_string().contains("sub/audit"));
        let sub = directory.path().join("sub");
        fs::create_dir(&sub).expect("made");
        let audit = Audit::new(Some(&path)).expect("a file");
        fs::remove_dir_all(&sub).expect("removed");
        keep(&audit, "lost");
        while audit.trouble().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(audit.lost(), 1);
        fs::create_dir(&sub).expect("made");
        keep(&audit, "kept");
        while audit.trouble().is_some() {
            std::thread::yield_now();
        }
        assert_eq!((audit.lost(), lines(&path).len()), (1, 1));
    }

    #[test]
    fn no_link_and_no_pipe_is_taken_for_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("target"), "").expect("written");
        std::os::unix::fs::symlink(at("target"), at("link")).expect("linked");
        for path in [at("link"), directory.path().to_owned(), PathBuf::from("/dev/full")] {
            assert!(Audit::new(Some(&path)).is_err(), "{path:?}");
        }
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        let at = |seconds, ms| timestamp(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(ms));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 7), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_796_034_021, 999), "2026-11-30T10:20:21.999Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
