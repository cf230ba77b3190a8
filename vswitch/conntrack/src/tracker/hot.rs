//! What of a connection every packet touches: one cache line.
//!
//! Whoever holds the place's lock or owns the place writes it ([`Mine`]), and nobody else. [`Life`]
//! is read by everybody; all else by who may write it, and by who looks at an owned place and looks
//! whether that was right ([`super::arena::Arena::look`]). The words are atomic because the
//! language has no other way to say so; their accesses are plain ones, which the lock orders.

use super::life::Life;
use super::lock::Lock;
use super::sync::{AtomicU32 as Counter, AtomicU64};
use super::words::halves32;
use crate::Direction;
use crate::tcp::{self, Peer, Segment, Slide, State, Tcp};
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64 as Word};

/// Changes that are counted.
pub(super) const VERSION_MAX: u32 = u32::MAX;

/// The hot line of a connection: all that every packet of it touches.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Hot {
    life: AtomicU64,
    pub(super) lock: Lock,
    mark: AtomicU32,
    /// How many connections were here, below how often the present one has changed
    /// ([`Mine::changed`]).
    name: Word,
    /// By [`Direction`].
    peers: [End; 2],
    /// By [`Direction`], the low halves. (Models explore one of them: that none is lost.)
    packets: [Counter; 2],
    bytes: [AtomicU32; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Hot>() == 64);

/// One end of a connection of TCP: a [`Peer`].
#[derive(Debug, Default)]
struct End {
    seq_lo: AtomicU32,
    seq_hi: AtomicU32,
    max_window: AtomicU16,
    scale: AtomicU8,
    state: AtomicU8,
}

impl End {
    /// All but the state.
    #[inline]
    fn windows(&self) -> Peer {
        Peer {
            seq_lo: self.seq_lo.load(Relaxed),
            seq_hi: self.seq_hi.load(Relaxed),
            max_window: self.max_window.load(Relaxed),
            scale: self.scale.load(Relaxed),
            state: State::Established,
        }
    }

    #[inline]
    fn state(&self) -> State {
        State::of(self.state.load(Relaxed))
    }

    #[inline]
    fn set(&self, peer: &Peer) {
        self.seq_lo.store(peer.seq_lo, Relaxed);
        self.seq_hi.store(peer.seq_hi, Relaxed);
        self.max_window.store(peer.max_window, Relaxed);
        self.scale.store(peer.scale, Relaxed);
        self.state.store(peer.state as u8, Relaxed);
    }
}

/// What whoever has the place, and nobody else, may write: given by its lock, and to its owner.
#[derive(Debug)]
pub(super) struct Mine<'a>(&'a Hot);

impl<'a> Mine<'a> {
    /// Of who has it locked, or owns it and is inside of a section.
    #[inline]
    pub(super) const fn of(hot: &'a Hot) -> Self {
        Self(hot)
    }
}

impl Deref for Mine<'_> {
    type Target = Hot;

    #[inline]
    fn deref(&self) -> &Hot {
        self.0
    }
}

/// Generation and version as one number: one load and one compare for both.
#[inline]
pub(super) const fn name(generation: u32, version: u32) -> u64 {
    generation as u64 | (version as u64) << 32
}

impl Hot {
    /// As it is at this moment, whoever asks.
    #[inline]
    pub(super) fn life(&self) -> Life {
        Life::of_word(self.life.load(Acquire))
    }

    /// The word that it begins with.
    #[inline]
    pub(super) const fn first_word(&self) -> &AtomicU64 {
        &self.life
    }

    /// See [`name`].
    #[inline]
    pub(super) fn name(&self) -> u64 {
        self.name.load(Relaxed)
    }

    /// How many connections were here.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        let [_, generation] = halves32(self.name());
        generation
    }

    /// How often it has changed. At [`VERSION_MAX`] nobody can tell any more, and nobody is to
    /// remember.
    #[inline]
    pub(super) fn version(&self) -> u32 {
        let [version, _] = halves32(self.name());
        version
    }

    #[inline]
    pub(super) fn mark(&self) -> u32 {
        self.mark.load(Relaxed)
    }

    pub(super) fn tcp(&self) -> Tcp {
        Tcp { peers: [0, 1].map(|i| Peer { state: self.peers[i].state(), ..self.peers[i].windows() }) }
    }

    /// What a segment from one established end to the other moves; none if it does not fit.
    #[inline]
    pub(super) fn slides(&self, segment: &Segment, direction: Direction, check: bool) -> Option<Slide> {
        debug_assert!(self.is_established(), "{self:?}");
        let (src, dst) = self.ends(direction);
        // What is not asked is not read.
        tcp::slides(segment, &src.windows(), &dst.windows(), check)
    }

    /// Sender and receiver of a packet.
    #[inline]
    fn ends(&self, direction: Direction) -> (&End, &End) {
        let src = direction as usize;
        (&self.peers[src], &self.peers[1 - src])
    }

    #[inline]
    pub(super) fn is_established(&self) -> bool {
        self.peers.iter().all(|end| end.state() == State::Established)
    }

    /// The low halves of packets, by direction.
    pub(super) fn packets(&self) -> [u32; 2] {
        [self.packets[0].load(Relaxed), self.packets[1].load(Relaxed)]
    }

    /// Likewise, of bytes.
    pub(super) fn bytes(&self) -> [u32; 2] {
        [self.bytes[0].load(Relaxed), self.bytes[1].load(Relaxed)]
    }
}

impl Mine<'_> {
    #[inline]
    pub(super) fn set_life(&self, life: Life) {
        self.0.life.store(life.word(), Release);
    }

    /// A later `ct()` could see what has changed: who remembers how a packet was judged is to look
    /// again.
    pub(super) fn changed(&self) {
        self.0.name.store(name(self.generation(), self.version().saturating_add(1)), Relaxed);
    }

    /// The next connection is here, without packets.
    pub(super) fn begin(&self, tcp: &Tcp, mark: u32) {
        self.0.name.store(name(self.generation().wrapping_add(1), 0), Relaxed);
        self.set_tcp(tcp);
        self.set_mark(mark);
        self.set_counts([[0; 2]; 2]);
    }

    #[inline]
    pub(super) fn set_mark(&self, mark: u32) {
        self.0.mark.store(mark, Relaxed);
    }

    pub(super) fn set_tcp(&self, tcp: &Tcp) {
        for (end, peer) in self.0.peers.iter().zip(&tcp.peers) {
            end.set(peer);
        }
    }

    /// Moves what a segment moves, moved or not: the packet's counters are in the same cache line.
    #[inline]
    pub(super) fn slide(&self, direction: Direction, slide: Slide) {
        let (src, dst) = self.ends(direction);
        src.max_window.store(slide.max_window, Relaxed);
        src.seq_lo.store(slide.seq_lo, Relaxed);
        dst.seq_hi.store(slide.seq_hi, Relaxed);
    }

    pub(super) fn set_counts(&self, [packets, bytes]: [[u32; 2]; 2]) {
        for i in 0..2 {
            self.0.packets[i].store(packets[i], Relaxed);
            self.0.bytes[i].store(bytes[i], Relaxed);
        }
    }

    /// Counts a packet of so many bytes. When halves of packets or bytes begin anew, `carries` says
    /// whether to go on; false: it did not.
    #[inline]
    pub(super) fn count(&self, direction: Direction, len: u32, carries: impl FnOnce([bool; 2]) -> bool) -> bool {
        let (packets, bytes) = (&self.0.packets[direction as usize], &self.0.bytes[direction as usize]);
        let (more, packets_over) = packets.load(Relaxed).overflowing_add(1);
        let (longer, bytes_over) = bytes.load(Relaxed).overflowing_add(len);
        if (packets_over || bytes_over) && !carries([packets_over, bytes_over]) {
            return false;
        }
        packets.store(more, Relaxed);
        bytes.store(longer, Relaxed);
        true
    }
}

/// What a segment makes of two established ends on the fast path; and whether it fits.
#[cfg(test)]
pub(crate) fn slid(tcp: Tcp, segment: &Segment, direction: Direction, check: bool) -> (bool, Tcp) {
    let hot = Hot::default();
    Mine::of(&hot).set_tcp(&tcp);
    assert_eq!(hot.tcp(), tcp, "as it was written");
    let slide = hot.slides(segment, direction, check);
    slide.into_iter().for_each(|slide| Mine::of(&hot).slide(direction, slide));
    (slide.is_some(), hot.tcp())
}
