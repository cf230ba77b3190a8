//! The gRPC interface of vswitch. The comments in `vswitch/v1/*.proto` are its manual.

/// Version 1 of the switch's own services.
#[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications, missing_debug_implementations)]
pub mod v1 {
    tonic::include_proto!("vswitch.v1");
}

/// All file descriptors, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("vswitch_descriptor");
