//! The CPU that this build needs.
//!
//! `is_x86_feature_detected!` is of no use here: what the build takes for granted it answers
//! without looking.

use core::arch::x86_64::{__cpuid, __cpuid_count};

/// The instruction set extensions of x86-64-v2 and v3 (System V ABI for AMD64, 3.1.1): name,
/// whether the build takes it for granted, index of its word in [`words`], bit. Each build takes
/// those of v2.
const FEATURES: [(&str, bool, usize, u32); 15] = [
    ("sse3", true, 0, 0),
    ("ssse3", true, 0, 9),
    ("fma", cfg!(target_feature = "fma"), 0, 12),
    ("cmpxchg16b", true, 0, 13),
    ("sse4.1", true, 0, 19),
    ("sse4.2", true, 0, 20),
    ("movbe", cfg!(target_feature = "movbe"), 0, 22),
    ("popcnt", true, 0, 23),
    ("osxsave", cfg!(target_feature = "avx"), 0, 27),
    ("avx", cfg!(target_feature = "avx"), 0, 28),
    ("f16c", cfg!(target_feature = "f16c"), 0, 29),
    ("bmi1", cfg!(target_feature = "bmi1"), 1, 3),
    ("avx2", cfg!(target_feature = "avx2"), 1, 5),
    ("bmi2", cfg!(target_feature = "bmi2"), 1, 8),
    ("lzcnt", cfg!(target_feature = "lzcnt"), 2, 5),
];

/// The CPU lacks something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this CPU lacks {}, but this build needs {}; run it on a newer machine (or VM CPU model, such as -cpu host), or build \
     with target-cpu=x86-64-v2 in .cargo/config.toml",
    .0.join(" "),
    baseline()
)]
pub(super) struct Missing(Vec<&'static str>);

/// What this build needs.
pub(super) const fn baseline() -> &'static str {
    if cfg!(all(target_feature = "avx2", target_feature = "bmi2", target_feature = "fma", target_feature = "movbe")) {
        "x86-64-v3"
    } else {
        "x86-64-v2"
    }
}

/// Whether this CPU has what the build needs.
pub(super) fn check() -> Result<(), Missing> {
    let missing = missing(words());
    if missing.is_empty() { Ok(()) } else { Err(Missing(missing)) }
}

/// The feature words of CPUID: 1.ecx, 7.0.ebx, 80000001.ecx (Intel SDM 2A, CPUID).
fn words() -> [u32; 3] {
    let extended = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    [__cpuid(1).ecx, extended, __cpuid(0x8000_0001).ecx]
}

fn missing(words: [u32; 3]) -> Vec<&'static str> {
    let lacks = |(_, needed, word, bit): &&(&str, bool, usize, u32)| *needed && words[*word] >> bit & 1 == 0;
    FEATURES.iter().filter(lacks).map(|(name, ..)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_cpu_is_refused_by_name() {
        let needed: Vec<_> = FEATURES.iter().filter(|(_, needed, ..)| *needed).map(|(name, ..)| *name).collect();
        assert_eq!(missing([0; 3]), needed);
        assert_eq!(missing([u32::MAX; 3]), Vec::<&str>::new());
        if cfg!(target_feature = "avx2") {
            assert_eq!(missing([u32::MAX, !(1 << 5), u32::MAX]), ["avx2"]);
            assert_eq!(missing([!(1 << 27), u32::MAX, !(1 << 5)]), ["osxsave", "lzcnt"]);
            let text = Missing(vec!["avx2"]).to_string();
            assert!(text.starts_with("this CPU lacks avx2, but this build needs x86-64-v3; "), "{text}");
        }
    }

    #[test]
    fn the_words_agree_with_the_kernel() {
        let info = std::fs::read_to_string("/proc/cpuinfo").expect("procfs");
        let line = info.lines().find(|line| line.starts_with("flags")).expect("flags");
        let flags: Vec<_> = line.split_whitespace().collect();
        let words = words();
        for (name, _, word, bit) in FEATURES {
            let kernel = match name {
                "sse3" => "pni",
                "cmpxchg16b" => "cx16",
                "sse4.1" => "sse4_1",
                "sse4.2" => "sse4_2",
                "osxsave" => "xsave",
                "lzcnt" => "abm",
                other => other,
            };
            assert_eq!(words[word] >> bit & 1 == 1, flags.contains(&kernel), "{name}");
        }
    }
}
