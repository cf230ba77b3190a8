//! What a dscp_remark band writes.

/// A DSCP with its drop precedence raised: within its class of Assured Forwarding (RFC 2597: AFcp
/// is 8c + 2p, classes 1 to 4, precedences 1 to 3), at most to 3. All other code points have no
/// drop precedence and stay.
#[must_use]
pub const fn remark(dscp: u8, precedence: u8) -> u8 {
    let (class, old) = (dscp >> 3, (dscp & 7) >> 1);
    if dscp & 1 != 0 || class < 1 || class > 4 || old < 1 || old > 3 {
        return dscp;
    }
    let new = old.saturating_add(precedence);
    class << 3 | (if new > 3 { 3 } else { new }) << 1
}
