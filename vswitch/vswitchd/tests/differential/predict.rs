//! What a trace of our switch says that a packet does, against what it did.

use crate::record::Effect;

/// Checks that a trace named the ports by which the packet left. Traces with alternatives (lengths,
/// meters) name more than one way; NORMAL learns before it looks up, trace does not.
///
/// # Panics
/// When it did not.
pub(crate) fn check(trace: &str, packet: &[u8], effect: &Effect, down: &[String]) {
    let actions = trace.lines().find_map(|line| line.strip_prefix("Datapath actions: "));
    let actions = actions.unwrap_or_else(|| panic!("the trace has no actions:\n{trace}"));
    // What ct() would find is not looked up.
    let open =
        ["check_pkt_len", "meter("].iter().any(|word| actions.contains(word)) || trace.contains("resume conntrack");
    let may_meet_itself = packet[..6] == packet[6..12]
        || ["eth_dst", "eth_src", "ETH_DST", "ETH_SRC"].iter().any(|word| trace.contains(word));
    // Whether a flow would be learned depends on those that were.
    let learns = trace.contains("suppressing side effects") && trace.contains("limit=");
    if open || learns || trace.contains("NORMAL") && may_meet_itself {
        return;
    }
    let mut predicted: Vec<&str> = actions.split([',', '(', ')']).filter(|word| is_port(word)).collect();
    // A port that is down drops what is sent to it.
    predicted.retain(|word| !down.iter().any(|port| port == word));
    let mut seen: Vec<&str> = effect.outputs.iter().map(|(port, _)| port.as_str()).collect();
    predicted.sort_unstable();
    seen.sort_unstable();
    assert_eq!(predicted, seen, "ports that the trace named, and by which the packet left: {packet:02x?}\n{trace}");
}

fn is_port(word: &str) -> bool {
    word == crate::subject::BRIDGE || word.strip_prefix('p').is_some_and(|n| n.parse::<u32>().is_ok())
}
