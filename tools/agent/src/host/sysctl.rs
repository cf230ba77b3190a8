//! Values below `/proc/sys`.

use super::plan::Sysctl;
use super::state::ChangedSysctl;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn file(path: &str) -> PathBuf {
    Path::new("/proc/sys").join(path)
}

/// A value, without the end of its line.
pub(super) fn read(path: &str) -> io::Result<String> {
    Ok(fs::read_to_string(file(path))?.trim_end().to_owned())
}

pub(super) fn write(path: &str, value: &str) -> io::Result<()> {
    fs::write(file(path), value)
}

/// What has to be known to take a change back. The kernel changes values of all interfaces with
/// some values.
pub(super) fn change(wanted: &Sysctl, before: String) -> ChangedSysctl {
    let directory = match wanted.path.as_str() {
        "net/ipv4/ip_forward" => Some("net/ipv4/conf"),
        "net/ipv6/conf/all/forwarding" => Some("net/ipv6/conf"),
        _ => None,
    };
    let entries = directory.into_iter().filter_map(|directory| fs::read_dir(file(directory)).ok()).flatten();
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let paths = names.filter_map(|name| directory.map(|directory| format!("{directory}/{name}/forwarding")));
    let mut with: Vec<(String, String)> =
        paths.filter(|path| *path != wanted.path).filter_map(|path| Some((path.clone(), read(&path).ok()?))).collect();
    with.sort();
    ChangedSysctl { path: wanted.path.clone(), value: wanted.value.clone(), before, with }
}

/// Takes a change back. A value that somebody else has changed since stays. A value of an interface
/// that has gone is gone.
pub(super) fn take_back(changed: &ChangedSysctl) -> io::Result<()> {
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match read(&changed.path) {
        Ok(value) if value == changed.value => {}
        Ok(_) => return Ok(()),
        Err(error) if absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    write(&changed.path, &changed.before)?;
    for (path, before) in &changed.with {
        match read(path) {
            Ok(value) if value == *before => {}
            Ok(_) => write(path, before)?,
            Err(error) if absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
