//! The errors of OpenFlow by name: their numbers in each version, as Open vSwitch sends them.

use crate::Version;

/// ONF's experimenter id.
pub(crate) const ONF: u32 = 0x4f4e_4600;
/// Nicira's experimenter id.
pub(crate) const NICIRA: u32 = 0x0000_2320;
/// The error type that says that an experimenter defines the code.
const EXPERIMENTER: u16 = 0xffff;

/// What an error message says is wrong, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode {
    /// The experimenter that defines the code; 0: OpenFlow.
    pub experimenter: u32,
    /// The type; 0xffff with an experimenter.
    pub kind: u16,
    /// The code within the type, or of the experimenter.
    pub code: u16,
}

const fn of(kind: u16, code: u16) -> ErrorCode {
    ErrorCode { experimenter: 0, kind, code }
}

const fn nx(code: u16) -> ErrorCode {
    ErrorCode { experimenter: NICIRA, kind: EXPERIMENTER, code }
}

const fn onf(code: u16) -> ErrorCode {
    ErrorCode { experimenter: ONF, kind: EXPERIMENTER, code }
}

/// What Open vSwitch sends for an error that a version has no number for
/// (`NXBRC_UNENCODABLE_ERROR`).
const NONE: ErrorCode = nx(10);

impl ErrorCode {
    /// Number of an error of this name; that of `NXBRC_UNENCODABLE_ERROR` if the version has none.
    #[must_use]
    pub fn of_name(version: Version, name: &str) -> Self {
        let same = SAME.iter().find(|(other, _)| *other == name).map(|(_, code)| *code);
        let by_version = || {
            let (_, of13, of15) = BY_VERSION.iter().find(|(other, ..)| *other == name)?;
            Some(match version {
                Version::V13 => *of13,
                Version::V15 => *of15,
            })
        };
        same.or_else(by_version).unwrap_or(NONE)
    }

    /// Name of an error of these numbers. None: this table does not know it.
    #[must_use]
    pub fn name(self, version: Version) -> Option<&'static str> {
        let same = SAME.iter().find(|(_, code)| *code == self).map(|(name, _)| *name);
        let by_version = || {
            BY_VERSION
                .iter()
                .find(|(_, of13, of15)| {
                    let code = match version {
                        Version::V13 => *of13,
                        Version::V15 => *of15,
                    };
                    code == self
                })
                .map(|(name, ..)| *name)
        };
        same.or_else(by_version)
    }
}

/// Errors that have the same numbers in both versions.
const SAME: &[(&str, ErrorCode)] = &[
    ("OFPHFC_INCOMPATIBLE", of(0, 0)),
    ("OFPHFC_EPERM", of(0, 1)),
    ("OFPBRC_BAD_VERSION", of(1, 0)),
    ("OFPBRC_BAD_TYPE", of(1, 1)),
    ("OFPBRC_BAD_STAT", of(1, 2)),
    ("OFPBRC_BAD_VENDOR", of(1, 3)),
    ("OFPBRC_BAD_SUBTYPE", of(1, 4)),
    ("OFPBRC_EPERM", of(1, 5)),
    ("OFPBRC_BAD_LEN", of(1, 6)),
    ("OFPBRC_BUFFER_EMPTY", of(1, 7)),
    ("OFPBRC_BUFFER_UNKNOWN", of(1, 8)),
    ("OFPBRC_BAD_TABLE_ID", of(1, 9)),
    ("OFPBRC_IS_SECONDARY", of(1, 10)),
    ("OFPBRC_BAD_PORT", of(1, 11)),
    ("OFPBRC_BAD_PACKET", of(1, 12)),
    ("OFPBRC_MULTIPART_BUFFER_OVERFLOW", of(1, 13)),
    ("NXBRC_NXM_INVALID", nx(2)),
    ("NXBRC_NXM_BAD_TYPE", nx(3)),
    ("NXBRC_MUST_BE_ZERO", nx(4)),
    ("NXBRC_BAD_REASON", nx(5)),
    ("NXBRC_FM_BAD_EVENT", nx(9)),
    ("NXBRC_UNENCODABLE_ERROR", nx(10)),
    ("OFPBAC_BAD_TYPE", of(2, 0)),
    ("OFPBAC_BAD_LEN", of(2, 1)),
    ("OFPBAC_BAD_VENDOR", of(2, 2)),
    ("OFPBAC_BAD_VENDOR_TYPE", of(2, 3)),
    ("OFPBAC_BAD_OUT_PORT", of(2, 4)),
    ("OFPBAC_BAD_ARGUMENT", of(2, 5)),
    ("OFPBAC_EPERM", of(2, 6)),
    ("OFPBAC_TOO_MANY", of(2, 7)),
    ("OFPBAC_BAD_QUEUE", of(2, 8)),
    ("OFPBAC_BAD_OUT_GROUP", of(2, 9)),
    ("OFPBAC_MATCH_INCONSISTENT", of(2, 10)),
    ("OFPBAC_UNSUPPORTED_ORDER", of(2, 11)),
    ("OFPBAC_BAD_TAG", of(2, 12)),
    ("OFPBAC_BAD_SET_TYPE", of(2, 13)),
    ("OFPBAC_BAD_SET_LEN", of(2, 14)),
    ("OFPBAC_BAD_SET_ARGUMENT", of(2, 15)),
    ("NXBAC_MUST_BE_ZERO", nx(11)),
    ("NXBAC_BAD_CONJUNCTION", nx(15)),
    ("OFPBIC_UNKNOWN_INST", of(3, 0)),
    ("OFPBIC_UNSUP_INST", of(3, 1)),
    ("OFPBIC_BAD_TABLE_ID", of(3, 2)),
    ("OFPBIC_UNSUP_METADATA", of(3, 3)),
    ("OFPBIC_UNSUP_METADATA_MASK", of(3, 4)),
    ("OFPBIC_BAD_EXPERIMENTER", of(3, 5)),
    ("OFPBIC_BAD_EXP_TYPE", of(3, 6)),
    ("OFPBIC_BAD_LEN", of(3, 7)),
    ("OFPBIC_EPERM", of(3, 8)),
    ("OFPBMC_BAD_TYPE", of(4, 0)),
    ("OFPBMC_BAD_LEN", of(4, 1)),
    ("OFPBMC_BAD_TAG", of(4, 2)),
    ("OFPBMC_BAD_DL_ADDR_MASK", of(4, 3)),
    ("OFPBMC_BAD_NW_ADDR_MASK", of(4, 4)),
    ("OFPBMC_BAD_WILDCARDS", of(4, 5)),
    ("OFPBMC_BAD_FIELD", of(4, 6)),
    ("OFPBMC_BAD_VALUE", of(4, 7)),
    ("OFPBMC_BAD_MASK", of(4, 8)),
    ("OFPBMC_BAD_PREREQ", of(4, 9)),
    ("OFPBMC_DUP_FIELD", of(4, 10)),
    ("OFPBMC_EPERM", of(4, 11)),
    ("OFPFMFC_UNKNOWN", of(5, 0)),
    ("OFPFMFC_TABLE_FULL", of(5, 1)),
    ("OFPFMFC_BAD_TABLE_ID", of(5, 2)),
    ("OFPFMFC_OVERLAP", of(5, 3)),
    ("OFPFMFC_EPERM", of(5, 4)),
    ("OFPFMFC_BAD_TIMEOUT", of(5, 5)),
    ("OFPFMFC_BAD_COMMAND", of(5, 6)),
    ("OFPFMFC_BAD_FLAGS", of(5, 7)),
    ("NXFMFC_BAD_TABLE_ID", nx(13)),
    ("NXFMFC_INVALID_TLV_FIELD", nx(37)),
    ("OFPGMFC_GROUP_EXISTS", of(6, 0)),
    ("OFPGMFC_INVALID_GROUP", of(6, 1)),
    ("OFPGMFC_WEIGHT_UNSUPPORTED", of(6, 2)),
    ("OFPGMFC_OUT_OF_GROUPS", of(6, 3)),
    ("OFPGMFC_OUT_OF_BUCKETS", of(6, 4)),
    ("OFPGMFC_CHAINING_UNSUPPORTED", of(6, 5)),
    ("OFPGMFC_WATCH_UNSUPPORTED", of(6, 6)),
    ("OFPGMFC_LOOP", of(6, 7)),
    ("OFPGMFC_UNKNOWN_GROUP", of(6, 8)),
    ("OFPGMFC_CHAINED_GROUP", of(6, 9)),
    ("OFPGMFC_BAD_TYPE", of(6, 10)),
    ("OFPGMFC_BAD_COMMAND", of(6, 11)),
    ("OFPGMFC_BAD_BUCKET", of(6, 12)),
    ("OFPGMFC_BAD_WATCH", of(6, 13)),
    ("OFPGMFC_EPERM", of(6, 14)),
    ("OFPPMFC_BAD_PORT", of(7, 0)),
    ("OFPPMFC_BAD_HW_ADDR", of(7, 1)),
    ("OFPPMFC_BAD_CONFIG", of(7, 2)),
    ("OFPPMFC_BAD_ADVERTISE", of(7, 3)),
    ("OFPPMFC_EPERM", of(7, 4)),
    ("OFPTMFC_BAD_TABLE", of(8, 0)),
    ("OFPTMFC_BAD_CONFIG", of(8, 1)),
    ("OFPTMFC_EPERM", of(8, 2)),
    ("OFPSCFC_BAD_FLAGS", of(10, 0)),
    ("OFPSCFC_BAD_LEN", of(10, 1)),
    ("OFPSCFC_EPERM", of(10, 2)),
    ("OFPRRFC_STALE", of(11, 0)),
    ("OFPRRFC_UNSUP", of(11, 1)),
    ("OFPRRFC_BAD_ROLE", of(11, 2)),
    ("OFPMMFC_UNKNOWN", of(12, 0)),
    ("OFPMMFC_METER_EXISTS", of(12, 1)),
    ("OFPMMFC_INVALID_METER", of(12, 2)),
    ("OFPMMFC_UNKNOWN_METER", of(12, 3)),
    ("OFPMMFC_BAD_COMMAND", of(12, 4)),
    ("OFPMMFC_BAD_FLAGS", of(12, 5)),
    ("OFPMMFC_BAD_RATE", of(12, 6)),
    ("OFPMMFC_BAD_BURST", of(12, 7)),
    ("OFPMMFC_BAD_BAND", of(12, 8)),
    ("OFPMMFC_BAD_BAND_VALUE", of(12, 9)),
    ("OFPMMFC_OUT_OF_METERS", of(12, 10)),
    ("OFPMMFC_OUT_OF_BANDS", of(12, 11)),
    ("OFPTFFC_BAD_TABLE", of(13, 0)),
    ("OFPTFFC_BAD_METADATA", of(13, 1)),
    ("OFPTFFC_EPERM", of(13, 5)),
    ("NXTTMFC_BAD_COMMAND", nx(16)),
    ("NXTTMFC_BAD_OPT_LEN", nx(17)),
    ("NXTTMFC_BAD_FIELD_IDX", nx(18)),
    ("NXTTMFC_TABLE_FULL", nx(19)),
    ("NXTTMFC_ALREADY_MAPPED", nx(20)),
    ("NXTTMFC_DUP_ENTRY", nx(21)),
    ("NXTTMFC_INVALID_TLV_DEL", nx(38)),
    ("NXR_NOT_SUPPORTED", nx(34)),
    ("NXR_STALE", nx(35)),
];

/// Errors that have not: OpenFlow 1.3, 1.5.
const BY_VERSION: &[(&str, ErrorCode, ErrorCode)] = &[
    ("OFPBRC_MULTIPART_REQUEST_TIMEOUT", onf(2640), of(1, 14)),
    ("OFPBRC_MULTIPART_REPLY_TIMEOUT", onf(2641), of(1, 15)),
    ("OFPBAC_BAD_SET_MASK", onf(4250), of(2, 16)),
    ("OFPBAC_BAD_METER", NONE, of(2, 17)),
    ("OFPBIC_DUP_INST", onf(2600), of(3, 9)),
    ("OFPFMFC_BAD_PRIORITY", onf(2360), of(5, 9)),
    ("OFPGMFC_UNKNOWN_BUCKET", NONE, of(6, 15)),
    ("OFPGMFC_BUCKET_EXISTS", NONE, of(6, 16)),
    ("OFPRRFC_ID_UNSUP", NONE, of(11, 3)),
    ("OFPRRFC_ID_IN_USE", NONE, of(11, 4)),
    ("OFPTFFC_BAD_COMMAND", NONE, of(13, 9)),
    ("OFPBPC_BAD_TYPE", of(13, 2), of(14, 0)),
    ("OFPBPC_BAD_LEN", of(13, 3), of(14, 1)),
    ("OFPBPC_BAD_VALUE", of(13, 4), of(14, 2)),
    ("OFPBPC_TOO_MANY", onf(4443), of(14, 3)),
    ("OFPBPC_DUP_TYPE", onf(4444), of(14, 4)),
    ("OFPBPC_BAD_EXPERIMENTER", onf(4445), of(14, 5)),
    ("OFPBPC_BAD_EXP_TYPE", onf(4446), of(14, 6)),
    ("OFPBPC_BAD_EXP_VALUE", onf(4447), of(14, 7)),
    ("OFPBPC_EPERM", onf(4448), of(14, 8)),
    ("OFPACFC_INVALID", onf(2370), of(15, 0)),
    ("OFPACFC_UNSUPPORTED", onf(2371), of(15, 1)),
    ("OFPACFC_EPERM", onf(2372), of(15, 2)),
    ("OFPBFC_UNKNOWN", onf(2300), of(17, 0)),
    ("OFPBFC_EPERM", onf(2301), of(17, 1)),
    ("OFPBFC_BAD_ID", onf(2302), of(17, 2)),
    ("OFPBFC_BUNDLE_EXIST", onf(2303), of(17, 3)),
    ("OFPBFC_BUNDLE_CLOSED", onf(2304), of(17, 4)),
    ("OFPBFC_OUT_OF_BUNDLES", onf(2305), of(17, 5)),
    ("OFPBFC_BAD_TYPE", onf(2306), of(17, 6)),
    ("OFPBFC_BAD_FLAGS", onf(2307), of(17, 7)),
    ("OFPBFC_MSG_BAD_LEN", onf(2308), of(17, 8)),
    ("OFPBFC_MSG_BAD_XID", onf(2309), of(17, 9)),
    ("OFPBFC_MSG_UNSUP", onf(2310), of(17, 10)),
    ("OFPBFC_MSG_CONFLICT", onf(2311), of(17, 11)),
    ("OFPBFC_MSG_TOO_MANY", onf(2312), of(17, 12)),
    ("OFPBFC_MSG_FAILED", onf(2313), of(17, 13)),
    ("OFPBFC_TIMEOUT", onf(2314), of(17, 14)),
    ("OFPBFC_BUNDLE_IN_PROGRESS", onf(2315), of(17, 15)),
    ("OFPMOFC_UNKNOWN", NONE, of(16, 0)),
    ("OFPMOFC_MONITOR_EXISTS", nx(6), of(16, 1)),
    ("OFPMOFC_INVALID_MONITOR", NONE, of(16, 2)),
    ("OFPMOFC_UNKNOWN_MONITOR", nx(8), of(16, 3)),
    ("OFPMOFC_BAD_COMMAND", NONE, of(16, 4)),
    ("OFPMOFC_BAD_FLAGS", nx(7), of(16, 5)),
    ("OFPMOFC_BAD_TABLE_ID", NONE, of(16, 6)),
    ("OFPMOFC_BAD_OUT", NONE, of(16, 7)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_and_numbers_names() {
        for version in [Version::V13, Version::V15] {
            for name in SAME.iter().map(|(name, _)| *name).chain(BY_VERSION.iter().map(|(name, ..)| *name)) {
                let code = ErrorCode::of_name(version, name);
                assert!(code == NONE || code.name(version) == Some(name), "{name}: {code:?}");
            }
        }
    }

    #[test]
    fn errors_without_a_number_are_said_to_be_such() {
        assert_eq!(ErrorCode::of_name(Version::V13, "OFPGMFC_UNKNOWN_BUCKET"), nx(10));
        assert_eq!(ErrorCode::of_name(Version::V15, "no such error"), nx(10));
        assert_eq!(of(99, 0).name(Version::V15), None);
    }
}
