//! Runs scenarios on a switch and writes down what it did.

use crate::connections;
use crate::masks::Decision;
use crate::record::Effect;
use crate::scenario::{Command, Step};
use crate::subject::Subject;
use crate::tunnels::{TunnelPorts, port_name, received};

/// What a switch did: lines per step, and its dumps at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) steps: Vec<Vec<String>>,
    pub(crate) end: Vec<String>,
    /// What was decided in each step, if that was asked for. Not compared with the rest.
    pub(crate) decisions: Vec<Vec<Decision>>,
}

/// Print what is refused, and faults of masks, in full.
const VERBOSE: &str = "VSWITCH_DIFF_VERBOSE";

/// The dumps at the end of a scenario.
const DUMPS: [&str; 5] = ["dump-flows", "dump-groups", "dump-group-stats", "dump-meters", "meter-stats"];

/// Runs steps on a switch as it was at first.
pub(crate) fn run(subject: &mut dyn Subject, steps: &[Step]) -> Record {
    subject.reset();
    subject.expect_packet_ins(may_tell_controllers(steps));
    let tunnels = TunnelPorts::of(steps.iter().filter_map(|step| match step {
        Step::Tunnelling(tunnelling) => Some(tunnelling),
        _ => None,
    }));
    let mut run = Run { subject, record: Record::default(), sent: &[], removed: Vec::new(), watched: None, tunnels };
    let mut flows: Vec<&str> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let mut lines = Vec::new();
        run.record.decisions.push(Vec::new());
        if let Step::Flow(line) = step {
            flows.push(line);
            if !matches!(steps.get(i + 1), Some(Step::Flow(_))) {
                let result = run.subject.add_flows(&flows);
                run.outcome(step, result, &mut lines);
                flows.clear();
            }
        } else {
            run.step(step, &mut lines);
            run.watch(&mut lines);
        }
        run.record.steps.push(lines);
    }
    run.end()
}

/// Whether steps may cause packet-ins: otherwise they are only looked for at the end.
fn may_tell_controllers(steps: &[Step]) -> bool {
    let texts = steps.iter().filter(|step| !matches!(step, Step::Packet { .. })).map(ToString::to_string);
    let words = ["controller", "CONTROLLER", "dec_ttl(", "0xfffd", "document"];
    texts.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
}

/// What a dump prints, normalised.
pub(crate) fn dump(subject: &mut dyn Subject, options: &[&str], verb: &str) -> Vec<String> {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let command = Command { options, verb: verb.to_owned(), argument: None, input: None };
    match subject.control(&command) {
        Ok((printed, _)) => normalise(&printed, true),
        Err(error) => panic!("{verb} failed on {}: {error}", subject.name()),
    }
}

struct Run<'a> {
    subject: &'a mut dyn Subject,
    record: Record,
    /// The last packet that was sent.
    sent: &'a [u8],
    /// Flow-removed events so far. When they come is not compared.
    removed: Vec<String>,
    /// The connections as they were when they were last looked at, if they are watched.
    watched: Option<Vec<String>>,
    tunnels: TunnelPorts,
}

impl<'a> Run<'a> {
    fn step(&mut self, step: &'a Step, lines: &mut Vec<String>) {
        if let Step::Packet { bytes, .. } | Step::PacketOut { bytes, .. } = step {
            self.sent = bytes;
        }
        let effect = match step {
            Step::Flow(_) => Effect::default(),
            Step::Table(number, name) => {
                self.subject.name_table(*number, name);
                Effect::default()
            }
            Step::Control(command) => match self.subject.control(command) {
                Ok((printed, effect)) => {
                    let sorted = !command.options.iter().any(|option| option.contains("sort"));
                    let printed = normalise(&printed, sorted);
                    // How much room there is for options is a switch's own affair.
                    let of_map = command.verb == "dump-tlv-map";
                    lines.extend(printed.into_iter().filter(|line| !of_map || line.starts_with("0x")));
                    effect
                }
                Err(error) => return lines.push(refusal(step, &error)),
            },
            Step::PacketOut { expanded, .. } => {
                let result = self.subject.packet_out(expanded);
                return self.outcome(step, result, lines);
            }
            Step::Port(port, change) => self.subject.change_port(*port, *change),
            Step::Packet { port, bytes, .. } => self.subject.packet(*port, bytes),
            Step::Resume => self.subject.resume(),
            Step::Warp(ms) => self.subject.warp(*ms),
            Step::Document => {
                let flows = crate::document::flows();
                let result = self.subject.add_flows(&flows.iter().map(String::as_str).collect::<Vec<_>>());
                return self.outcome(step, result, lines);
            }
            Step::Behind(mode) => match self.subject.load_behind(mode) {
                Ok(()) => Effect::default(),
                Err(error) => return lines.push(refusal(step, &error)),
            },
            Step::Watch => {
                self.watched = Some(connections::normalise(&self.subject.connections()));
                Effect::default()
            }
            Step::Connections => {
                lines.extend(connections::normalise(&self.subject.connections()));
                Effect::default()
            }
            Step::Conntrack(command) => {
                let mut words = command.split_whitespace();
                let verb = words.next().unwrap_or_default();
                match self.subject.conntrack(verb, &words.collect::<Vec<_>>()) {
                    Ok(printed) => lines.extend(normalise(&printed, true)),
                    Err(error) => lines.push(refusal(step, &error)),
                }
                Effect::default()
            }
            Step::Tunnelling(tunnelling) => match self.subject.tunnel(tunnelling) {
                Ok((printed, effect)) => {
                    lines.extend(tunnelling.lines(&printed));
                    effect
                }
                Err(error) => return lines.push(refusal(step, &error)),
            },
            Step::Counters(number) => {
                match self.subject.control(&Command::parse(&format!("dump-ports {}", port_name(*number)))) {
                    Ok((printed, _)) => lines.push(received(&printed)),
                    Err(error) => lines.push(refusal(step, &error)),
                }
                Effect::default()
            }
        };
        self.happened(effect, lines);
    }

    /// Adds what became of the connections, if they are watched.
    fn watch(&mut self, lines: &mut Vec<String>) {
        if let Some(before) = &mut self.watched {
            let now = connections::normalise(&self.subject.connections());
            lines.extend(connections::changes(before, &now));
            *before = now;
        }
    }

    fn outcome(&mut self, step: &Step, result: Result<Effect, String>, lines: &mut Vec<String>) {
        match result {
            Ok(effect) => self.happened(effect, lines),
            Err(error) => lines.push(refusal(step, &error)),
        }
    }

    fn happened(&mut self, mut effect: Effect, lines: &mut Vec<String>) {
        let packets = effect.outputs.iter_mut().map(|(_, packet)| packet);
        packets
            .chain(effect.packet_ins.iter_mut().map(|event| &mut event.packet))
            .for_each(|packet| self.tunnels.normalise(packet));
        lines.extend(effect.lines(self.sent));
        self.record.decisions.last_mut().into_iter().for_each(|all| all.append(&mut effect.decisions));
        self.removed.extend(effect.removed);
    }

    fn end(mut self) -> Record {
        let mut lines = Vec::new();
        let rest = self.subject.rest();
        self.happened(rest, &mut lines);
        self.removed.sort();
        lines.extend(self.removed.iter().map(|removed| format!("flow-removed {removed}")));
        lines.extend(connections::normalise(&self.subject.connections()));
        for verb in DUMPS {
            lines.extend(dump(self.subject, &[], verb));
        }
        self.record.end = lines;
        self.record
    }
}

/// Whether everything is to be printed.
pub(crate) fn is_verbose() -> bool {
    std::env::var_os(VERBOSE).is_some()
}

/// `refused`, and the name that OpenFlow or Open vSwitch has for the error, if the message has one.
fn refusal(step: &Step, error: &str) -> String {
    if is_verbose() {
        eprintln!("{step}: {error}");
    }
    let words = error.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
    let code = words
        .filter(|word| word.starts_with("OFP") || word.starts_with("NX"))
        .find(|word| word.contains('_') && !["OFPT_", "OFPST_", "NXM_"].iter().any(|other| word.starts_with(other)));
    code.map_or_else(|| "refused".to_owned(), |code| format!("refused {code}"))
}

/// Lines of a dump without times, sorted if wanted. Bands of a meter follow it in its line.
fn normalise(printed: &str, sorted: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in printed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("OFPST_") || line.starts_with("NXST_") {
            continue;
        }
        let continues =
            line.starts_with("type=") || line.split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        match lines.last_mut().filter(|_| continues) {
            Some(last) => *last += &format!(" {line}"),
            None => lines.push(without_times(line)),
        }
    }
    if sorted {
        lines.sort();
    }
    lines
}

fn without_times(line: &str) -> String {
    let mut text = line.to_owned();
    for key in ["duration=", "duration:", "idle_age=", "hard_age="] {
        let Some(at) = text.find(key) else { continue };
        let len = text[at..].find([',', ' ']).unwrap_or(text.len() - at);
        let tail = text[at + len..].trim_start_matches([',', ' ']).to_owned();
        text.truncate(at);
        text += &tail;
    }
    text
}
