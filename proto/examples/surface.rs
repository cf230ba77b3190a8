//! Prints what clients depend on in today's protos: what `tools/proto-release` keeps of a release.
#![forbid(unsafe_code)]

use std::io::Write;
use vswitch_proto::{FILE_DESCRIPTOR_SET, surface::Surface};

fn main() -> std::io::Result<()> {
    let surface = Surface::decode(FILE_DESCRIPTOR_SET).map_err(std::io::Error::other)?;
    std::io::stdout().write_all(surface.to_text().as_bytes())
}
