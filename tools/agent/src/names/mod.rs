//! Names of the cluster's addresses: the agent tells them to its switch, for observations, and to
//! the exporters of flows.
//!
//! **Where**: beside `drive`. `run` hands over the agent after each step of the driver.
//!
//! **Design**: [`Names::follow`] makes a [`Book`] of the documents and leaves it for a task
//! (`tell`). The task has a connection of its own. A new connection, or a switch that lost its
//! names, gets all names with a higher round; then only changes. Names decide nothing: a failure
//! here holds up no policy.
//!
//! **Limits**: [`book::NAMES_MAX`] names; what does not fit is counted. A book is made each
//! [`PERIOD`] at most, and takes a tenth of the loop's time at most.
//!
//! **Threads**: one task of the agent's runtime. Books are made on the thread of the loop.

pub mod book;
mod tell;

use crate::agent::Agent;
use crate::status::Status;
use book::Book;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Time between two books. The switch hears of changes as often.
const PERIOD: Duration = Duration::from_millis(250);

/// A book may take this part of the time between two.
const SHARE: u32 = 10;

/// The task that tells the switch names. It ends with this value.
#[derive(Debug)]
pub struct Names {
    book: watch::Sender<Option<Arc<Book>>>,
    status: Arc<Status>,
    /// Changes of the agent that are in the book.
    changes: Option<u64>,
    /// No book is made before.
    due: Option<Instant>,
    task: JoinHandle<()>,
}

impl Names {
    /// Starts the task, in a runtime of tokio. `socket` is the switch's.
    pub fn start(socket: PathBuf, status: Arc<Status>) -> Self {
        let (book, inbox) = watch::channel(None);
        let task = tokio::spawn(tell::follow(socket, inbox, Arc::clone(&status)));
        Self { book, status, changes: None, due: None, task }
    }

    /// Takes over what the documents declare now. Returns the book, if one was made.
    pub fn follow(&mut self, agent: &Agent) -> Option<Arc<Book>> {
        let begin = Instant::now();
        if self.changes == Some(agent.changes()) || self.due.is_some_and(|due| begin < due) {
            return None;
        }
        self.changes = Some(agent.changes());
        let book = Arc::new(Book::of(agent.model()));
        self.tell(&book);
        self.due = Some(Instant::now() + PERIOD.max(begin.elapsed() * SHARE));
        Some(book)
    }

    /// Leaves a book for the task.
    pub fn tell(&self, book: &Arc<Book>) {
        self.status.names.known.store(book.len() as u64, Ordering::Relaxed);
        self.status.names.left_out.store(book.left_out() as u64, Ordering::Relaxed);
        self.book.send_if_modified(|old| {
            let is_new = old.as_ref() != Some(book);
            if is_new {
                *old = Some(Arc::clone(book));
            }
            is_new
        });
    }
}

impl Names {
    /// The newest book. None: there was none yet.
    #[cfg(feature = "cluster")]
    pub(crate) fn books(&self) -> watch::Receiver<Option<Arc<Book>>> {
        self.book.subscribe()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}
