//! Files that the switch writes for its next start. Each is whole or not there: it is written
//! beside, brought to the disk, and renamed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What is in it is the switch's business alone.
const MODE: u32 = 0o600;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// A name beside a file's.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Replaces a file by what `write` writes.
///
/// # Errors
/// Those of the file system; then the file is as it was.
pub fn replace<R>(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<R>) -> io::Result<R> {
    let new = beside(path, ".new");
    let written = write_new(&new, write).and_then(|result| fs::rename(&new, path).map(|()| result));
    if written.is_err() {
        let _ = fs::remove_file(&new); // it may not even be there
    }
    let result = written?;
    sync_directory(path)?;
    Ok(result)
}

fn write_new<R>(new: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<R>) -> io::Result<R> {
    // What a start that was cut short left there; a link is not followed.
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(new)?;
    let mut writer = BufWriter::with_capacity(CHUNK, file);
    let result = write(&mut writer)?;
    writer.flush()?;
    writer.get_ref().sync_all()?;
    Ok(result)
}

/// Makes an empty file, for it to be there; nothing if it is.
///
/// # Errors
/// Those of the file system.
pub fn mark(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(path) {
        Ok(_) => sync_directory(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a file, if there is one, and says how many bytes it has.
///
/// # Errors
/// Those of the file system; when it is something else than a file.
pub fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    // Before it is opened: opening a FIFO would wait for a writer.
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(Some((File::open(path)?, metadata.len())))
}

/// Removes a file, for good; nothing if it is not there.
///
/// # Errors
/// Those of the file system.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_directory(path)),
    }
}

/// Puts a file aside that could not be used, for people to look at: the next one replaces it.
///
/// # Errors
/// Those of the file system.
pub fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = beside(path, ".refused");
    fs::rename(path, &aside)?;
    sync_directory(path)?;
    Ok(aside)
}

/// What a directory says of its files is on the disk.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        replace(&path, |file| file.write_all(b"one")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let failed = replace(&path, |file| {
            file.write_all(b"two").and_then(|()| Err::<(), _>(io::Error::other("the disk is full")))
        });
        assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
        assert_eq!((fs::read(&path).unwrap(), names()), (b"one".to_vec(), 1), "and nothing is left beside it");
        // What a start that was cut short left, a link even.
        std::os::unix::fs::symlink("/etc/passwd", beside(&path, ".new")).unwrap();
        replace(&path, |file| file.write_all(b"three")).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"three".to_vec(), 1));
        assert!(replace(&dir.path().join("no/state"), |_| Ok(())).is_err());
    }

    #[test]
    fn files_are_opened_put_aside_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert!(open(&path).unwrap().is_none());
        assert!(open(dir.path()).unwrap_err().to_string().contains("not a regular file"));
        replace(&path, |file| file.write_all(b"four")).unwrap();
        assert_eq!(open(&path).unwrap().map(|(_, len)| len), Some(4));
        let aside = put_aside(&path).unwrap();
        assert!(!path.exists() && aside.ends_with("state.refused"));
        mark(&path).unwrap();
        mark(&path).unwrap();
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
