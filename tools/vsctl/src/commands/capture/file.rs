//! Messages of a capture as blocks of a capture file.

use std::io::{self, Write};
use vswitch_pcapng::{Direction, Interface, Packet, Writer};
use vswitch_proto::v1;

/// A capture file that is being written.
pub(super) struct CaptureFile<W> {
    writer: Writer<W>,
    /// By interface.
    directions: Vec<Direction>,
    /// Time of the last packet, nanoseconds since 1970.
    time: u64,
}

impl<W: Write> CaptureFile<W> {
    /// Begins a file with the interfaces of a bridge.
    pub(super) fn begin(out: W, bridge: &str, started: &v1::CaptureStarted) -> io::Result<Self> {
        let mut writer = Writer::new(out, concat!("vsctl ", env!("CARGO_PKG_VERSION")))?;
        let mut directions = Vec::new();
        for interface in &started.interfaces {
            let (direction, what) = match interface.point() {
                v1::CapturePoint::Rx => (Direction::Inbound, "received"),
                v1::CapturePoint::Tx => (Direction::Outbound, "sent"),
                v1::CapturePoint::Drop => (Direction::Unknown, "dropped"),
                v1::CapturePoint::Unspecified => (Direction::Unknown, "passed"),
            };
            directions.push(direction);
            writer.interface(&Interface {
                name: interface.port.clone(),
                description: format!("bridge {bridge}: {what}"),
                snaplen: started.snaplen,
            })?;
        }
        writer.flush()?;
        Ok(Self { writer, directions, time: 0 })
    }

    /// Adds packets with their comments, and hands them on.
    pub(super) fn records(&mut self, records: &[v1::CaptureRecord], comments: &[String]) -> io::Result<()> {
        for (record, comment) in records.iter().zip(comments) {
            self.time = self.time.max(record.time);
            let direction = match &record.drop {
                Some(drop) if drop.outbound => Direction::Outbound,
                Some(_) => Direction::Inbound,
                None => self.directions.get(record.interface as usize).copied().unwrap_or(Direction::Unknown),
            };
            self.writer.packet(&Packet {
                interface: record.interface,
                time: record.time,
                bytes: &record.data,
                length: record.length,
                direction,
                id: record.packet_id,
                comment,
            })?;
        }
        self.writer.flush()
    }

    /// Ends the file with what each interface has captured and missed.
    pub(super) fn end(mut self, statistics: &[v1::CaptureStatistics]) -> io::Result<()> {
        for (interface, statistics) in (0..).zip(statistics) {
            self.writer.statistics(interface, self.time, statistics.captured, statistics.not_copied)?;
        }
        self.writer.flush()
    }
}
