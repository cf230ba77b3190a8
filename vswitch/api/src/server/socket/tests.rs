use super::*;
use std::os::unix::net::UnixDatagram;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it exists").mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_socket_has_mode_0660_a_lock_file_with_our_pid_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.sock");
    let listener = bind(&path).expect("free");
    assert_eq!(mode(&path), 0o660);
    let lock = fs::read_to_string(directory.path().join("a.sock.lock")).expect("a lock file");
    assert_eq!(lock, format!("{}\n", std::process::id()));
    drop(listener);
    assert_eq!(names(directory.path()), [""; 0], "left behind");
}

#[test]
fn the_mode_is_never_wider_than_0660() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.sock");
    let _listener = listen(&path, SOCKET_MODE).expect("free"); // as it is before the mode is made exact
    assert_eq!(mode(&path) & !SOCKET_MODE, 0, "mode {:o}", mode(&path));
}

#[test]
fn a_stale_socket_is_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.sock");
    drop(UnixListener::bind(&path).expect("free")); // the file stays
    assert!(path.exists());
    fs::write(directory.path().join("a.sock.lock"), "123456789\n").expect("a lock file of a dead process");
    let listener = bind(&path).expect("stale");
    assert_eq!(mode(&path), 0o660);
    knock(&path).expect("it listens");
    assert_eq!(
        fs::read_to_string(directory.path().join("a.sock.lock")).expect("a lock file").trim(),
        std::process::id().to_string()
    );
    drop(listener);
}

#[test]
fn a_second_instance_is_told_who_has_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.sock");
    let _listener = bind(&path).expect("free");
    let error = bind(&path).expect_err("taken").to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.contains("a.sock.lock"), "{error}");
    knock(&path).expect("the first one still listens");
}

#[test]
fn a_listener_without_lock_file_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.sock");
    let _listener = UnixListener::bind(&path).expect("free");
    let error = bind(&path).expect_err("in use");
    assert!(matches!(&error, BindError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("a.sock"), "{error}");
    knock(&path).expect("it still listens");
    assert_eq!(names(directory.path()), ["a.sock"], "the lock file was left behind");
    let path = directory.path().join("datagram.sock");
    let _socket = UnixDatagram::bind(&path).expect("free");
    let error = bind(&path).expect_err("in use");
    assert!(matches!(&error, BindError::InUse { .. }), "{error:?}");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "precious").expect("a file");
    fs::create_dir(at("directory")).expect("a directory");
    drop(UnixListener::bind(at("stale")).expect("free"));
    std::os::unix::fs::symlink(at("stale"), at("link")).expect("a link");
    for (name, kind) in [("file", "a file"), ("directory", "a directory"), ("link", "a symbolic link")] {
        match bind(&at(name)).expect_err("not a socket") {
            BindError::NotSocket { kind: found, .. } => assert_eq!(found, kind),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(fs::read_to_string(at("file")).expect("a file"), "precious");
    assert!(at("stale").exists() && at("link").is_symlink() && at("directory").is_dir());
}

#[test]
fn a_lock_file_that_is_a_link_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let target = directory.path().join("target");
    fs::write(&target, "precious").expect("a file");
    std::os::unix::fs::symlink(&target, directory.path().join("a.sock.lock")).expect("a link");
    let error = bind(&directory.path().join("a.sock")).expect_err("a link");
    assert!(error.to_string().contains("cannot open the lock file"), "{error}");
    assert_eq!(fs::read_to_string(&target).expect("a file"), "precious");
}

#[test]
fn bad_paths_say_how_to_fix_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = bind(&directory.path().join("no/such/a.sock")).expect_err("no directory").to_string();
    assert!(error.contains("does not exist; make it with `mkdir -p ") && error.contains("no/such"), "{error}");
    let error = bind(&directory.path().join("x".repeat(108))).expect_err("too long").to_string();
    assert!(error.contains("use one of 1 to 107 bytes"), "{error}");
    assert!(matches!(bind(Path::new("")), Err(BindError::Length { len: 0, .. })));
}

#[test]
fn a_successors_socket_is_not_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.sock");
    let listener = bind(&path).expect("free");
    fs::rename(&path, directory.path().join("old.sock")).expect("moved away");
    let _successor = UnixListener::bind(&path).expect("free");
    drop(listener);
    assert!(path.exists(), "the successor's socket was removed");
}
