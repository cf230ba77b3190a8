//! What of a certificate the switch reads by itself: the end of its validity, and the names in it.
//!
//! **Design**: a reader of DER that takes nothing for granted (X.690; RFC 5280, 4.1). Certificates
//! of clients are read after rustls has verified them. What cannot be read has no names, and so no
//! role.
//!
//! **Limits**: [`NAMES_MAX`] names; work is linear in the certificate, which TLS bounds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vswitch_control::config::San;

/// Names of one certificate.
const NAMES_MAX: usize = 64;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const INTEGER: u8 = 0x02;
/// `[0]` of the version, and `[3]` of the extensions (RFC 5280, 4.1).
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// Names (RFC 5280, 4.2.1.6): rfc822Name, dNSName, uniformResourceIdentifier.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;

/// id-ce-subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// What the switch reads of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Contents {
    /// Serial number, in hexadecimal.
    pub(in super::super) serial: String,
    /// End of its validity, in seconds since 1970.
    pub(in super::super) not_after: i64,
    /// Its names, in their order.
    pub(in super::super) sans: Vec<San>,
}

/// Reads a certificate; none: it is not well formed.
pub(in super::super) fn read(der: &[u8]) -> Option<Contents> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?; // tbsCertificate
    if let Some((_, behind)) = expect(rest, VERSION) {
        rest = behind;
    }
    let (serial, rest) = expect(rest, INTEGER)?;
    let (_, rest) = expect(rest, SEQUENCE)?; // signature
    let (_, rest) = expect(rest, SEQUENCE)?; // issuer
    let (validity, rest) = expect(rest, SEQUENCE)?;
    let (_, _, behind) = element(validity)?; // notBefore
    let (tag, time, _) = element(behind)?;
    let not_after = seconds(tag, time)?;
    let mut sans = Vec::new();
    let mut rest = rest;
    while let Some((tag, value, behind)) = element(rest) {
        if tag == EXTENSIONS {
            sans = names(value)?;
        }
        rest = behind;
    }
    let serial = serial.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    Some(Contents { serial, not_after, sans })
}

/// The end of a certificate, as the clock of the machine has it.
pub(in super::super) fn time(seconds: i64) -> SystemTime {
    u64::try_from(seconds).map_or(UNIX_EPOCH, |seconds| UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The first element: tag, content, what is behind it. Lengths are definite and as short as they
/// can be.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (len, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 || tag & 0x1f == 0x1f {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        let len = digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit));
        if len < 0x80 || digits[0] == 0 {
            return None;
        }
        (len, rest)
    };
    let (content, behind) = rest.split_at_checked(len)?;
    Some((tag, content, behind))
}

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, behind)| (content, behind))
}

/// Names in the extensions; none in a certificate without such an extension. A second one makes it
/// malformed.
fn names(extensions: &[u8]) -> Option<Vec<San>> {
    let (mut list, _) = expect(extensions, SEQUENCE)?;
    let mut found = None;
    while !list.is_empty() {
        let (extension, behind) = expect(list, SEQUENCE)?;
        list = behind;
        let (id, value) = expect(extension, OID)?;
        let value = expect(value, BOOLEAN).map_or(value, |(_, behind)| behind); // critical
        if id == SUBJECT_ALT_NAME {
            let (octets, _) = expect(value, OCTET_STRING)?;
            let (names, _) = expect(octets, SEQUENCE)?;
            if found.replace(general_names(names)?).is_some() {
                return None;
            }
        }
    }
    Some(found.unwrap_or_default())
}

fn general_names(mut list: &[u8]) -> Option<Vec<San>> {
    let mut names = Vec::new();
    while !list.is_empty() {
        let (tag, value, behind) = element(list)?;
        list = behind;
        // (IA5String)
        let text = || std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        let name = match tag {
            EMAIL => San::Email(text()?.to_owned()),
            DNS => San::Dns(text()?.to_ascii_lowercase()),
            URI => San::Uri(text()?.to_owned()),
            _ => continue,
        };
        if names.len() == NAMES_MAX {
            return None;
        }
        names.push(name);
    }
    Some(names)
}

/// A time in seconds since 1970: YYMMDDHHMMSSZ, YYYYMMDDHHMMSSZ (RFC 5280, 4.1.2.5).
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year_len = match (tag, text.len()) {
        (UTC_TIME, 12) => 2,
        (GENERALIZED_TIME, 14) => 4,
        _ => return None,
    };
    let (year, rest) = text.split_at(year_len);
    let year: i64 = year.parse().ok()?;
    let year = if year_len == 4 { year } else { year + if year < 50 { 2000 } else { 1900 } };
    let mut fields = [0_i64; 5];
    for (index, field) in fields.iter_mut().enumerate() {
        *field = rest.get(2 * index..2 * index + 2)?.parse().ok()?;
    }
    let [month, day, hour, minute, second] = fields;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days since 1970 (years that begin in March have their leap day at the end).
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Made by openssl: serial 0x1234, until 2035-05-06 07:08:09, names of four kinds.
    const DER: &[u8] = include_bytes!("certificate.der");

    #[test]
    fn a_certificate_of_openssl_is_read() {
        let contents = read(DER).expect("a certificate");
        let names = [
            San::Dns("agent.example".to_owned()),
            San::Uri("spiffe://cluster/ns/a".to_owned()),
            San::Email("ops@example.org".to_owned()),
        ];
        assert_eq!(
            (contents.serial.as_str(), contents.not_after, contents.sans.as_slice()),
            ("1234", 2_062_048_089, &names[..])
        );
    }

    #[test]
    fn times_of_both_kinds() {
        let utc = |text: &str| seconds(UTC_TIME, text.as_bytes());
        let general = |text: &str| seconds(GENERALIZED_TIME, text.as_bytes());
        assert_eq!(
            (utc("700101000000Z"), utc("000229000000Z"), utc("491231235959Z")),
            (Some(0), Some(951_782_400), Some(2_524_607_999))
        );
        assert_eq!(
            (general("20261130102021Z"), general("21000301000000Z")),
            (Some(1_796_034_021), Some(4_107_542_400))
        );
        assert_eq!(general("19691231235959Z"), Some(-1));
        for bad in
            ["", "Z", "20261130102021", "2026113010202Z", "20261330102021Z", "+0261130102021Z", "20260030102021Z"]
        {
            assert_eq!(general(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_cut_or_changed_is_never_more_than_unreadable(
            at in any::<prop::sample::Index>(), bit in 0_u8..8, len in any::<prop::sample::Index>()
        ) {
            let mut changed = DER.to_vec();
            changed[at.index(DER.len())] ^= 1 << bit;
            let _ = read(&changed);
            prop_assert_eq!(read(&DER[..len.index(DER.len())]), None);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
