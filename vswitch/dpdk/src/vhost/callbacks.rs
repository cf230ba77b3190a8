//! What librte_vhost calls: one table for all sockets; each call finds its socket by path.

use super::features;
use super::guard::GuardVerdict;
use super::message::{CONTEXT_LEN, Message, SET_MEM_TABLE};
use super::shared::{self, Shared};
use dpdk_sys as sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, LazyLock};

pub(super) struct Table<T>(pub(super) T);

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
    // SAFETY: `vid` comes from the library in a callback about it; at most 128 bytes are written,
    // NUL-terminated.
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
    if shared.start(vid, features::negotiated_features(vid)) { 0 } else { -1 }
}

unsafe extern "C" fn destroy_device(vid: c_int) {
    if let Some(shared) = socket_of(vid) {
        shared.stop(vid);
    }
}

unsafe extern "C" fn vring_state_changed(vid: c_int, ring: u16, enable: c_int) -> c_int {
    if let Some(shared) = socket_of(vid) {
        shared.ring_changed(vid, ring, enable != 0, features::is_packed(features::negotiated_features(vid)));
    }
    0
}

/// The message of a handler's call.
///
/// # Safety
/// `context` must be what the library passed; the result must not outlive the call.
unsafe fn message<'a>(context: *mut c_void) -> Message<'a> {
    // SAFETY: the library passes its `struct vhu_msg_context`, of at least this length, packed
    // (aligned for bytes), and used by this thread only.
    Message::new(unsafe { &mut *context.cast::<[u8; CONTEXT_LEN]>() })
}

unsafe extern "C" fn before_message(vid: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    // SAFETY: as the library calls it.
    let mut message = unsafe { message(context) };
    let verdict = match socket_of(vid) {
        Some(shared) => shared.before_message(vid, &mut message, features::negotiated_features(vid)),
        None => GuardVerdict::Refuse("a socket that is closing"),
    };
    match verdict {
        GuardVerdict::Pass => return sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED,
        GuardVerdict::Done | GuardVerdict::Refuse(_) => message.close_fds(),
    }
    if verdict == GuardVerdict::Done { sys::RTE_VHOST_MSG_RESULT_OK } else { sys::RTE_VHOST_MSG_RESULT_ERR }
}

unsafe extern "C" fn after_message(vid: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    if let Some(shared) = socket_of(vid) {
        // SAFETY: as the library calls it.
        let message = unsafe { message(context) };
        // SAFETY: the device exists during its message; the advice changes neither contents nor
        // protection.
        if message.request() == SET_MEM_TABLE && unsafe { sys::vs_vhost_hide(vid) } != 0 {
            tracing::debug!(vid, "a core file would hold memory of this guest");
        }
        shared.after_message(vid, &message);
    }
    sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED
}
