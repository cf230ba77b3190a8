//! `CapabilitiesService`.

use tonic::{Request, Response, Status};
use vswitch_dataplane::limits;
use vswitch_dataplane::meter::Rates;
use vswitch_dataplane::observe::DropReason;
use vswitch_dataplane::port::PortKind;
use vswitch_proto::v1;

/// See `proto/vswitch/v1/capabilities.proto`.
pub(crate) struct Capabilities(pub(crate) Rates);

/// The CPU that this was compiled for. Levels as in the x86-64 psABI, by the features that each
/// adds.
const fn cpu_baseline() -> &'static str {
    if cfg!(not(target_arch = "x86_64")) {
        return std::env::consts::ARCH;
    }
    let v2 = cfg!(all(
        target_feature = "cmpxchg16b",
        target_feature = "popcnt",
        target_feature = "sse4.2",
        target_feature = "ssse3"
    ));
    let v3 = cfg!(all(
        target_feature = "avx2",
        target_feature = "bmi1",
        target_feature = "bmi2",
        target_feature = "f16c",
        target_feature = "fma",
        target_feature = "lzcnt",
        target_feature = "movbe"
    ));
    let v4 = cfg!(all(
        target_feature = "avx512f",
        target_feature = "avx512bw",
        target_feature = "avx512cd",
        target_feature = "avx512dq",
        target_feature = "avx512vl"
    ));
    match (v2, v3, v4) {
        (true, true, true) => "x86-64-v4",
        (true, true, false) => "x86-64-v3",
        (true, false, _) => "x86-64-v2",
        (false, _, _) => "x86-64",
    }
}

pub(super) fn version() -> v1::Version {
    #[cfg(feature = "dpdk")]
    let (dpdk_runtime, dpdk_build) = (vswitch_dpdk::eal::version(), vswitch_dpdk::eal::BUILD_VERSION.to_owned());
    #[cfg(not(feature = "dpdk"))]
    let (dpdk_runtime, dpdk_build) = (String::new(), String::new());
    v1::Version {
        package: env!("CARGO_PKG_VERSION").to_owned(),
        dpdk_runtime,
        dpdk_build,
        cpu_baseline: cpu_baseline().to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation)] // constants, all far below 2^32
fn limits(slow_path: Rates) -> v1::Limits {
    v1::Limits {
        bridges_max: limits::BRIDGES_MAX as u32,
        ports_max: limits::PORTS_MAX as u32,
        queues_max: limits::QUEUES_MAX.into(),
        workers_max: limits::WORKERS_MAX as u32,
        burst: limits::BURST as u32,
        depth_max: limits::DEPTH_MAX,
        port_number_max: limits::PORT_NUMBER_MAX,
        name_max: limits::NAME_MAX as u32,
        mtu_min: limits::MTU_MIN.into(),
        mtu_max: limits::MTU_MAX.into(),
        fdb_entries_default: limits::FDB_ENTRIES_DEFAULT,
        fdb_entries_max: limits::FDB_ENTRIES_MAX,
        fdb_ageing_seconds_default: limits::FDB_AGEING_S_DEFAULT,
        fdb_port_quota_percent: limits::FDB_PORT_QUOTA_PERCENT,
        external_ids_max: limits::EXTERNAL_IDS_MAX as u32,
        external_id_len_max: limits::EXTERNAL_ID_LEN_MAX as u32,
        port_events_queued: limits::PORT_EVENTS_QUEUED as u32,
        transaction_updates_max: limits::TRANSACTION_UPDATES_MAX as u32,
        transactions_len_max: limits::TRANSACTIONS_LEN_MAX as u64,
        flows_per_table_max: limits::FLOWS_PER_TABLE_MAX as u32,
        flows_per_bridge_max: limits::FLOWS_PER_BRIDGE_MAX as u32,
        groups_max: limits::GROUPS_MAX as u32,
        buckets_max: limits::BUCKETS_MAX as u32,
        meters_max: limits::METERS_MAX as u32,
        bands_max: limits::BANDS_MAX as u32,
        table_name_max: limits::TABLE_NAME_MAX as u32,
        packet_ins_queued: limits::PACKET_INS_QUEUED as u32,
        flow_events_queued: limits::FLOW_EVENTS_QUEUED as u32,
        tables: vswitch_dataplane::pipeline::TABLES as u32,
        resubmits_max: limits::RESUBMITS_MAX,
        outputs_max: limits::OUTPUTS_MAX,
        actions_executed_max: limits::ACTIONS_EXECUTED_MAX,
        clauses_len_max: vswitch_flow::action::limits::MAX_CLAUSES as u32,
        actions_len_max: vswitch_flow::action::limits::MAX_BYTES as u32,
        clones_nested_max: limits::CLONES_NESTED_MAX,
        stack_max: limits::STACK_MAX as u32,
        learned_per_table_max: limits::LEARNED_PER_TABLE_MAX as u32,
        learned_per_bridge_max: limits::LEARNED_PER_BRIDGE_MAX as u32,
        megaflows_max: limits::MEGAFLOWS_MAX as u32,
        megaflow_masks_max: limits::MEGAFLOW_MASKS_MAX as u32,
        misses_per_second: slow_path.misses,
        packet_ins_per_second: slow_path.packet_ins,
        learns_per_second: slow_path.learns,
        select_buckets_max: limits::SELECT_BUCKETS_MAX as u32,
    }
}

fn drop_reason(reason: DropReason) -> v1::DropReason {
    v1::DropReason {
        number: reason as u32,
        name: reason.name().to_owned(),
        sentence: reason.sentence().to_owned(),
        class: reason.class().name().to_owned(),
    }
}

#[tonic::async_trait]
impl v1::capabilities_service_server::CapabilitiesService for Capabilities {
    async fn get_capabilities(
        &self,
        _: Request<v1::GetCapabilitiesRequest>,
    ) -> Result<Response<v1::GetCapabilitiesResponse>, Status> {
        Ok(Response::new(v1::GetCapabilitiesResponse {
            version: Some(version()),
            limits: Some(limits(self.0)),
            port_types: PortKind::NAMES.map(str::to_owned).to_vec(),
            drop_reasons: DropReason::ALL.iter().copied().map(drop_reason).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_the_one_of_the_workspace() {
        // .cargo/config.toml asks for it; a build with other flags must not claim it.
        let v3 = cfg!(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "bmi2"));
        assert_eq!(cpu_baseline().starts_with("x86-64-v3") || cpu_baseline().starts_with("x86-64-v4"), v3);
    }

    #[cfg(feature = "dpdk")]
    #[test]
    fn both_dpdk_versions_are_told() {
        let version = version();
        assert!(version.dpdk_runtime.starts_with("DPDK "), "{version:?}");
        assert!(version.dpdk_build.starts_with(|c: char| c.is_ascii_digit()), "{version:?}");
    }
}
