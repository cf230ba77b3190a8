//! Raw bindings to the part of DPDK that vswitch uses. Safe wrappers live in the crate
//! `vswitch-dpdk`.
//!
//! Functions come from an explicit allowlist (build.rs), inline functions from `shim.c`, the mbuf
//! layout and the flag constants are written out here and tested against the C headers.
#![allow(unsafe_code, missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod consts;
mod mbuf;

#[allow(clippy::all, unreachable_pub, unused_qualifications, missing_debug_implementations)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
pub use consts::*;
pub use mbuf::rte_mbuf;

/// Version of libdpdk that the headers came from.
pub const BUILD_VERSION: &str = env!("DPDK_BUILD_VERSION");

fn table(entries: *const vs_constant, len: u32) -> impl Iterator<Item = (&'static str, u64)> {
    (0..len as usize).map(move |i| {
        // SAFETY: shim.c defines the array with `len` entries; names are string literals in ASCII.
        let entry = unsafe { &*entries.add(i) };
        // SAFETY: as above, NUL-terminated and static.
        let name = unsafe { core::ffi::CStr::from_ptr(entry.name) };
        (name.to_str().expect("ASCII"), entry.value)
    })
}

/// Name and value of every exported constant, as the C compiler sees it.
pub fn constants() -> impl Iterator<Item = (&'static str, u64)> {
    // SAFETY: constant data of the shim.
    table(unsafe { vs_constants.as_ptr() }, unsafe { vs_constants_len })
}

/// Field name and offset in `struct rte_mbuf`, then `sizeof` and `alignof`, as the C compiler sees
/// them.
pub fn mbuf_layout() -> impl Iterator<Item = (&'static str, usize)> {
    // SAFETY: constant data of the shim.
    table(unsafe { vs_mbuf_layout.as_ptr() }, unsafe { vs_mbuf_layout_len })
        .map(|(name, value)| (name, usize::try_from(value).expect("an offset")))
}
