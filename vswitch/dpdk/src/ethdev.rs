//! Ethernet devices of DPDK: physical NICs and virtual devices, probed and removed while the switch
//! runs.

use super::Mempool;
use super::devargs::{device_name, pci_address, unusable};
use super::device_paths::hold;
use super::eal::{Busy, Eal, errno_text};
pub use super::eth_queue::{EthRxQueue, EthTxQueue};
use super::paths::Held;
use super::rss::Spread;
use dpdk_sys as sys;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::Arc;
use vswitch_net_types::Mac;

/// Descriptors asked for per receive and transmit queue; the driver adjusts.
const DESCRIPTORS: u16 = 1024;

const RX_WANTED: u64 = sys::RTE_ETH_RX_OFFLOAD_IPV4_CKSUM
    | sys::RTE_ETH_RX_OFFLOAD_UDP_CKSUM
    | sys::RTE_ETH_RX_OFFLOAD_TCP_CKSUM
    | sys::RTE_ETH_RX_OFFLOAD_RSS_HASH;

/// Checksums of TCP and UDP, which are all that is ever partial. IPv4's is finished in any packet;
/// a NIC that segments computes it anew for each segment.
const TX_CSUM: u64 = sys::RTE_ETH_TX_OFFLOAD_UDP_CKSUM | sys::RTE_ETH_TX_OFFLOAD_TCP_CKSUM;

/// What to ask of a device.
#[derive(Clone, Debug)]
pub struct EthdevConfig {
    /// Devargs: a name (`net_null0`, a PCI address) and its arguments.
    pub devargs: String,
    /// Receive queues; the device may have fewer.
    pub rx_queues: u16,
    /// Transmit queues; the device may have fewer.
    pub tx_queues: u16,
    /// Largest L3 packet, in bytes.
    pub mtu: u16,
    /// Address to set.
    pub mac: Option<Mac>,
    /// Ask for the offloads that the device has; without any, some drivers take a shorter way.
    pub offloads: bool,
}

/// Why a device could not be opened or changed.
#[derive(Debug, thiserror::Error)]
#[error("device {device}: {step}: {reason}; {hint}")]
pub struct EthdevError {
    device: String,
    step: &'static str,
    reason: String,
    hint: &'static str,
}

impl EthdevError {
    fn busy(device: String, step: &'static str, busy: &Busy) -> Self {
        let hint = "its peer does not answer: end the peer or make it answer, then try again";
        Self { device, step, reason: busy.to_string(), hint }
    }
}

/// A started device. Dropping it stops, closes and removes it; by then no queue of it may be in
/// use.
#[derive(Debug)]
pub struct Ethdev {
    eal: Arc<Eal>,
    name: String,
    id: u16,
    rx_offloads: u64,
    tx_offloads: u64,
    /// What its driver has, receiving and sending.
    able: (u64, u64),
    /// It offers no checksums of IPv4 headers, and yet makes those of its own segments.
    fills_those_of_segments: bool,
    spread: Spread,
    /// Files and directories that its driver knows by the number of their descriptor.
    held: Vec<Held>,
    /// What it receives into.
    pool: Mempool,
}

impl Ethdev {
    /// Probes, configures and starts a device, in promiscuous mode. Runs on EAL's thread and may
    /// take 100 ms.
    ///
    /// # Errors
    /// When the device does not exist, is in use, or refuses the configuration. Nothing is left
    /// behind.
    pub fn open(
        eal: &Arc<Eal>,
        config: EthdevConfig,
        pool: &Mempool,
    ) -> Result<(Self, Vec<EthRxQueue>, Vec<EthTxQueue>), EthdevError> {
        let (on_eal, pool) = (Arc::clone(eal), pool.clone());
        let device = device_name(&config.devargs);
        let opened = eal.run(&format!("device {device}"), move || {
            let name = device_name(&config.devargs);
            let (id, held) = probe(&config.devargs, &name)?;
            let spread = Spread::of(1, &sys::rte_eth_dev_info::default());
            let (able, fills_those_of_segments) = ((0, 0), false);
            let mut device = Self {
                eal: on_eal,
                name,
                id,
                rx_offloads: 0,
                tx_offloads: 0,
                able,
                fills_those_of_segments,
                spread,
                held,
                pool: pool.clone(),
            };
            match device.configure(&config, &pool) {
                Ok((rx, tx)) => {
                    let rx = (0..rx).map(|queue| EthRxQueue { port: id, queue }).collect();
                    let tx = (0..tx).map(|queue| EthTxQueue { port: id, queue }).collect();
                    Ok((device, rx, tx))
                }
                Err(error) => Err(error), // dropping the device removes it
            }
        });
        opened.unwrap_or_else(|busy| Err(EthdevError::busy(device, "probe", &busy)))
    }

    fn error(&self, step: &'static str, rc: i32, hint: &'static str) -> EthdevError {
        EthdevError { device: self.name.clone(), step, reason: errno_text(rc), hint }
    }

    fn info(&self) -> Result<sys::rte_eth_dev_info, EthdevError> {
        let mut info = sys::rte_eth_dev_info::default();
        // SAFETY: the port exists; the struct is written.
        let rc = unsafe { sys::rte_eth_dev_info_get(self.id, &raw mut info) };
        if rc == 0 { Ok(info) } else { Err(self.error("read its abilities", rc, "is the driver one of DPDK 22.11?")) }
    }

    fn configure(&mut self, config: &EthdevConfig, pool: &Mempool) -> Result<(u16, u16), EthdevError> {
        let info = self.info()?;
        let rx = config.rx_queues.min(info.max_rx_queues).max(1);
        let tx = config.tx_queues.min(info.max_tx_queues).max(1);
        let mut conf = sys::rte_eth_conf::default();
        let mut rx_wanted = RX_WANTED;
        if usize::from(config.mtu) + 22 > pool.segment_len() {
            rx_wanted |= sys::RTE_ETH_RX_OFFLOAD_SCATTER;
        }
        conf.rxmode.mtu = config.mtu.into();
        conf.rxmode.offloads = if config.offloads { rx_wanted & info.rx_offload_capa } else { 0 };
        let tso = if info.tx_offload_capa & TX_CSUM == TX_CSUM { sys::RTE_ETH_TX_OFFLOAD_TCP_TSO } else { 0 };
        let tx_wanted = TX_CSUM | sys::RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | tso | sys::RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
        conf.txmode.offloads = if config.offloads { tx_wanted & info.tx_offload_capa } else { 0 };
        self.spread = Spread::of(config.rx_queues, &info);
        self.spread.ask(&mut conf);
        // SAFETY: the port exists and is stopped; conf and the key in self outlive the call.
        let rc = unsafe { sys::rte_eth_dev_configure(self.id, rx, tx, &raw const conf) };
        if rc != 0 {
            return Err(self.error("configure", rc, "try fewer queues or a smaller mtu"));
        }
        (self.rx_offloads, self.tx_offloads) = (conf.rxmode.offloads, conf.txmode.offloads);
        self.able = (info.rx_offload_capa, info.tx_offload_capa);
        self.fills_those_of_segments = fills_those_of_segments(&info);
        self.set_up_queues(rx, tx, pool)?;
        if let Some(mac) = config.mac {
            self.set_mac(mac)?;
        }
        // SAFETY: the port exists and is configured.
        let rc = unsafe { sys::rte_eth_dev_start(self.id) };
        if rc != 0 {
            return Err(self.error("start", rc, "see DPDK's messages above"));
        }
        self.spread.check(self.id);
        // SAFETY: the port exists. Devices without these modes receive everything anyway.
        unsafe {
            sys::rte_eth_promiscuous_enable(self.id);
            sys::rte_eth_allmulticast_enable(self.id);
        }
        Ok((rx, tx))
    }

    fn set_up_queues(&self, rx: u16, tx: u16, pool: &Mempool) -> Result<(), EthdevError> {
        let (mut rx_desc, mut tx_desc) = (DESCRIPTORS, DESCRIPTORS);
        // SAFETY: the port exists; two integers are written.
        let rc = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.id, &raw mut rx_desc, &raw mut tx_desc) };
        if rc != 0 {
            return Err(self.error("size its rings", rc, "see DPDK's messages above"));
        }
        // SAFETY: the port exists.
        let socket = unsafe { sys::rte_eth_dev_socket_id(self.id) };
        #[allow(clippy::cast_sign_loss)] // -1 is SOCKET_ID_ANY by definition
        let socket = socket as u32;
        for queue in 0..rx {
            // SAFETY: the port exists and has the queue; the pool outlives the device (the switch
            // drops it last).
            let rc = unsafe {
                sys::rte_eth_rx_queue_setup(self.id, queue, rx_desc, socket, std::ptr::null(), pool.as_ptr())
            };
            if rc != 0 {
                return Err(self.error("set up a receive queue", rc, "is the mbuf pool large enough ([dpdk] mbufs)?"));
            }
        }
        for queue in 0..tx {
            // SAFETY: the port exists and has the queue.
            let rc = unsafe { sys::rte_eth_tx_queue_setup(self.id, queue, tx_desc, socket, std::ptr::null()) };
            if rc != 0 {
                return Err(self.error("set up a transmit queue", rc, "see DPDK's messages above"));
            }
        }
        Ok(())
    }

    fn set_mac(&self, mac: Mac) -> Result<(), EthdevError> {
        let mut address = sys::rte_ether_addr { addr_bytes: mac.0 };
        // SAFETY: the port exists; the address is read.
        let rc = unsafe { sys::rte_eth_dev_default_mac_addr_set(self.id, &raw mut address) };
        if rc == 0 { Ok(()) } else { Err(self.error("set its address", rc, "leave mac out: the driver keeps its own")) }
    }

    /// Changes the MTU, if the driver can while it runs.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), EthdevError> {
        let id = self.id;
        // SAFETY: the port exists while self does.
        let set = move || unsafe { sys::rte_eth_dev_set_mtu(id, mtu) };
        let name = self.name.clone();
        let rc = self
            .eal
            .run(&format!("the mtu of device {name}"), set)
            .map_err(|busy| EthdevError::busy(name, "set its mtu", &busy))?;
        if rc == 0 { Ok(()) } else { Err(self.error("set its mtu", rc, "remove the port and add it with the new mtu")) }
    }

    /// Index of the kernel's interface that it is bound to; none where there is none.
    #[must_use]
    pub fn interface_index(&self) -> Option<u32> {
        self.info().ok().map(|info| info.if_index).filter(|index| *index != 0)
    }

    /// Carrier, and speed in Mbit/s (0: unknown).
    #[must_use]
    pub fn link(&self) -> (bool, u32) {
        let mut link = MaybeUninit::<sys::rte_eth_link>::zeroed();
        // SAFETY: the port exists; zeros are a valid link (down).
        let link = unsafe {
            sys::rte_eth_link_get_nowait(self.id, link.as_mut_ptr());
            link.assume_init()
        };
        let speed = if link.link_speed == u32::MAX { 0 } else { link.link_speed };
        (link.link_status() != 0, speed)
    }

    /// The device's address.
    #[must_use]
    pub fn mac(&self) -> Mac {
        let mut address = sys::rte_ether_addr::default();
        // SAFETY: the port exists; six bytes are written.
        unsafe { sys::rte_eth_macaddr_get(self.id, &raw mut address) };
        Mac(address.addr_bytes)
    }

    /// Packets lost before the switch saw them, receive errors, transmit errors.
    #[must_use]
    pub fn errors(&self) -> (u64, u64, u64) {
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: the port exists; the struct is written on success.
        unsafe { sys::rte_eth_stats_get(self.id, &raw mut stats) };
        (stats.imissed + stats.rx_nombuf, stats.ierrors, stats.oerrors)
    }

    /// Finishes partial TCP and UDP checksums.
    #[must_use]
    pub fn has_tx_csum(&self) -> bool {
        self.tx_offloads & TX_CSUM == TX_CSUM
    }

    /// Segments TCP over IPv4: with a header checksum for each segment.
    #[must_use]
    pub fn has_tso4(&self) -> bool {
        self.has_tso6() && (self.fills_ip_checksums() || self.fills_those_of_segments)
    }

    /// Segments TCP over IPv6.
    #[must_use]
    pub fn has_tso6(&self) -> bool {
        self.tx_offloads & sys::RTE_ETH_TX_OFFLOAD_TCP_TSO != 0
    }

    /// Computes checksums of IPv4 headers. One that does not must not be told to: the driver clears
    /// them.
    #[must_use]
    pub fn fills_ip_checksums(&self) -> bool {
        self.tx_offloads & sys::RTE_ETH_TX_OFFLOAD_IPV4_CKSUM != 0
    }

    /// Sends packets of several segments.
    #[must_use]
    pub fn has_multi_segment(&self) -> bool {
        self.tx_offloads & sys::RTE_ETH_TX_OFFLOAD_MULTI_SEGS != 0
    }

    /// What it is asked to do, could do and does: (name of the capability, asked, offered, used).
    #[must_use]
    pub fn abilities(&self) -> Vec<(&'static str, bool, bool, bool)> {
        let ((rx, tx), tso) = (self.able, sys::RTE_ETH_TX_OFFLOAD_TCP_TSO);
        [
            ("rx-csum", true, rx & sys::RTE_ETH_RX_OFFLOAD_TCP_CKSUM != 0, self.has_rx_csum()),
            ("tx-csum", true, tx & TX_CSUM == TX_CSUM, self.has_tx_csum()),
            ("tx-tso4", true, tx & tso != 0, self.has_tso4()),
            ("tx-tso6", true, tx & tso != 0, self.has_tso6()),
            ("multi-segment", true, tx & sys::RTE_ETH_TX_OFFLOAD_MULTI_SEGS != 0, self.has_multi_segment()),
        ]
        .into_iter()
        .chain(self.spread.abilities())
        .collect()
    }

    /// Verifies TCP and UDP checksums on receive.
    #[must_use]
    pub fn has_rx_csum(&self) -> bool {
        self.rx_offloads & sys::RTE_ETH_RX_OFFLOAD_TCP_CKSUM != 0
    }
}

impl Drop for Ethdev {
    fn drop(&mut self) {
        let (name, id) = (std::mem::take(&mut self.name), self.id);
        // Its driver has them as long as it is there.
        let (pool, held) = (self.pool.clone(), std::mem::take(&mut self.held));
        self.eal.run_or_leave(&format!("the end of device {name}"), move || {
            remove(id, &name);
            drop((pool, held));
        });
    }
}

/// Stops, closes and removes a device. On EAL's thread; nobody uses its queues any more.
fn remove(id: u16, name: &str) {
    let mut info = sys::rte_eth_dev_info::default();
    // SAFETY: the port exists; info.device stays valid until the device is removed, also after the
    // port is closed.
    let rc = unsafe {
        let found = sys::rte_eth_dev_info_get(id, &raw mut info);
        sys::rte_eth_dev_stop(id);
        sys::rte_eth_dev_close(id);
        if found == 0 { sys::rte_dev_remove(info.device) } else { found }
    };
    if rc != 0 {
        tracing::warn!(device = name, reason = errno_text(rc), "device was closed but not removed");
    }
}

/// Whether a device that computes no checksums of IPv4 headers does so for segments that it makes
/// itself: virtio's (virtio 1.1, 5.1.6.2) and VMware's do.
fn fills_those_of_segments(info: &sys::rte_eth_dev_info) -> bool {
    if info.driver_name.is_null() {
        return false;
    }
    // SAFETY: a driver's name is a string of the driver, which stays loaded; it is not null.
    let name = unsafe { CStr::from_ptr(info.driver_name) }.to_bytes();
    name.starts_with(b"net_virtio") || name == b"net_vmxnet3"
}

fn port_by_name(name: &CStr) -> Option<u16> {
    let mut id = 0;
    // SAFETY: NUL-terminated name; one integer is written on success.
    (unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

/// Makes a device; gives its number, and what must stay open as long as it.
fn probe(devargs: &str, name: &str) -> Result<(u16, Vec<Held>), EthdevError> {
    let error = |step, reason: String, hint| EthdevError { device: name.to_owned(), step, reason, hint };
    if name.contains([':', '=']) && pci_address(name).is_none() {
        let hint = "write devargs without a bus, such as 0000:3b:00.0 or net_null0,size=64";
        return Err(error("probe", "its name has a bus or an argument in it".to_owned(), hint));
    }
    if let Some((reason, hint)) = unusable(devargs) {
        return Err(error("probe", reason, hint));
    }
    let (devargs, held) = hold(devargs).map_err(|(reason, hint)| error("probe", reason, hint))?;
    // A PCI address in its full form, since that is the name under which ethdev will know it.
    let rest = devargs.split_once(',').map_or_else(String::new, |(_, rest)| format!(",{rest}"));
    let c_args =
        CString::new(format!("{name}{rest}")).map_err(|_| error("probe", "NUL in devargs".to_owned(), "remove it"))?;
    let c_name = CString::new(name).map_err(|_| error("probe", "NUL in its name".to_owned(), "remove it"))?;
    if port_by_name(&c_name).is_some() {
        return Err(error(
            "probe",
            "it is in use".to_owned(),
            "each device can be one port; choose another name or number",
        ));
    }
    // SAFETY: NUL-terminated devargs; on EAL's thread.
    let rc = unsafe { sys::rte_dev_probe(c_args.as_ptr()) };
    if rc != 0 {
        let (reason, hint) = refused(rc, pci_address(name).is_some());
        return Err(error("probe", reason, hint));
    }
    let id = port_by_name(&c_name).ok_or_else(|| {
        error("probe", "no Ethernet device appeared".to_owned(), "is it an Ethernet device with a DPDK driver?")
    })?;
    Ok((id, held))
}

/// Why a device was not made, and what to do.
fn refused(code: i32, is_pci: bool) -> (String, &'static str) {
    // SAFETY: counts; on EAL's thread.
    let count = unsafe { sys::rte_eth_dev_count_total() };
    if code == -libc::ENOMEM && u64::from(count) >= sys::RTE_MAX_ETHPORTS {
        let reason = format!("all {count} Ethernet devices that DPDK can have are in use");
        return (reason, "remove a port of type dpdk or pcap; those of other types do not count");
    }
    if is_pci {
        let hint = "check the devargs; a PCI device must be bound to vfio-pci, with [dpdk] pci = true when none was configured at start; drivers are loaded at start, for the cards that are there then";
        return (errno_text(code), hint);
    }
    let hint = "check the devargs: the name of a driver and a number (net_null0), then its arguments; lines of DPDK in the log tell more";
    let reason = match -code {
        // Drivers answer -1 to whatever they do not like: it is no missing permission.
        libc::EPERM => "its driver refused it".to_owned(),
        // The bus of virtual devices found nobody (what it says is EFAULT).
        libc::EFAULT => "no driver of DPDK has such a name".to_owned(),
        _ => errno_text(code),
    };
    (reason, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Burst;
    use crate::eal::start_for_tests;

    fn config(devargs: &str) -> EthdevConfig {
        EthdevConfig { devargs: devargs.to_owned(), rx_queues: 1, tx_queues: 1, mtu: 1500, mac: None, offloads: true }
    }

    #[test]
    fn a_device_that_cannot_be_made_is_told_with_its_reason() {
        let eal = start_for_tests();
        let pool = Mempool::for_tests(64);
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let mut open = Vec::new();
        let mut fails = |devargs: &str| match Ethdev::open(eal, config(devargs), &pool) {
            Ok(device) => {
                open.push(device);
                String::new()
            }
            Err(error) => error.to_string(),
        };
        let absent = fails(&format!("net_pcap_x,rx_pcap={}", path("absent")));
        assert!(absent.contains("cannot read the capture") && absent.contains("No such file"), "{absent}");
        for (devargs, want) in [
            ("net_nosuch0", "no driver of DPDK has such a name"),
            ("eth0", "no driver of DPDK has such a name"),
            ("net_null0,nosuch=1", "its driver refused it"),
            ("net_memif0,role=x", "its driver refused it"),
            (
                "net_memif0,role=server,socket-abstract=no,socket=/nonexistent/a.sock",
                "the directory of \"/nonexistent/a.sock\" cannot be opened",
            ),
            ("net_virtio_user0,path=/nonexistent/a.sock", "there is no /nonexistent/a.sock"),
            ("net_pcap0,iface=vt-no-such", "there is no interface \"vt-no-such\""),
        ] {
            let said = fails(devargs);
            let misleading = ["vfio-pci", "not permitted", "Bad address"].iter().any(|word| said.contains(word));
            assert!(said.contains(want) && !misleading, "{devargs}: {said}");
        }
        let said = fails("0000:ff:1f.7");
        assert!(said.contains("vfio-pci"), "{said}");
        let full =
            (0..=sys::RTE_MAX_ETHPORTS).map(|n| fails(&format!("net_null_full{n}"))).find(|said| !said.is_empty());
        let full = full.expect("one too many");
        let want = format!("all {} Ethernet devices that DPDK can have are in use", sys::RTE_MAX_ETHPORTS);
        assert!(full.contains(&want) && !full.contains("allocate"), "{full}");
    }

    #[test]
    fn ring_device_loops_bursts_and_opens_once() {
        let eal = start_for_tests();
        let pool = Mempool::for_tests(4096);
        let (device, mut rx, mut tx) = Ethdev::open(eal, config("net_null_test0,size=60"), &pool).expect("opens");
        assert!(!device.mac().is_multicast(), "{}", device.mac());
        let again = Ethdev::open(eal, config("net_null_test0"), &pool).expect_err("in use");
        assert!(again.to_string().contains("in use"), "{again}");
        let mut burst = Burst::new();
        rx[0].receive(&mut burst);
        assert_eq!(burst.len(), crate::limits::BURST);
        assert!(burst.iter().all(|mbuf| mbuf.len() == 60));
        tx[0].send(&mut burst);
        assert!(burst.is_empty());
        drop((rx, tx, device));
        assert_eq!(pool.in_use(), 0);
        for (devargs, named) in [
            ("net_nonsense7", "net_nonsense7"),
            ("net_virtio_user7,path=/dev/vswitch-no-such", "there is no /dev/vswitch-no-such"),
        ] {
            let error = Ethdev::open(eal, config(devargs), &pool).expect_err("does not exist").to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    /// A virtual device that has a key and does nothing with it.
    #[test]
    fn a_device_of_several_queues_is_given_our_key() {
        let eal = start_for_tests();
        let pool = Mempool::for_tests(4096);
        for queues in [1, 4] {
            let config = EthdevConfig { rx_queues: queues, ..config(&format!("net_null_rss{queues}")) };
            let (device, rx, _tx) = Ethdev::open(eal, config, &pool).expect("opens");
            assert_eq!(rx.len(), usize::from(queues));
            let abilities = device.abilities();
            for name in ["multi-queue", "rss-tcp4", "rss-ip6", "rss-symmetric"] {
                let found = abilities.iter().find(|ability| ability.0 == name).expect("it is listed");
                assert_eq!(*found, (name, queues > 1, true, queues > 1), "{queues} queues");
            }
        }
    }
}
