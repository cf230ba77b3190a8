//! One PacketCapture that runs on this Node.

use super::Shared;
use super::object::{PacketCapture, Part};
use super::status::State;
use crate::drive::channel;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use vswitch_pcapng::{Direction, Interface, Packet, Writer};
use vswitch_proto::v1::capture_response::Update;
use vswitch_proto::v1::capture_service_client::CaptureServiceClient;
use vswitch_proto::v1::{CaptureEnd, CapturePoint, CaptureRecord, CaptureRequest};

/// Bytes of packets in a file. A capture ends with them.
pub(super) const FILE_LEN_MAX: u64 = 16 << 20;

/// Messages of the switch that wait for the file.
const QUEUED: usize = 4;

/// Time for the file beyond that of the capture, in seconds.
const GRACE_SECONDS: u64 = 10;

/// The program, as files name it.
const APPLICATION: &str = concat!("vswitch-agent ", env!("CARGO_PKG_VERSION"));

/// A capture that runs. Dropped, it ends.
pub(super) struct Session {
    uid: String,
    name: String,
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// Starts a capture. What it asks for may be wrong.
    pub(super) fn start(shared: &Shared, object: &PacketCapture) -> Result<Self, String> {
        let spec = object.spec.clone()?;
        let number = spec.number()?;
        let parts = spec.parts(|pod| shared.addresses(pod))?;
        let pod = object.pod().unwrap_or_default();
        let (bridge, port) = {
            let pods = shared.pods.borrow();
            let local = pods.local.get(&pod).ok_or_else(|| format!("Pod {pod} has no port on this Node"))?;
            (pods.bridge.clone(), local.port.clone())
        };
        let requests = parts.iter().map(|part| CaptureRequest {
            bridge: bridge.clone(),
            ports: vec![port.clone()],
            points: vec![part.point.into()],
            r#match: part.matched.clone(),
            snaplen: 0,
            count: number.into(),
            seconds: spec.seconds(),
        });
        let requests: Vec<CaptureRequest> = requests.collect();
        let (states, state) = watch::channel(State::Started(0));
        let run = Run { shared: shared.clone(), name: object.name.clone(), number, parts, port, states };
        let (seconds, has_file_server) = (spec.seconds(), spec.has_file_server());
        let task = tokio::spawn(run.follow(requests, seconds, has_file_server));
        Ok(Self { uid: object.uid.clone(), name: object.name.clone(), state, task })
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How far it is.
    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }
}

struct Run {
    shared: Shared,
    name: String,
    /// Packets that are asked for.
    number: u32,
    parts: Vec<Part>,
    port: String,
    states: watch::Sender<State>,
}

/// What one capture of the switch tells.
enum Told {
    Records(usize, Vec<CaptureRecord>),
    Ended(CaptureEnd),
    Failed(String),
}

impl Run {
    async fn follow(self, requests: Vec<CaptureRequest>, seconds: u32, has_file_server: bool) {
        let limit = std::time::Duration::from_secs(u64::from(seconds) + GRACE_SECONDS);
        let mut packets = 0;
        let end = tokio::time::timeout(limit, self.capture(requests, &mut packets)).await;
        let (reason, mut message) = match end {
            Ok(Ok(CaptureEnd::Count)) => ("Succeed", String::new()),
            Ok(Ok(CaptureEnd::Ports)) => ("Failed", "the Pod's port is gone".to_owned()),
            Ok(Ok(_)) | Err(_) => ("Timeout", format!("{packets} of {} packets within {seconds} s", self.number)),
            Ok(Err(reason)) => ("Failed", reason),
        };
        if has_file_server {
            let note = "spec.fileServer: this agent sends nothing to file servers; the file is on the Node";
            message = if message.is_empty() { note.to_owned() } else { format!("{message}; {note}") };
        }
        let path = self.shared.file(&self.name);
        let has_file = path.is_file();
        let file = if has_file { format!("{}:{}", self.shared.node, path.display()) } else { String::new() };
        self.states.send_replace(State::Complete { packets, file, reason, message });
    }

    /// Captures until there are enough packets. Counts them in `packets`.
    async fn capture(&self, requests: Vec<CaptureRequest>, packets: &mut u32) -> Result<CaptureEnd, String> {
        let mut file = self.create().map_err(|error| format!("{}: {error}", self.shared.dir.display()))?;
        let (sender, mut inbox) = mpsc::channel(QUEUED);
        let mut streams = JoinSet::new();
        for (part, request) in requests.into_iter().enumerate() {
            streams.spawn(read(self.shared.socket.to_path_buf(), part, request, sender.clone()));
        }
        drop(sender);
        let (mut len, mut end) = (0, CaptureEnd::Seconds);
        while let Some(told) = inbox.recv().await {
            match told {
                Told::Records(part, records) => {
                    for record in records {
                        if *packets == self.number {
                            break;
                        }
                        len += record.data.len() as u64;
                        if len > FILE_LEN_MAX {
                            return Err(format!("the file has {} MiB", FILE_LEN_MAX >> 20));
                        }
                        write(&mut file, part, self.parts[part].point, &record).map_err(|error| error.to_string())?;
                        *packets += 1;
                    }
                    file.flush().map_err(|error| error.to_string())?;
                    if *packets == self.number {
                        return Ok(CaptureEnd::Count);
                    }
                    self.states.send_replace(State::Started(*packets));
                }
                Told::Ended(reason) => end = reason,
                Told::Failed(reason) => return Err(reason),
            }
        }
        Ok(end)
    }

    /// A new file, with an interface for each direction.
    fn create(&self) -> io::Result<Writer<BufWriter<File>>> {
        make_dir(&self.shared.dir)?;
        let path = self.shared.file(&self.name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Only the agent's user reads packets.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut writer = Writer::new(BufWriter::new(file), APPLICATION)?;
        for part in &self.parts {
            let what = if part.point == CapturePoint::Rx { "received" } else { "sent" };
            let description = format!("{what}: {}", part.matched);
            writer.interface(&Interface { name: self.port.clone(), description, snaplen: 0 })?;
        }
        writer.flush()?;
        Ok(writer)
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn write(
    file: &mut Writer<BufWriter<File>>,
    part: usize,
    point: CapturePoint,
    record: &CaptureRecord,
) -> io::Result<()> {
    file.packet(&Packet {
        interface: u32::try_from(part).unwrap_or_default(),
        time: record.time,
        bytes: &record.data,
        length: record.length,
        direction: if point == CapturePoint::Rx { Direction::Inbound } else { Direction::Outbound },
        id: record.packet_id,
        comment: "",
    })
}

/// Hands on what one capture of the switch tells, until it ends or has no listener.
async fn read(socket: std::path::PathBuf, part: usize, request: CaptureRequest, out: mpsc::Sender<Told>) {
    let told = match capture(&socket, part, request, &out).await {
        Ok(reason) => Told::Ended(reason),
        Err(reason) => Told::Failed(reason),
    };
    // The capture may be over.
    let _ = out.send(told).await;
}

async fn capture(
    socket: &Path,
    part: usize,
    request: CaptureRequest,
    out: &mpsc::Sender<Told>,
) -> Result<CaptureEnd, String> {
    let refused = |status: tonic::Status| format!("the switch: {}", status.message());
    let channel = channel(socket).await.map_err(|error| error.to_string())?;
    let mut stream = CaptureServiceClient::new(channel).capture(request).await.map_err(refused)?.into_inner();
    while let Some(message) = stream.message().await.map_err(refused)? {
        match message.update {
            Some(Update::Records(records)) => {
                let is_read = out.send(Told::Records(part, records.records)).await.is_ok();
                if !is_read {
                    break;
                }
            }
            Some(Update::Ended(ended)) => return Ok(ended.reason()),
            _ => {}
        }
    }
    Err("the switch has ended the capture".to_owned())
}
