//! Neighbor discovery (RFC 4861).

use super::{GROUP, ND_TARGET, SHA, THA, be16, be32, be64, part};
use crate::FlowKey;
use crate::field::number::{ND_ADVERT, ND_SOLICIT};

/// Options: link-layer address of the source, of the target.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// Reads a solicitation or advertisement; leaves other ICMPv6 alone. `rest`: behind the header.
pub(super) fn extract(header: &[u8; 8], rest: &[u8], key: &mut FlowKey) {
    if header[1] != 0 || ![ND_SOLICIT, ND_ADVERT].contains(&u16::from(header[0])) {
        return;
    }
    // The reserved bits; flags, in an advertisement.
    key.0[GROUP] = u64::from(be32(header, 4));
    let Some(target) = part::<16>(rest, 0) else { return };
    let options = options(&rest[16..]);
    if options.valid {
        key.0[ND_TARGET] = be64(target, 0);
        key.0[ND_TARGET + 1] = be64(target, 8);
        key.0[SHA] = options.source << 16;
        key.0[THA] = options.target << 16;
    }
    key.0[SHA] |= u64::from(options.kind);
}

struct Options {
    /// Link-layer addresses, 0 where there is none.
    source: u64,
    target: u64,
    /// Type of the first of these options.
    kind: u8,
    /// No address is given twice.
    valid: bool,
}

fn options(mut rest: &[u8]) -> Options {
    let mut options = Options { source: 0, target: 0, kind: 0, valid: true };
    // The loop ends because every option takes 8 bytes at least.
    while let Some(option) = part::<8>(rest, 0) {
        let len = usize::from(option[1]) * 8;
        if len == 0 || len > rest.len() {
            break;
        }
        let place = match option[0] {
            SOURCE if len == 8 => Some(&mut options.source),
            TARGET if len == 8 => Some(&mut options.target),
            _ => None,
        };
        if let Some(place) = place {
            if *place != 0 {
                options.valid = false;
                break;
            }
            *place = u64::from(be16(option, 2)) << 32 | u64::from(be32(option, 4));
            if options.kind == 0 {
                options.kind = option[0];
            }
        }
        rest = &rest[len..];
    }
    options
}
