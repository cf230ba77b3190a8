//! Directories of vhost-user sockets.
//!
//! **Design**: an application in a container makes `net.sock` in a directory, and the switch
//! connects to it. The directory is a device's below `--vhost-dir`, which a device plug-in mounts
//! into the container, or the Pod's own below `--pods-dir`. The agent gives it owner and group, and
//! empties it before and after use.
//!
//! **Limits**: a container may write there at any time, also while the agent empties the directory.
//! So the agent works on an open directory, follows no link in it, holds two descriptors however
//! deep it is, and gives up after [`ENTRIES_MAX`] entries.

use super::failure::{Outcome, config, environment, kernel, missing};
use super::names::is_name;
use super::record::{Key, Pod, VhostUser};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use vswitch_net_types::shown;
use vswitch_proto::agent::v1::VhostUser as SaidVhost;

/// Queue pairs of a port.
const QUEUES_MAX: u32 = 64;

/// Bytes of a socket's path, as the switch takes it: 108 of `sockaddr_un`, less an end and a mark.
const PATH_LEN_MAX: usize = 106;

/// Entries that are removed from a directory. An application has a socket and a few files there.
const ENTRIES_MAX: u32 = 65_536;

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
        let builder = |mode: u32| {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(mode);
            builder
        };
        if let Some(parent) = vhost.directory.parent() {
            builder(0o755).create(parent)?;
        }
        builder(0o700).create(&vhost.directory)?;
        let directory = open(&vhost.directory)?;
        withdraw(&directory)?;
        directory.set_permissions(Permissions::from_mode(MODE))?;
        let (uid, gid) = vhost.owner;
        fchown(&directory, Some(uid), Some(gid))
    })
    .await
}

/// Takes a directory back; one that is not there is taken back already.
pub(super) async fn clear(vhost: &VhostUser) -> Outcome<()> {
    let vhost = vhost.clone();
    blocking("the socket's directory cannot be emptied", move || {
        match open(&vhost.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => withdraw(&other?)?,
        }
        if !vhost.is_device {
            match fs::remove_dir(&vhost.directory) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                // The last interface of the Pod takes the Pod's directory along.
                _ => drop(vhost.directory.parent().map(fs::remove_dir)),
            }
        }
        Ok(())
    })
    .await
}

/// Whether a directory is as it was made.
pub(super) fn check(vhost: &VhostUser) -> Outcome<()> {
    let name = vhost.directory.display();
    let wrong = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => missing(format!("directory {name} is not there")),
        _ => kernel(&format!("directory {name}"), &error),
    };
    let data = open(&vhost.directory).and_then(|directory| directory.metadata()).map_err(wrong)?;
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

fn open(directory: &Path) -> io::Result<File> {
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(directory)
}

/// Makes a directory root's alone, and empty.
fn withdraw(directory: &File) -> io::Result<()> {
    fchown(directory, Some(0), Some(0))?;
    directory.set_permissions(Permissions::from_mode(0o700))?;
    empty(directory)
}

/// An open directory as a path: no link in its place is followed.
fn path(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Removes everything in a directory. What is in directories there is moved up first.
fn empty(directory: &File) -> io::Result<()> {
    let (top, mut count) = (path(directory), 0);
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(&top)? {
            is_empty = false;
            let entry = entry?.path();
            step(&mut count)?;
            if !is_removed(&entry)? {
                flatten(&entry, &top, &mut count)?;
            }
        }
        if is_empty {
            return Ok(());
        }
    }
}

fn step(count: &mut u32) -> io::Result<()> {
    *count += 1;
    if *count <= ENTRIES_MAX {
        Ok(())
    } else {
        Err(io::Error::other(format!("it has more than {ENTRIES_MAX} entries")))
    }
}

/// Removes what is no directory; whether that is done.
fn is_removed(entry: &Path) -> io::Result<bool> {
    match fs::remove_file(entry) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(false),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// Removes a directory, and moves directories in it to `top`. What changes meanwhile is left for
/// the next look.
fn flatten(entry: &Path, top: &Path, count: &mut u32) -> io::Result<()> {
    let Ok(directory) = open(entry) else { return Ok(()) };
    // Of a sticky directory the owner may remove everything.
    fchown(&directory, Some(0), Some(0))?;
    for inner in fs::read_dir(path(&directory))? {
        let inner = inner?.path();
        step(count)?;
        if !is_removed(&inner)? {
            // A name that is taken is tried again with another number.
            let _ = fs::rename(&inner, top.join(format!(".{count}")));
        }
    }
    let _ = fs::remove_dir(entry);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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

    #[test]
    fn whatever_an_application_leaves_is_removed_and_nothing_else() {
        let root = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        fs::create_dir_all(&outside).expect("made");
        fs::write(outside.join("kept"), "").expect("written");
        fs::create_dir_all(&inside).expect("made");
        for name in ["net.sock", ".1", ".3", "-rf"] {
            fs::write(inside.join(name), "").expect("written");
        }
        symlink(&outside, inside.join("link")).expect("linked");
        symlink(outside.join("kept"), inside.join("to-file")).expect("linked");
        let mut deep = inside.clone();
        for _ in 0..100 {
            deep.push("d");
            fs::create_dir(&deep).expect("made");
            fs::write(deep.join("file"), "").expect("written");
            symlink(&outside, deep.join("link")).expect("linked");
        }
        empty(&open(&inside).expect("opened")).expect("emptied");
        assert_eq!(fs::read_dir(&inside).expect("read").count(), 0);
        assert!(outside.join("kept").exists());
        assert!(open(&root.path().join("none")).is_err());
        symlink(&outside, root.path().join("link")).expect("linked");
        assert!(open(&root.path().join("link")).is_err(), "a link in the place of a directory");
    }

    #[test]
    fn a_directory_with_too_much_is_an_error() {
        let mut count = ENTRIES_MAX - 1;
        assert!(step(&mut count).is_ok() && step(&mut count).is_err());
    }
}
