//! Names of what is stored: hashes of paths, which are too long for names.
//!
//! A later agent, of another compiler too, must find the same names. So the function is written
//! down here: SipHash-1-3 with a key of zeros (Aumasson and Bernstein, "SipHash: a fast short-input
//! PRF", 2012), over the bytes that Rust's `DefaultHasher` was given for these names up to version
//! 1.95. Agents of before find their files.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The name for what is known of a path.
pub(super) fn of_path(path: &Path) -> String {
    name(&with_len(path))
}

/// The name for what is known of a directory of manifests, for a Node.
pub(super) fn of_directory(node: &str, directory: &Path) -> String {
    // 0xff ends a string: it is in none.
    name(&[node.as_bytes(), &[0xff], &with_len(directory)].concat())
}

fn with_len(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// Two hashes of the bytes behind a byte of salt.
fn name(bytes: &[u8]) -> String {
    let half = |salt: u8| sip13(&[&[salt], bytes].concat());
    format!("{:016x}{:016x}", half(0), half(1))
}

fn sip13(bytes: &[u8]) -> u64 {
    let mut v = [0x736f_6d65_7073_6575_u64, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
    let last = u64::from_le_bytes(last) | (bytes.len() as u64) << 56;
    for word in words.iter().map(|word| u64::from_le_bytes(*word)).chain([last]) {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

const fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What agents of version 0.2.0 named these, as `DefaultHasher` of Rust 1.95 hashes them.
    #[test]
    fn names_are_those_of_agents_before() {
        let path = |text: &str| of_path(Path::new(text));
        assert_eq!(path(""), "66b1b52b4f6ef1c4dc58fdc2e5c5babe");
        assert_eq!(path("/etc/manifests/a.yaml"), "cad39a158a3fa594d69e555dde2f2038");
        assert_eq!(path("/etc/manifests/eight888"), "d8fb56ea8923749cd162f3721f24ae0b");
        let directory = of_directory("worker-1", Path::new("/etc/vswitch/manifests"));
        assert_eq!(directory, "3299e9293116f38d666a975b9f5ba576");
    }
}
