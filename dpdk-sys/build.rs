//! Finds libdpdk, binds the functions on an explicit allowlist, compiles the shim, links.

use std::{env, path::PathBuf};

/// Functions of DPDK that are real symbols. Inline ones go through the shim (`vs_.*`).
const FUNCTIONS: &[&str] = &[
    "rte_eal_cleanup",
    "rte_version",
    "rte_strerror",
    "rte_thread_register",
    "rte_thread_unregister",
    "rte_dev_probe",
    "rte_dev_remove",
    "rte_eth_dev_count_total",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_dev_default_mac_addr_set",
    "rte_eth_dev_info_get",
    "rte_eth_dev_configure",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_close",
    "rte_eth_dev_rss_hash_conf_get",
    "rte_eth_dev_rss_hash_update",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_socket_id",
    "rte_eth_rx_queue_setup",
    "rte_eth_tx_queue_setup",
    "rte_eth_link_get_nowait",
    "rte_eth_macaddr_get",
    "rte_eth_promiscuous_enable",
    "rte_eth_allmulticast_enable",
    "rte_eth_stats_get",
    "rte_pktmbuf_pool_create",
    "rte_pktmbuf_free_bulk",
    "rte_mempool_free",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_openlog_stream",
    "rte_malloc_get_socket_stats",
    "rte_get_tsc_hz",
    "rte_socket_count",
    "rte_socket_id_by_idx",
    "rte_vhost_driver_register",
    "rte_vhost_driver_unregister",
    "rte_vhost_driver_get_features",
    "rte_vhost_driver_disable_features",
    "rte_vhost_driver_set_protocol_features",
    "rte_vhost_driver_callback_register",
    "rte_vhost_driver_start",
    "rte_vhost_enable_guest_notification",
    "rte_vhost_enqueue_burst",
    "rte_vhost_get_ifname",
    "rte_vhost_get_negotiated_features",
    "rte_vhost_get_vring_base",
    "rte_vhost_set_vring_base",
    "rte_vhost_extern_callback_register",
    "rte_vhost_vring_call",
    "vs_.*",
];

const TYPES: &[&str] = &[
    "rte_eth_conf",
    "rte_eth_dev_info",
    "rte_eth_link",
    "rte_eth_rxconf",
    "rte_eth_stats",
    "rte_eth_txconf",
    "rte_ether_addr",
    "rte_malloc_socket_stats",
    "rte_vhost_device_ops",
    "rte_vhost_msg_result",
    "rte_vhost_user_extern_ops",
    "vs_constant",
    "vs_lost",
    "vs_region",
    "vs_ring",
];

const VARS: &[&str] = &[
    "vs_.*",
    "VS_.*",
    "RTE_EAL_PMD_PATH",
    "RTE_ETHDEV_.*",
    "RTE_ETH_NAME_MAX_LEN",
    "rte_eth_rx_mq_mode.*",
    "VHOST_F_LOG_ALL",
    "VHOST_USER_F_PROTOCOL_FEATURES",
    "VHOST_USER_PROTOCOL_F_.*",
    "VIRTIO_F_.*",
    "VIRTIO_NET_F_.*",
    "VIRTIO_RING_F_.*",
];

/// Archives of a static link: the libraries in dependency order, then the PMDs, all whole (PMDs
/// register themselves in constructors that nothing refers to).
const STATIC_LIBS: &[&str] = &[
    "log",
    "kvargs",
    "telemetry",
    "eal",
    "ring",
    "rcu",
    "mempool",
    "mbuf",
    "net",
    "meter",
    "ethdev",
    "pci",
    "timer",
    "hash",
    "cryptodev",
    "dmadev",
    "security",
    "vhost",
    "bus_pci",
    "bus_vdev",
    "mempool_ring",
    "net_null",
    "net_pcap",
    "net_af_xdp",
    "net_memif",
    "net_virtio",
];

/// The CPU level of the Rust code: one program has one. DPDK's own libraries are built for less
/// than x86-64-v2.
fn level() -> &'static str {
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if features.split(',').any(|feature| feature == "avx2") { "x86-64-v3" } else { "x86-64-v2" }
}

fn main() {
    for file in ["wrapper.h", "shim.h", "shim.c", "paths.c", "build.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let is_static = env::var_os("CARGO_FEATURE_STATIC").is_some();
    let dpdk = pkg_config::Config::new()
        .atleast_version("22.11")
        .cargo_metadata(false)
        .probe("libdpdk")
        .unwrap_or_else(|error| {
            panic!(
                "DPDK 22.11 or newer was not found. On Debian: apt-get install libdpdk-dev (and clang, libclang-dev for \
                 bindgen). To build everything but the DPDK room: cargo build --no-default-features.\n{error}"
            )
        });
    println!("cargo:rustc-env=DPDK_BUILD_VERSION={}", dpdk.version);
    if is_static {
        link_static(&dpdk)
    } else {
        link_shared(&dpdk)
    }

    let march = format!("-march={}", level());
    // rte_config.h is force-included by pkg-config's own flags; pkg-config(1) prints them, the
    // crate does not.
    let mut shim = cc::Build::new();
    shim.file("shim.c").file("paths.c").flag("-include").flag("rte_config.h").flag(&march).warnings(true).opt_level(3);
    let mut bindings = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(["-include", "rte_config.h", &march])
        .use_core()
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .prepend_enum_name(false)
        .opaque_type("rte_mbuf")
        .opaque_type("rte_mempool")
        .blocklist_type("rte_mbuf")
        .raw_line("use crate::rte_mbuf;");
    for path in &dpdk.include_paths {
        shim.include(path);
        bindings = bindings.clang_arg(format!("-I{}", path.display()));
    }
    for name in FUNCTIONS {
        bindings = bindings.allowlist_function(name);
    }
    for name in TYPES {
        bindings = bindings.allowlist_type(name);
    }
    for name in VARS {
        bindings = bindings.allowlist_var(name);
    }
    shim.compile("vswitch_shim");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    bindings
        .generate()
        .unwrap_or_else(|error| panic!("bindgen failed (apt-get install clang libclang-dev?): {error}"))
        .write_to_file(out)
        .expect("OUT_DIR is writable");
}

fn link_shared(dpdk: &pkg_config::Library) {
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    // Only what we call; the PMDs are loaded by name at run time.
    for lib in ["rte_eal", "rte_mempool", "rte_mbuf", "rte_ethdev", "rte_vhost"] {
        println!("cargo:rustc-link-lib=dylib={lib}");
    }
}

fn link_static(dpdk: &pkg_config::Library) {
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    let present = |lib: &str| {
        let mut paths = dpdk.link_paths.clone();
        paths.push(PathBuf::from("/usr/lib/x86_64-linux-gnu"));
        paths.iter().any(|path| path.join(format!("librte_{lib}.a")).exists())
    };
    for lib in STATIC_LIBS.iter().filter(|lib| present(lib)) {
        println!("cargo:rustc-link-lib=static:+whole-archive=rte_{lib}");
    }
    for lib in ["pcap", "numa", "bsd", "elf", "crypto", "fdt", "bpf", "xdp", "z", "m", "dl", "pthread", "atomic"] {
        println!("cargo:rustc-link-lib=dylib={lib}");
    }
}
