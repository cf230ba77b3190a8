//! `[conntrack]`, `[[conntrack.zone]]` and `[antrea]`.

use super::document::{Section, Span};
use super::parse::Walk;
use super::place::ConfigKey;
use super::report::Problem;
use super::value::ZoneConfig;
use super::values::path;
use crate::timeouts;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use toml::de::{DeTable, DeValue};
use vswitch_dataplane::limits;

/// Numbers of zones.
const ZONES: RangeInclusive<i128> = 0..=u16::MAX as i128;

/// Limits of zones; 0: no connections.
const LIMITS: RangeInclusive<i128> = 0..=u32::MAX as i128;

/// Seconds.
const TIMEOUTS: RangeInclusive<i128> = 1..=u32::MAX as i128;

impl Walk<'_> {
    pub(super) fn conntrack(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "conntrack", "[conntrack]");
        let (reader, conntrack) = (&mut self.reader, &mut self.config.conntrack);
        let connections = *limits::CONNECTIONS.start() as i128..=*limits::CONNECTIONS.end() as i128;
        conntrack.connections = section.integer(reader, "connections", &connections).unwrap_or(conntrack.connections);
        conntrack.tcp_seq_check = section.boolean(reader, "tcp_seq_check").unwrap_or(true);
        conntrack.port_shares = section.boolean(reader, "port_shares").unwrap_or(true);
        conntrack.default_limit = section.integer(reader, "default_limit", &LIMITS);
        conntrack.state_file = path(&mut section, reader, "state_file", "/var/lib/vswitch/connections");
        let known = ["connections", "tcp_seq_check", "port_shares", "default_limit", "state_file", "zone"];
        section.finish(reader, &known, &known);
        section.record(reader, &mut self.places, ConfigKey::Conntrack);
        let mut first: HashMap<u16, Span> = HashMap::new();
        for (table, header) in self.tables(&mut section, "zone", "[[conntrack.zone]]") {
            let Some((zone, span)) = self.zone(table, header) else { continue };
            if let Some(first) = first.get(&zone.zone) {
                let problem = format!("zone {} exists already, first at {}", zone.zone, self.reader.locate(first));
                self.reader.wrong(&span, "zone", problem, "give a zone once");
                continue;
            }
            first.insert(zone.zone, span);
            self.config.conntrack.zones.push(zone);
        }
    }

    pub(super) fn antrea(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "antrea", "[antrea]");
        let reader = &mut self.reader;
        self.config.antrea.state_dir = path(&mut section, reader, "state_dir", "/var/lib/vswitch/antrea");
        section.finish(reader, &["state_dir"], &["state_dir"]);
        section.record(reader, &mut self.places, ConfigKey::Antrea);
    }

    /// One zone and where its number stands; none without a number.
    fn zone(&mut self, table: &DeTable<'_>, header: Span) -> Option<(ZoneConfig, Span)> {
        let mut section = Section::new("[[conntrack.zone]]", header, Some(table));
        let reader = &mut self.reader;
        let number = section.integer(reader, "zone", &ZONES);
        if !section.has("zone") {
            reader.absent(&section.header, "zone", "missing", "every zone needs its number: zone = 1");
        }
        let limit = section.integer(reader, "limit", &LIMITS);
        let want = ("a table of seconds", "{ udp_first = 60 }");
        let given = section.typed(reader, "timeouts", want, DeValue::as_table);
        let established_after_answer = section.boolean(reader, "established_after_answer").unwrap_or(false);
        let known = ["zone", "limit", "timeouts", "established_after_answer"];
        section.finish(reader, &known, &known);
        let span = section.span("zone");
        let timeouts = given.and_then(|(table, span)| self.timeouts(table, span));
        Some((ZoneConfig { zone: number?, limit, timeouts, established_after_answer }, span))
    }

    fn timeouts(&mut self, table: &DeTable<'_>, span: Span) -> Option<vswitch_conntrack::Policy> {
        let mut section = Section::new("timeouts", span, Some(table));
        let reader = &mut self.reader;
        let (shown, known): (Vec<_>, Vec<_>) = (timeouts::names().collect(), timeouts::all_names().collect());
        section.finish(reader, &known, &shown);
        let seconds: Vec<(&str, u32)> =
            known.iter().filter_map(|name| Some((*name, section.integer(reader, name, &TIMEOUTS)?))).collect();
        // Names and numbers are good: there are no errors.
        let (policy, _) = timeouts::policy("timeouts", seconds.iter().copied()).ok()?;
        for name in known.iter().filter(|name| !shown.contains(name)) {
            if let Some(at) = section.key(name) {
                let position = Some(reader.position(&at));
                reader.push(Problem::error(position, *name, timeouts::NO_EFFECT, "leave it out").warning());
            }
        }
        Some(policy)
    }
}
