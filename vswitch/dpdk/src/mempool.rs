//! Pools of packet buffers (`rte_pktmbuf_pool`).

use super::Mbuf;
use dpdk_sys as sys;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of data that a segment holds behind its headroom: a full Ethernet frame with room for
/// tags.
const DATA_ROOM: u16 = 2048;

/// Buffers that each worker keeps at hand (`rte_mempool` per-lcore cache).
const CACHE: u32 = 256;

/// A shared pool of segments. The last clone frees it; by then every mbuf must be back (the switch
/// stops its workers and closes its devices first).
#[derive(Debug, Clone)]
pub struct Mempool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    raw: NonNull<sys::rte_mempool>,
    size: usize,
}

// SAFETY: rte_mempool is multi-producer and multi-consumer safe (the default ring ops), from
// registered lcores and others.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: created by rte_pktmbuf_pool_create; Mbufs outliving the pool are excluded by the
        // contract above.
        unsafe { sys::rte_mempool_free(self.raw.as_ptr()) }
    }
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot create mbuf pool {name} of {size} buffers: {reason}; give [dpdk] memory_mb more, or mbufs less")]
pub struct MempoolError {
    name: String,
    size: usize,
    reason: String,
}

impl Mempool {
    /// Creates a pool of `size` segments. EAL must be up. No core file holds its memory: packets of
    /// guests are in it.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn create(name: &str, size: usize) -> Result<Self, MempoolError> {
        let error = |reason: String| MempoolError { name: name.to_owned(), size, reason };
        let c_name = CString::new(name).map_err(|_| error("the name contains a NUL".to_owned()))?;
        let n = u32::try_from(size).map_err(|_| error("too many buffers".to_owned()))?;
        let headroom = u16::try_from(sys::RTE_PKTMBUF_HEADROOM).expect("a constant of 128");
        let cache = CACHE.min(n / 4);
        // SAFETY: the name is NUL-terminated; -1 is SOCKET_ID_ANY.
        let raw = unsafe { sys::rte_pktmbuf_pool_create(c_name.as_ptr(), n, cache, 0, DATA_ROOM + headroom, -1) };
        let raw = NonNull::new(raw).ok_or_else(|| error(super::eal::last_error()))?;
        // SAFETY: the pool lives; the advice changes neither contents nor protection.
        if unsafe { sys::vs_mempool_hide(raw.as_ptr()) } != 0 {
            let error = std::io::Error::last_os_error();
            tracing::warn!(%error, "a core file would hold packets: the mbuf pool cannot be kept out of it");
        }
        Ok(Self(Arc::new(Pool { raw, size })))
    }

    /// A pool of `size` segments for a test, on an EAL without hugepages.
    ///
    /// # Panics
    /// When EAL does not start.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn for_tests(size: usize) -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        super::eal::start_for_tests();
        Self::create(&format!("test{}", NEXT.fetch_add(1, Relaxed)), size).expect("a test pool")
    }

    pub(super) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.0.raw.as_ptr()
    }

    /// Segments in the pool.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Segments that somebody holds: devices' receive rings, bursts, packets on their way.
    #[must_use]
    pub fn in_use(&self) -> usize {
        // SAFETY: the pool lives.
        unsafe { sys::rte_mempool_in_use_count(self.as_ptr()) as usize }
    }

    /// Bytes that one segment holds.
    #[must_use]
    pub fn segment_len(&self) -> usize {
        DATA_ROOM.into()
    }

    /// An empty mbuf of one segment; none when the pool is empty.
    #[must_use]
    pub fn alloc(&self) -> Option<Mbuf> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pool lives; one slot is written on success (0).
        let rc = unsafe { sys::vs_mbuf_alloc_bulk(self.as_ptr(), &raw mut raw, 1) };
        // SAFETY: on success `raw` is a fresh mbuf with one reference, ours.
        (rc == 0).then(|| unsafe { Mbuf::from_raw(NonNull::new_unchecked(raw)) })
    }
}
