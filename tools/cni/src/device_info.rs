//! The device information file: how Multus learns of a vhost-user socket, and tells the Pod.
//!
//! **Design**: Network Plumbing Working Group, device-info-spec 1.1.0. The runtime names a file
//! below a directory that the specification has fixed. The file appears there whole, or not at all.
//! A file that is there is the device plug-in's, which knows the path in the container: it stays.
//!
//! **Limits**: the file's name is one component. A link in its place is never followed.

use crate::config::Config;
use crate::environment::is_name;
use crate::error::CniError;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The directory of such files; and the same one, by the name that is no link on most Nodes.
const DIRECTORIES: [&str; 2] = ["/var/run/k8s.cni.cncf.io/devinfo/cni", "/run/k8s.cni.cncf.io/devinfo/cni"];

/// The version of the specification.
const VERSION: &str = "1.1.0";

/// The file of a call; None: the runtime wants none.
#[derive(Debug)]
pub(crate) struct File(Option<PathBuf>);

impl File {
    /// Of a configuration. Only vhost-user has one.
    pub(crate) fn of(config: &Config) -> Result<Self, CniError> {
        let Some(path) = config.device_info.as_ref().filter(|_| config.vhost.is_some()) else { return Ok(Self(None)) };
        let is_in = path.parent().is_some_and(|parent| DIRECTORIES.iter().any(|one| parent == Path::new(one)));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // (`parent` takes `//` and `/./` for one: the path is put together again.)
        match path.parent().filter(|_| is_in && is_name(name)) {
            Some(parent) => Ok(Self(Some(parent.join(name)))),
            None => {
                let error = CniError::config(format!("CNIDeviceInfoFile {path:?} is no file of {}", DIRECTORIES[0]));
                Err(error.hint("Multus sets it, by the capability CNIDeviceInfoFile"))
            }
        }
    }

    /// Tells of a socket that the application makes. A file that is there stays.
    pub(crate) fn write(&self, socket: &str) -> Result<(), CniError> {
        let Some(path) = self.0.as_ref().filter(|_| !socket.is_empty()) else { return Ok(()) };
        let text = json!({"type": "vhost-user", "version": VERSION, "vhost-user": {"mode": "server", "path": socket}});
        match appear(path, text.to_string().as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(CniError::io(format!("CNIDeviceInfoFile {}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Removes it. What Multus has removed already is removed.
    pub(crate) fn remove(&self) {
        let _ = self.0.as_ref().map(fs::remove_file);
    }
}

/// Makes a file with all of its text, unless there is something of its name.
fn appear(path: &Path, text: &[u8]) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    fs::create_dir_all(directory)?;
    let beside = directory.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    // (One that was killed may have left it.)
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?;
    let made = file.write_all(text).and_then(|()| fs::hard_link(&beside, path));
    fs::remove_file(&beside)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::os::unix::fs::symlink;

    fn of(mode: &str, path: &str) -> Result<File, CniError> {
        let text =
            json!({"cniVersion": "1.0.0", "name": "n", "mode": mode, "runtimeConfig": {"CNIDeviceInfoFile": path}});
        File::of(&Config::read(text.to_string().as_bytes()).expect("it is right"))
    }

    #[test]
    fn only_files_of_the_directory_are_written() {
        for directory in DIRECTORIES {
            let path = format!("{directory}/default-web-net1-device.json");
            assert_eq!(of("vhost-user", &path).expect("right").0, Some(PathBuf::from(path)));
        }
        assert_eq!(of("veth", "/etc/passwd").expect("not its own").0, None);
        let (a, b) = (DIRECTORIES[0], DIRECTORIES[1]);
        for wrong in [
            "/etc/passwd".to_owned(),
            "web.json".to_owned(),
            format!("{a}/../cni/web.json"),
            format!("{a}/.web.json"),
            format!("{a}/.."),
            format!("{b}/a/web.json"),
            a.to_owned(),
        ] {
            assert_eq!(of("vhost-user", &wrong).map(drop).map_err(|error| error.code), Err(7), "{wrong}");
        }
    }

    #[test]
    fn a_file_appears_whole_and_one_that_is_there_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sub/web.json");
        let file = File(Some(path.clone()));
        file.write("").expect("a pair of interfaces has none");
        assert!(!path.exists());
        file.write("/run/net.sock").expect("written");
        let value: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
        let expected = json!({"mode": "server", "path": "/run/net.sock"});
        assert_eq!(
            (&value["type"], &value["version"], &value["vhost-user"]),
            (&json!("vhost-user"), &json!("1.1.0"), &expected)
        );
        file.write("/other").expect("it stays");
        assert!(fs::read_to_string(&path).expect("read").contains("/run/net.sock"));
        assert_eq!(fs::read_dir(directory.path().join("sub")).expect("read").count(), 1);
        file.remove();
        file.remove();
        let outside = directory.path().join("outside");
        symlink(&outside, &path).expect("linked");
        file.write("/run/net.sock").expect("the link stays");
        assert!(!outside.exists());
    }
}
