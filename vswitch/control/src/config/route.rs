//! `[[route]]`: ways to the other ends of tunnels.

use super::document::{Reader, Section, Span, quoted};
use super::parse::Walk;
use super::place::ConfigKey;
use crate::RouteConfig;
use std::str::FromStr;
use toml::de::DeTable;
use vswitch_overlay::routes::ROUTES_MAX;

impl Walk<'_> {
    pub(super) fn routes(&mut self, tables: Vec<(&DeTable<'_>, Span)>) {
        for (count, (table, header)) in tables.into_iter().enumerate() {
            if count == ROUTES_MAX {
                let problem = format!("the limit of {count} routes is reached");
                return self.reader.wrong(&header, "route", problem, "use fewer; this and the following are ignored");
            }
            let mut section = Section::new("[[route]]", header, Some(table));
            if let Some(route) = self.route(&mut section) {
                let index = self.config.routes.len();
                section.record(&self.reader, &mut self.places, |key| ConfigKey::Route(index, key));
                self.config.routes.push(route);
            }
        }
    }

    fn route(&mut self, section: &mut Section<'_, '_>) -> Option<RouteConfig> {
        let reader = &mut self.reader;
        let prefix = read(section, reader, "prefix", "10.0.0.0/8");
        let port = section.string(reader, "port", "br-ex");
        let gateway = read(section, reader, "gateway", "192.168.1.254");
        let source = read(section, reader, "source", "192.168.1.1");
        for (key, hint) in [
            ("prefix", "every route needs one: prefix = \"10.0.0.0/8\""),
            ("port", "every route needs a port with addresses: port = \"br-ex\""),
        ] {
            if !section.has(key) {
                reader.absent(&section.header, key, "missing", hint);
            }
        }
        let known = ["prefix", "port", "gateway", "source"];
        section.finish(reader, &known, &known);
        Some(RouteConfig { prefix: prefix?, port: port?, gateway, source })
    }
}

/// A string that is an address or a prefix.
fn read<T: FromStr>(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    key: &'static str,
    example: &str,
) -> Option<T> {
    let text = section.string(reader, key, example)?;
    let parsed = text.parse().ok();
    if parsed.is_none() {
        let problem = format!("{} is no address", quoted(&text));
        reader.wrong(&section.span(key), key, problem, format!("write {key} = {example:?}"));
        section.refuse(key);
    }
    parsed
}
