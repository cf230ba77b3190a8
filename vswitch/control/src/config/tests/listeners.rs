//! `[[control.listener]]`: values, reports, and what the machine must have.

use super::{expect, good, read};
use crate::config::{Account, Environment, ListenEndpoint, Role, SanPattern};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const TLS: &str = "tls = { cert = '/c', key = '/k', client_ca = '/a' }";

#[test]
fn every_key_of_a_listener_arrives() {
    let config = good(&format!(
        "[control]\naudit_file = '/var/log/a'\n\
         [[control.listener]]\npath = '/run/r'\n\
         [[control.listener]]\npath = '/run/o'\nrole = 'admin'\nmode = 0o600\nowner = 'root'\ngroup = '7'\n\
         users = {{ root = 'admin', '1000' = 'read' }}\ngroups.daemon = 'operate'\n\
         [[control.listener]]\naddress = '[::1]:7471'\nrole = 'operate'\n{TLS}\nsans = {{ '*.a.example' = 'read' }}\n"
    ));
    assert_eq!(config.audit_file.as_deref(), Some(Path::new("/var/log/a")));
    let [plain, full, tls] = config.listeners.try_into().expect("three");
    let ListenEndpoint::Unix(unix) = plain.endpoint else { panic!("a socket") };
    assert_eq!((plain.role, unix.mode, unix.path.as_path()), (Role::Read, 0o660, Path::new("/run/r")), "by default");
    assert!(unix.owner.is_none() && unix.group.is_none() && unix.users.is_empty() && unix.groups.is_empty());
    let ListenEndpoint::Unix(unix) = full.endpoint else { panic!("a socket") };
    let name = |name: &str| Account::Name(name.to_owned());
    assert_eq!(
        (full.role, unix.mode, unix.owner, unix.group),
        (Role::Admin, 0o600, Some(name("root")), Some(Account::Id(7)))
    );
    assert!(unix.users.contains(&(name("root"), Role::Admin)) && unix.users.contains(&(Account::Id(1000), Role::Read)));
    assert_eq!(unix.groups, [(name("daemon"), Role::Operate)]);
    let ListenEndpoint::Tls(listen) = tls.endpoint else { panic!("TLS") };
    assert_eq!(
        (tls.role, listen.address.to_string(), listen.key.as_path()),
        (Role::Operate, "[::1]:7471".to_owned(), Path::new("/k"))
    );
    assert_eq!(listen.sans, [(SanPattern::new("*.a.example").expect("a name"), Role::Read)]);
}

#[test]
fn what_could_weaken_a_policy_is_refused() {
    let example =
        "{ cert = \"/etc/vswitch/tls.crt\", key = \"/etc/vswitch/tls.key\", client_ca = \"/etc/vswitch/ca.crt\" }";
    expect(
        "[[control.listener]]\naddress = '0.0.0.0:1'\n",
        &[&format!("f:1:1: tls: missing; TCP is served with mutual TLS only: tls = {example}")],
    );
    expect(
        "[[control.listener]]\naddress = '0.0.0.0:1'\ntls = { cert = '/c', key = 'k' }\n",
        &[
            &format!("f:3:7: client_ca: missing; write tls = {example}"),
            &format!("f:3:28: key: is no absolute path; write tls = {example}"),
        ],
    );
    expect(
        "[[control.listener]]\npath = '/s'\nrole = 'operate'\nusers = { a = 'admin', b = 'root', '' = 'read' }\n",
        &[
            "f:4:15: users: gives admin, and the listener gives at most operate; raise the role of the listener, or lower this one",
            "f:4:28: users: \"root\" is no role; use read, operate or admin",
            "f:4:36: users: \"\" cannot be mapped; use a user or group, by name or number; in sans a name of DNS, *.NAME, a URI or a mail address",
        ],
    );
    expect(
        "[[control.listener]]\npath = '/s'\nmode = 0o666\nrole = 'admin'\n\
         [[control.listener]]\npath = '/t'\nmode = 0o666\n",
        &["f:3:8: mode: every process of the machine gets admin; use 0o660, role = \"read\", or users and groups"],
    );
    expect(
        "[[control.listener]]\npath = '/s'\nusers = {}\n",
        &["f:3:9: users: has 0 names; name 1 to 256; without users all who connect get the listener's role"],
    );
}

#[test]
fn contradictions_are_refused_with_their_place() {
    let hint = "a listener is path = \"/run/vswitch/read.sock\" or address = \"192.0.2.1:7471\"";
    expect("[[control.listener]]\nrole = 'read'\n", &[&format!("f:1:1: address: missing, and so is path; {hint}")]);
    expect(
        &format!("[[control.listener]]\npath = '/s'\naddress = '1.1.1.1:1'\n{TLS}\n"),
        &[&format!("f:3:1: address: is given beside path; {hint}")],
    );
    expect(
        &format!(
            "[[control.listener]]\npath = '/s'\n{TLS}\n[[control.listener]]\naddress = 'a:1'\n{TLS}\nusers = {{ a = 'read' }}\nroles = 1\n"
        ),
        &[
            "f:3:1: tls: only a listener with address has it; remove it; roles of this listener are mapped by users and groups",
            "f:5:11: address: \"a:1\" is no address with a port; write address = \"192.0.2.1:7471\" or \"[2001:db8::1]:7471\"",
            "f:7:1: users: only a listener with path has it; remove it; roles of this listener are mapped by sans",
            "f:8:1: roles: unknown key; did you mean role? [[control.listener]] has the keys: path, address, role, mode, owner, \
             group, users, groups, tls, sans",
        ],
    );
    expect(
        &format!(
            "[control]\nsocket = '/s'\naudit_file = 'a'\n[[control.listener]]\npath = '/s'\n\
             [[control.listener]]\naddress = '1.1.1.1:1'\n{TLS}\n[[control.listener]]\naddress = '1.1.1.1:1'\n{TLS}\n"
        ),
        &[
            "f:3:14: audit_file: is no path of a file; use an absolute path",
            "f:5:8: path: socket \"/s\" is used by two listeners, first at f:2:10; give each listener its own",
            "f:10:11: address: 1.1.1.1:1 is used by two listeners, first at f:7:11; give each listener its own",
        ],
    );
}

#[test]
fn the_machine_must_have_accounts_and_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("open"), "").expect("written");
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o644)).expect("set");
    let text = format!(
        "[control]\nsocket = '{}'\naudit_file = '{}/a'\n\
         [[control.listener]]\npath = '{}/s'\nowner = 'nosuch'\ngroups = {{ nosuch = 'read' }}\n\
         [[control.listener]]\naddress = '127.0.0.1:1'\ntls = {{ cert = '{}', key = '{}', client_ca = '{}' }}\n",
        at("s"),
        at("none"),
        at("none"),
        at("none"),
        at("open"),
        at("open"),
    );
    let mut file = read(&text);
    let environment = Environment { has_dpdk: true, ..Environment::host() };
    file.check(&environment);
    let lines: Vec<String> = file
        .report()
        .lines()
        .map(|(_, line)| line)
        .filter(|line| !line.contains("memory") && !line.contains("core"))
        .collect();
    for wanted in [
        "f:3:14: audit_file: there is no directory",
        "f:5:8: path: there is no directory",
        "f:6:9: owner: there is no user nosuch; name one that getent(1) knows, or write its number",
        "f:7:10: groups: there is no group nosuch",
        "f:10:7: tls: cert \"",
        "any user may read the key",
    ] {
        assert!(lines.iter().any(|line| line.contains(wanted)), "{wanted:?} is not in {lines:#?}");
    }
}
