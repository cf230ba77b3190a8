//! Capture files in the format pcapng, which tcpdump, tshark and Wireshark read.
//!
//! **Where in the walk**: behind it. `vsctl` and the agent write captured packets by it.
//!
//! **Design**: one section, in the byte order of x86. Each interface is a block with its name,
//! snaplen and a resolution of one nanosecond. Each packet is an enhanced packet block: its
//! direction, and, if there are any, a comment and an id. An interface statistics block says what
//! was captured and what was lost. Blocks are written as they come: the file may be a pipe.
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html> is the format.
//!
//! **Limits**: a block is made whole in memory. Names and comments are cut at [`TEXT_MAX`] bytes.
//! All packets are Ethernet frames.
//!
//! **Threads**: one writer, one thread.
#![forbid(unsafe_code)]

use std::io::{self, Write};

/// Longest name or comment, in bytes. The length of an option has 16 bits.
pub const TEXT_MAX: usize = 0xfff0;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const ETHERNET: u16 = 1;
/// The exponent of the resolution: 10 to the power of -9 seconds.
const NANOSECONDS: u8 = 9;

/// An option of any block.
const COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const PACKET_ID: u16 = 5;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// Which way a packet went, as the flags of its block say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The block does not say.
    Unknown = 0,
    /// The interface received it.
    Inbound = 1,
    /// It was to leave by the interface.
    Outbound = 2,
}

/// An interface of a capture.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Readers show it beside each packet.
    pub name: String,
    /// A sentence on it; may be empty.
    pub description: String,
    /// Bytes that are kept of a packet at most; 0: all of them.
    pub snaplen: u32,
}

/// A captured packet.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// What [`Writer::interface`] returned.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// Its length before it was cut, in bytes.
    pub length: u32,
    /// Which way it went.
    pub direction: Direction,
    /// The same for all records of one packet; 0: unknown.
    pub id: u64,
    /// Empty: none.
    pub comment: &'a str,
}

/// Writes a capture file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file. `application`: the program that writes it, with its version.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let mut writer = Self { out, interfaces: 0, block: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER);
        writer.u16(1); // version 1.0
        writer.u16(0);
        writer.u64(u64::MAX); // the length of the section is not known yet
        writer.option(SECTION_APPLICATION, application.as_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface, and returns its number. An interface may be added between packets.
    ///
    /// # Errors
    /// Those of writing.
    pub fn interface(&mut self, interface: &Interface) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.u16(ETHERNET);
        self.u16(0); // reserved
        self.u32(interface.snaplen);
        self.option(INTERFACE_NAME, interface.name.as_bytes());
        self.option(INTERFACE_DESCRIPTION, interface.description.as_bytes());
        self.option(INTERFACE_RESOLUTION, &[NANOSECONDS]);
        self.end()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// Those of writing; [`io::ErrorKind::InvalidInput`] for an interface that was not added, or
    /// 4 GiB of bytes.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.begin(PACKET);
        self.interface_at(packet.interface, packet.time)?;
        let kept = u32::try_from(packet.bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.u32(kept);
        self.u32(packet.length);
        self.padded(packet.bytes);
        if packet.direction != Direction::Unknown {
            self.option(PACKET_FLAGS, &(packet.direction as u32).to_le_bytes());
        }
        if packet.id != 0 {
            self.option(PACKET_ID, &packet.id.to_le_bytes());
        }
        self.option(COMMENT, packet.comment.as_bytes());
        self.end()
    }

    /// Says what an interface has captured and what it has lost, in packets since the beginning.
    /// The last of an interface's statistics counts.
    ///
    /// # Errors
    /// As [`Writer::packet`].
    pub fn statistics(&mut self, interface: u32, time: u64, captured: u64, dropped: u64) -> io::Result<()> {
        self.begin(STATISTICS);
        self.interface_at(interface, time)?;
        self.option(STATISTICS_RECEIVED, &(captured + dropped).to_le_bytes());
        self.option(STATISTICS_DROPPED, &dropped.to_le_bytes());
        self.end()
    }

    /// Hands on what the writer below has gathered.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0); // its length, once it is known
    }

    /// The number of an interface, and a time in two halves.
    fn interface_at(&mut self, interface: u32, time: u64) -> io::Result<()> {
        if interface >= self.interfaces {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.u32(interface);
        self.block.extend_from_slice(&time.to_le_bytes()[4..]);
        self.block.extend_from_slice(&time.to_le_bytes()[..4]);
        Ok(())
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes, and zeros up to a multiple of four.
    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// An option that has a value.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..cut(value)];
        if let (1.., Ok(len)) = (value.len(), u16::try_from(value.len())) {
            self.u16(code);
            self.u16(len);
            self.padded(value);
        }
    }

    /// Ends the options and the block, and writes it.
    fn end(&mut self) -> io::Result<()> {
        self.u32(0);
        let len = u32::try_from(self.block.len() + 4).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.u32(len);
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.out.write_all(&self.block)
    }
}

/// Bytes of a text that an option takes: whole characters.
fn cut(text: &[u8]) -> usize {
    let mut len = text.len().min(TEXT_MAX);
    while len < text.len() && len > 0 && text[len] & 0xc0 == 0x80 {
        len -= 1;
    }
    len
}

#[cfg(test)]
mod tests;
