//! Opening and closing a vhost-user socket.

use super::layout::{self, LayoutError};
use super::rings::Rings;
use super::shared::{Full, Shared};
use super::{Offer, Quiesce, VhostError, callbacks, fault, features, socket};
use crate::eal;
use crate::paths::Held;
use dpdk_sys as sys;
use parking_lot::Mutex;
use std::ffi::{CStr, c_int};
use std::path::Path;
use std::sync::Arc;

/// Serialises opening: the library starts its threads without a lock of its own. Callbacks never
/// take it.
static OPENING: Mutex<()> = Mutex::new(());

/// The control side of one vhost-user socket. Dropping it disconnects the guest, waits for the
/// workers and removes a server's socket file.
#[derive(Debug)]
pub struct Vhost {
    shared: Arc<Shared>,
    /// The directory of a server's socket; dropped after the library has removed the socket.
    _directory: Option<Held>,
}

impl Vhost {
    /// Makes (server) or connects to (client; tried again each second, and after each disconnect)
    /// the socket at `path`. No component of the path may be a link, now or at any later time.
    ///
    /// `quiesce` is called from library threads and at the drop; see the module for what it must
    /// not do.
    ///
    /// # Errors
    /// See [`VhostError`].
    pub fn open(path: &Path, offer: Offer, quiesce: Quiesce) -> Result<Self, VhostError> {
        let _opening = OPENING.lock();
        fault::install().map_err(|source| VhostError::Io {
            path: path.to_owned(),
            action: "read /proc/self/maps, to survive a guest that takes its memory away",
            source,
        })?;
        layout::check().map_err(|error| unknown_library(path, error))?;
        let (c_path, directory) = socket::name_for_library(path, offer.client)?;
        let shared = Shared::register(path, c_path, offer.client, quiesce).map_err(|full| match full {
            Full::Taken => VhostError::InUse { path: path.to_owned(), who: "another port of this switch" },
            Full::TooMany => VhostError::TooMany { path: path.to_owned() },
        })?;
        let prepared = match &directory {
            Some(held) => socket::prepare_server(path, held.path()),
            None => socket::prepare_client(path),
        };
        if let Err(error) = prepared {
            shared.unregister();
            return Err(error);
        }
        let failed = |call| VhostError::Library { path: path.to_owned(), call };
        if let Err(call) = start(&shared.path, offer) {
            shared.unregister();
            return Err(failed(call));
        }
        Ok(Self { shared, _directory: directory })
    }

    /// Its data path.
    #[must_use]
    pub fn rings(&self) -> Rings {
        Rings::new(Arc::clone(&self.shared))
    }

    /// Names of the features that the connected guest negotiated.
    #[must_use]
    pub fn offloads(&self) -> Vec<&'static str> {
        features::names(self.shared.features())
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        self.shared.close();
        // SAFETY: the path is NUL-terminated and registered. No worker uses the device, no lock of
        // ours is held.
        unsafe { sys::rte_vhost_driver_unregister(self.shared.path.as_ptr()) };
        self.shared.unregister();
    }
}

fn unknown_library(path: &Path, error: LayoutError) -> VhostError {
    let path = path.to_owned();
    match error {
        LayoutError::Differs(difference) => VhostError::UnknownLibrary { path, difference, version: eal::version() },
        LayoutError::Io(source) => VhostError::Io { path, action: "try librte_vhost out in TMPDIR or /tmp", source },
    }
}

/// Registers and starts the socket; on failure it is not registered, and the name of the call is
/// returned.
fn start(path: &CStr, offer: Offer) -> Result<(), &'static str> {
    let at = path.as_ptr();
    let check = |call: &'static str, rc: c_int| if rc == 0 { Ok(()) } else { Err(call) };
    let client = if offer.client { sys::RTE_VHOST_USER_CLIENT } else { 0 };
    // SAFETY: EAL is up: a pool of its exists. One thread at a time is here, under `OPENING`.
    check("rte_mempool_create_empty", unsafe { sys::vs_vhost_prepare() })?;
    // SAFETY: the path is NUL-terminated in all calls here, and copied by the library.
    let rc = unsafe { sys::rte_vhost_driver_register(at, client | sys::RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS) };
    check("rte_vhost_driver_register", rc)?;
    let configured = (|| {
        let mut supported = 0;
        // SAFETY: as above; one u64 is written.
        check("rte_vhost_driver_get_features", unsafe { sys::rte_vhost_driver_get_features(at, &raw mut supported) })?;
        let excess = supported & !features::allowed(offer);
        // SAFETY: as above.
        check("rte_vhost_driver_disable_features", unsafe { sys::rte_vhost_driver_disable_features(at, excess) })?;
        let protocol = features::protocol(offer);
        // SAFETY: as above.
        let rc = unsafe { sys::rte_vhost_driver_set_protocol_features(at, protocol) };
        check("rte_vhost_driver_set_protocol_features", rc)?;
        // SAFETY: as above; the table is static.
        let rc = unsafe { sys::rte_vhost_driver_callback_register(at, callbacks::device_ops()) };
        check("rte_vhost_driver_callback_register", rc)?;
        // SAFETY: as above; callbacks may come from here on.
        check("rte_vhost_driver_start", unsafe { sys::rte_vhost_driver_start(at) })
    })();
    if configured.is_err() {
        // SAFETY: as above.
        unsafe { sys::rte_vhost_driver_unregister(at) };
    }
    configured
}
