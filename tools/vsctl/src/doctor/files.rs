//! The configuration file, sockets, directories and devices that it names.

use super::machine::Machine;
use super::settings::CONFIG_DEFAULT;
use super::{Check, Said, bad, ok, warn};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const CHECKS: &[Check<Machine>] = &[
    Check::new("config", config),
    Check::new("control-socket", control_socket),
    Check::new("guest-directory", guest_directories),
    Check::new("guest-rights", guest_rights),
    Check::new("state-directory", state_directories),
    Check::new("tun", tun),
    Check::new("interface", interfaces),
];

/// Users as which distributions run guests.
const GUEST_USERS: [&str; 2] = ["libvirt-qemu", "qemu"];

fn config(machine: &Machine) -> Vec<Said> {
    let settings = &machine.settings;
    let file = &settings.file;
    if let Some(problem) = &settings.problem {
        let problem = problem.lines().next().unwrap_or_default();
        if settings.is_named || machine.path(CONFIG_DEFAULT).is_some() {
            return vec![bad(format!("{file} cannot be used: {problem}"), format!("vswitchd --config {file} --check"))];
        }
        let fix = format!("write {CONFIG_DEFAULT} (docs/configuration.md), or name another with --config");
        return vec![warn(format!("there is no {CONFIG_DEFAULT}: defaults are assumed"), fix)];
    }
    // The switch itself is the judge, if it is at hand and the file is one of this machine. Beside
    // a switch that runs it would find its sockets taken; `vsctl config state` judges there.
    let is_ours = machine.process.is_none() && (machine.is_here() || settings.is_named);
    let judge = if is_ours { daemon() } else { None };
    let Some(judge) = judge else { return vec![ok(format!("{file} can be read"))] };
    match Command::new(judge).args(["--config", file, "--check"]).output() {
        Ok(output) if output.status.code() == Some(78) => {
            let problems = String::from_utf8_lossy(&output.stderr);
            let first = problems.lines().find(|line| !line.trim().is_empty()).unwrap_or("it is refused").to_owned();
            vec![bad(format!("the switch refuses {file}: {first}"), format!("vswitchd --config {file} --check"))]
        }
        _ => vec![ok(format!("{file} is good"))],
    }
}

/// The program of the switch: beside this one, or where programs are.
fn daemon() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("vswitchd")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join("vswitchd"));
    beside.into_iter().chain(found).find(|path| path.is_file())
}

fn parent(path: &str) -> String {
    Path::new(path).parent().map_or_else(|| "/".to_owned(), |path| path.display().to_string())
}

fn control_socket(machine: &Machine) -> Vec<Said> {
    let socket = &machine.settings.socket;
    let directory = parent(socket);
    let Some(facts) = machine.path(&directory) else {
        if socket == crate::cli::DEFAULT_SOCKET {
            return Vec::new(); // the switch makes it
        }
        return vec![bad(
            format!("{directory}, the directory of the control socket, is not there"),
            format!("mkdir -p {directory}"),
        )];
    };
    if !facts.is_directory {
        return vec![bad(format!("{directory} is no directory"), "correct [control] socket")];
    }
    if facts.mode & 0o002 != 0 && facts.mode & 0o1000 == 0 {
        let fact = format!("every user may write to {directory}, and so replace the control socket");
        return vec![bad(fact, format!("chmod o-w {directory}"))];
    }
    let open = machine.path(socket).filter(|facts| facts.is_socket && facts.mode & 0o002 != 0);
    if open.is_some() {
        let fact = format!("every user may write to {socket}, and so change all that passes the switch");
        return vec![bad(fact, format!("chmod o-rw {socket}"))];
    }
    vec![ok(format!("{directory} is safe from other users"))]
}

fn guest_directories(machine: &Machine) -> Vec<Said> {
    let missing = |directory: &String| !machine.path(directory).is_some_and(|facts| facts.is_directory);
    let mut said = Vec::new();
    for guest in &machine.settings.guests {
        let directory = parent(&guest.path);
        // The directory of the control socket is made by the switch or its unit.
        if missing(&directory) && directory != parent(crate::cli::DEFAULT_SOCKET) {
            let fact = format!("{directory}, where port {} has its socket, is not there", guest.port);
            said.push(bad(fact, format!("mkdir -p {directory}")));
        }
    }
    if said.is_empty() { vec![ok("directories of guests' sockets are there")] } else { said }
}

/// Uid and gids of a user.
fn user(machine: &Machine, name: &str) -> Option<(u32, Vec<u32>)> {
    let passwd = machine.text("/etc/passwd")?;
    let mut fields = passwd.lines().find(|line| line.split(':').next() == Some(name))?.split(':').skip(2);
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let groups = machine.text("/etc/group").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let gid: u32 = fields.next()?.parse().ok()?;
        fields.next()?.split(',').any(|member| member == name).then_some(gid)
    };
    Some((uid, std::iter::once(gid).chain(groups.lines().filter_map(of)).collect()))
}

fn guest_rights(machine: &Machine) -> Vec<Said> {
    let known = GUEST_USERS.iter().find_map(|name| Some((*name, user(machine, name)?)));
    let Some((name, (uid, gids))) = known else { return Vec::new() };
    let mut said = Vec::new();
    for guest in machine.settings.guests.iter().filter(|guest| guest.by_guest) {
        let directory = parent(&guest.path);
        let Some(facts) = machine.path(&directory) else { continue };
        let writes = facts.mode & 0o002 != 0
            || (facts.uid == uid && facts.mode & 0o200 != 0)
            || (gids.contains(&facts.gid) && facts.mode & 0o020 != 0);
        if !writes {
            let fact = format!("{name} may not make the socket of port {} in {directory}", guest.port);
            said.push(warn(fact, format!("setfacl -m u:{name}:rwx {directory}, or run the guest as a user that may")));
        }
    }
    said
}

fn state_directories(machine: &Machine) -> Vec<Said> {
    let check = |(key, directory): &(&str, String)| match machine.path(directory) {
        Some(facts) if facts.is_directory => ok(format!("{directory} is there")),
        _ => bad(
            format!("{directory}, of {key}, is not there: the switch does not start"),
            format!("mkdir -p {directory}"),
        ),
    };
    machine.settings.directories.iter().map(check).collect()
}

fn tun(machine: &Machine) -> Vec<Said> {
    let Some(port) = machine.settings.tun_ports.first() else { return Vec::new() };
    if machine.path("/dev/net/tun").is_some() {
        return vec![ok("/dev/net/tun is there")];
    }
    let fix = "modprobe tun; a container needs the device, too: --device /dev/net/tun";
    vec![bad(format!("there is no /dev/net/tun, and port {port} needs it"), fix)]
}

fn interfaces(machine: &Machine) -> Vec<Said> {
    let check = |(port, interface): &(String, String)| match machine.path(&format!("/sys/class/net/{interface}")) {
        Some(_) => ok(format!("interface {interface} is there")),
        None => bad(
            format!("there is no interface {interface}, which port {port} takes"),
            "ip link shows those that there are: correct `interface`, or make it",
        ),
    };
    machine.settings.interfaces.iter().map(check).collect()
}
