//! Where packets go: a thread that writes, so that others do not wait for a slow reader.

use super::file::CaptureFile;
use super::summary::Summary;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use vswitch_proto::v1;

/// Messages that wait for the thread.
const QUEUED: usize = 4;

/// At the end a reader has so long to take what is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the thread is to write.
enum Job {
    /// With a comment for each.
    Records(Vec<v1::CaptureRecord>, Vec<String>),
    End(Vec<v1::CaptureStatistics>),
}

/// A capture file behind a thread.
pub(super) struct Sink {
    jobs: mpsc::Sender<Job>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Sink {
    /// Begins a file.
    pub(super) fn start(out: Box<dyn Write + Send>, bridge: &str, started: &v1::CaptureStarted) -> Self {
        let (jobs, mut waiting) = mpsc::channel(QUEUED);
        let (end, done) = oneshot::channel();
        let (bridge, started) = (bridge.to_owned(), started.clone());
        std::thread::spawn(move || {
            let write = || -> io::Result<()> {
                let mut file = CaptureFile::begin(BufWriter::new(out), &bridge, &started)?;
                while let Some(job) = waiting.blocking_recv() {
                    match job {
                        Job::Records(records, comments) => file.records(&records, &comments)?,
                        Job::End(statistics) => return file.end(&statistics),
                    }
                }
                Ok(())
            };
            let result = write();
            drop(waiting); // its writer learns that it has ended
            let _ = end.send(result); // its receiver may be gone
        });
        Self { jobs, done }
    }

    /// Adds packets with their comments. False: the thread has ended, by an error.
    pub(super) async fn write(&self, records: Vec<v1::CaptureRecord>, comments: Vec<String>) -> bool {
        self.jobs.send(Job::Records(records, comments)).await.is_ok()
    }

    /// Ends the file. A reader that takes nothing is not waited for.
    pub(super) async fn finish(self, summary: &Summary) -> io::Result<()> {
        let Self { jobs, done } = self;
        let ending = async {
            let _ = jobs.send(Job::End(summary.statistics())).await; // `done` says why not
            drop(jobs);
            done.await.unwrap_or_else(|_| Err(io::Error::other("the thread that writes has died")))
        };
        let ended = tokio::time::timeout(PATIENCE, ending).await;
        ended.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "its reader takes nothing")))
    }
}

/// Stdout for the thread: the main thread has locked that of the library.
pub(super) fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Creates a capture file, or empties one. Only its owner may read packets.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}
