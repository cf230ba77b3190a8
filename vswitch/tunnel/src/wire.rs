//! Numbers and sums that both directions need.
