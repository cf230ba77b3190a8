//! What librte_vhost calls: one table for all sockets; each call finds its socket by path.

use super::guard::MESSAGE_LEN;
use super::shared::{self, Shared};
use super::{features, rings};
use dpdk_sys as sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, LazyLock};

struct Table<T>(T);

// SAFETY: written once, then only read; the pointers in it are functions, or null.
unsafe impl<T> Sync for Table<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Table<T> {}

static DEVICE: LazyLock<Table<sys::rte_vhost_device_ops>> = LazyLock::new(|| {
    Table(sys::rte_vhost_device_ops {
        new_device: Some(new_device),
        destroy_device: Some(destroy_device),
        vring_state_changed: Some(vring_state_changed),
        new_connection: Some(new_connection),
        destroy_connection: Some(destroy_connection),
        ..Default::default()
    })
});

static MESSAGE: Table<sys::rte_vhost_user_extern_ops> = Table(sys::rte_vhost_user_extern_ops {
    pre_msg_handle: Some(before_message),
    post_msg_handle: Some(after_message),
});

/// The table, for `rte_vhost_driver_callback_register`; it lives as long as the process.
pub(super) fn device_ops() -> *const sys::rte_vhost_device_ops {
    &raw const DEVICE.0
}

/// The socket of a device.
fn socket_of(vid: c_int) -> Option<Arc<Shared>> {
    let mut path: [c_char; 128] = [0; 128];
    // SAFETY: `vid` comes from the library in a callback about it; at most 128 bytes are written, NUL-terminated.
    let rc = unsafe { sys::rte_vhost_get_ifname(vid, path.as_mut_ptr(), path.len()) };
    if rc != 0 {
        return None;
    }
    // SAFETY: NUL-terminated by the call above.
    shared::find(&unsafe { CStr::from_ptr(path.as_ptr()) }.to_owned())
}

unsafe extern "C" fn new_connection(vid: c_int) -> c_int {
    let Some(shared) = socket_of(vid) else { return -1 };
    // SAFETY: the device exists; the table is static; the library copies it.
    let rc = unsafe { sys::rte_vhost_extern_callback_register(vid, &raw const MESSAGE.0, std::ptr::null_mut()) };
    if rc == 0 && shared.connect(vid) { 0 } else { -1 }
}

unsafe extern "C" fn destroy_connection(vid: c_int) {
    if let Some(shared) = socket_of(vid) {
        shared.disconnect(vid);
    }
}

unsafe extern "C" fn new_device(vid: c_int) -> c_int {
    let Some(shared) = socket_of(vid) else { return -1 };
    if shared.start(vid, rings::negotiated_features(vid)) { 0 } else { -1 }
}

unsafe extern "C" fn destroy_device(vid: c_int) {
    if let Some(shared) = socket_of(vid) {
        shared.stop(vid);
    }
}

unsafe extern "C" fn vring_state_changed(vid: c_int, ring: u16, enable: c_int) -> c_int {
    if let Some(shared) = socket_of(vid) {
        shared.ring_changed(vid, ring, enable != 0, features::is_packed(rings::negotiated_features(vid)));
    }
    0
}

unsafe extern "C" fn before_message(vid: c_int, message: *mut c_void) -> sys::rte_vhost_msg_result {
    if let Some(shared) = socket_of(vid) {
        let is_packed = features::is_packed(rings::negotiated_features(vid));
        // SAFETY: the library passes its `struct vhu_msg_context`, which starts with a whole vhost-user message: 12 bytes
        // and a payload of at least 264 (a memory table), aligned for bytes, and used by this thread only.
        let bytes = unsafe { &mut *message.cast::<[u8; MESSAGE_LEN]>() };
        shared.guarded(vid, |guard| guard.before(bytes, is_packed, features::is_packed));
    }
    sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED
}

unsafe extern "C" fn after_message(vid: c_int, message: *mut c_void) -> sys::rte_vhost_msg_result {
    if let Some(shared) = socket_of(vid) {
        // SAFETY: as in `before_message`.
        let bytes = unsafe { &mut *message.cast::<[u8; MESSAGE_LEN]>() };
        shared.guarded(vid, |guard| guard.after(bytes));
    }
    sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED
}
