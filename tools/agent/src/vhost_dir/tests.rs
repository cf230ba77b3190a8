use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

fn count(path: &Path) -> usize {
    fs::read_dir(path).expect("it is there").count()
}

#[test]
fn names_are_one_segment() {
    for name in ["vhost-0", "net1", "0f0e-1_2.3", &"a".repeat(64)] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", ".", "..", "../x", "a/b", "/", ".hidden", "a b", "a\0b", "ä", &"a".repeat(65)] {
        assert!(!is_name(name), "{name:?}");
        let above = tempfile::tempdir().expect("a directory");
        for names in [&["good", name][..], &[]] {
            let error = VhostDir::make(&above.path().join("root"), names).expect_err("it is no name");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(count(above.path()), 0, "nothing is made");
    }
}

#[test]
fn it_is_made_once_and_kept() {
    let above = tempfile::tempdir().expect("a directory");
    let root = above.path().join("run/vhost");
    assert!(VhostDir::open(&root, &["a"]).expect("looked").is_none());
    assert!(!root.exists(), "a look makes nothing");
    let dir = VhostDir::make(&root, &["uid", "net1"]).expect("made");
    assert_eq!(dir.path(), root.join("uid/net1"));
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    assert_eq!((mode(dir.path()), mode(&root.join("uid"))), (0o700, 0o755));
    fs::write(dir.path().join("file"), "x").expect("written");
    drop(VhostDir::make(&root, &["uid", "net1"]).expect("it is there"));
    assert_eq!(count(dir.path()), 1);
    VhostDir::open(&root, &["uid", "net1"]).expect("looked").expect("there").remove().expect("removed");
    assert!(VhostDir::open(&root, &["uid", "net1"]).expect("looked").is_none());
}

#[test]
fn own_changes_the_directory_and_nothing_else() {
    let above = tempfile::tempdir().expect("a directory");
    let victim = above.path().join("victim");
    fs::write(&victim, "").expect("written");
    let before = fs::metadata(&victim).expect("there");
    let dir = VhostDir::make(&above.path().join("root"), &["a"]).expect("made");
    symlink(&victim, dir.path().join("net.sock")).expect("a link");
    let (user, group) = (before.uid(), before.gid()); // who is not root cannot give a file away
    dir.own(user, group, 0o2770).expect("owned");
    assert_eq!(fs::metadata(dir.path()).expect("there").mode() & 0o7777, 0o2770);
    if geteuid().is_root() {
        dir.own(1234, 5678, 0o770).expect("owned");
        let is = fs::metadata(dir.path()).expect("there");
        assert_eq!((is.uid(), is.gid(), is.mode() & 0o7777), (1234, 5678, 0o770));
    }
    let after = fs::metadata(&victim).expect("there");
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
}

#[test]
fn links_are_removed_and_never_followed() {
    let above = tempfile::tempdir().expect("a directory");
    let victim = above.path().join("victim");
    fs::create_dir_all(victim.join("inner")).expect("made");
    fs::write(victim.join("inner/file"), "precious").expect("written");
    let dir = VhostDir::make(&above.path().join("root"), &["a"]).expect("made");
    let top = dir.path().to_owned();
    symlink(&victim, top.join("link")).expect("a link to a directory");
    symlink(victim.join("inner/file"), top.join("file")).expect("a link to a file");
    symlink("/proc/self/root/nowhere", top.join("dangling")).expect("a link to nothing");
    symlink("loop", top.join("loop")).expect("a loop");
    fs::create_dir_all(top.join("d/e")).expect("made");
    symlink(&victim, top.join("d/link")).expect("a link further down");
    symlink("../../..", top.join("d/e/up")).expect("a link upwards");
    fs::hard_link(victim.join("inner/file"), top.join("hard")).expect("a second name");
    let _listener = UnixListener::bind(top.join("net.sock")).expect("a socket");
    assert!(dir.has_socket("net.sock") && !dir.has_socket("link") && !dir.has_socket("../root/a/net.sock"));
    dir.empty().expect("emptied");
    assert_eq!(count(&top), 0);
    assert_eq!(fs::read_to_string(victim.join("inner/file")).expect("there"), "precious");
    dir.empty().expect("there is nothing to do");
}

#[test]
fn a_link_in_place_of_the_directory_is_refused() {
    let above = tempfile::tempdir().expect("a directory");
    let root = above.path().join("root");
    fs::create_dir_all(above.path().join("victim")).expect("made");
    fs::create_dir_all(&root).expect("made");
    symlink(above.path().join("victim"), root.join("a")).expect("a link");
    for made in [VhostDir::make(&root, &["a"]), VhostDir::make(&root, &["a", "b"])] {
        assert!(made.expect_err("a link").to_string().contains("is no directory"));
    }
    assert!(VhostDir::open(&root, &["a"]).is_err());
    assert_eq!(count(&above.path().join("victim")), 0);
}

#[test]
fn a_root_that_others_can_write_is_refused() {
    let above = tempfile::tempdir().expect("a directory");
    for mode in [0o777, 0o775, 0o1777] {
        fs::set_permissions(above.path(), fs::Permissions::from_mode(mode)).expect("set");
        let error = VhostDir::make(above.path(), &["a"]).expect_err("anybody can put links there");
        assert!(error.to_string().contains("others than root"), "{error}");
    }
    fs::set_permissions(above.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let uid = VhostDir::make(above.path(), &["uid"]).expect("made");
    uid.own(geteuid().as_raw(), getegid().as_raw(), 0o770).expect("owned");
    assert!(VhostDir::make(above.path(), &["uid", "net1"]).is_err(), "a container can write to the one above");
}

#[test]
fn depth_and_number_do_not_matter() {
    let above = tempfile::tempdir().expect("a directory");
    let dir = VhostDir::make(above.path(), &["a"]).expect("made");
    // Deeper than a path may be long, and than a process may have files.
    let mut at = openat(&dir.own, ".", DIRECTORY, Mode::empty()).expect("opened");
    for _ in 0..1100 {
        mkdirat(&at, "deep", Mode::S_IRWXU).expect("made");
        mkdirat(&at, ".1", Mode::S_IRWXU).expect("a name that lifting takes");
        at = openat(&at, "deep", DIRECTORY, Mode::empty()).expect("opened");
    }
    for i in 0..1000 {
        fs::write(dir.path().join(format!("f{i}")), "").expect("written");
    }
    fs::create_dir_all(dir.path().join(".2/full")).expect("a name that lifting takes");
    dir.empty().expect("emptied");
    assert_eq!(count(dir.path()), 0);
}

#[test]
fn somebody_who_swaps_directories_and_links_gains_nothing() {
    let above = tempfile::tempdir().expect("a directory");
    let victim = above.path().join("victim");
    fs::create_dir_all(&victim).expect("made");
    fs::write(victim.join("file"), "precious").expect("written");
    let dir = VhostDir::make(&above.path().join("root"), &["a"]).expect("made");
    let top = dir.path().to_owned();
    let (stop, tries) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let one = top.join("x");
                let _ = fs::create_dir_all(one.join("y"));
                let _ = symlink(&victim, top.join("link"));
                let _ = fs::rename(&one, top.join("z"));
                let _ = fs::rename(top.join("link"), &one);
                tries.fetch_add(1, Ordering::Relaxed);
            }
        });
        while tries.load(Ordering::Relaxed) < 300 {
            let _ = dir.empty(); // it may fail: somebody makes more all the time
        }
        stop.store(true, Ordering::Relaxed);
    });
    dir.empty().expect("nobody is there any more");
    assert_eq!(count(&top), 0);
    assert_eq!(fs::read_to_string(victim.join("file")).expect("there"), "precious");
}

#[test]
fn a_call_ends_and_the_next_one_goes_on() {
    let mut work = Work { steps: STEPS_MAX - 1, lifted: 0 };
    work.step(Path::new("d")).expect("one is left");
    assert!(work.step(Path::new("d")).expect_err("none is left").to_string().contains("try again"));
}
