//! The sections of the file, one function each.

use super::across::{Across, BridgeEntry};
use super::document::{Reader, Section, Span, in_range, type_of};
use super::file::ConfigFile;
use super::place::{ConfigKey, ConfigKeys};
use super::program::{self, ProgramEntry};
use super::value::{SwitchConfig, default_main_core, default_worker_cores};
use crate::{BridgeConfig, FailMode};
use std::ops::RangeInclusive;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use vswitch_dataplane::limits;
use vswitch_dataplane::port::{FieldError, PortConfig};

/// Core numbers that `sched_setaffinity(2)` takes without growing its set.
const CORES: RangeInclusive<i128> = 0..=1023;

/// MiB: less holds no useful pool; more than 1 TiB is a typing error.
const MEMORY_MB: RangeInclusive<i128> = 64..=1 << 20;

/// Buffers: less starves a single queue; more than 64 Mi (160 GiB) is a typing error.
const MBUFS: RangeInclusive<i128> = 1024..=1 << 26;

/// Bytes that a buffer takes of `memory_mb`: 2 KiB of data, headroom, header, alignment.
const MBUF_BYTES: u64 = 2432;

/// Microseconds: Open vSwitch's bound of pmd-sleep-max.
const IDLE_SLEEP_US: RangeInclusive<i128> = 0..=10_000;

/// Bytes of a unix socket's path, without its NUL (`unix(7)`).
pub(super) const SOCKET_PATH_MAX: usize = 107;

/// One pass over a document.
pub(super) struct Walk<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) places: ConfigKeys,
    pub(super) across: Across,
    cores: &'a [u32],
    pub(super) config: SwitchConfig,
    pub(super) programs: Vec<ProgramEntry>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str, file: &Path, cores: &'a [u32]) -> Self {
        Self {
            reader: Reader::new(text, file),
            places: ConfigKeys::default(),
            across: Across::default(),
            cores,
            config: SwitchConfig::with_defaults(cores),
            programs: Vec::new(),
        }
    }

    pub(super) fn run(mut self, text: &'a str) -> ConfigFile {
        let document = self.reader.document(text);
        let mut root = Section::new("the file", 0..0, Some(&document));
        let known = [
            "dpdk",
            "worker",
            "conntrack",
            "antrea",
            "slow_path",
            "control",
            "paths",
            "process",
            "debug",
            "observe",
            "bridge",
            "route",
            "saved",
        ];
        // What the switch writes itself is not offered.
        root.finish(&mut self.reader, &known, &known[..known.len() - 1]);
        self.dpdk(&mut root);
        self.worker(&mut root);
        self.conntrack(&mut root);
        self.antrea(&mut root);
        self.slow_path(&mut root);
        self.control(&mut root);
        self.paths(&mut root);
        self.process(&mut root);
        self.debug(&mut root);
        self.observe(&mut root);
        let bridges = self.tables(&mut root, "bridge", "[[bridge]]");
        self.bridges(bridges);
        let routes = self.tables(&mut root, "route", "[[route]]");
        self.routes(routes);
        self.across.check(&mut self.reader);
        self.underlay();
        self.judge_programs();
        self.saved(&mut root);
        let is_whole = self.reader.is_whole();
        let mut report = self.reader.into_report();
        report.sort();
        ConfigFile { config: self.config, places: self.places, report, is_whole }
    }

    /// A `[section]`, empty if it is absent.
    pub(super) fn section<'d, 'i>(
        &mut self,
        root: &mut Section<'d, 'i>,
        key: &'static str,
        title: &'static str,
    ) -> Section<'d, 'i> {
        let found = match root.raw(key) {
            Some((DeValue::Table(table), span)) => Some((table, span)),
            Some((other, span)) => {
                let problem = format!("is {}, must be a table", type_of(other));
                self.reader.wrong(&span, key, problem, format!("write {title} and its keys below"));
                None
            }
            None => None,
        };
        let (table, span) = found.map_or((None, 0..0), |(table, span)| (Some(table), span));
        Section::new(title, span, table)
    }

    fn dpdk(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "dpdk", "[dpdk]");
        let reader = &mut self.reader;
        let dpdk = &mut self.config.dpdk;
        let workers = worker_cores(&mut section, reader, &mut self.places);
        let main_core = section.integer(reader, "main_core", &CORES);
        dpdk.main_core = main_core.unwrap_or_else(|| default_main_core(self.cores, workers.as_deref().unwrap_or(&[])));
        dpdk.worker_cores = workers.unwrap_or_else(|| default_worker_cores(self.cores, dpdk.main_core));
        if let Some(memory_mb) = section.integer(reader, "memory_mb", &MEMORY_MB) {
            dpdk.memory_mb = memory_mb;
        }
        dpdk.mbufs = section.integer(reader, "mbufs", &MBUFS);
        if let Some(mbufs) = dpdk.mbufs.filter(|_| !section.is_refused("memory_mb")) {
            let needed_mb = (u64::from(mbufs) * MBUF_BYTES).div_ceil(1 << 20);
            if needed_mb > u64::from(dpdk.memory_mb) {
                let problem = format!("{mbufs} buffers take {needed_mb} MiB, memory_mb is {}", dpdk.memory_mb);
                let hint = format!("use fewer buffers or memory_mb = {}", needed_mb + needed_mb / 4);
                reader.wrong(&section.span("mbufs"), "mbufs", problem, hint);
            }
        }
        dpdk.hugepages = section.boolean(reader, "hugepages").unwrap_or(true);
        dpdk.file_prefix = section.string(reader, "file_prefix", "vswitch");
        if let Some(prefix) = dpdk.file_prefix.take_if(|prefix| !is_file_prefix(prefix)) {
            let problem = format!("{} cannot be part of a file name", super::document::quoted(&prefix));
            reader.wrong(&section.span("file_prefix"), "file_prefix", problem, "use 1 to 32 of A-Z a-z 0-9 . _ -");
        }
        dpdk.pci = section.boolean(reader, "pci").unwrap_or(false);
        dpdk.args = texts(&mut section, reader, "args", "--log-level=debug");
        dpdk.allow_drivers = allow_drivers(&mut section, reader);
        let known = [
            "worker_cores",
            "main_core",
            "memory_mb",
            "mbufs",
            "hugepages",
            "file_prefix",
            "pci",
            "args",
            "allow_drivers",
        ];
        section.finish(reader, &known, &known);
        section.record(reader, &mut self.places, ConfigKey::Dpdk);
    }

    fn worker(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "worker", "[worker]");
        let sleep = section.integer(&mut self.reader, "idle_sleep_us", &IDLE_SLEEP_US);
        self.config.worker.idle_sleep_us = sleep.unwrap_or(0);
        let range = (*limits::CALL_DELAYS_US.start()).into()..=(*limits::CALL_DELAYS_US.end()).into();
        let delay = section.integer(&mut self.reader, "call_delay_us", &range);
        self.config.worker.call_delay_us = delay.unwrap_or(0);
        let known = ["idle_sleep_us", "call_delay_us"];
        section.finish(&mut self.reader, &known, &known);
    }

    fn slow_path(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "slow_path", "[slow_path]");
        let (reader, rates) = (&mut self.reader, &mut self.config.slow_path);
        let range = (*limits::RATES.start()).into()..=(*limits::RATES.end()).into();
        let known = ["misses", "packet_ins", "learns"];
        for (key, rate) in known.into_iter().zip([&mut rates.misses, &mut rates.packet_ins, &mut rates.learns]) {
            *rate = section.integer(reader, key, &range).unwrap_or(*rate);
        }
        let range = (*limits::WAITING.start()).into()..=(*limits::WAITING.end()).into();
        rates.waiting = section.integer(reader, "waiting", &range).unwrap_or(rates.waiting);
        let known = ["misses", "packet_ins", "learns", "waiting"];
        section.finish(reader, &known, &known);
    }

    /// The tables of an array of tables.
    pub(super) fn tables<'d, 'i>(
        &mut self,
        parent: &mut Section<'d, 'i>,
        key: &'static str,
        title: &'static str,
    ) -> Vec<(&'d DeTable<'i>, Span)> {
        let Some((value, span)) = parent.raw(key) else { return Vec::new() };
        let mut refuse = |span: &Span, what: &DeValue<'_>| {
            let problem = format!("is {}, must be an array of tables", type_of(what));
            self.reader.wrong(span, key, problem, format!("write {title} before the keys of each"));
        };
        match value {
            DeValue::Array(array) => array
                .iter()
                .filter_map(|item| match item.get_ref() {
                    DeValue::Table(table) => Some((table, item.span())),
                    other => {
                        refuse(&item.span(), other);
                        None
                    }
                })
                .collect(),
            DeValue::Table(table) => {
                refuse(&span, value);
                vec![(table, span)]
            }
            other => {
                refuse(&span, other);
                Vec::new()
            }
        }
    }

    fn bridges(&mut self, tables: Vec<(&DeTable<'_>, Span)>) {
        for (count, (table, header)) in tables.into_iter().enumerate() {
            if count == limits::BRIDGES_MAX {
                let hint = "use fewer bridges; this and the following are ignored";
                let problem = format!("the limit of {count} bridges is reached");
                return self.reader.wrong(&header, "bridge", problem, hint);
            }
            let mut section = Section::new("[[bridge]]", header, Some(table));
            let bridge = self.bridge(&mut section);
            self.config.bridges.push((bridge, Vec::new()));
            let ports = self.tables(&mut section, "port", "[[bridge.port]]");
            self.ports(ports);
            self.program(&mut section);
        }
    }

    /// The keys of one bridge.
    fn bridge(&mut self, section: &mut Section<'_, '_>) -> BridgeConfig {
        let reader = &mut self.reader;
        let name = section.string(reader, "name", "br0");
        if !section.has("name") {
            reader.absent(&section.header, "name", "missing", "every bridge needs one: name = \"br0\"");
            section.refuse("name");
        }
        let mut bridge = BridgeConfig::new(name.as_deref().unwrap_or_default());
        let modes = [("secure", FailMode::Secure), ("standalone", FailMode::Standalone)];
        bridge.fail_mode = section.word(reader, "fail_mode", &modes).unwrap_or_default();
        let entries = section.integer(reader, "fdb_entries", &(1..=i128::from(limits::FDB_ENTRIES_MAX)));
        bridge.fdb_entries = entries.unwrap_or(bridge.fdb_entries);
        let ageing = i128::from(*limits::FDB_AGEING_S.start())..=i128::from(*limits::FDB_AGEING_S.end());
        bridge.fdb_ageing_s = section.integer(reader, "fdb_ageing_s", &ageing).unwrap_or(bridge.fdb_ageing_s);
        bridge.strict = section.boolean(reader, "strict").unwrap_or(false);
        field_errors(reader, section, bridge.errors());
        let own = ["name", "fail_mode", "fdb_entries", "fdb_ageing_s", "strict", "port"];
        let known: Vec<&str> = own.into_iter().chain(program::KEYS).collect();
        section.finish(reader, &known, &known);
        let name = name.map(|name| (name, section.span("name")));
        self.across.bridges.push(BridgeEntry { name, ports: Vec::new() });
        bridge
    }

    fn ports(&mut self, tables: Vec<(&DeTable<'_>, Span)>) {
        for (table, header) in tables {
            if self.across.port_count == limits::PORTS_MAX {
                let problem = format!("the limit of {} ports is reached", limits::PORTS_MAX);
                let hint = "use fewer ports; this and the following are ignored";
                self.reader.wrong(&header, "port", problem, hint);
            }
            self.across.port_count += 1;
            if self.across.port_count > limits::PORTS_MAX {
                return;
            }
            let mut section = Section::new("[[bridge.port]]", header, Some(table));
            if let Some(port) = self.port(&mut section) {
                self.push_port(&section, port);
            }
        }
    }

    fn push_port(&mut self, section: &Section<'_, '_>, port: PortConfig) {
        let bridge = self.config.bridges.len() - 1;
        let ports = &mut self.config.bridges[bridge].1;
        let index = ports.len();
        section.record(&self.reader, &mut self.places, |key| ConfigKey::Port(bridge, index, key));
        ports.push(port);
    }
}

/// Places what a value says about itself at the key that it is about.
pub(super) fn field_errors(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, errors: Vec<FieldError>) {
    for FieldError { field, problem, hint } in errors {
        if !section.is_refused(field) {
            // TSO is on unless told otherwise: then turning checksums off is what went wrong.
            let key = if field == "tso" && !section.has(field) { "csum" } else { field };
            if section.has(key) {
                reader.wrong(&section.span(key), field, problem, hint);
            } else {
                reader.absent(&section.header, field, problem, hint);
            }
            section.refuse(field);
        }
    }
}

fn worker_cores(section: &mut Section<'_, '_>, reader: &mut Reader<'_>, places: &mut ConfigKeys) -> Option<Vec<u32>> {
    let key = "worker_cores";
    let want = ("an array of core numbers", "[1]");
    let cores = section.array(reader, key, want, |reader, value, span| {
        let Some(digits) = value.as_integer() else {
            let problem = format!("contains {}, must be an array of core numbers", type_of(value));
            reader.wrong(span, key, problem, "write worker_cores = [1, 2]");
            return None;
        };
        in_range(reader, span, key, digits, &CORES).and_then(|core| u32::try_from(core).ok())
    })?;
    if cores.is_empty() || cores.len() > limits::WORKERS_MAX {
        let hint = format!("name 1 to {} cores, or leave worker_cores out", limits::WORKERS_MAX);
        reader.wrong(&section.span(key), key, format!("names {} cores", cores.len()), hint);
        section.refuse(key);
        return None;
    }
    for (i, (core, span)) in cores.iter().enumerate() {
        places.insert(ConfigKey::WorkerCore(i), reader.position(span));
        if let Some((_, first)) = cores[..i].iter().find(|(other, _)| other == core) {
            let problem = format!("core {core} is named twice, first at {}", reader.locate(first));
            reader.wrong(span, key, problem, "name each core once: a core runs one worker");
            section.refuse(key);
        }
    }
    Some(cores.into_iter().map(|(core, _)| core).collect())
}

/// An array of texts, none of them empty.
pub(super) fn texts(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    key: &'static str,
    example: &str,
) -> Vec<String> {
    let written = format!("[{example:?}]");
    let texts = section.array(reader, key, ("an array of strings", &written), |reader, value, span| {
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains('\0'));
        if text.is_none() {
            let problem = match value {
                DeValue::String(_) => "contains a string that is empty or has a NUL character".to_owned(),
                other => format!("contains {}, must be an array of strings", type_of(other)),
            };
            reader.wrong(span, key, problem, format!("write {key} = {written}"));
        }
        text.map(str::to_owned)
    });
    texts.unwrap_or_default().into_iter().map(|(text, _)| text).collect()
}

fn allow_drivers(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Vec<String> {
    let key = "allow_drivers";
    let drivers = texts(section, reader, key, "net_tap");
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if let Some(wrong) = drivers.iter().find(|name| !is_name(name)) {
        let problem = format!("{} is no driver of DPDK", super::document::quoted(wrong));
        reader.wrong(&section.span(key), key, problem, "name drivers, without a number: net_tap");
    }
    drivers
}

fn is_file_prefix(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !text.starts_with('.')
}
