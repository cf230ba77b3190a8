//! What is done to a switch: a list of steps, one a line, as text (`cases/README.md` has the
//! language).

use crate::frame::{self, Names};
use crate::record::unhex;
use crate::subject::LOCAL;
use crate::tunnels::Tunnelling;

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `flow LINE`. Consecutive ones are added in one transaction.
    Flow(String),
    /// `ctl [OPTIONS] VERB [ARGUMENT]`: a command of ovs-ofctl. What it prints is recorded.
    Control(Command),
    /// `table NUMBER NAME`
    Table(u8, String),
    /// `port NUMBER up|down|flood|no-flood|receive|no-receive|forward|no-forward`
    Port(u32, PortChange),
    /// `packet PORT DESCRIPTION`
    Packet { port: u32, text: String, bytes: Vec<u8> },
    /// `packet-out TEXT`, where `{DESCRIPTION}` stands for a packet's bytes.
    PacketOut { text: String, expanded: String, bytes: Vec<u8> },
    /// `resume`
    Resume,
    /// `warp MILLISECONDS`
    Warp(u64),
    /// `document`: adds the flows of the published pipeline (`document.rs`).
    Document,
    /// `behind MODE`: `br1` has the groups and flows of a real OVN in this mode (`behind.rs`).
    Behind(String),
    /// `watch`: after each step from here on, what became of the connections is recorded.
    Watch,
    /// `connections`: records them all.
    Connections,
    /// `conntrack VERB [ARGUMENTS]`: a command of `ovs-appctl dpctl/...`. What it prints is
    /// recorded.
    Conntrack(String),
    /// `tunnel ...`, `address ...`, ... (`tunnels.rs`)
    Tunnelling(Tunnelling),
    /// `counters NUMBER`: records packets and bytes that a tunnel port has received.
    Counters(u32),
}

/// A command of ovs-ofctl and vsctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Words before the verb that begin with `--`.
    pub(crate) options: Vec<String>,
    /// `del-flows`, ...
    pub(crate) verb: String,
    /// What follows the bridge.
    pub(crate) argument: Option<String>,
    /// What it reads from standard input: what followed `<<` in the line, `;;` between lines.
    pub(crate) input: Option<String>,
}

/// What can happen to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortChange {
    Up,
    Down,
    Flood,
    NoFlood,
    Receive,
    NoReceive,
    Forward,
    NoForward,
}

impl PortChange {
    const ALL: [(&'static str, Self); 8] = [
        ("up", Self::Up),
        ("down", Self::Down),
        ("flood", Self::Flood),
        ("no-flood", Self::NoFlood),
        ("receive", Self::Receive),
        ("no-receive", Self::NoReceive),
        ("forward", Self::Forward),
        ("no-forward", Self::NoForward),
    ];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, other)| *other == self).map_or("", |(word, _)| word)
    }

    /// A port is so at first.
    pub(crate) fn is_default(self) -> bool {
        matches!(self, Self::Up | Self::Flood | Self::Receive | Self::Forward)
    }

    /// The change that takes this one back.
    pub(crate) fn undone(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::Flood => Self::NoFlood,
            Self::NoFlood => Self::Flood,
            Self::Receive => Self::NoReceive,
            Self::NoReceive => Self::Receive,
            Self::Forward => Self::NoForward,
            Self::NoForward => Self::Forward,
        }
    }
}

impl Step {
    /// Parses a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(line: &str, names: &Names) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        let wrong = || format!("{line:?}: no step");
        Ok(match word {
            "flow" => Self::Flow(rest.to_owned()),
            "ctl" => Self::Control(Command::parse(rest)),
            "table" => {
                let (number, name) = rest.split_once(' ').ok_or_else(wrong)?;
                Self::Table(number.parse().map_err(|_| wrong())?, name.to_owned())
            }
            "port" => {
                let (number, change) = rest.split_once(' ').ok_or_else(wrong)?;
                let change = PortChange::ALL.iter().find(|(word, _)| *word == change).ok_or_else(wrong)?.1;
                Self::Port(port(number).ok_or_else(wrong)?, change)
            }
            "packet" => {
                let (number, text) = rest.split_once(' ').ok_or_else(wrong)?;
                Self::Packet {
                    port: port(number).ok_or_else(wrong)?,
                    text: text.to_owned(),
                    bytes: frame::parse(text, names)?,
                }
            }
            "packet-out" => {
                let (before, inner) = rest.split_once('{').ok_or_else(wrong)?;
                let (inner, after) = inner.split_once('}').ok_or_else(wrong)?;
                let bytes = frame::parse(inner, names)?;
                let expanded = format!("{before}{}{after}", crate::record::hex(&bytes));
                Self::PacketOut { text: rest.to_owned(), expanded, bytes }
            }
            "resume" => Self::Resume,
            "warp" => Self::Warp(rest.parse().map_err(|_| wrong())?),
            "document" => Self::Document,
            "behind" => Self::Behind(rest.to_owned()),
            "watch" => Self::Watch,
            "connections" => Self::Connections,
            "conntrack" => Self::Conntrack(rest.to_owned()),
            "counters" => Self::Counters(rest.parse().map_err(|_| wrong())?),
            _ => Self::Tunnelling(Tunnelling::parse(line).ok_or_else(wrong)?),
        })
    }

    /// A packet's step.
    pub(crate) fn packet(port: u32, bytes: Vec<u8>) -> Self {
        Self::Packet { port, text: frame::describe(&bytes), bytes }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |port: u32| if port == LOCAL { "LOCAL".to_owned() } else { port.to_string() };
        match self {
            Self::Flow(line) => write!(f, "flow {line}"),
            Self::Control(command) => write!(f, "ctl {command}"),
            Self::Table(table, name) => write!(f, "table {table} {name}"),
            Self::Port(port, change) => {
                write!(f, "port {} {}", number(*port), change.word())
            }
            Self::Packet { port, text, .. } => write!(f, "packet {} {text}", number(*port)),
            Self::PacketOut { text, .. } => write!(f, "packet-out {text}"),
            Self::Resume => write!(f, "resume"),
            Self::Warp(ms) => write!(f, "warp {ms}"),
            Self::Document => write!(f, "document"),
            Self::Behind(mode) => write!(f, "behind {mode}"),
            Self::Watch => write!(f, "watch"),
            Self::Connections => write!(f, "connections"),
            Self::Conntrack(command) => write!(f, "conntrack {command}"),
            Self::Tunnelling(tunnelling) => write!(f, "{tunnelling}"),
            Self::Counters(port) => write!(f, "counters {port}"),
        }
    }
}

impl Command {
    /// Parses `--strict del-flows table=1,ip`, `replace-flows << LINE ;; LINE`.
    pub(crate) fn parse(text: &str) -> Self {
        let (text, input) = match text.split_once("<<") {
            Some((text, input)) => {
                let lines = input.split(";;").map(str::trim).collect::<Vec<_>>();
                (text.trim(), Some(lines.join("\n")))
            }
            None => (text, None),
        };
        let mut options = Vec::new();
        let mut rest = text;
        while rest.starts_with("--") {
            let (option, after) = rest.split_once(' ').unwrap_or((rest, ""));
            options.push(option.to_owned());
            rest = after.trim_start();
        }
        let (verb, mut argument) = rest.split_once(' ').unwrap_or((rest, ""));
        while argument.starts_with("--") {
            let (option, after) = argument.split_once(' ').unwrap_or((argument, ""));
            options.push(option.to_owned());
            argument = after.trim_start();
        }
        let argument = Some(argument.trim().to_owned()).filter(|argument| !argument.is_empty());
        Self { options, verb: verb.to_owned(), argument, input }
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for option in &self.options {
            write!(f, "{option} ")?;
        }
        write!(f, "{}", self.verb)?;
        if let Some(argument) = &self.argument {
            write!(f, " {argument}")?;
        }
        if let Some(input) = &self.input {
            write!(f, " << {}", input.replace('\n', " ;; "))?;
        }
        Ok(())
    }
}

fn port(text: &str) -> Option<u32> {
    if text == "LOCAL" { Some(LOCAL) } else { text.parse().ok() }
}

/// Checks that hexadecimal in a packet description survives; used by the parser's own test.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_parses_to_the_same_step() {
        let lines = [
            "flow table=1,priority=5,ip actions=output:2",
            "ctl --strict del-flows table=1,ip",
            "ctl replace-flows << table=1,ip actions=drop ;; table=2 actions=output:1",
            "ctl dump-flows",
            "table 3 Classifier",
            "port 2 down",
            "packet LOCAL udp src=10.0.0.9 vlan=5:3 ttl=1",
            "packet-out in_port=1,packet={tcp flags=0x2},actions=output:2",
            "resume",
            "warp 1500",
            "document",
            "watch",
            "connections",
            "conntrack flush-conntrack zone=5",
            "tunnel 11 geneve remote_ip=flow",
            "counters 11",
            "packet 3 ~web src=10.0.0.7 flags=SA",
            "packet 3 icmp icmp=3:3 quote=(web flags=S)",
        ];
        let web = frame::frame("tcp dport=80", &Names::new()).expect("a packet");
        let names = Names::from([("web".to_owned(), web)]);
        for line in lines {
            assert_eq!(Step::parse(line, &names).map(|step| step.to_string()), Ok(line.to_owned()));
        }
        for wrong in ["packet 1 udp tll", "packet 1 nobody", "nonsense"] {
            assert!(Step::parse(wrong, &names).is_err(), "{wrong}");
        }
        assert_eq!(unhex("0aff"), Some(vec![10, 255]));
    }
}
