//! Limits of what an agent may ask for.

/// Bytes of a name.
pub const NAME_MAX: usize = 512;
/// Problems that are told of one object.
pub const PROBLEMS_MAX: usize = 16;
/// Bytes of a problem's text.
pub const PROBLEM_LEN_MAX: usize = 512;
/// Objects whose problems are told in one answer.
pub const TOLD_MAX: usize = 1000;
/// Objects of all kinds.
pub const OBJECTS_MAX: usize = 1 << 20;
/// `conjunction`s in the clauses of one table.
pub const CLAUSES_MAX: usize = 4_000_000;
/// Services of one request.
pub const SERVICES_MAX: usize = 10_000;
/// Ports of a Service.
pub const SERVICE_PORTS_MAX: usize = 65_536;
/// Bytes of a port's name.
pub const PORT_NAME_MAX: usize = 63;
/// Ports of a Service times its addresses: each is some flows.
pub const SERVICE_FLOWS_MAX: usize = 65_536;
/// Flows of a load balancer's addresses: ports times addresses times source ranges times four. A
/// table takes 1,000,000 in all, a transaction 1,048,576. An object of 1.5 MB names 131,072 ranges
/// at most.
pub const SOURCE_FLOWS_MAX: usize = 600_000;
/// Members of an address group: more than an object of 1.5 MB can name.
pub const MEMBERS_MAX: usize = 262_144;
/// Pods, or Services, of an applied-to group.
pub const APPLIED_TO_MAX: usize = 65_536;
/// Seconds of session affinity.
pub const AFFINITY_MAX: u32 = 86_400;
/// Endpoints of a Service port: buckets that the pipeline takes of one select group
/// (`limits::SELECT_BUCKETS_MAX` of the switch).
pub const ENDPOINTS_MAX: usize = 16_384;
/// Endpoints of one request.
pub const ENDPOINTS_WRITTEN_MAX: usize = 100_000;
/// Zones, or Nodes, that are to use an endpoint.
pub const HINTS_MAX: usize = 64;
