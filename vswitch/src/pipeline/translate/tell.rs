//! The story of a translation, in the style of `ofproto/trace`.

use super::run::Translator;
use crate::pipeline::Rule;
use vswitch_flow::text::{NoNames, Style, format_actions, format_match};
use vswitch_flow::{Action, Subfield};

impl Translator<'_, '_> {
    /// In which bridge the packet is now.
    pub(super) fn tell_bridge(&mut self) {
        let name = &self.world.bridges[self.bridge].name;
        let line = format!("bridge({name:?})");
        self.say(|| line.clone());
        self.say(|| "-".repeat(line.len()));
    }

    /// What a table had for the packet.
    pub(super) fn tell_lookup(&mut self, table: u8, rule: Option<&Rule>) {
        let Some(rule) = rule else {
            self.say(|| format!("{table:2}. No match."));
            return;
        };
        let mut text = format!("{table:2}. ");
        format_match(&rule.matching, Style::default(), &NoNames, &mut text);
        if !text.ends_with(' ') {
            text.push_str(", ");
        }
        text.push_str(&format!("priority {}", rule.priority));
        if rule.cookie != 0 {
            text.push_str(&format!(", cookie {:#x}", rule.cookie));
        }
        self.say(|| text.clone());
    }

    /// An action that is about to be executed.
    pub(super) fn tell_action(&mut self, action: &Action) {
        let mut text = "    ".to_owned();
        format_actions(std::slice::from_ref(action), Style::default(), &NoNames, &mut text);
        self.say(|| text.clone());
    }

    /// What a subfield holds now.
    pub(super) fn tell_value(&mut self, to: Subfield) {
        if self.is_observed() {
            let value = self.key().get_sub(to);
            self.say(|| {
                format!("    -> {}[{}..{}] is now {value:#x}", to.field.name(), to.start, to.start + to.len - 1)
            });
        }
    }
}
