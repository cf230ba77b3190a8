//! DNS answers to Pods: any bytes are read as frames, and as a message, or refused. What is learned
//! of them keeps to the limits, and each frame goes on once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_antrea::fqdn::Cache;
use vswitch_antrea::{NameLimits, Pattern, dns};

fuzz_target!(|bytes: &[u8]| {
    let mut cache = Cache::default();
    cache.set_limits(NameLimits { names_per_pattern: 2, names: 3, ..NameLimits::default() });
    let patterns = ["*.com", "a.com", "*.example.com"].map(|text| Pattern::parse(text).expect("a good pattern"));
    cache.set_patterns(patterns.into_iter());
    // As one frame, and as many: the first two bytes say how long these are.
    let len = bytes.first_chunk().map_or(1, |len| usize::from(u16::from_be_bytes(*len)).max(1));
    let mut assembly = dns::Assembly::default();
    let (mut messages, mut put, mut on) = (vec![bytes.to_vec()], 0, 0);
    for (now, frame) in (0..).zip([bytes].into_iter().chain(bytes.chunks(len))) {
        put += 1;
        let done = assembly.put(frame, (), now);
        on += done.on.len() + done.given_up.len();
        messages.extend(done.messages);
    }
    assert_eq!(on + assembly.waiting(), put, "frames that went on or were given up, and those that wait");
    assembly.expire(u64::MAX);
    assert_eq!(assembly.waiting(), 0);
    for (now, message) in (0..).zip(messages) {
        for answer in dns::read(&message).unwrap_or_default() {
            assert!(answer.name.is_ascii() && answer.name.len() < 1024, "{answer:?}");
            cache.learn(&answer, now);
        }
    }
    let (names, addresses, _) = cache.sizes();
    assert!(names <= 3 && addresses >= names, "{names} names, {addresses} addresses");
    cache.expire(u64::MAX);
    assert_eq!((cache.sizes().0, cache.next_expiry()), (0, None));
});
