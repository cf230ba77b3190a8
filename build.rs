//! Compiles `proto/`. This is the build script of the crate `vswitch-proto` (proto/Cargo.toml says `build = "../build.rs"`).

use std::path::{Path, PathBuf};

fn protos(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())).flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("src") {
            protos(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
}

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut files = Vec::new();
    for package in ["vswitch", "antrea"] {
        println!("cargo:rerun-if-changed={}", root.join(package).display());
        protos(&root.join(package), &mut files);
    }
    files.sort();
    tonic_prost_build::configure()
        .file_descriptor_set_path(out.join("vswitch_descriptor.bin"))
        .compile_protos(&files, &[root])
        .unwrap_or_else(|error| panic!("protoc failed (apt-get install protobuf-compiler?): {error}"));
}
