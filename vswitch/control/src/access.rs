//! Which devices, sockets and files clients may have opened.
//!
//! **Where in the walk**: nowhere; [`crate::Switch`] asks before it opens a port.
//!
//! **Design**: the switch opens with rights that its clients lack. So a client may name only
//! devices of known drivers (`vswitch_dpdk::drivers`), and only paths in the directories of
//! `[paths]`. The configuration file is root's: its ports may name anything. Directories of
//! `[paths]` may be reached by links; below them, no component of a path may be one
//! (`vswitch_dpdk::paths`).
//!
//! **Limits**: what is checked here are names. What is behind them is checked when it is opened.

use crate::config::{ListenEndpoint, PathsConfig, SwitchConfig};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use vswitch_dataplane::port::{FieldError, PortKind};
use vswitch_dpdk::drivers::{self, Takes};

/// What clients may have opened.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    paths: PathsConfig,
    drivers: Vec<String>,
    control_sockets: Vec<PathBuf>,
}

/// Who named a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client of the API.
    Client,
    /// The configuration file, at the start or when a state is put back: a port that does not open
    /// is kept with its error.
    File,
    /// The configuration file, when it is applied again: a port that does not open is refused.
    Reload,
    /// A client of an earlier run: a port that does not open is kept.
    Saved,
}

impl Asker {
    /// Whether it may name any device and any path.
    pub(crate) const fn is_operator(self) -> bool {
        matches!(self, Self::File | Self::Reload)
    }

    /// Whether a port that does not open stays.
    pub(crate) const fn keeps(self) -> bool {
        matches!(self, Self::File | Self::Saved)
    }
}

/// The sockets of all listeners.
fn control_sockets(config: &SwitchConfig) -> Vec<PathBuf> {
    let others = config.listeners.iter().filter_map(|listener| match &listener.endpoint {
        ListenEndpoint::Unix(unix) => Some(unix.path.clone()),
        ListenEndpoint::Tls(_) => None,
    });
    std::iter::once(config.socket.clone()).chain(others).collect()
}

impl Access {
    pub(crate) fn new(config: &SwitchConfig) -> Self {
        Self {
            paths: config.paths.clone(),
            drivers: config.dpdk.allow_drivers.clone(),
            control_sockets: control_sockets(config),
        }
    }

    /// A kind of port as it is to be opened: without links where its owner may have put some.
    ///
    /// # Errors
    /// All that a client may not name.
    pub(crate) fn to_open(&self, kind: &PortKind, asker: Asker) -> Result<PortKind, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut place = |field: &'static str, path: &Path, takes| {
            self.place(path, takes, asker).unwrap_or_else(|(problem, hint)| {
                errors.push(FieldError::new(field, problem, &hint));
                path.to_owned()
            })
        };
        let mut kind = kind.clone();
        match &mut kind {
            PortKind::VhostUser(vhost) => vhost.path = place("path", &vhost.path, Takes::Vhost),
            PortKind::Pcap { rx_file, tx_file, .. } => {
                for (field, file, takes) in [("rx_file", rx_file, Takes::Reads), ("tx_file", tx_file, Takes::Writes)] {
                    if let Some(file) = file {
                        *file = place(field, file, takes);
                    }
                }
            }
            PortKind::Dpdk { devargs, .. } => match drivers::check(devargs, &self.drivers) {
                Ok(named) => {
                    let is_abstract = drivers::value_of(devargs, "socket-abstract") != Some("no");
                    let mut told = devargs.clone();
                    for (path, takes) in named {
                        let found = place("devargs", path, takes);
                        if takes != Takes::Memif || !is_abstract {
                            told = told.replace(&format!("={}", path.display()), &format!("={}", found.display()));
                        }
                    }
                    *devargs = told;
                }
                Err(refused) if !asker.is_operator() => {
                    errors.push(FieldError::new("devargs", refused.to_string(), refused.hint()));
                }
                // The file names other drivers, too; they are told what it says.
                Err(_) => {}
            },
            _ => {}
        }
        if errors.is_empty() { Ok(kind) } else { Err(errors) }
    }

    /// A path as it is to be opened, or why a client may not name it.
    fn place(&self, path: &Path, takes: Takes, asker: Asker) -> Result<PathBuf, (String, String)> {
        let (directories, key) = self.paths.of(takes);
        if is_plain(path) {
            if takes == Takes::Vhost && is_vhost_device(path) {
                return Ok(path.to_owned());
            }
            if self.control_sockets.iter().any(|socket| socket == path) {
                let hint = "give the port a socket of its own".to_owned();
                return Err((format!("{path:?} is the control socket of the switch"), hint));
            }
            if let Some((real, rest)) = directories.iter().find_map(|directory| below(directory, path)) {
                let found = real.join(&rest);
                if let Some(link) = link_in(&real, &rest).filter(|_| !asker.is_operator()) {
                    let hint = "make it a directory, a socket or a file: no part of a path may be a link".to_owned();
                    return Err((format!("{path:?}: {link:?} is a link"), hint));
                }
                if takes == Takes::Writes {
                    make_default(&found);
                }
                return Ok(found);
            }
        }
        if asker.is_operator() {
            return Ok(resolve(path));
        }
        let all: Vec<_> = directories.iter().map(|directory| directory.display().to_string()).collect();
        let hint = format!(
            "use a path below {}, without links, . and ..; [paths] {key} in the configuration file names the directories",
            if all.is_empty() { "a directory that is allowed (there is none)".to_owned() } else { all.join(" or ") }
        );
        Err((format!("a client may not name {path:?}"), hint))
    }
}

/// An absolute path of names only, each printable.
fn is_plain(path: &Path) -> bool {
    let Some(text) = path.to_str().filter(|text| !text.chars().any(char::is_control)) else { return false };
    let names = path.components().skip(1).all(|component| matches!(component, Component::Normal(_)));
    // `components` passes over `.` and what is empty.
    path.is_absolute() && names && text.split('/').skip(1).all(|name| !name.is_empty() && name != ".")
}

/// A device file by which the kernel serves virtio queues.
fn is_vhost_device(path: &Path) -> bool {
    path.parent() == Some(Path::new("/dev"))
        && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("vhost-"))
}

/// A path in the directory: the directory behind its links, and the rest of the path.
fn below(directory: &Path, path: &Path) -> Option<(PathBuf, PathBuf)> {
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    // Debian and others have /var/run for /run.
    let run = path.strip_prefix("/var/run").ok().map(|rest| Path::new("/run").join(rest));
    let rest = [Some(path), run.as_deref()].into_iter().flatten().find_map(|path| {
        path.strip_prefix(directory)
            .or_else(|_| path.strip_prefix(&real))
            .ok()
            .filter(|rest| rest.file_name().is_some())
    })?;
    let rest = rest.to_owned();
    Some((real, rest))
}

/// The first component of the rest of a path that is a link now. Opening it follows none either;
/// this is the clearer error.
fn link_in(real: &Path, rest: &Path) -> Option<PathBuf> {
    let mut at = real.to_owned();
    rest.components().find_map(|component| {
        at.push(component);
        at.symlink_metadata().is_ok_and(|found| found.is_symlink()).then(|| at.clone())
    })
}

/// A path of the file: its directory may be reached by links, as long as the switch has not opened
/// it.
fn resolve(path: &Path) -> PathBuf {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    if directory.as_os_str().is_empty() {
        return std::env::current_dir().map_or_else(|_| path.to_owned(), |here| here.join(name));
    }
    std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()).join(name)
}

/// Makes the default directory of captures, if a capture is to be written there.
fn make_default(path: &Path) {
    if path.parent() == Some(Path::new(PathsConfig::CAPTURES_DEFAULT)) {
        // If it cannot be made, opening the file tells.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(PathsConfig::CAPTURES_DEFAULT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_dataplane::port::{VhostConfig, VhostMode};

    fn access(sockets: &Path) -> Access {
        let config = SwitchConfig {
            paths: PathsConfig {
                sockets: vec![sockets.to_owned()],
                memif: vec!["/srv/memif".into()],
                captures: vec!["/srv/captures".into()],
            },
            socket: sockets.join("vswitch.sock"),
            ..SwitchConfig::with_defaults(&[0, 1])
        };
        Access::new(&config)
    }

    fn vhost(path: &str) -> PortKind {
        PortKind::VhostUser(VhostConfig::new(path.into(), VhostMode::Client))
    }

    fn dpdk(devargs: &str) -> PortKind {
        PortKind::Dpdk { devargs: devargs.to_owned(), queues: 1 }
    }

    fn pcap(rx: &str, tx: &str) -> PortKind {
        PortKind::Pcap { rx_file: Some(rx.into()), tx_file: Some(tx.into()), infinite_rx: false }
    }

    #[test]
    fn clients_name_what_is_in_the_directories() {
        let access = access(Path::new("/srv/sockets"));
        for kind in [
            vhost("/srv/sockets/a"),
            vhost("/srv/sockets/pods/a.b..c/net.sock"),
            dpdk("net_null0,size=64"),
            dpdk("0000:3b:00.0"),
            dpdk("net_virtio_user0,path=/dev/vhost-net,iface=host1"),
            dpdk("net_virtio_user0,path=/srv/sockets/a,server=1"),
            dpdk("net_memif0,role=server,socket=/srv/memif/a,socket-abstract=no"),
            pcap("/srv/captures/a", "/srv/captures/b/c"),
            PortKind::Dummy,
        ] {
            assert_eq!(access.to_open(&kind, Asker::Client).as_ref(), Ok(&kind));
            assert_eq!(access.to_open(&kind, Asker::File).as_ref(), Ok(&kind));
        }
    }

    #[test]
    fn clients_name_nothing_else() {
        let access = access(Path::new("/srv/sockets"));
        let tricks = [
            "/etc/shadow",
            "/srv/sockets",
            "/srv/sockets/",
            "/srv/sockets/../x",
            "/srv/sockets/a/../../x",
            "/srv/sockets/./x",
            "/srv/sockets//x",
            "//srv/sockets/x",
            "/srv/socketsx/a",
            "/srv/memif/a",
            "/srv/captures/a",
            "srv/sockets/a",
            "../srv/sockets/a",
            "a",
            "",
            "/",
            "/srv/sockets/a\nb",
            "/srv/sockets/a\u{1b}[2J",
            "/dev/vhost-net/../mem",
            "/dev/mem",
            "/proc/self/fd/3",
            "/srv/sockets/vswitch.sock",
        ];
        for path in tricks {
            let errors = access.to_open(&vhost(path), Asker::Client).expect_err(path);
            assert!(errors.len() == 1 && errors[0].field == "path" && !errors[0].problem.contains('\n'), "{errors:?}");
        }
        for path in tricks.iter().filter(|path| !path.starts_with("/srv/captures")) {
            let errors = access.to_open(&pcap(path, path), Asker::Client).expect_err(path);
            assert_eq!(errors.iter().map(|error| error.field).collect::<Vec<_>>(), ["rx_file", "tx_file"], "{path}");
            let memif = format!("net_memif0,socket={path}");
            assert!(access.to_open(&dpdk(&memif), Asker::Client).is_err() || path.starts_with("/srv/memif"), "{path}");
        }
        for devargs in ["event_sw0", "net_failsafe0,exec(id)", "net_tap0", "net_pcap0,tx_pcap=/etc/passwd"] {
            let errors = access.to_open(&dpdk(devargs), Asker::Client).expect_err(devargs);
            assert_eq!(errors[0].field, "devargs");
        }
    }

    #[test]
    fn the_file_names_anything_but_by_its_real_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let real = std::fs::canonicalize(directory.path()).expect("there");
        std::fs::create_dir(real.join("real")).expect("made");
        std::os::unix::fs::symlink(real.join("real"), real.join("link")).expect("linked");
        let (by_link, behind) = (real.join("link"), real.join("real/a"));
        let path = by_link.join("a");
        let opened = access(Path::new("/srv/sockets")).to_open(&vhost(path.to_str().expect("text")), Asker::File);
        assert_eq!(opened, Ok(vhost(behind.to_str().expect("text"))));
        // A directory of [paths] may be a link, too; its real name is as good.
        for path in [&path, &behind] {
            let opened = access(&by_link).to_open(&vhost(path.to_str().expect("text")), Asker::Client);
            assert_eq!(opened, Ok(vhost(behind.to_str().expect("text"))), "{path:?}");
        }
        let tap = dpdk("net_tap0,iface=x");
        assert_eq!(access(&real).to_open(&tap, Asker::File), Ok(tap));
    }
}
