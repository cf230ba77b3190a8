//! Reads the keys of a bridge's program (`program`), and judges programs when the file is known.

use super::document::{Reader, Section, Span, quoted, type_of};
use super::parse::Walk;
use super::program::{
    BridgeProgram, FileNames, KEYS, PIPELINE_KEYS, PipelineText, ProgramEntry, StaticMac, TextProblem,
};
use super::values::mac;
use crate::info::is_table_name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use toml::de::DeValue;
use vswitch_dataplane::pipeline::Changes;
use vswitch_dataplane::pipeline::state::PipelineState;
use vswitch_overlay::options::{self, Mapping};

impl Walk<'_> {
    /// Reads the program of the bridge that was read last.
    pub(super) fn program(&mut self, section: &mut Section<'_, '_>) {
        if !KEYS.iter().any(|key| section.has(key)) {
            return;
        }
        let macs = self.static_macs(section);
        let reader = &mut self.reader;
        let (tables, options) = (tables(section, reader), mappings(section, reader));
        let mut spans: [Vec<Span>; 3] = Default::default();
        let lists: [Option<Vec<String>>; 3] = std::array::from_fn(|list| {
            let key = PIPELINE_KEYS[list];
            let (texts, places) = lines(section, reader, key)?.into_iter().unzip();
            spans[list] = places;
            Some(texts)
        });
        let has_pipeline = lists.iter().any(Option::is_some);
        let [meters, groups, flows] = lists.map(Option::unwrap_or_default);
        let pipeline = has_pipeline.then_some(PipelineText { meters, groups, flows });
        let program = BridgeProgram { tables, options, macs, pipeline };
        self.programs.push(ProgramEntry { bridge: self.config.bridges.len() - 1, program, spans });
    }

    fn static_macs(&mut self, section: &mut Section<'_, '_>) -> Option<BTreeSet<StaticMac>> {
        if !section.has("static_macs") {
            return None;
        }
        let mut macs = BTreeSet::new();
        for (table, header) in self.tables(section, "static_macs", "static_macs = [{ port, mac }]") {
            let mut own = Section::new("static_macs", header, Some(table));
            let reader = &mut self.reader;
            let port = own.string(reader, "port", "p0");
            let vlan = own.integer(reader, "vlan", &(0..=4095)).unwrap_or(0);
            let mac = mac(&mut own, reader);
            for key in ["port", "mac"] {
                if !own.has(key) {
                    reader.absent(&own.header, key, "missing", "write { port = \"p0\", mac = \"02:00:00:00:00:01\" }");
                }
            }
            if let Some(group) = mac.filter(|mac| mac.is_multicast()) {
                reader.wrong(&own.span("mac"), "mac", format!("{group} is a group address"), "use a host's address");
            }
            own.finish(reader, &["port", "vlan", "mac"], &["port", "vlan", "mac"]);
            let (Some(port), Some(mac)) = (port, mac) else { continue };
            macs.insert(StaticMac { port, vlan, mac });
        }
        Some(macs)
    }

    /// Judges all programs, when the whole file is known; says nothing if something else is wrong.
    pub(super) fn judge_programs(&mut self) {
        for entry in std::mem::take(&mut self.programs) {
            let ProgramEntry { bridge, program, spans } = entry;
            let (config, ports) = &self.config.bridges[bridge];
            let names = FileNames::new(&config.name, ports, program.tables.as_ref());
            let options = program.options.as_deref().unwrap_or_default();
            if let (Some(text), false) = (&program.pipeline, self.reader.has_errors()) {
                for TextProblem { list, index, column, problem, hint } in
                    text.judged(&names, options).err().unwrap_or_default()
                {
                    let key = PIPELINE_KEYS[list];
                    let whole = spans[list].get(index).cloned().unwrap_or(0..0);
                    let span = self.reader.inside(&whole, &text.lists()[list][index], column);
                    let hint = if hint.is_empty() { "see docs/flows.md".to_owned() } else { hint };
                    self.reader.wrong(&span, key, problem, hint);
                }
            }
            for mac in program.macs.iter().flatten() {
                if !ports.iter().any(|port| port.name == mac.port) && !self.reader.has_errors() {
                    let problem = format!("bridge {} has no port named {}", config.name, quoted(&mac.port));
                    self.reader.wrong(&(0..0), "static_macs", problem, "name a port of the bridge");
                }
            }
            self.config.programs.insert(config.name.clone(), program);
        }
    }
}

/// Texts with their places.
fn lines(section: &mut Section<'_, '_>, reader: &mut Reader<'_>, key: &'static str) -> Option<Vec<(String, Span)>> {
    let want = ("an array of strings", "[\"...\"]");
    section.array(reader, key, want, |reader, value, span| {
        let text = value.as_str().filter(|text| !text.contains(['\0', '\n']));
        if text.is_none() {
            let problem = match value {
                DeValue::String(_) => "contains a NUL character or the end of a line".to_owned(),
                other => format!("contains {}, must be an array of strings", type_of(other)),
            };
            reader.wrong(span, key, problem, format!("write {key} = [\"...\", \"...\"]"));
        }
        text.map(str::to_owned)
    })
}

/// `tables = { 0 = "Classifier" }`.
fn tables(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Option<BTreeMap<u8, String>> {
    let key = "tables";
    let (table, _) = section.typed(reader, key, ("a table of names", "{ 0 = \"first\" }"), DeValue::as_table)?;
    let mut names: BTreeMap<u8, String> = BTreeMap::new();
    for (number, name) in table {
        let at = name.span();
        let Some(number) = number.get_ref().parse::<u8>().ok().filter(|number| *number <= 253) else {
            let problem = format!("{} is no table", quoted(number.get_ref()));
            reader.wrong(&number.span(), key, problem, "use 0 to 253");
            continue;
        };
        let Some(text) = name.get_ref().as_str().filter(|text| is_table_name(text)) else {
            let hint = "use a letter or _, then letters, digits, _ . -: 31 characters at most, and not all";
            reader.wrong(&at, key, format!("the name of table {number} is none"), hint);
            continue;
        };
        if let Some((other, _)) = names.iter().find(|(_, taken)| *taken == text) {
            reader.wrong(&at, key, format!("{} is table {other}", quoted(text)), "give each table its own name");
            continue;
        }
        names.insert(number, text.to_owned());
    }
    Some(names)
}

/// `tlv_map = ["{class=0xffff,type=0,len=4}->tun_metadata0"]`.
fn mappings(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Option<Vec<Mapping>> {
    let key = "tlv_map";
    let example = "[\"{class=0xffff,type=0,len=4}->tun_metadata0\"]";
    let texts = lines(section, reader, key)?;
    let mut state = PipelineState::new(&Arc::<Changes>::default());
    let mut mappings = Vec::new();
    for (text, span) in texts {
        let read = options::parse(&text).and_then(|read| state.add_options(&read).map(|()| read));
        match read {
            Ok(read) => mappings.extend(read),
            Err(error) => reader.wrong(&span, key, error.to_string(), format!("write {key} = {example}")),
        }
    }
    mappings.sort_by_key(|mapping| mapping.field);
    Some(mappings)
}
