//! For the fuzz target `translate_execute`, and the tests that feed the same: programs, packets and
//! changes from any bytes, with caches and without.
//!
//! **Where in the walk**: around it. [`pair`] has the two switches, [`words`] what programs and
//! packets are made of.
//!
//! **Design**: a byte chooses one of the words, or says that fields, values and bits follow that
//! nobody has thought of. Each line goes through the parser; one that is refused changes nothing.
//! Flows of one table and priority never overlap, since which one wins is no promise.
//!
//! **Limits**: [`FLOWS_MAX`] flows at the start, [`STEPS_MAX`] steps.
//!
//! **Threads**: none.

pub(super) mod pair;
#[cfg(test)]
mod tests;
pub(super) mod words;

pub use pair::Tally;

use pair::{Step, compare};
use std::net::{Ipv4Addr, Ipv6Addr};
use vswitch_flow::Field;
use words::{ACTIONS, GROUPS, MATCHES};

/// Flows that a program begins with.
const FLOWS_MAX: u8 = 12;

/// Steps of a program.
const STEPS_MAX: usize = 40;

/// Choices below it are words; those above are made up.
const WORDS: u8 = 192;

/// The priority of the first flow whose match is made up.
const MADE_UP: usize = 300;

/// The bytes of a fuzzer, from front to back; behind the last one there are zeros.
struct Choices<'a> {
    bytes: &'a [u8],
    /// Flows with a match that is made up.
    made_up: usize,
    packets: Vec<Vec<u8>>,
}

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    fn port(&mut self) -> usize {
        1 + self.below(4)
    }

    fn field(&mut self) -> Field {
        Field::ALL[self.below(Field::ALL.len())]
    }

    fn number(&mut self, field: Field) -> u128 {
        let bytes = field.width().div_ceil(8);
        (0..bytes).fold(0, |number, _| number << 8 | u128::from(self.byte())) & field.ones()
    }

    /// `value/mask` of a field, or its value.
    fn value(&mut self, field: Field) -> String {
        let value = self.number(field);
        if self.byte() < 128 {
            return text(field, value);
        }
        let mask = self.number(field);
        format!("{}/{}", text(field, value & mask), text(field, mask))
    }

    /// Bits of a field: how long, and the text.
    fn bits(&mut self, field: Field, len: Option<u32>) -> (u32, String) {
        let width = field.width();
        let len = len.map_or_else(|| 1 + u32::from(self.byte()) % width, |len| len.min(width));
        let start = u32::from(self.byte()) % (width - len + 1);
        (len, format!("{}[{start}..{}]", field.name(), start + len - 1))
    }

    /// A match, and the priority that belongs to it.
    fn matching(&mut self) -> (String, usize) {
        let choice = self.byte();
        if choice < WORDS {
            let which = usize::from(choice) % MATCHES.len();
            return (MATCHES[which].to_owned(), 100 + which);
        }
        self.made_up += 1;
        let mut parts = vec![(*MATCHES.get(self.below(12)).unwrap_or(&"")).to_owned()];
        for _ in 0..1 + choice % 3 {
            let field = self.field();
            parts.push(format!("{}={}", field.name(), self.value(field)));
        }
        parts.retain(|part| !part.is_empty());
        (parts.join(","), MADE_UP + self.made_up)
    }

    fn action(&mut self) -> String {
        let choice = self.byte();
        if choice < WORDS {
            return ACTIONS[usize::from(choice) % ACTIONS.len()].to_owned();
        }
        match choice % 6 {
            0 | 1 => {
                let field = self.field();
                format!("set_field:{}->{}", self.value(field), field.name())
            }
            2 => {
                let field = self.field();
                let (_, bits) = self.bits(field, None);
                format!("load:{:#x}->{bits}", self.byte())
            }
            3 => {
                let (from, to) = (self.field(), self.field());
                let (len, source) = self.bits(from, None);
                if len > to.width() {
                    return "note:02".to_owned();
                }
                format!("move:{source}->{}", self.bits(to, Some(len)).1)
            }
            4 => format!("resubmit({},{})", self.port(), self.below(5)),
            _ => format!("clone({},output:{})", ACTIONS[self.below(ACTIONS.len())], self.port()),
        }
    }

    fn flow(&mut self) -> String {
        let head = self.byte();
        let (matching, priority) = self.matching();
        let actions: Vec<String> = (0..1 + self.below(4)).map(|_| self.action()).collect();
        let actions = if actions.iter().any(|one| one == "drop") { "drop".to_owned() } else { actions.join(",") };
        let idle = if head & 4 == 0 { "" } else { "idle_timeout=4," };
        let comma = if matching.is_empty() { "" } else { "," };
        format!("table={},priority={priority},{idle}{matching}{comma}actions={actions}", head % 4)
    }

    /// One of the packets, with a few bytes changed, and cut.
    fn packet(&mut self) -> Vec<u8> {
        let which = self.below(self.packets.len());
        let mut packet = self.packets[which].clone();
        let changes = self.byte();
        for _ in 0..changes % 4 {
            let (at, byte) = (self.below(packet.len()), self.byte());
            packet[at] = byte;
        }
        if changes >= 200 {
            packet.truncate(14 + self.below(packet.len().saturating_sub(13)));
        }
        packet
    }

    fn step(&mut self) -> Step {
        match self.byte() % 24 {
            0..12 => Step::Packets(self.port(), (0..1 + self.below(5)).map(|_| self.packet()).collect()),
            12..15 => Step::Flow(self.flow()),
            15 => Step::Delete(["ip", "tcp", ""][self.below(3)], self.byte() % 4),
            16 => Step::Group(self.below(GROUPS.len())),
            17 => Step::Link(self.port(), self.byte() & 1 != 0),
            18 => Step::Flag(self.port(), self.byte() & 1 != 0),
            19 => Step::Renumber(self.port(), self.port()),
            20 => Step::Again(self.below(16)),
            21 | 22 => Step::Time([0, 1, 900, 2500, 11_000][self.below(5)]),
            _ => Step::Tend,
        }
    }
}

/// A value as flow text has it.
fn text(field: Field, value: u128) -> String {
    match field.width() {
        48 => value.to_be_bytes()[10..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        128 if field.name().contains("ip") || field == Field::NdTarget => Ipv6Addr::from(value).to_string(),
        32 if is_address(field) => Ipv4Addr::from(u32::try_from(value).unwrap_or(0)).to_string(),
        _ => format!("{value:#x}"),
    }
}

fn is_address(field: Field) -> bool {
    use Field as F;
    let addresses = [F::NwSrc, F::NwDst, F::ArpSpa, F::ArpTpa, F::TunSrc, F::TunDst, F::CtNwSrc, F::CtNwDst];
    addresses.contains(&field)
}

/// The program and the steps that bytes say.
fn program(bytes: &[u8]) -> (Vec<String>, Vec<Step>) {
    let mut choices = Choices { bytes, made_up: 0, packets: words::packets() };
    let start = (0..1 + choices.byte() % FLOWS_MAX).map(|_| choices.flow()).collect();
    let mut steps = Vec::new();
    while !choices.bytes.is_empty() && steps.len() < STEPS_MAX {
        steps.push(choices.step());
    }
    (start, steps)
}

/// Any bytes are a program and what happens to it. Returns how packets were decided.
///
/// # Panics
/// When caches change anything that can be seen: packets that leave, packet-ins, counters, flows,
/// groups, connections; or when a packet buffer is left behind.
pub fn translate_execute(bytes: &[u8]) -> Tally {
    let (start, steps) = program(bytes);
    match compare(&start, &steps) {
        Ok(tally) => tally,
        Err(found) => panic!("{found}"),
    }
}
