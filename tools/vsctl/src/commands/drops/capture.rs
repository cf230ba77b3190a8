//! Samples of drops as a capture file: an interface for each port and direction.

use super::words;
use std::collections::HashMap;
use std::io::{self, Write};
use vswitch_pcapng::{Direction, Interface, Packet, Writer};
use vswitch_proto::v1;
use vswitch_proto::v1::watch_drops_response::Update;

/// Bytes of a packet that a sample has at most.
const SNAPLEN: u32 = 128;

/// One port in one direction.
#[derive(Clone, Debug)]
struct Seen {
    number: u32,
    samples: u64,
}

/// A file that is written.
pub(super) struct Capture<'a> {
    writer: Writer<Box<dyn Write + 'a>>,
    interfaces: HashMap<(String, String, i32), Seen>,
    /// Nanoseconds of the last sample.
    time: u64,
    /// Drops that were not told, of all ports.
    not_told: u64,
}

impl<'a> Capture<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> io::Result<Self> {
        let writer = Writer::new(out, concat!("vsctl ", env!("CARGO_PKG_VERSION")))?;
        Ok(Self { writer, interfaces: HashMap::new(), time: 0, not_told: 0 })
    }

    /// Writes a sample, for readers of a pipe at once; counts what was not told.
    pub(super) fn add(&mut self, update: &Update) -> io::Result<()> {
        let sample = match update {
            Update::Sample(sample) => sample,
            Update::NotTold(not_told) => {
                self.not_told = not_told.reasons.iter().map(|one| one.suppressed + one.lost).sum();
                return Ok(());
            }
            Update::Lost(_) => return Ok(()),
        };
        let interface = self.interface(sample)?;
        self.time = sample.unix_ms.saturating_mul(1_000_000);
        self.writer.packet(&Packet {
            interface,
            time: self.time,
            bytes: &sample.packet,
            length: sample.length,
            direction: match sample.direction() {
                v1::DropDirection::Unspecified => Direction::Unknown,
                v1::DropDirection::In => Direction::Inbound,
                v1::DropDirection::Out => Direction::Outbound,
            },
            id: 0,
            comment: &words::comment(sample),
        })?;
        self.writer.flush()
    }

    fn interface(&mut self, sample: &v1::DropSample) -> io::Result<u32> {
        let key = (sample.bridge.clone(), sample.port.clone(), sample.direction);
        if let Some(seen) = self.interfaces.get_mut(&key) {
            seen.samples += 1;
            return Ok(seen.number);
        }
        let way = words::way(sample.direction());
        let number = self.writer.interface(&Interface {
            name: format!("{} {way}", sample.port),
            description: format!("drops of packets {way} by port {} of bridge {}", sample.port, sample.bridge),
            snaplen: SNAPLEN,
        })?;
        self.interfaces.insert(key, Seen { number, samples: 1 });
        Ok(number)
    }

    /// Writes how many samples each interface has. What was not told belongs to no port: an
    /// interface of its own has the number.
    pub(super) fn end(mut self) -> io::Result<()> {
        for seen in self.interfaces.values() {
            self.writer.statistics(seen.number, self.time, seen.samples, 0)?;
        }
        if self.not_told > 0 {
            let (name, description) = ("not sampled", "drops of all ports of which there are no samples");
            let interface = Interface { name: name.to_owned(), description: description.to_owned(), snaplen: SNAPLEN };
            let number = self.writer.interface(&interface)?;
            self.writer.statistics(number, self.time, 0, self.not_told)?;
        }
        self.writer.flush()
    }
}
