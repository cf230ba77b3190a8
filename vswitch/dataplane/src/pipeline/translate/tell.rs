//! The story of a translation, in the style of `ofproto/trace`. Nothing here is done unless
//! somebody listens.

use super::LineKind;
use super::run::Translator;
use super::set::in_order;
use crate::limits::TRACE_LOOKS_MAX;
use crate::pipeline::{FailMode, Rule};
use std::cmp::Reverse;
use std::fmt::Write;
use vswitch_flow::spec::FlowSpec;
use vswitch_flow::text::{Style, format_actions, format_match, format_value};
use vswitch_flow::{Action, Field, FlowKey, FlowMask, SparseMatch, Subfield};

/// Rules whose mismatch is told when a table has none for the packet.
const NEAREST: usize = 3;

impl Translator<'_, '_> {
    /// In which bridge the packet is now.
    pub(super) fn tell_bridge(&mut self) {
        let name = &self.world.bridges[self.bridge].name;
        self.tell_node(LineKind::Bridge, || format!("bridge({name:?})"));
    }

    /// What a table had for the packet.
    pub(super) fn tell_lookup(&mut self, table: u8, rule: Option<&Rule>) {
        match rule {
            Some(rule) => {
                let text = self.rule_text(rule);
                self.tell_node(LineKind::Node, || format!("{table:2}. {text}"));
            }
            None => {
                self.tell_node(LineKind::Node, || format!("{table:2}. No match."));
                self.indent += 1;
                self.tell_nearest(table);
                let bridge = &self.world.bridges[self.bridge];
                // A bridge without any flow may yet be an Ethernet switch.
                if bridge.fail_mode == FailMode::Secure || !bridge.program.tables.is_empty() {
                    self.say(|| "    drop".to_owned());
                }
                self.indent -= 1;
            }
        }
    }

    fn rule_text(&self, rule: &Rule) -> String {
        let mut text = String::new();
        self.format(|style, names| format_match(&rule.matching, style, names, &mut text));
        if !text.is_empty() {
            text.push_str(", ");
        }
        let _ = write!(text, "priority {}", rule.priority);
        if rule.cookie != 0 {
            let _ = write!(text, ", cookie {:#x}", rule.cookie);
        }
        text
    }

    /// Why the table's highest rules did not match: which field of the packet was another one.
    fn tell_nearest(&mut self, table: u8) {
        let world = self.world;
        let program = &world.bridges[self.bridge].program;
        let learned = self.learned.get(usize::from(table)).and_then(Option::as_deref);
        let learned = learned.into_iter().flat_map(|table| table.rules.iter());
        let rules = program.table(table).into_iter().flat_map(|table| table.rules.iter());
        let mut nearest: Vec<&Rule> = rules.chain(learned).take(TRACE_LOOKS_MAX).map(|entry| &*entry.data).collect();
        nearest.sort_by_key(|rule| (Reverse(rule.priority), differences(&rule.matching, self.key()).1));
        let lines: Vec<String> = nearest.iter().take(NEAREST).map(|rule| self.miss_text(rule)).collect();
        for line in lines {
            self.say(|| format!("     -> not {line}"));
        }
    }

    fn miss_text(&self, rule: &Rule) -> String {
        let mut text = self.rule_text(rule);
        match differences(&rule.matching, self.key()).0 {
            Some(field) => {
                let _ = write!(text, ": {} is ", field.name());
                let value = self.key().get(field);
                self.format(|style, names| format_value(field, value, field.ones(), style, names, &mut text));
            }
            // Flows of conjunctions match packets, but only together.
            None => text.push_str(": its conjunction lacks a clause, or has no flow for its conj_id"),
        }
        text
    }

    /// An action that is about to be executed.
    pub(super) fn tell_action(&mut self, action: &Action) {
        let mut text = "    ".to_owned();
        self.format(|style, names| format_actions(std::slice::from_ref(action), style, names, &mut text));
        self.say(|| text.clone());
    }

    /// What a learn action makes of the packet.
    pub(super) fn tell_learned(&mut self, flow: &FlowSpec) {
        let mut text = format!("table={} ", flow.table);
        self.format(|style, names| format_match(&flow.matching, style, names, &mut text));
        let _ = write!(text, " priority={}", flow.priority);
        if flow.cookie != 0 {
            let _ = write!(text, " cookie={:#x}", flow.cookie);
        }
        for (word, seconds) in [("idle", flow.idle_timeout), ("hard", flow.hard_timeout)] {
            if seconds != 0 {
                let _ = write!(text, " {word}={seconds}");
            }
        }
        text.push_str(if flow.flags.send_flow_rem { " send_flow_rem actions=" } else { " actions=" });
        self.format(|style, names| format_actions(&flow.actions, style, names, &mut text));
        self.detail(|| text.clone());
    }

    /// The action set.
    pub(super) fn tell_set(&mut self, is: &str) {
        if self.is_observed() {
            let mut text = format!("action set {is}: ");
            let actions = in_order(self.set.actions());
            self.format(|style, names| format_actions(&actions, style, names, &mut text));
            self.detail(|| text.clone());
        }
    }

    /// What a subfield holds now.
    pub(super) fn tell_value(&mut self, to: Subfield) {
        if self.is_observed() {
            let value = self.key().get_sub(to);
            let mut text = String::new();
            vswitch_flow::text::format_subfield(to, &mut text);
            self.say(|| format!("     -> {text} is now {value:#x}"));
        }
    }

    /// Formats something with the names of the present bridge.
    fn format(&self, print: impl FnOnce(Style, &dyn vswitch_flow::text::Names)) {
        if let Some(observer) = &self.observer {
            let names = observer.names(self.bridge);
            print(Style { names: names.is_some() }, names.unwrap_or(&vswitch_flow::text::NoNames));
        }
    }
}

/// The first field in which a packet differs from a match, and in how many words it does.
fn differences(matching: &SparseMatch, key: &FlowKey) -> (Option<Field>, u32) {
    let mut different = FlowMask::default();
    let mut words = 0;
    for (i, value, mask) in matching.iter() {
        different.0[i] = (key.0[i] ^ value) & mask;
        words += u32::from(different.0[i] != 0);
    }
    let arp = [Field::ArpSpa, Field::ArpTpa, Field::ArpOp];
    let names = [Field::EthType, Field::NwProto].into_iter().chain(Field::ALL.iter().copied());
    let is_arp = key.get(Field::EthType) == super::view::eth_type::ARP;
    let names = arp.into_iter().filter(|_| is_arp).chain(names);
    (names.into_iter().find(|field| different.get(*field) != 0), words)
}
