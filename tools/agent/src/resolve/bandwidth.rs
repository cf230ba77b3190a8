//! Limits of Pods: the annotations `kubernetes.io/ingress-bandwidth` and
//! `kubernetes.io/egress-bandwidth`, in bits per second.
//!
//! They are what the kubelet hands to the plug-in `bandwidth` of CNI, and have the range that it
//! has for them (Kubernetes, `pkg/util/bandwidth`). A wrong one limits nothing, and is told: no
//! policy depends on it. The switch chooses how much may come at once.

use crate::kinds::pod::PodBody;
use crate::model::Item;
use crate::problem::Problem;
use vswitch_proto::antrea::v1;

/// To the Pod.
pub const INGRESS: &str = "kubernetes.io/ingress-bandwidth";
/// From the Pod.
pub const EGRESS: &str = "kubernetes.io/egress-bandwidth";

/// Bits per second: 1k to 1P.
const RANGE: std::ops::RangeInclusive<u128> = 1_000..=1_000_000_000_000_000;
/// A quantity has at most so many bytes; what Kubernetes writes has at most 25.
const LENGTH_MAX: usize = 32;
/// Digits that are read of a quantity.
const DIGITS_MAX: usize = 18;

/// A Pod's limit of an annotation. None: it has none.
pub fn limit(item: &Item<PodBody>, annotation: &str, problems: &mut Vec<Problem>) -> Option<v1::PodBandwidth> {
    let text = item.meta.annotations.get(annotation)?;
    let wrong = |reason: &str| {
        let field = format!("metadata.annotations[{annotation}]");
        item.origin.error(field, format!("{text:?} {reason}: no limit")).hint("such as 500k, 10M or 1G")
    };
    match bits(text) {
        None => problems.push(wrong("is no quantity of bits per second")),
        Some(bits) if !RANGE.contains(&bits) => problems.push(wrong("is not within 1k and 1P")),
        Some(bits) => {
            // No link is as fast as what does not fit.
            let rate_kbps = u32::try_from(bits / 1000).unwrap_or(u32::MAX);
            return Some(v1::PodBandwidth { rate_kbps, burst_kb: 0 });
        }
    }
    None
}

/// The value of a quantity as Kubernetes writes it, without fractions of 1: `10M`, `1.5Gi`, `1e6`.
/// None: it is none, is negative, or has too many digits.
fn bits(text: &str) -> Option<u128> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > DIGITS_MAX || fraction.contains('.') {
        return None;
    }
    let value: u128 = digits.parse().ok()?;
    let behind = i32::try_from(fraction.len()).ok()?;
    match suffix {
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => {
            let place = "KMGTPE".find(&suffix[..1])?;
            let factor = 1024_u128.pow(u32::try_from(place).ok()? + 1);
            scaled(value * factor, -behind)
        }
        _ => scaled(value, exponent(suffix)? - behind),
    }
}

/// The power of ten that a decimal suffix stands for.
fn exponent(suffix: &str) -> Option<i32> {
    let known =
        [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    if let Some((_, exponent)) = known.iter().find(|(known, _)| *known == suffix) {
        return Some(*exponent);
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let is_number = digits.trim_start_matches(['+', '-']).len() + 1 >= digits.len() && digits.len() <= 3;
    is_number.then(|| digits.parse().ok()).flatten()
}

/// A value times a power of ten, without fractions; None: it is too large.
fn scaled(value: u128, exponent: i32) -> Option<u128> {
    let factor = 10_u128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 { value.checked_mul(factor?) } else { Some(factor.map_or(0, |factor| value / factor)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_kubernetes() {
        for (text, expected) in [
            ("500k", Some(500_000)),
            ("10M", Some(10_000_000)),
            ("1G", Some(1_000_000_000)),
            ("1P", Some(1_000_000_000_000_000)),
            ("1Mi", Some(1_048_576)),
            ("1.5Ki", Some(1536)),
            ("0.5M", Some(500_000)),
            (".5M", Some(500_000)),
            ("5.", Some(5)),
            ("1e6", Some(1_000_000)),
            ("12E3", Some(12_000)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("1e-3", Some(0)),
            ("1500m", Some(1)),
            ("+5k", Some(5000)),
            ("999999999999999999Ei", Some(999_999_999_999_999_999 << 60)),
            ("1e99", None),
            ("", None),
            (".", None),
            ("-5k", None),
            ("5K", None),
            ("5 k", None),
            ("5kk", None),
            ("1.2.3k", None),
            ("1e", None),
            ("1e+-2", None),
            ("k", None),
            ("0x5", None),
            ("1234567890123456789", None),
            ("٣M", None),
            ("00000000000000000000000000000000000005M", None),
        ] {
            assert_eq!(bits(text), expected, "{text}");
        }
    }
}
