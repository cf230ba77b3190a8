//! A small vhost-user front end for tests: split rings in a file that the back end maps, read and
//! written with pread and pwrite. It says what it is told to say, sense or nonsense.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use vswitch_dpdk::vhost::testing::send_with_fds;

pub(super) const GET_FEATURES: u32 = 1;
pub(super) const SET_FEATURES: u32 = 2;
pub(super) const SET_OWNER: u32 = 3;
pub(super) const RESET_OWNER: u32 = 4;
pub(super) const SET_MEM_TABLE: u32 = 5;
pub(super) const SET_LOG_BASE: u32 = 6;
pub(super) const SET_VRING_NUM: u32 = 8;
pub(super) const SET_VRING_ADDR: u32 = 9;
pub(super) const SET_VRING_BASE: u32 = 10;
pub(super) const GET_VRING_BASE: u32 = 11;
pub(super) const SET_VRING_KICK: u32 = 12;
pub(super) const SET_VRING_CALL: u32 = 13;
pub(super) const SET_VRING_ERR: u32 = 14;
pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
pub(super) const SET_VRING_ENABLE: u32 = 18;
pub(super) const SEND_RARP: u32 = 19;
pub(super) const NET_SET_MTU: u32 = 20;
pub(super) const IOTLB_MSG: u32 = 22;
pub(super) const POSTCOPY_ADVISE: u32 = 28;
pub(super) const POSTCOPY_LISTEN: u32 = 29;
pub(super) const GET_INFLIGHT_FD: u32 = 31;
pub(super) const SET_INFLIGHT_FD: u32 = 32;
pub(super) const ADD_MEM_REG: u32 = 37;
pub(super) const REM_MEM_REG: u32 = 38;
pub(super) const RESET_DEVICE: u32 = 34;
pub(super) const SET_STATUS: u32 = 39;

/// Flags of a message: protocol version 1, and "acknowledge this".
const VERSION: u32 = 1;
const NEED_REPLY: u32 = 1 << 3;

pub(super) const REPLY_ACK: u64 = 1 << 3;
pub(super) const MQ_PROTOCOL: u64 = 1 << 0;
pub(super) const MTU_PROTOCOL: u64 = 1 << 4;
pub(super) const STATUS: u64 = 1 << 16;
pub(super) const CSUM: u64 = 1 << 0;
pub(super) const GUEST_CSUM: u64 = 1 << 1;
pub(super) const MTU: u64 = 1 << 3;
pub(super) const GUEST_TSO4: u64 = 1 << 7;
pub(super) const GUEST_TSO6: u64 = 1 << 8;
pub(super) const GUEST_ECN: u64 = 1 << 9;
pub(super) const HOST_TSO4: u64 = 1 << 11;
pub(super) const HOST_TSO6: u64 = 1 << 12;
pub(super) const HOST_ECN: u64 = 1 << 13;
pub(super) const MRG_RXBUF: u64 = 1 << 15;
pub(super) const MQ: u64 = 1 << 22;
pub(super) const INDIRECT: u64 = 1 << 28;
pub(super) const EVENT_IDX: u64 = 1 << 29;
pub(super) const PROTOCOL: u64 = 1 << 30;
pub(super) const VERSION_1: u64 = 1 << 32;
pub(super) const PACKED: u64 = 1 << 34;
pub(super) const IN_ORDER: u64 = 1 << 35;

/// Flags of a descriptor.
pub(super) const NEXT: u64 = 1;
pub(super) const WRITE: u64 = 2;
pub(super) const TABLE: u64 = 4;

/// Entries of a ring.
pub(super) const RING: u16 = 256;
/// Bytes of guest memory, from guest address 0.
pub(super) const MEMORY: u64 = 16 << 20;
/// Where the front end claims to have the memory mapped.
pub(super) const USER: u64 = 0x10_0000_0000;
/// Bytes of the virtio-net header with `VIRTIO_F_VERSION_1`.
const HEADER: usize = 12;
const BUFFER: u64 = 2048;

/// One front end on one connection.
pub(super) struct Frontend {
    pub(super) socket: UnixStream,
    pub(super) memory: File,
    /// Next free entry of each ring, and entries of its used ring that were seen.
    rings: [(u16, u16); 8],
}

/// Where a ring's descriptors are; its available ring is 4 KiB behind, its used ring 8 KiB.
pub(super) fn ring_at(ring: u32) -> u64 {
    u64::from(ring) * 0x1_0000
}

fn buffer_at(ring: u32, entry: u16) -> u64 {
    0x40_0000 + u64::from(ring) * 0x8_0000 + u64::from(entry % RING) * BUFFER
}

impl Frontend {
    /// A front end on a fresh connection to a server socket.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        Self::on(UnixStream::connect(path)?)
    }

    /// A front end on an accepted connection.
    pub(super) fn on(socket: UnixStream) -> io::Result<Self> {
        socket.set_read_timeout(Some(super::LIMIT))?;
        let memory = tempfile::tempfile_in("/dev/shm")?;
        memory.set_len(MEMORY)?;
        Ok(Self { socket, memory, rings: [(0, 0); 8] })
    }

    /// The same guest on a fresh connection: its memory and its rings are as they were left.
    pub(super) fn again(self, path: &Path) -> io::Result<Self> {
        Ok(Self { memory: self.memory, rings: self.rings, ..Self::connect(path)? })
    }

    pub(super) fn raw(&self, request: u32, flags: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let size = u32::try_from(payload.len()).expect("a small payload");
        let mut bytes = Vec::with_capacity(12 + payload.len());
        for word in [request, VERSION | flags, size] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(payload);
        send_with_fds(&self.socket, &bytes, fds).map(drop)
    }

    fn reply(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 12];
        self.socket.read_exact(&mut header)?;
        let mut payload = vec![0; u32::from_ne_bytes(header[8..].try_into().expect("4 bytes")) as usize];
        self.socket.read_exact(&mut payload)?;
        Ok(payload)
    }

    /// Sends a request that is answered with a number.
    pub(super) fn get(&mut self, request: u32, payload: &[u8]) -> io::Result<u64> {
        self.raw(request, 0, payload, &[])?;
        let reply = self.reply()?;
        Ok(u64::from_ne_bytes(reply.try_into().map_err(|_| io::ErrorKind::InvalidData)?))
    }

    /// Sends a request and waits for its acknowledgement: true if the back end accepted it.
    pub(super) fn set(&mut self, request: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
        self.raw(request, NEED_REPLY, payload, fds)?;
        Ok(self.reply()?.iter().all(|byte| *byte == 0))
    }

    fn must(&mut self, request: u32, payload: &[u8]) -> io::Result<()> {
        if self.set(request, payload, &[])? {
            Ok(())
        } else {
            Err(io::Error::other(format!("request {request} refused")))
        }
    }

    /// `struct vhost_vring_state`.
    pub(super) fn state(ring: u32, value: u32) -> [u8; 8] {
        (u64::from(value) << 32 | u64::from(ring)).to_ne_bytes()
    }

    /// Negotiates `features` (all of them must be offered) and gives the memory.
    pub(super) fn negotiate(&mut self, features: u64, protocol: u64) -> io::Result<()> {
        let offered = self.get(GET_FEATURES, &[])?;
        if offered & features != features {
            return Err(io::Error::other(format!("offered {offered:x}, wanted {features:x}")));
        }
        let _ = self.get(GET_PROTOCOL_FEATURES, &[])?;
        self.raw(SET_PROTOCOL_FEATURES, 0, &protocol.to_ne_bytes(), &[])?;
        self.must(SET_OWNER, &[])?;
        self.must(SET_FEATURES, &features.to_ne_bytes())?;
        self.mem_table(MEMORY)
    }

    /// Gives `size` bytes of memory.
    pub(super) fn mem_table(&mut self, size: u64) -> io::Result<()> {
        let memory = self.memory.try_clone()?;
        if self.set(SET_MEM_TABLE, &Self::table(size, 0), &[memory.as_fd()])? {
            Ok(())
        } else {
            Err(io::Error::other("memory refused"))
        }
    }

    /// A memory table of one region that starts at `offset` in its file.
    pub(super) fn table(size: u64, offset: u64) -> Vec<u8> {
        [1, 0, size, USER, offset].map(u64::to_ne_bytes).concat()
    }

    pub(super) fn ring_addr(ring: u32) -> Vec<u8> {
        let at = USER + ring_at(ring);
        [u64::from(ring), at, at + 0x2000, at + 0x1000, 0].map(u64::to_ne_bytes).concat()
    }

    /// Starts both rings of a queue pair, empty; the receive ring gets all its buffers.
    pub(super) fn start_pair(&mut self, pair: u32) -> io::Result<()> {
        self.start_bare(pair)?;
        for _ in 0..RING {
            self.offer(2 * pair, BUFFER, WRITE)?;
        }
        Ok(())
    }

    /// As `start_pair`, without buffers.
    pub(super) fn start_bare(&mut self, pair: u32) -> io::Result<()> {
        for ring in [2 * pair, 2 * pair + 1] {
            self.memory.write_all_at(&[0; 0x3000], ring_at(ring))?;
            self.restart_ring(ring)?;
        }
        Ok(())
    }

    /// Starts a ring of the usual size, from its beginning.
    pub(super) fn restart_ring(&mut self, ring: u32) -> io::Result<()> {
        self.rings[ring as usize] = (0, 0);
        self.start_ring(ring, RING, 0, None)
    }

    /// Starts a ring of `size` entries, of which `base` were used, as it is in the memory. The
    /// guest polls if it is not called.
    pub(super) fn start_ring(&mut self, ring: u32, size: u16, base: u16, call: Option<&File>) -> io::Result<()> {
        self.must(SET_VRING_NUM, &Self::state(ring, size.into()))?;
        self.must(SET_VRING_BASE, &Self::state(ring, base.into()))?;
        self.must(SET_VRING_ADDR, &Self::ring_addr(ring))?;
        // Without a descriptor (bit 8): the other side polls.
        self.must(SET_VRING_KICK, &u64::from(ring | 1 << 8).to_ne_bytes())?;
        match call {
            Some(call) if !self.set(SET_VRING_CALL, &u64::from(ring).to_ne_bytes(), &[call.as_fd()])? => {
                return Err(io::Error::other("call descriptor refused"));
            }
            Some(_) => {}
            None => self.must(SET_VRING_CALL, &u64::from(ring | 1 << 8).to_ne_bytes())?,
        }
        self.enable(ring, true)
    }

    pub(super) fn enable(&mut self, ring: u32, on: bool) -> io::Result<()> {
        self.must(SET_VRING_ENABLE, &Self::state(ring, on.into()))
    }

    /// Stops a ring.
    pub(super) fn stop(&mut self, ring: u32) -> io::Result<()> {
        self.get(GET_VRING_BASE, &Self::state(ring, 0)).map(drop)
    }

    /// Makes the next buffer of a ring available, with `len` bytes and descriptor flags as given.
    pub(super) fn offer(&mut self, ring: u32, len: u64, flags: u64) -> io::Result<()> {
        self.offer_at(ring, buffer_at(ring, self.rings[ring as usize].0), len, flags)
    }

    /// As `offer`, at any address.
    pub(super) fn offer_at(&mut self, ring: u32, address: u64, len: u64, flags: u64) -> io::Result<()> {
        let slot = self.rings[ring as usize].0 % RING;
        self.descriptor(ring_at(ring) + u64::from(slot) * 16, [address, len, flags, 0])?;
        self.publish(ring, slot)
    }

    /// Writes a descriptor: address, length, flags, next.
    pub(super) fn descriptor(&self, at: u64, [address, len, flags, next]: [u64; 4]) -> io::Result<()> {
        let descriptor = [address, len | flags << 32 | next << 48].map(u64::to_ne_bytes).concat();
        self.memory.write_all_at(&descriptor, at)
    }

    /// Makes a chain available that begins with this descriptor.
    pub(super) fn publish(&mut self, ring: u32, head: u16) -> io::Result<()> {
        let next = &mut self.rings[ring as usize].0;
        let avail = ring_at(ring) + 0x1000;
        self.memory.write_all_at(&head.to_ne_bytes(), avail + 4 + u64::from(*next % RING) * 2)?;
        *next = next.wrapping_add(1);
        self.memory.write_all_at(&next.to_ne_bytes(), avail + 2)
    }

    /// With `EVENT_IDX`: asks to be called when this entry of a ring is used, and muted until then.
    pub(super) fn ask(&self, ring: u32, entry: u16) -> io::Result<()> {
        self.memory.write_all_at(&entry.to_ne_bytes(), ring_at(ring) + 0x1004 + 2 * u64::from(RING))
    }

    /// Entries of a ring that were used since it was empty.
    pub(super) fn used(&self, ring: u32) -> io::Result<u16> {
        let mut index = [0; 2];
        self.memory.read_exact_at(&mut index, ring_at(ring) + 0x2002)?;
        Ok(u16::from_ne_bytes(index))
    }

    /// Sends a packet on a queue pair.
    pub(super) fn send(&mut self, pair: u32, header: [u8; 10], packet: &[u8]) -> io::Result<()> {
        self.send_bytes(pair, &[&header[..], &[0, 0], packet].concat())
    }

    /// Sends a packet whose header, of 12 bytes, is its beginning.
    pub(super) fn send_bytes(&mut self, pair: u32, bytes: &[u8]) -> io::Result<()> {
        let ring = 2 * pair + 1;
        self.memory.write_all_at(bytes, buffer_at(ring, self.rings[ring as usize].0))?;
        self.offer(ring, bytes.len() as u64, 0)
    }

    /// Next packet that arrived on a queue pair (at most one buffer long), with its header.
    pub(super) fn receive(&mut self, pair: u32) -> io::Result<Option<([u8; HEADER], Vec<u8>)>> {
        let ring = 2 * pair;
        let used = ring_at(ring) + 0x2000;
        let seen = self.rings[ring as usize].1;
        if self.used(ring)? == seen {
            return Ok(None);
        }
        let mut element = [0; 8];
        self.memory.read_exact_at(&mut element, used + 4 + u64::from(seen % RING) * 8)?;
        self.rings[ring as usize].1 = seen.wrapping_add(1);
        let (id, len) = element.split_at(4);
        let id = u32::from_ne_bytes(id.try_into().expect("4 bytes"));
        let mut bytes = vec![0; u32::from_ne_bytes(len.try_into().expect("4 bytes")) as usize];
        self.memory.read_exact_at(&mut bytes, buffer_at(ring, u16::try_from(id).map_err(io::Error::other)?))?;
        self.offer(ring, BUFFER, 2)?;
        let header = bytes.drain(..HEADER).collect::<Vec<_>>().try_into().expect("12 bytes");
        Ok(Some((header, bytes)))
    }
}
