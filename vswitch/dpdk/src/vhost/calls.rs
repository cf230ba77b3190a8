//! How guests are called: their eventfds, which [`super::caller`] writes to, or workers, where it
//! does not.
//!
//! A guest gives the descriptor, and shares its flags. One that blocks when it is written to would
//! hold up who calls, and the calls of every port with him. So it must be an eventfd, it is made
//! non-blocking ([`super::call_fd`]), and since its owner may take that back and fill the counter,
//! the control side looks ([`Calls::relieve`]): a full one is emptied, which lets the caller go on,
//! and its guest is disconnected. No guest comes to 2^64 - 1 calls by itself.

use super::caller::Route;
use super::relief::relieve;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Rings that a guest may have: their descriptors are kept by number.
const RINGS_MAX: usize = 2 * super::PAIRS_MAX as usize;

/// The eventfds of one connection's rings.
#[derive(Debug, Default)]
pub(super) struct Calls {
    rings: Vec<Option<Call>>,
    /// The one that the library may use until it has handled the message that is with it.
    before: Option<Call>,
}

/// A guest's eventfd.
#[derive(Debug)]
enum Call {
    Routed(Route),
    /// Workers write to it.
    Direct(OwnedFd),
}

impl Call {
    fn guest(&self) -> BorrowedFd<'_> {
        match self {
            Self::Routed(route) => route.guest(),
            Self::Direct(fd) => fd.as_fd(),
        }
    }
}

impl Calls {
    /// A ring is called by another descriptor from now on, or not at all. Returns what the library
    /// is to write to instead, if that is another one.
    ///
    /// # Errors
    /// When there is no descriptor left: the ring is called as before.
    pub(super) fn set(&mut self, ring: usize, fd: Option<BorrowedFd<'_>>) -> io::Result<Option<OwnedFd>> {
        if ring >= RINGS_MAX {
            return Ok(None); // not served
        }
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, || None);
        }
        let (call, start) = match fd.map(|fd| (fd, Route::open(fd))) {
            None => (None, None),
            Some((_, Ok(Some((route, start))))) => (Some(Call::Routed(route)), Some(start)),
            Some((fd, Ok(None) | Err(_))) => (Some(Call::Direct(fd.try_clone_to_owned()?)), None),
        };
        self.before = std::mem::replace(&mut self.rings[ring], call);
        Ok(start)
    }

    /// The library has handled the message with the last one: it uses no other for that ring.
    pub(super) fn settle(&mut self) {
        self.before = None;
    }

    /// Empties what is full. Returns whether anything was. Never blocks.
    pub(super) fn relieve(&self) -> bool {
        let calls = self.rings.iter().flatten().chain(&self.before);
        relieve(calls.map(Call::guest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_fd::check;
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    fn eventfd(counter: u64) -> File {
        let mut file = super::super::testing::eventfd();
        file.write_all(&counter.to_ne_bytes()).expect("it is not full");
        file
    }

    #[test]
    fn only_eventfds_may_be_called() {
        let (pipe, _other) = io::pipe().expect("a pipe");
        let file = tempfile::tempfile().expect("a file");
        let null = File::open("/dev/null").expect("there");
        for (what, fd) in [("a pipe", pipe.as_fd()), ("a file", file.as_fd()), ("a device", null.as_fd())] {
            assert!(check(fd).is_err(), "{what}");
        }
        let good = eventfd(u64::MAX - 1);
        assert_eq!(check(good.as_fd()), Ok(()));
        let full = (&good).write(&1_u64.to_ne_bytes()).expect_err("full, and it does not block");
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn full_ones_are_emptied_and_told_others_are_left_alone() {
        let (full, used, unused) = (eventfd(u64::MAX - 1), eventfd(7), eventfd(0));
        let mut calls = Calls::default();
        for (ring, fd) in [(1, &full), (3, &used), (4, &unused), (10_000, &used)] {
            calls.set(ring, Some(fd.as_fd())).expect("descriptors");
        }
        assert!(calls.relieve() && !calls.relieve());
        let read = |mut fd: &File| {
            let mut counter = [0; 8];
            check(fd.as_fd()).expect("an eventfd"); // does not block
            io::Read::read(&mut fd, &mut counter).ok().map(|_| u64::from_ne_bytes(counter))
        };
        assert_eq!([&full, &used, &unused].map(read), [None, Some(7), None]);
        let again = eventfd(u64::MAX - 1);
        calls.set(1, Some(again.as_fd())).expect("descriptors");
        calls.set(1, None).expect("none");
        calls.settle();
        assert!(!calls.relieve(), "a descriptor that was taken away");
    }
}
