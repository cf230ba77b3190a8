//! Our switch: the daemon itself with ports of kind `dummy`, loaded by `vsctl` with the same text
//! that ovs-ofctl gets, fed by the service that `--enable-dummy` adds.
//!
//! **Design**: a packet is one message on a stream that stays open, and its answer comes when
//! everything has happened. Events come on streams of their own; a marker sent through each of them
//! tells that nothing is under way any more.

mod config;
mod decisions;
mod events;
mod node;
mod tunnels;

use crate::behind;
use crate::common::{Switch, client_runtime};
use crate::connections;
use crate::predict;
use crate::record::Effect;
use crate::scenario::{Command, PortChange};
use crate::subject::{BRIDGE, LOCAL, SECOND_CONTROLLER, Subject, limited, port_name};
use crate::tunnels::Tunnelling;
use events::watch_packets;
use std::collections::BTreeSet;
use std::process::Output;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use vswitch_proto::v1;
use vswitch_proto::v1::conntrack_service_client::ConntrackServiceClient;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;
use vswitch_proto::v1::trace_service_client::TraceServiceClient;

/// Our switch under test.
#[derive(Debug)]
pub(crate) struct Ours {
    // Before the switch: clients go first.
    channel: Channel,
    packets: mpsc::Sender<v1::ReceiveRequest>,
    sent: Streaming<v1::ReceiveResponse>,
    packet_ins: [Streaming<v1::WatchPacketInsResponse>; 2],
    removed: Streaming<v1::WatchFlowsResponse>,
    runtime: Runtime,
    /// Look for packet-ins after each step.
    listens: bool,
    markers: u64,
    paused: Option<Vec<u8>>,
    /// Ports that are down, and ports that do not flood.
    changed: BTreeSet<(u32, PortChange)>,
    /// Tables have names.
    named: bool,
    /// `zone=N` that has a limit.
    limited: BTreeSet<String>,
    ports: Vec<(String, u32)>,
    /// Trace every packet before it is sent.
    traces: bool,
    /// Traces of this scenario say where packets leave: there was no ct() in one yet.
    foresees: bool,
    /// Numbers of the tunnel ports.
    tunnels: BTreeSet<u32>,
    /// Addresses of LOCAL.
    addresses: Vec<String>,
    /// It has what no command takes away: it is started anew.
    spent: bool,
    /// Empty the caches in front of each packet, and tell decisions.
    decides: bool,
    switch: Switch,
}

impl Ours {
    /// Starts it with these ports, and LOCAL.
    pub(crate) fn start(ports: &[(String, u32)]) -> Self {
        Self::start_with(&config::of(ports), ports)
    }

    /// Starts it with a configuration that has these ports.
    pub(crate) fn start_with(config: &str, ports: &[(String, u32)]) -> Self {
        let switch = Switch::start_with(config, &["--enable-dummy"]);
        let runtime = client_runtime();
        let socket = format!("unix://{}", switch.socket().display());
        let (channel, packets, sent, packet_ins, removed) = runtime.block_on(async {
            let endpoint = Endpoint::from_shared(socket).expect("a socket's address");
            let channel = endpoint.connect().await.expect("vswitchd listens");
            let mut dummy = DummyServiceClient::new(channel.clone());
            dummy.stop_time(v1::StopTimeRequest {}).await.expect("the clock stops");
            let (packets, requests) = mpsc::channel(1);
            let sent = dummy.receive(ReceiverStream::new(requests)).await.expect("a stream of packets").into_inner();
            let packet_ins = [watch_packets(&channel, 0).await, watch_packets(&channel, SECOND_CONTROLLER).await];
            let request =
                v1::WatchFlowsRequest { bridge: BRIDGE.to_owned(), form: v1::Form::Typed.into(), names: false };
            let removed = FlowServiceClient::new(channel.clone()).watch_flows(request).await;
            (channel, packets, sent, packet_ins, removed.expect("a stream of flows that go").into_inner())
        });
        Self {
            channel,
            packets,
            sent,
            packet_ins,
            removed,
            runtime,
            listens: true,
            markers: 0,
            paused: None,
            changed: BTreeSet::new(),
            named: false,
            limited: BTreeSet::new(),
            ports: ports.to_vec(),
            traces: false,
            foresees: true,
            tunnels: BTreeSet::new(),
            addresses: Vec::new(),
            spent: false,
            decides: false,
            switch,
        }
    }

    /// Switches the caches of the workers on or off.
    pub(crate) fn set_cache(&mut self, enabled: bool) {
        let request = v1::SetCacheRequest { enabled: Some(enabled), flush: true };
        let mut dummy = DummyServiceClient::new(self.channel.clone());
        self.runtime.block_on(dummy.set_cache(request)).expect("the cache obeys");
        // Once is enough.
        self.traces = !enabled;
    }

    fn vsctl(&self, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
        let Output { status, stdout, stderr } = self.switch.vsctl_with(arguments, input);
        match status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&stdout).into_owned()),
            _ => Err(String::from_utf8_lossy(&stderr).trim().to_owned()),
        }
    }

    /// Hands in a packet; what left since the last call.
    fn receive(&mut self, port: u32, packet: &[u8]) -> Vec<(String, Vec<u8>)> {
        let request = v1::ReceiveRequest { port: port_name(port), packet: packet.to_vec() };
        let answer = self.runtime.block_on(async {
            self.packets.send(request).await.expect("a packet can be handed in");
            self.sent.message().await.expect("a packet is processed").expect("no end")
        });
        let mut outputs = answer.sent.into_iter().map(|sent| (sent.port, sent.packet)).collect::<Vec<_>>();
        // Between ports no order is compared: a capture file of the oracle has one port's packets.
        outputs.sort_by_key(|(port, _)| (port == BRIDGE, port.clone()));
        outputs
    }

    /// What happened without a packet that came in. An empty one, which goes nowhere, makes the
    /// switch tell.
    fn sent_otherwise(&mut self) -> Effect {
        let outputs = self.receive(1, &[]);
        Effect { outputs, ..self.settle() }
    }

    /// Collects the packet-ins of everything so far.
    fn settle(&mut self) -> Effect {
        let packet_ins = if self.listens { self.take_packet_ins() } else { Vec::new() };
        Effect { packet_ins, ..Effect::default() }
    }
}

impl Subject for Ours {
    fn name(&self) -> &'static str {
        "our switch"
    }

    fn expect_packet_ins(&mut self, expected: bool) {
        self.listens = expected;
    }

    fn decide(&mut self, told: bool) {
        self.decides = told;
    }

    fn reset(&mut self) {
        self.foresees = true;
        if self.named || self.spent {
            // Tables keep their names; and what else no command takes away.
            let (caches, decides) = (!self.traces, self.decides);
            *self = Self::start(&self.ports.clone());
            self.decides = decides;
            self.set_cache(caches);
            return;
        }
        for verb in ["del-flows", "del-groups", "del-meters"] {
            self.vsctl(&[verb, BRIDGE], None).unwrap_or_else(|error| panic!("{verb}: {error}"));
        }
        for (port, change) in self.changed.clone() {
            self.change_port(port, change.undone());
        }
        self.vsctl(&["fdb-flush", BRIDGE], None).expect("the MAC table can be emptied");
        self.vsctl(&["flush-conntrack"], None).expect("connections can be ended");
        for zone in std::mem::take(&mut self.limited) {
            self.vsctl(&["ct-del-limits", &zone], None).expect("a limit can be taken away");
        }
        self.rest();
    }

    fn add_flows(&mut self, lines: &[&str]) -> Result<Effect, String> {
        self.vsctl(&["add-flows", BRIDGE, "-"], Some(&lines.join("\n")))?;
        Ok(self.settle())
    }

    fn control(&mut self, command: &Command) -> Result<(String, Effect), String> {
        let mut arguments: Vec<&str> = command.options.iter().map(String::as_str).collect();
        arguments.extend([command.verb.as_str(), BRIDGE]);
        if command.input.is_some() {
            arguments.push("-");
        }
        arguments.extend(command.argument.as_deref());
        self.spent |= command.verb.ends_with("tlv-map");
        let printed = self.vsctl(&arguments, command.input.as_deref())?;
        Ok((printed, self.settle()))
    }

    fn load_behind(&mut self, mode: &str) -> Result<(), String> {
        self.spent = true;
        let [groups, flows] = behind::program(mode);
        self.vsctl(&["add-groups", behind::BRIDGE, "-"], Some(&groups))?;
        self.vsctl(&["add-flows", behind::BRIDGE, "-"], Some(&flows)).map(drop)
    }

    fn name_table(&mut self, number: u8, name: &str) {
        self.named = true;
        let number = format!("--number={number}");
        self.vsctl(&["add-table", BRIDGE, name, &number], None).unwrap_or_else(|error| panic!("add-table: {error}"));
    }

    fn change_port(&mut self, port: u32, change: PortChange) -> Effect {
        self.changed.remove(&(port, change.undone()));
        if !change.is_default() {
            self.changed.insert((port, change));
        }
        if self.tunnels.contains(&port) {
            return self.change_tunnel(port, change);
        }
        let name = port_name(port);
        self.vsctl(&["mod-port", BRIDGE, &name, change.word()], None).expect("a port can be changed");
        self.settle()
    }

    fn packet(&mut self, port: u32, packet: &[u8]) -> Effect {
        if self.changed.contains(&(port, PortChange::Down)) {
            return Effect::default();
        }
        let trace = (self.traces && self.foresees && !self.spent).then(|| self.trace(port, packet));
        if self.decides {
            self.set_cache(true);
        }
        let outputs = self.receive(port, packet);
        let decisions = if self.decides { self.decisions() } else { Vec::new() };
        let effect = Effect { outputs, decisions, ..self.settle() };
        if let Some(trace) = trace {
            self.foresees = !trace.contains("resume conntrack");
            let down = self.changed.iter().filter(|(_, change)| *change == PortChange::Down);
            let down = down.map(|(port, _)| port_name(*port)).collect::<Vec<_>>();
            predict::check(&trace, packet, &effect, &down);
        }
        effect
    }

    fn packet_out(&mut self, text: &str) -> Result<Effect, String> {
        self.vsctl(&["packet-out", BRIDGE, text], None)?;
        Ok(self.sent_otherwise())
    }

    fn resume(&mut self) -> Effect {
        let continuation = self.paused.take().expect("a packet was paused");
        let request = v1::ResumePacketRequest { bridge: BRIDGE.to_owned(), continuation, packet: Vec::new() };
        let mut service = PacketServiceClient::new(self.channel.clone());
        self.runtime.block_on(service.resume_packet(request)).expect("a paused packet goes on");
        self.sent_otherwise()
    }

    fn warp(&mut self, ms: u64) -> Effect {
        let request = v1::WarpTimeRequest { milliseconds: ms, step_milliseconds: 0 };
        let mut dummy = DummyServiceClient::new(self.channel.clone());
        self.runtime.block_on(dummy.warp_time(request)).expect("time goes on");
        self.settle()
    }

    fn rest(&mut self) -> Effect {
        Effect { packet_ins: self.take_packet_ins(), removed: self.take_removed(), ..Effect::default() }
    }

    fn connections(&mut self) -> Vec<String> {
        let mut service = ConntrackServiceClient::new(self.channel.clone());
        self.runtime.block_on(async {
            let request = v1::ListConnectionsRequest::default();
            let mut stream = service.list_connections(request).await.expect("a stream of connections").into_inner();
            let mut lines = Vec::new();
            while let Some(message) = stream.message().await.expect("connections") {
                // Less than a second: `connections::normalise`.
                let lasting = message.connections.iter().filter(|connection| connection.timeout_ms >= 1000);
                lines.extend(lasting.map(connections::line));
            }
            lines
        })
    }

    fn conntrack(&mut self, verb: &str, arguments: &[&str]) -> Result<String, String> {
        self.limited.extend(limited(verb, arguments));
        self.vsctl(&[&[verb], arguments].concat(), None)
    }

    fn tunnel(&mut self, step: &Tunnelling) -> Result<(String, Effect), String> {
        self.tunnelling(step)
    }

    fn trace(&mut self, port: u32, packet: &[u8]) -> String {
        let in_port = if port == LOCAL { "LOCAL".to_owned() } else { port.to_string() };
        let input = v1::trace_request::Input::Packet(v1::TracePacket { in_port, packet: packet.to_vec() });
        let request =
            v1::TraceRequest { bridge: BRIDGE.to_owned(), input: Some(input), names: true, ct_next: Vec::new() };
        let mut service = TraceServiceClient::new(self.channel.clone());
        match self.runtime.block_on(service.trace(request)) {
            Ok(answer) => answer.into_inner().text,
            Err(status) => status.to_string(),
        }
    }
}
