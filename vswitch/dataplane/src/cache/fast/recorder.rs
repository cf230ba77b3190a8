//! Writes down what becomes of a packet, so that the next one like it can take the fast path.
//!
//! Whoever walks a plain packet through its stages tells each decision and each `ct()`. In the end
//! [`Recorder::end`] says whether a program can be made of it, and why not.

use crate::cache::Megaflow;
use crate::cache::fast::path::{STEPS_MAX, shape};
use crate::observe::Fallback;
use crate::port::PortId;
use std::sync::Arc;
use vswitch_conntrack::{Link, Rewrite, TrackVerdict, state};
use vswitch_dpdk::{Csum, Mbuf};

/// Links of a program.
pub(in crate::cache) const LINKS_MAX: usize = 8;

/// Bytes of headers: Ethernet with a tag, IPv6, TCP.
const HEADERS: usize = 18 + 40 + 20;

/// The first bytes of a packet.
#[derive(Clone, Copy, Debug)]
struct Front {
    bytes: [u8; HEADERS],
    len: usize,
}

impl Front {
    fn of(head: &[u8]) -> Self {
        let len = head.len().min(HEADERS);
        let mut bytes = [0; HEADERS];
        bytes[..len].copy_from_slice(&head[..len]);
        Self { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Follows one packet through its stages on the slow path, and makes a program, or a reason why
/// there is none, of what became of it.
#[derive(Debug)]
pub struct Recorder {
    on: bool,
    /// The packet is the first one of a connection: what is written down is its steps.
    opens: bool,
    failed: Option<Fallback>,
    steps: Vec<Arc<Megaflow>>,
    links: Vec<(Link, Rewrite)>,
    before: Front,
    after: Front,
    partial: bool,
    /// It is in a tunnel: its own headers are as they are.
    wrapped: bool,
}

/// What was written down.
pub(in crate::cache) struct Recording<'a> {
    pub(in crate::cache) steps: &'a [Arc<Megaflow>],
    pub(in crate::cache) links: &'a [(Link, Rewrite)],
    /// [`crate::cache::fast::path::Path::out`]
    pub(in crate::cache) out: PortId,
    pub(in crate::cache) before: &'a [u8],
    pub(in crate::cache) after: &'a [u8],
    /// The packet had a partial checksum.
    pub(in crate::cache) partial: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            on: false,
            opens: false,
            failed: None,
            steps: Vec::with_capacity(STEPS_MAX),
            links: Vec::with_capacity(LINKS_MAX),
            before: Front::of(&[]),
            after: Front::of(&[]),
            partial: false,
            wrapped: false,
        }
    }
}

impl Recorder {
    /// A packet sets out, by a decision that leads to others.
    pub(in crate::cache) fn begin(&mut self, mbuf: &Mbuf, megaflow: &Arc<Megaflow>) {
        self.forget();
        self.on = true;
        self.before = Front::of(mbuf.head());
        self.after = Front::of(&[]);
        self.partial = mbuf.csum() == Csum::Partial;
        self.steps.push(Arc::clone(megaflow));
    }

    /// A first packet of a connection sets out, by a decision that leads to others.
    pub(in crate::cache) fn begin_template(&mut self, megaflow: &Arc<Megaflow>) {
        self.forget();
        (self.on, self.opens) = (true, true);
        self.steps.push(Arc::clone(megaflow));
    }

    /// It is that which is written down.
    pub(in crate::cache) const fn is_of_template(&self) -> bool {
        self.opens
    }

    /// Whether anybody wants to know.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Nobody does any more, if no program can be made of it.
    const fn is_writing(&self) -> bool {
        self.on && self.failed.is_none()
    }

    /// It is decided by a megaflow in its next stage.
    pub(crate) fn step(&mut self, megaflow: &Arc<Megaflow>) {
        if !self.is_writing() {
            return;
        }
        if self.steps.len() < STEPS_MAX {
            self.steps.push(Arc::clone(megaflow));
        } else {
            self.fail(Fallback::Shape);
        }
    }

    /// It was tracked; without a link: in a way that the next packet may not be.
    pub(crate) fn tracked(&mut self, link: Option<Link>, verdict: &TrackVerdict) {
        if !self.is_writing() {
            return;
        }
        if self.opens {
            // What else there is of it follows from what was asked.
            let first = verdict.state == state::NEW | state::TRK && verdict.known == verdict.opened;
            if !first || verdict.rewrite != Rewrite::default() {
                self.fail(Fallback::Untracked);
            }
            return;
        }
        match link {
            Some(link) if self.links.len() < LINKS_MAX => self.links.push((link, verdict.rewrite)),
            Some(_) => self.fail(Fallback::Shape),
            None => self.fail(Fallback::Untracked),
        }
    }

    /// It leaves like this.
    pub(crate) fn output(&mut self, mbuf: &Mbuf) {
        if self.is_writing() && !self.wrapped && !self.opens {
            self.after = Front::of(mbuf.head());
        }
    }

    /// It is put into a tunnel like this.
    pub(crate) fn wrap(&mut self, mbuf: &Mbuf) {
        self.output(mbuf);
        self.wrapped = true;
    }

    /// No program can be made of this.
    pub(crate) const fn fail(&mut self, why: Fallback) {
        if self.failed.is_none() {
            self.failed = Some(why);
        }
    }

    /// The packet is where it was to go.
    pub(in crate::cache) fn end(&mut self) -> Result<Recording<'_>, Fallback> {
        self.on = false;
        if let Some(why) = self.failed {
            return Err(why);
        }
        let out = shape(&self.steps, self.links.len()).ok_or(Fallback::Shape)?;
        for (i, (link, _)) in self.links.iter().enumerate() {
            for (before, _) in self.links[..i].iter().filter(|(before, _)| before.place() == link.place()) {
                if !before.agrees(link) {
                    return Err(Fallback::Changed);
                }
                // The second look at a segment depends on what the first one did.
                if before.is_judged() && link.is_judged() && before.is_tcp() {
                    return Err(Fallback::Shape);
                }
            }
        }
        let (before, after) = (self.before.bytes(), self.after.bytes());
        Ok(Recording { steps: &self.steps, links: &self.links, out, before, after, partial: self.partial })
    }

    /// The first packet is where it was to go. None: nothing can be made of this.
    pub(in crate::cache) fn end_template(&mut self) -> Option<&[Arc<Megaflow>]> {
        self.on = false;
        self.failed.is_none().then_some(&self.steps)
    }

    /// Holds nothing any more.
    pub(in crate::cache) fn forget(&mut self) {
        self.on = false;
        self.opens = false;
        self.failed = None;
        self.wrapped = false;
        self.steps.clear();
        self.links.clear();
    }
}
