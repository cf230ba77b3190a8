//! DNS answers to Pods: any bytes are read as a frame, and as a message, or refused; what is learned of them keeps to the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_antrea::fqdn::Cache;
use vswitch_antrea::{NameLimits, Pattern, dns};

fuzz_target!(|bytes: &[u8]| {
    let mut cache = Cache::default();
    cache.set_limits(NameLimits { names_per_pattern: 2, names: 3, ..NameLimits::default() });
    let patterns = ["*.com", "a.com", "*.example.com"].map(|text| Pattern::parse(text).expect("a good pattern"));
    cache.set_patterns(patterns.into_iter());
    let messages = dns::payload(bytes).into_iter().flat_map(dns::Payload::messages).chain([(bytes, false), (bytes, true)]);
    for (now, (message, cut)) in (0..).zip(messages) {
        for answer in dns::read(message, cut).unwrap_or_default() {
            assert!(answer.name.is_ascii() && answer.name.len() < 1024, "{answer:?}");
            cache.learn(&answer, now);
        }
    }
    let (names, addresses, _) = cache.sizes();
    assert!(names <= 3 && addresses >= names, "{names} names, {addresses} addresses");
    cache.expire(u64::MAX);
    assert_eq!((cache.sizes().0, cache.next_expiry()), (0, None));
});
