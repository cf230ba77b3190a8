//! Directories of vhost-user sockets.
//!
//! **Design**: an application in a container makes `net.sock` in a directory, and the switch
//! connects to it. The directory is a device's below `--vhost-dir`, which a device plug-in mounts
//! into the container, or the Pod's own below `--pods-dir`. The agent gives it owner and group, and
//! empties it before and after use.
//!
//! A device has a directory for hugepages, too, if the device plug-in has made one. It is treated
//! alike. [`VhostDir`] says what a container may do there meanwhile.

use super::failure::{Outcome, config, environment, kernel, missing};
use super::record::{Key, Pod, VhostUser};
use crate::vhost_dir::{HUGEPAGES, VhostDir, is_name};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::VhostUser as SaidVhost;

/// Queue pairs of a port.
const QUEUES_MAX: u32 = 64;

/// Bytes of a socket's path, as the switch takes it: 108 of `sockaddr_un`, less an end and a mark.
const PATH_LEN_MAX: usize = 106;

/// Rights of a directory in use: of its owner and its group.
const MODE: u32 = 0o770;

/// Where directories of sockets are.
#[derive(Clone, Debug)]
pub struct Directories {
    /// Those of devices, by their IDs.
    pub devices: PathBuf,
    /// Those of Pods, by their UIDs and the interfaces' names.
    pub pods: PathBuf,
}

impl Directories {
    /// What is asked for an interface; None: a pair of veth interfaces.
    pub(super) fn read(&self, said: Option<&SaidVhost>, key: &Key, pod: Option<&Pod>) -> Outcome<Option<VhostUser>> {
        let Some(&SaidVhost { queues, uid, gid, ref device }) = said else { return Ok(None) };
        if key.is_own() {
            let reason = "mode vhost-user is for further interfaces: kubelet probes a Pod at its kernel's eth0";
            return Err(config(reason));
        }
        if queues > QUEUES_MAX {
            return Err(config(format!("queues {queues}: 1 to {QUEUES_MAX}")));
        }
        if [uid, gid].contains(&u32::MAX) {
            return Err(config(format!("socketOwner {uid}:{gid} is none")));
        }
        let directory = if device.is_empty() { self.of_pod(key, pod)? } else { self.of_device(device)? };
        let vhost = VhostUser { directory, is_device: !device.is_empty(), queues: queues.max(1), owner: (uid, gid) };
        let len = vhost.socket().as_os_str().len();
        if len > PATH_LEN_MAX {
            return Err(config(format!("the socket's path has {len} bytes: {PATH_LEN_MAX} at most")));
        }
        Ok(Some(vhost))
    }

    fn of_device(&self, device: &str) -> Outcome<PathBuf> {
        if is_name(device) { Ok(self.devices.join(device)) } else { Err(no_segment("deviceID", device)) }
    }

    fn of_pod(&self, key: &Key, pod: Option<&Pod>) -> Outcome<PathBuf> {
        let uid = pod.map_or("", |pod| &pod.uid);
        if uid.is_empty() {
            return Err(environment("mode vhost-user needs a deviceID, or K8S_POD_UID in CNI_ARGS"));
        }
        match [("K8S_POD_UID", uid), ("CNI_IFNAME", &key.interface)].into_iter().find(|(_, text)| !is_name(text)) {
            Some((what, text)) => Err(no_segment(what, text)),
            None => Ok(self.pods.join(uid).join(&key.interface)),
        }
    }
}

fn no_segment(what: &str, text: &str) -> vswitch_proto::agent::v1::Failure {
    config(format!("{what} {:?} is no name of a directory: a letter or digit, then these and _ . -", shown(text)))
}

/// Makes a directory ready for an application: empty, and its own.
pub(super) async fn prepare(vhost: &VhostUser) -> Outcome<()> {
    let vhost = vhost.clone();
    blocking("the socket's directory cannot be made", move || {
        let (root, names) = place(&vhost)?;
        let directories = [Some(VhostDir::make(root, &names)?), hugepages(&vhost)?];
        for directory in directories.iter().flatten() {
            directory.withdraw()?;
            let (uid, gid) = vhost.owner;
            directory.own(uid, gid, MODE)?;
        }
        Ok(())
    })
    .await
}

/// Takes a directory back; one that is not there is taken back already.
pub(super) async fn clear(vhost: &VhostUser) -> Outcome<()> {
    let vhost = vhost.clone();
    blocking("the socket's directory cannot be emptied", move || {
        let (root, names) = place(&vhost)?;
        for directory in [VhostDir::open(root, &names)?, hugepages(&vhost)?].into_iter().flatten() {
            directory.withdraw()?;
            if !vhost.is_device {
                directory.remove()?;
            }
        }
        if !vhost.is_device {
            // The last interface of the Pod takes the Pod's directory along.
            drop(vhost.directory.parent().map(fs::remove_dir));
        }
        Ok(())
    })
    .await
}

/// Where a directory is: a root that is the Node's alone, and names below it.
fn place(vhost: &VhostUser) -> io::Result<(&Path, Vec<&str>)> {
    let mut names = Vec::new();
    let mut root = vhost.directory.as_path();
    for _ in 0..if vhost.is_device { 1 } else { 2 } {
        let above = root.file_name().and_then(|name| name.to_str()).zip(root.parent());
        let (name, parent) = above.ok_or(ErrorKind::InvalidInput)?;
        names.insert(0, name);
        root = parent;
    }
    Ok((root, names))
}

/// The directory of a device for hugepages, if it has one.
fn hugepages(vhost: &VhostUser) -> io::Result<Option<VhostDir>> {
    let id = vhost.directory.file_name().and_then(|name| name.to_str()).filter(|_| vhost.is_device);
    id.map_or(Ok(None), |id| VhostDir::open(Path::new(HUGEPAGES), &[id]))
}

/// Whether a directory is as it was made.
pub(super) fn check(vhost: &VhostUser) -> Outcome<()> {
    let name = vhost.directory.display();
    let wrong = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => missing(format!("directory {name} is not there")),
        _ => kernel(&format!("directory {name}"), &error),
    };
    let data = fs::symlink_metadata(&vhost.directory).map_err(wrong)?;
    if !data.is_dir() {
        return Err(missing(format!("directory {name} is none any more")));
    }
    if (data.uid(), data.gid()) != vhost.owner {
        let (uid, gid) = vhost.owner;
        return Err(missing(format!("directory {name} is of {}:{}, not {uid}:{gid}", data.uid(), data.gid())));
    }
    match data.mode() & 0o7777 {
        MODE => Ok(()),
        mode => Err(missing(format!("directory {name} has mode {mode:o}, not {MODE:o}"))),
    }
}

async fn blocking(what: &str, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Outcome<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| kernel(what, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{getegid, geteuid};

    fn key(interface: &str) -> Key {
        Key { container: "c1".to_owned(), interface: interface.to_owned() }
    }

    fn pod(uid: &str) -> Pod {
        Pod { namespace: "default".to_owned(), name: "web".to_owned(), uid: uid.to_owned() }
    }

    fn said(device: &str) -> SaidVhost {
        SaidVhost { queues: 2, uid: 107, gid: 108, device: device.to_owned() }
    }

    fn directories(root: &Path) -> Directories {
        Directories { devices: root.join("vhost"), pods: root.join("pods") }
    }

    #[test]
    fn paths_are_of_single_segments() {
        let all = directories(Path::new("/run/vswitch"));
        let of = |said: &SaidVhost, interface: &str, uid: &str| {
            all.read(Some(said), &key(interface), Some(&pod(uid))).map(|vhost| vhost.expect("one").socket())
        };
        assert_eq!(of(&said("dev-1"), "net1", "u").expect("right"), Path::new("/run/vswitch/vhost/dev-1/net.sock"));
        assert_eq!(of(&said(""), "net1", "u-1").expect("right"), Path::new("/run/vswitch/pods/u-1/net1/net.sock"));
        let code =
            |said: &SaidVhost, interface: &str, uid: &str| of(said, interface, uid).map_err(|failure| failure.code);
        for device in ["..", ".a", "a/b", "/a", "a\0", "a b", &"a".repeat(80)] {
            assert_eq!(code(&said(device), "net1", "u"), Err(7), "{device}");
        }
        for uid in ["..", "a/b", ".a"] {
            assert_eq!(code(&said(""), "net1", uid), Err(7), "{uid}");
        }
        assert_eq!(code(&said(""), "net1", ""), Err(4), "no UID");
        assert_eq!(code(&said(""), ".net1", "u"), Err(7));
        assert_eq!(code(&said("dev-1"), "eth0", "u"), Err(7), "the Pod's own interface");
        assert_eq!(code(&SaidVhost { queues: 65, ..said("d") }, "net1", "u"), Err(7));
        assert_eq!(code(&SaidVhost { gid: u32::MAX, ..said("d") }, "net1", "u"), Err(7));
        assert_eq!(all.read(None, &key("eth0"), None), Ok(None));
    }

    #[tokio::test]
    async fn a_directory_is_made_kept_as_it_was_made_and_taken_back() {
        let root = tempfile::tempdir().expect("a directory");
        let mine = (geteuid().as_raw(), getegid().as_raw());
        for (device, left) in [("dev-1", true), ("", false)] {
            let said = SaidVhost { uid: mine.0, gid: mine.1, ..said(device) };
            let read = directories(root.path()).read(Some(&said), &key("net1"), Some(&pod("u-1")));
            let vhost = read.expect("right").expect("one");
            let code = |vhost: &VhostUser| check(vhost).map_err(|failure| failure.code);
            assert_eq!(code(&vhost), Err(102));
            prepare(&vhost).await.expect("made");
            fs::write(vhost.socket(), "").expect("written");
            assert_eq!(code(&vhost), Ok(()));
            assert_eq!(code(&VhostUser { owner: (mine.0, mine.1 + 1), ..vhost.clone() }), Err(102));
            prepare(&vhost).await.expect("made");
            assert!(!vhost.socket().exists(), "of an earlier application");
            clear(&vhost).await.expect("taken back");
            assert_eq!((code(&vhost), vhost.directory.exists()), (Err(102), left));
            assert!(!root.path().join("pods/u-1").exists());
            clear(&vhost).await.expect("taken back already");
        }
    }
}
