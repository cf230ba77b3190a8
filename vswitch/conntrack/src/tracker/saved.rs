//! The table as a file, so that connections outlive the process.
//!
//! A file is words of 64 bits, little-endian: a head (what it is, version, when it was written),
//! the names of ports that have connections, one record for each connection and each expected one,
//! an end with their numbers, and the checksum of all that. A connection names its port by the
//! place of the name among them. A port that has that name, then or later, has those connections;
//! what the share rule says of it does not count for them.
//!
//! Versions: files of version 1 name no ports, and their connections count for none. Before version
//! 3 only the machine's clock says when a file was written. The switch reads all three. A file of
//! each is in `tests/golden`.
//!
//! Nothing in it means something to this process alone: no place, no key of a hash, no reading of
//! its clock. Times are what was left, or what had passed, in milliseconds; what passed between
//! writing and reading is taken off ([`Moment::since`]).
//!
//! It is read into an empty table, of any size that has room for all, and wholly or not at all: a
//! connection that is missing would be picked up in the middle and judged anew, one that is half
//! right would pass where it may not. Who reads must not trust it: every word is checked, and what
//! the checks let through is a connection as any other.

mod moment;
mod port;
mod record;

use super::cold::START_MAX;
use super::helper::Saved as Expectation;
use super::life::Life;
use super::ports::Slot;
use super::sync::Patience;
use super::{Count, Filter, Hit, Tracker, Words};
use crate::{Checksum, Direction};
pub use moment::Moment;
use record::Record;
use std::io::{self, BufReader, Read, Write};
use std::ops::RangeInclusive;

/// What a file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"vswconns");

/// Of the format.
const VERSION: u64 = 3;

/// Formats before, whose head has the machine's clock only. The first one names no ports.
const CLOCK_ONLY: RangeInclusive<u64> = 1..=2;

/// Kinds of records, the lowest byte of their first word.
const END: u64 = 0;
const NARROW: u64 = 1;
const WIDE: u64 = 2;
const EXPECTED: u64 = 3;
const PORT: u64 = 4;

/// Words that are gathered before they are written.
const CHUNK: usize = 8192;

/// Connections that are put back side by side before another list of places has its turn.
const RUN: u64 = 64;

/// Looks at places whose workers are inside of sections, for all that is written: some hundred
/// milliseconds.
const LOOKS: u32 = 4000;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Connections.
    pub connections: u64,
    /// Connections that are expected.
    pub expected: u64,
    /// Bytes.
    pub bytes: u64,
    /// Connections that are not in it: their worker did not move.
    pub left_out: u64,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Connections that are there again.
    pub connections: u64,
    /// Those whose time was over meanwhile.
    pub expired: u64,
    /// Connections that are expected again.
    pub expected: u64,
    /// Milliseconds since the file was written.
    pub elapsed_ms: u64,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file system.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It begins with something else.
    #[error("it is no file of connections")]
    Magic,
    /// Of another format.
    #[error("it has format {0}, and this is a switch of format {VERSION}")]
    Version(u64),
    /// It ends within what it should have.
    #[error("it ends too early: it was not written to its end, or was cut")]
    Truncated,
    /// It goes on behind its end.
    #[error("it goes on behind its end")]
    Trailing,
    /// It is not what was written.
    #[error("its checksum is wrong: it was changed after it was written")]
    Checksum,
    /// A record that no switch writes.
    #[error("record {record}: {what}")]
    Record {
        /// Counted from 0.
        record: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The table is smaller than the one that was written.
    #[error("it has more connections than this table has room for, {0}: the table was larger when it was written")]
    Full(usize),
    /// The table is in use.
    #[error("there are connections already")]
    NotEmpty,
}

/// Writes words, and sums them up.
struct Output<'a, W> {
    to: &'a mut W,
    checksum: Checksum,
    words: Vec<u64>,
    bytes: u64,
}

impl<W: Write> Output<'_, W> {
    fn put(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.checksum.add(*word));
        self.words.extend_from_slice(words);
    }

    fn flush(&mut self, least: usize) -> io::Result<()> {
        if self.words.len() >= least {
            let bytes: Vec<u8> = self.words.drain(..).flat_map(u64::to_le_bytes).collect();
            self.bytes += bytes.len() as u64;
            self.to.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// Reads words, and sums them up.
struct Input<R> {
    from: BufReader<R>,
    checksum: Checksum,
    /// Records that were begun.
    record: u64,
}

impl<R: Read> Input<R> {
    fn word(&mut self) -> Result<u64, RestoreError> {
        let mut bytes = [0; 8];
        self.from.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RestoreError::Truncated,
            _ => RestoreError::Read(error),
        })?;
        let word = u64::from_le_bytes(bytes);
        self.checksum.add(word);
        Ok(word)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], RestoreError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    /// A tuple, whole.
    fn tuple(&mut self) -> Result<Words, RestoreError> {
        let words = self.words()?;
        Words::checked(words).ok_or_else(|| self.wrong("no tuple is like that"))
    }

    const fn wrong(&self, what: &'static str) -> RestoreError {
        RestoreError::Record { record: self.record.saturating_sub(1), what }
    }

    /// Nothing follows.
    fn end(&mut self) -> Result<(), RestoreError> {
        let mut byte = [0];
        match self.from.read(&mut byte)? {
            0 => Ok(()),
            _ => Err(RestoreError::Trailing),
        }
    }
}

impl Tracker {
    /// Writes all connections, and those that are expected, for [`Self::restore`]. `now` is the
    /// tracker's clock, `at` the machine's. Holds one connection at a time, so that nobody
    /// waits for it; what happens meanwhile may be in it or not: whoever wants all of it writes
    /// when nobody tracks any more. Connections that a worker is in the middle of are left out, if
    /// it stays there.
    ///
    /// # Errors
    /// Those of `to`; what was written then is of no use.
    pub fn save(&self, now: u64, at: &Moment, to: &mut impl Write) -> io::Result<Saved> {
        let mut saved = Saved::default();
        let words = Vec::with_capacity(CHUNK + record::WORDS_MAX);
        let mut output = Output { to, checksum: Checksum::default(), words, bytes: 0 };
        output.put(&[MAGIC, VERSION]);
        output.put(&at.words());
        let mut words = Vec::with_capacity(record::WORDS_MAX);
        let ports = port::Numbers::write(&self.ports.names(), &mut output);
        let mut patience = Patience::looks(LOOKS);
        for place in self.living() {
            words.clear();
            let Some(locked) = self.arena.lock_with(place, &mut patience) else {
                saved.left_out += 1;
                continue;
            };
            let Some(record) = Record::of(&locked, now, &ports, |zone| self.zones.waits_for_answer(zone)) else {
                continue;
            };
            drop(locked);
            record.write(&mut words);
            output.put(&words);
            output.flush(CHUNK)?;
            saved.connections += 1;
        }
        for expectation in self.expectations.saved(now, &mut patience) {
            words.clear();
            expectation.write(EXPECTED, &mut words);
            output.put(&words);
            saved.expected += 1;
        }
        output.put(&[END, saved.connections, saved.expected]);
        let checksum = output.checksum.value();
        output.put(&[checksum]);
        output.flush(0)?;
        saved.bytes = output.bytes;
        Ok(saved)
    }

    /// Reads what [`Self::save`] wrote into this table, which is empty and which nobody uses yet.
    /// `now` is the tracker's clock, `at` the machine's. Limits of zones do not count: what there
    /// was stays. A zone that told established from new by answers does so again.
    ///
    /// # Errors
    /// When all of it cannot be there; then nothing of it is.
    pub fn restore(&self, now: u64, at: &Moment, from: impl Read) -> Result<Restored, RestoreError> {
        if self.living().next().is_some() {
            return Err(RestoreError::NotEmpty);
        }
        let mut zones = Vec::new();
        let restored = self.read(now, at, from, &mut zones);
        match restored {
            Ok(_) => zones.into_iter().for_each(|zone| self.zones.set_waits_for_answer(zone, true)),
            Err(_) => {
                self.flush(&Filter::default(), now);
                self.expectations.clear();
            }
        }
        restored
    }

    fn read(&self, now: u64, at: &Moment, from: impl Read, zones: &mut Vec<u16>) -> Result<Restored, RestoreError> {
        let mut input =
            Input { from: BufReader::with_capacity(CHUNK * 8, from), checksum: Checksum::default(), record: 0 };
        if input.word()? != MAGIC {
            return Err(RestoreError::Magic);
        }
        let written = match input.word()? {
            VERSION => Moment::of_words(input.words()?),
            version if CLOCK_ONLY.contains(&version) => Moment { unix_ms: input.word()?, ..Moment::default() },
            other => return Err(RestoreError::Version(other)),
        };
        let elapsed_ms = at.since(&written);
        let mut restored = Restored { elapsed_ms, ..Restored::default() };
        let mut waits = vec![false; 1 << 16];
        let mut ports = port::Names::default();
        loop {
            let head = input.word()?;
            input.record += 1;
            match head & 0xff {
                END if head == END => break,
                NARROW | WIDE => {
                    let record = Record::read(head, &mut input)?;
                    let name = ports.name(record.port, &input)?;
                    if !self.put_back(&record, name, now, &mut restored, &input)? {
                        continue;
                    }
                    let zone = record.zone();
                    if record.waits && !std::mem::replace(&mut waits[usize::from(zone)], true) {
                        zones.push(zone);
                    }
                }
                EXPECTED => {
                    let expectation = Expectation::read(head, &mut || input.word())?;
                    let expectation = expectation.ok_or_else(|| input.wrong("nothing is expected like that"))?;
                    restored.expected += u64::from(self.expectations.put_back(&expectation, now, elapsed_ms));
                }
                PORT => ports.read(head, &mut input)?,
                _ => return Err(input.wrong("its kind is not known")),
            }
        }
        input.record -= ports.len();
        self.check_end(&mut input, &restored)?;
        Ok(restored)
    }

    fn check_end<R: Read>(&self, input: &mut Input<R>, restored: &Restored) -> Result<(), RestoreError> {
        let [connections, expected] = input.words()?;
        let checksum = input.checksum.value();
        if input.word()? != checksum {
            return Err(RestoreError::Checksum);
        }
        let records = input.record - 1;
        if Some(records) != connections.checked_add(expected) || connections < restored.connections {
            return Err(input.wrong("there are more or fewer records than it says"));
        }
        input.end()
    }

    /// Puts a connection back. False: its time is over.
    fn put_back<R>(
        &self,
        record: &Record,
        port: Option<&str>,
        now: u64,
        restored: &mut Restored,
        input: &Input<R>,
    ) -> Result<bool, RestoreError>
    where
        R: Read,
    {
        let Some(left) = record.left_ms.checked_sub(restored.elapsed_ms).filter(|left| *left > 0) else {
            restored.expired += 1;
            return Ok(false);
        };
        // Nobody knows which worker will have it: all lists have their turn.
        let list = usize::try_from(restored.connections / RUN).unwrap_or_default();
        let full = || RestoreError::Full(self.arena.places().len());
        let place = self.arena.take(list).ok_or_else(full)?;
        let port = port.map_or(Slot::NONE, |name| self.ports.named(name));
        if let Err(error) = self.enter_again(place, record, port, (now, left, restored.elapsed_ms), input) {
            self.counters.add(0, Count::Unopened);
            self.arena.give(&[place]);
            return Err(error);
        }
        self.zones.enter_anyway(record.zone());
        self.ports.enter_anyway(port, !record.life.has(Life::REPLIED));
        restored.connections += 1;
        Ok(true)
    }

    fn enter_again<R: Read>(
        &self,
        place: u32,
        record: &Record,
        port: Slot,
        (now, left_ms, elapsed_ms): (u64, u64, u64),
        input: &Input<R>,
    ) -> Result<(), RestoreError> {
        let tuples = record.tuples;
        let hashes = tuples.map(|tuple| self.hasher.hash(&tuple));
        let _stripes = self.index.lock(hashes);
        if tuples.iter().zip(hashes).any(|(tuple, hash)| self.find(tuple, hash, now).is_some()) {
            return Err(input.wrong("another connection has its tuple"));
        }
        let mut locked = self.arena.lock(place);
        let [original, reply] = [Direction::Original, Direction::Reply].map(|direction| Hit { place, direction });
        let entered = self.index.insert(hashes[0], original);
        if !entered || tuples[0] != tuples[1] && !self.index.insert(hashes[1], reply) {
            if entered {
                self.index.remove(hashes[0], original);
            }
            return Err(RestoreError::Full(self.arena.places().len()));
        }
        let life = record.life.until(now.saturating_add(left_ms));
        let start = now.wrapping_sub(record.age_ms.saturating_add(elapsed_ms).min(START_MAX));
        locked.begin_again(life, &record.entry(start, port), record.counts, record.skews);
        Ok(())
    }
}
