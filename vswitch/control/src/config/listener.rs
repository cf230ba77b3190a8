//! `[control]` and `[[control.listener]]`: where clients connect, and what they may do there.

use super::document::{Reader, Section, Span, quoted, type_of};
use super::listener_value::{Account, ListenEndpoint, ListenerConfig, Role, SanPattern, TlsListen, UnixListen};
use super::parse::{SOCKET_PATH_MAX, Walk};
use super::place::ConfigKey;
use super::values::path;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Listeners beside `[control] socket`.
const LISTENERS_MAX: usize = 16;

/// Roles of users, groups or names that one listener may map.
const MAPPINGS_MAX: usize = 256;

/// Bits of a mode.
const MODES: std::ops::RangeInclusive<i128> = 0..=0o777;

/// Keys of a listener on a unix socket, and of one on TCP.
const UNIX_KEYS: [&str; 5] = ["mode", "owner", "group", "users", "groups"];
const TLS_KEYS: [&str; 2] = ["tls", "sans"];

impl Walk<'_> {
    pub(super) fn control(&mut self, root: &mut Section<'_, '_>) {
        let mut section = self.section(root, "control", "[control]");
        if let Some((socket, span)) = socket_path(&mut section, &mut self.reader, "socket") {
            self.across.sockets.push((socket.clone(), span));
            self.config.socket = socket;
        }
        self.config.audit_file =
            section.string(&mut self.reader, "audit_file", "/var/log/vswitch/audit.log").map(PathBuf::from);
        if self.config.audit_file.take_if(|path| !path.is_absolute() || path.file_name().is_none()).is_some() {
            let hint = "use an absolute path";
            self.reader.wrong(&section.span("audit_file"), "audit_file", "is no path of a file", hint);
            section.refuse("audit_file");
        }
        self.config.persist = path(&mut section, &mut self.reader, "persist", "/var/lib/vswitch/runtime.toml");
        let listeners = self.tables(&mut section, "listener", "[[control.listener]]");
        let known = ["socket", "persist", "audit_file", "listener"];
        section.finish(&mut self.reader, &known, &known);
        section.record(&self.reader, &mut self.places, ConfigKey::Control);
        self.listeners(listeners);
    }

    fn listeners(&mut self, tables: Vec<(&DeTable<'_>, Span)>) {
        for (count, (table, header)) in tables.into_iter().enumerate() {
            if count == LISTENERS_MAX {
                let problem = format!("the limit of {count} listeners is reached");
                return self.reader.wrong(
                    &header,
                    "listener",
                    problem,
                    "use fewer; this and the following are ignored",
                );
            }
            let mut section = Section::new("[[control.listener]]", header, Some(table));
            if let Some(listener) = self.listener(&mut section) {
                let index = self.config.listeners.len();
                section.record(&self.reader, &mut self.places, |key| ConfigKey::Listener(index, key));
                self.config.listeners.push(listener);
            }
        }
    }

    fn listener(&mut self, section: &mut Section<'_, '_>) -> Option<ListenerConfig> {
        let reader = &mut self.reader;
        let role = if section.has("role") { section.word(reader, "role", &Role::WORDS) } else { Some(Role::Read) };
        let (by_path, by_address) = (section.has("path"), section.has("address"));
        if by_path == by_address {
            let problem = if by_path { "is given beside path" } else { "missing, and so is path" };
            let hint = "a listener is path = \"/run/vswitch/read.sock\" or address = \"192.0.2.1:7471\"";
            reader.absent(&section.key("address").unwrap_or(section.header.clone()), "address", problem, hint);
        }
        let foreign: &[&'static str] = if by_address { &UNIX_KEYS } else { &TLS_KEYS };
        for key in foreign.iter().filter(|key| by_path != by_address && section.has(key)) {
            let (only, own) = if by_address { ("path", "sans") } else { ("address", "users and groups") };
            let hint = format!("remove it; roles of this listener are mapped by {own}");
            let at = section.key(key).unwrap_or(section.header.clone());
            reader.wrong(&at, key, format!("only a listener with {only} has it"), hint);
        }
        let known = ["path", "address", "role", "mode", "owner", "group", "users", "groups", "tls", "sans"];
        section.finish(reader, &known, &known);
        let role = role?;
        let endpoint = match (by_path, by_address) {
            (true, false) => ListenEndpoint::Unix(self.unix(section, role)?),
            (false, true) => ListenEndpoint::Tls(self.tls(section, role)?),
            _ => return None,
        };
        Some(ListenerConfig { endpoint, role })
    }

    fn unix(&mut self, section: &mut Section<'_, '_>, role: Role) -> Option<UnixListen> {
        let reader = &mut self.reader;
        let path = socket_path(section, reader, "path");
        let mode = section.integer(reader, "mode", &MODES).unwrap_or(UnixListen::MODE_DEFAULT);
        let mut account = |key, example| section.string(reader, key, example).map(|text| Account::new(&text));
        let (owner, group) = (account("owner", "root"), account("group", "monitor"));
        let name = |text: &str| (!text.is_empty()).then(|| Account::new(text));
        let users = roles(section, reader, "users", role, name);
        let groups = roles(section, reader, "groups", role, name);
        if mode & 0o002 != 0 && role > Role::Read && users.is_empty() && groups.is_empty() {
            let problem = format!("every process of the machine gets {role}");
            reader.wrong(&section.span("mode"), "mode", problem, "use 0o660, role = \"read\", or users and groups");
        }
        let (path, span) = path?;
        self.across.sockets.push((path.clone(), span));
        Some(UnixListen { path, mode, owner, group, users, groups })
    }

    fn tls(&mut self, section: &mut Section<'_, '_>, role: Role) -> Option<TlsListen> {
        let reader = &mut self.reader;
        let text = section.string(reader, "address", "192.0.2.1:7471");
        let address = text.and_then(|text| {
            let address = text.parse::<SocketAddr>().ok();
            if address.is_none() {
                let problem = format!("{} is no address with a port", quoted(&text));
                let hint = "write address = \"192.0.2.1:7471\" or \"[2001:db8::1]:7471\"";
                reader.wrong(&section.span("address"), "address", problem, hint);
                section.refuse("address");
            }
            address
        });
        let sans = roles(section, reader, "sans", role, SanPattern::new);
        let files = tls_files(section, reader);
        let (address, [cert, key, client_ca]) = (address?, files?);
        let span = section.span("address");
        if let Some((_, first)) =
            self.across.addresses.iter().find(|(other, _)| *other == address && address.port() != 0)
        {
            let problem = format!("{address} is used by two listeners, first at {}", self.reader.locate(first));
            self.reader.wrong(&span, "address", problem, "give each listener its own");
        }
        self.across.addresses.push((address, span));
        Some(TlsListen { address, cert, key, client_ca, sans })
    }
}

/// An absolute path that fits into the address of a socket.
fn socket_path(section: &mut Section<'_, '_>, reader: &mut Reader<'_>, key: &'static str) -> Option<(PathBuf, Span)> {
    let path = section.string(reader, key, super::SOCKET_DEFAULT).map(PathBuf::from)?;
    if path.is_absolute() && path.as_os_str().len() <= SOCKET_PATH_MAX && path.file_name().is_some() {
        return Some((path, section.span(key)));
    }
    let hint = format!("use an absolute path of at most {SOCKET_PATH_MAX} bytes");
    reader.wrong(&section.span(key), key, format!("{path:?} is no socket path"), hint);
    section.refuse(key);
    None
}

/// The files of `tls`. Without them there is no listener: TCP is never served in the clear.
fn tls_files(section: &mut Section<'_, '_>, reader: &mut Reader<'_>) -> Option<[PathBuf; 3]> {
    const EXAMPLE: &str =
        "{ cert = \"/etc/vswitch/tls.crt\", key = \"/etc/vswitch/tls.key\", client_ca = \"/etc/vswitch/ca.crt\" }";
    if !section.has("tls") {
        let hint = format!("TCP is served with mutual TLS only: tls = {EXAMPLE}");
        reader.absent(&section.header, "tls", "missing", hint);
        section.refuse("tls");
    }
    let (table, span) = section.typed(reader, "tls", ("a table", EXAMPLE), DeValue::as_table)?;
    let mut files = Section::new("tls", span, Some(table));
    let known = ["cert", "key", "client_ca"];
    let found = known.map(|key| {
        let path = files.string(reader, key, "/etc/vswitch/tls.crt").map(PathBuf::from);
        if !files.has(key) {
            reader.absent(&files.header, key, "missing", format!("write tls = {EXAMPLE}"));
        }
        let is_wrong = path.as_ref().is_some_and(|path| !path.is_absolute());
        if is_wrong {
            reader.wrong(&files.span(key), key, "is no absolute path", format!("write tls = {EXAMPLE}"));
        }
        path.filter(|_| !is_wrong)
    });
    files.finish(reader, &known, &known);
    match found {
        [Some(cert), Some(key), Some(client_ca)] => Some([cert, key, client_ca]),
        _ => {
            section.refuse("tls");
            None
        }
    }
}

/// A table of names, each with a role that is not above the listener's.
fn roles<T>(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    key: &'static str,
    most: Role,
    read: impl Fn(&str) -> Option<T>,
) -> Vec<(T, Role)> {
    let want = ("a table of names and roles", "{ \"monitor\" = \"read\" }");
    let Some((table, span)) = section.typed(reader, key, want, DeValue::as_table) else { return Vec::new() };
    if table.len() > MAPPINGS_MAX || table.is_empty() {
        let problem = format!("has {} names", table.len());
        let hint = format!("name 1 to {MAPPINGS_MAX}; without {key} all who connect get the listener's role");
        reader.wrong(&span, key, problem, hint);
        section.refuse(key);
        return Vec::new();
    }
    let mut mapped = Vec::new();
    for (name, value) in table {
        let text: &str = name.get_ref();
        let role = match value.get_ref() {
            DeValue::String(word) => Role::WORDS.iter().find(|(known, _)| known == word).map(|(_, role)| *role),
            _ => None,
        };
        let who = read(text).filter(|_| !text.contains('\0'));
        let problem = match (&who, role) {
            (None, _) => Some((name.span(), format!("{} cannot be mapped", quoted(text)), NAMES)),
            (_, None) => {
                let is = value.get_ref().as_str().map_or(type_of(value.get_ref()).to_owned(), quoted);
                Some((value.span(), format!("{is} is no role"), "use read, operate or admin"))
            }
            (_, Some(role)) if role > most => {
                let problem = format!("gives {role}, and the listener gives at most {most}");
                Some((value.span(), problem, "raise the role of the listener, or lower this one"))
            }
            _ => None,
        };
        if let Some((at, problem, hint)) = problem {
            reader.wrong(&at, key, problem, hint);
            section.refuse(key);
        } else if let (Some(who), Some(role)) = (who, role) {
            mapped.push((who, role));
        }
    }
    mapped
}

/// What can be mapped.
const NAMES: &str = "use a user or group, by name or number; in sans a name of DNS, *.NAME, a URI or a mail address";
