//! Connections as lines of text, so that two switches are compared.

/// How `vsctl` writes them.
#[allow(dead_code)]
#[path = "../../../../tools/vsctl/src/commands/conntrack/line.rs"]
mod vsctl;

/// A connection of our switch as a line.
pub(crate) fn line(connection: &vswitch_proto::v1::Connection) -> String {
    vsctl::line(connection, vsctl::Style::default())
}

/// Lines in one order, without times. What has less than a second left is left out: Open vSwitch
/// may show what has expired until it cleans up, as having 0 seconds.
pub(crate) fn normalise(lines: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = lines.iter().filter_map(|line| without_timeout(line)).collect();
    lines.sort();
    lines
}

/// The line without its timeout; none: it is 0.
fn without_timeout(line: &str) -> Option<String> {
    let Some((before, after)) = line.split_once("timeout=") else { return Some(line.to_owned()) };
    let (seconds, rest) = after.split_once(',').unwrap_or((after, ""));
    let text = format!("{before}{rest}");
    (seconds != "0").then(|| text.trim_end_matches(',').to_owned())
}

/// What came and what went, in lines.
pub(crate) fn changes(before: &[String], now: &[String]) -> Vec<String> {
    let gone = before.iter().filter(|line| !now.contains(line)).map(|line| format!("gone {line}"));
    // Two connections may look the same: count them.
    let count = |lines: &[String], line: &String| lines.iter().filter(|other| *other == line).count();
    let come = now.iter().filter(|line| count(now, line) != count(before, line)).map(|line| format!("now {line}"));
    gone.chain(come).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_without_their_times() {
        let lines = [
            "udp,orig=(src=1.1.1.1),zone=5,timeout=17",
            "tcp,timeout=30,protoinfo=(state=SYN_SENT)",
            "icmp,timeout=0,mark=5",
        ];
        let lines = normalise(&lines.map(str::to_owned));
        assert_eq!(lines, ["tcp,protoinfo=(state=SYN_SENT)", "udp,orig=(src=1.1.1.1),zone=5"]);
        assert_eq!(changes(&lines, &lines[1..]), ["gone tcp,protoinfo=(state=SYN_SENT)"]);
        assert_eq!(changes(&lines[1..], &lines), ["now tcp,protoinfo=(state=SYN_SENT)"]);
        let twice = [lines[0].clone(), lines[0].clone()];
        assert_eq!(changes(&twice[..1], &twice).len(), 2);
    }
}
