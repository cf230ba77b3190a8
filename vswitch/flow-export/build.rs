//! Compiles `proto/flow.proto`: a client and, for tests, a server of Antrea's FlowExportService.

use std::path::PathBuf;

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (proto, file) = (root.join("proto"), root.join("proto/flow.proto"));
    println!("cargo:rerun-if-changed={}", proto.display());
    tonic_prost_build::configure()
        .file_descriptor_set_path(out.join("flow_descriptor.bin"))
        .compile_protos(&[file], &[proto])
        .unwrap_or_else(|error| panic!("protoc failed (apt-get install protobuf-compiler?): {error}"));
}
