//! `[paths]`, `[process]` and `[debug]`: what clients and the process itself may do. `[saved]`:
//! what the switch says of a file that it writes itself.

use super::document::{Reader, Section, quoted};
use super::parse::{Walk, texts};
use super::value::Saved;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use vswitch_dpdk::capabilities::Capabilities;

/// The word for all of them.
const ALL: &str = "all";

impl Walk<'_> {
    pub(super) fn saved(&mut self, root: &mut Section<'_, '_>) {
        if !root.has("saved") {
            return;
        }
        let mut section = self.section(root, "saved", "[saved]");
        let reader = &mut self.reader;
        let file = section.string(reader, "file", "0").unwrap_or_default();
        let mut set = |reader: &mut Reader<'_>, key| BTreeSet::from_iter(texts(&mut section, reader, key, "port p0"));
        let (names, client_ports) = (set(reader, "names"), set(reader, "client_ports"));
        let known = ["file", "names", "client_ports"];
        section.finish(reader, &known, &known);
        self.config.saved = Some(Saved { file, names, client_ports });
    }

    pub(super) fn paths(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "paths", "[paths]");
        let (reader, paths) = (&mut self.reader, &mut self.config.paths);
        let known = ["sockets", "memif", "captures"];
        for (key, directories) in known.into_iter().zip([&mut paths.sockets, &mut paths.memif, &mut paths.captures]) {
            if !section.has(key) {
                continue;
            }
            let written = texts(&mut section, reader, key, "/run/vswitch");
            // A client could name all of the machine.
            if let Some(wrong) =
                written.iter().find(|path| !path.starts_with('/') || Path::new(path).parent().is_none())
            {
                let problem = format!("{} is no directory for clients", quoted(wrong));
                reader.wrong(&section.span(key), key, problem, "name absolute paths, and not /");
            }
            *directories = written.into_iter().map(PathBuf::from).collect();
        }
        section.finish(reader, &known, &known);
    }

    pub(super) fn debug(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "debug", "[debug]");
        self.config.debug.cache = section.boolean(&mut self.reader, "cache").unwrap_or(true);
        self.config.debug.announce = section.boolean(&mut self.reader, "announce").unwrap_or(true);
        section.finish(&mut self.reader, &["cache", "announce"], &["cache", "announce"]);
    }

    pub(super) fn process(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "process", "[process]");
        let reader = &mut self.reader;
        if let Some(kept) = keep_capabilities(&mut section, reader) {
            self.config.process.keep_capabilities = kept;
        }
        section.finish(reader, &["keep_capabilities"], &["keep_capabilities"]);
    }
}

fn keep_capabilities(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Option<Capabilities> {
    let key = "keep_capabilities";
    if !section.has(key) {
        return None;
    }
    let names = texts(section, reader, key, "net_admin");
    if names == [ALL] {
        return Some(Capabilities::ALL);
    }
    let mut kept = Capabilities::NONE;
    for name in &names {
        if let Some(more) = kept.with(name) {
            kept = more;
            continue;
        }
        let problem = format!("{} is no capability of Linux", quoted(name));
        reader.wrong(&section.span(key), key, problem, "name them as net_admin, or write [\"all\"]");
        return None;
    }
    Some(kept)
}
