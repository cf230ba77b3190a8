//! Messages as values.

use crate::header::{HEADER, MAX};
use crate::wire::{Reader, Result, Writer};
use crate::{
    AsyncConfig, BundleAdd, BundleControl, CtFlush, ErrorCode, Features, FlowMod, FlowRemoved, GroupMod, Hello,
    MeterMod, OptionMod, OptionTable, PacketIn, PacketOut, Part, PortMod, PortStatus, Reply, Request, RoleMessage,
    RoleStatus, SwitchConfig, TableMod,
};

/// A message with the number that its answer bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Chosen by who asks.
    pub xid: u32,
    /// The message.
    pub message: Message,
}

/// Says that something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What.
    pub code: ErrorCode,
    /// The beginning of the message that is wrong.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// Bytes of the wrong message that fit. Open vSwitch sends all of it.
    pub const MAX_DATA: usize = MAX - HEADER - 8;

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        const EXPERIMENTER: u16 = 0xffff;
        let (kind, code) = (input.u16()?, input.u16()?);
        let experimenter = if kind == EXPERIMENTER { input.u32()? } else { 0 };
        Ok(Self { code: ErrorCode { experimenter, kind, code }, data: input.rest().to_vec() })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        let ErrorCode { experimenter, kind, code } = self.code;
        out.u16(kind);
        out.u16(code);
        if kind == 0xffff {
            out.u32(experimenter);
        }
        out.bytes(&self.data);
    }
}

/// A message, by OpenFlow's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // OpenFlow's names
pub enum Message {
    Hello(Hello),
    Error(ErrorMessage),
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    PortStatus(PortStatus),
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableMod),
    MeterMod(MeterMod),
    MultipartRequest(Part<Request>),
    MultipartReply(Part<Reply>),
    BarrierRequest,
    BarrierReply,
    RoleRequest(RoleMessage),
    RoleReply(RoleMessage),
    RoleStatus(RoleStatus),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    BundleControl(BundleControl),
    BundleAdd(BundleAdd<Message>),
    /// Nicira's packet-in, with userdata and continuation.
    PacketIn2(PacketIn),
    /// A packet-in goes back: the switch goes on with the packet.
    Resume(PacketIn),
    /// 0: packet-ins of OpenFlow, 2: those of Nicira.
    SetPacketInFormat(u32),
    /// Which `controller(id=N)` this connection gets.
    SetControllerId(u16),
    OptionMod(OptionMod),
    OptionTableRequest,
    OptionTable(OptionTable),
    CtFlushZone(u16),
    CtFlush(CtFlush),
    /// Ends a monitor. In OpenFlow 1.3, as the next two; in 1.5 they are multipart messages.
    FlowMonitorCancel(u32),
    FlowMonitorPaused,
    FlowMonitorResumed,
}
