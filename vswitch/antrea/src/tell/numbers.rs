//! Numbers that the pipeline and its readers agree on: controllers, meters, marks; and the way
//! back.

/// Controller of what policies tell: logged, refused, denied packets.
pub const CONTROLLER_POLICY: u16 = 62373;
/// Controller of packets to Services without endpoints.
pub const CONTROLLER_SERVICE: u16 = 62377;
/// Meter of what policies tell.
pub const METER_POLICY: u32 = 256;
/// Meter of packets to Services without endpoints.
pub const METER_SERVICE: u32 = 259;
/// Meter of DNS answers.
pub const METER_DNS: u32 = 258;
/// Meter of IGMP (ours; Antrea limits it in its agent).
pub const METER_IGMP: u32 = 260;
/// Bit of `ct_mark`: the connection's source was translated on its way (Antrea: `ConnSNATCTMark`).
pub const MARK_TRANSLATED: u32 = 0x20;

/// Actions that send the answer to a packet the way that the packet came: into a tunnel, to who
/// sent it. (The addresses of the family that it did not come by are 0, and stay so.)
#[must_use]
pub const fn back(from_tunnel: bool) -> &'static str {
    if from_tunnel {
        "move:NXM_NX_TUN_IPV4_SRC[]->NXM_NX_TUN_IPV4_DST[],move:NXM_NX_TUN_IPV6_SRC[]->NXM_NX_TUN_IPV6_DST[],IN_PORT"
    } else {
        "IN_PORT"
    }
}
