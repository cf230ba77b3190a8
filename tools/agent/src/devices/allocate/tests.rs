use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Four devices. Answers of `used` are those of the function.
fn allocator(above: &Path, hugepages: bool, used: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Allocator {
    let (count, vhost) = (4, above.join("vhost"));
    let hugepages = hugepages.then(|| above.join("huge/vswitch"));
    Allocator { count, vhost, hugepages, used: Used::by(used), wait: Duration::from_secs(5) }
}

fn ids(numbers: &[u16]) -> Vec<String> {
    numbers.iter().copied().map(id).collect()
}

#[tokio::test]
async fn a_container_has_a_directory_for_each_device() {
    let above = tempfile::tempdir().expect("a directory");
    let allocator = allocator(above.path(), true, |_| false);
    let answer = allocator.allocate(&ids(&[2, 0])).await.expect("allocated");
    let path = |name: &str| above.path().join(name).to_str().expect("UTF-8").to_owned();
    let (first, second, huge) = (path("vhost/vhost-0"), path("vhost/vhost-2"), path("huge/vswitch/vhost-0"));
    let mounts: Vec<_> =
        answer.mounts.iter().map(|one| (one.container_path.as_str(), one.host_path.as_str())).collect();
    assert_eq!(
        mounts,
        [("/dev/hugepages", huge.as_str()), (first.as_str(), first.as_str()), (second.as_str(), second.as_str())]
    );
    assert!(answer.mounts.iter().all(|mount| !mount.read_only));
    assert_eq!(answer.envs[VARIABLE], format!("{first}:{second}"));
    for directory in [first, second, huge] {
        assert_eq!(fs::metadata(directory).expect("there").mode() & 0o777, 0o700);
    }
    assert!(!above.path().join("vhost/vhost-1").exists());
}

#[tokio::test]
async fn nothing_is_left_of_who_had_it_before() {
    let above = tempfile::tempdir().expect("a directory");
    let allocator = allocator(above.path(), true, |_| false);
    allocator.allocate(&ids(&[1])).await.expect("allocated");
    let victim = above.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    for directory in ["vhost/vhost-1", "huge/vswitch/vhost-1"] {
        let directory = above.path().join(directory);
        symlink(&victim, directory.join("net.sock")).expect("a link");
        fs::create_dir_all(directory.join("a/b/c")).expect("a tree");
        fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("everybody's");
    }
    allocator.allocate(&ids(&[1])).await.expect("allocated again");
    for directory in ["vhost/vhost-1", "huge/vswitch/vhost-1"] {
        let directory = above.path().join(directory);
        assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
        assert_eq!(fs::metadata(&directory).expect("there").mode() & 0o777, 0o700);
    }
    assert_eq!(fs::read_to_string(victim).expect("there"), "precious");
}

#[tokio::test]
async fn a_directory_that_is_attached_is_left_alone() {
    let above = tempfile::tempdir().expect("a directory");
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let busy = above.path().join("vhost/vhost-3");
    let mine = busy.clone();
    let allocator =
        allocator(above.path(), false, move |path| path == mine && counted.fetch_add(1, Ordering::Relaxed) < 5);
    let preferred = ContainerPreferredAllocationRequest {
        available_device_i_ds: ids(&[3, 2]),
        must_include_device_i_ds: Vec::new(),
        allocation_size: 1,
    };
    assert_eq!(allocator.preferred(&preferred).expect("chosen"), ids(&[2]));
    allocator.allocate(&ids(&[3])).await.expect("it waits for the end of the attachment");
    assert!(looks.load(Ordering::Relaxed) >= 5 && busy.exists());

    fs::write(busy.join("net.sock"), "").expect("written");
    let allocator = Allocator { used: Used::by(|_| true), wait: Duration::ZERO, ..allocator };
    let status = allocator.allocate(&ids(&[3])).await.expect_err("it is in use");
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(busy.join("net.sock").exists(), "the socket of the Pod that has it");
}

#[tokio::test]
async fn ids_are_those_of_devices() {
    let above = tempfile::tempdir().expect("a directory");
    let allocator = allocator(above.path(), true, |_| false);
    for id in [
        "",
        "vhost-4",
        "vhost-00",
        "vhost-+1",
        "vhost--1",
        "vhost-",
        "..",
        "../vhost-0",
        "vhost-0/..",
        "/etc",
        "vhost-99999999999",
    ] {
        for ids in [vec![id.to_owned()], vec!["vhost-0".to_owned(), id.to_owned()]] {
            let status = allocator.allocate(&ids).await.expect_err("there is no such device");
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{id}");
        }
    }
    let twice = [ids(&[1]), ids(&[2, 1])];
    assert!(allocator.check(twice.iter()).is_err(), "two containers");
    assert!(allocator.check(twice[..1].iter()).is_ok());
    assert!(!above.path().join("vhost").exists(), "nothing was made");
}

#[test]
fn a_choice_is_within_what_is_asked() {
    let above = tempfile::tempdir().expect("a directory");
    let allocator = allocator(above.path(), false, |path| path.ends_with("vhost-0"));
    let choose = |available: &[u16], must: &[u16], allocation_size| {
        let (available_device_i_ds, must_include_device_i_ds) = (ids(available), ids(must));
        let request =
            ContainerPreferredAllocationRequest { available_device_i_ds, must_include_device_i_ds, allocation_size };
        allocator.preferred(&request).map_err(|status| status.code())
    };
    assert_eq!(choose(&[3, 0, 1, 2], &[], 2), Ok(ids(&[1, 2])));
    assert_eq!(choose(&[3, 0, 1, 2], &[3], 2), Ok(ids(&[1, 3])));
    assert_eq!(choose(&[0, 1, 2, 3], &[], 4), Ok(ids(&[0, 1, 2, 3])));
    assert_eq!(choose(&[1, 1, 900], &[], 3), Ok(ids(&[1])), "what is no device is not chosen");
    assert_eq!(choose(&[1], &[], 0), Ok(ids(&[])));
    for size in [-1, 5, i32::MAX, i32::MIN] {
        assert_eq!(choose(&[1], &[], size), Err(tonic::Code::InvalidArgument));
    }
    assert_eq!(choose(&[1], &[1, 2], 1), Err(tonic::Code::InvalidArgument));
    assert_eq!(choose(&[1], &[900], 1), Err(tonic::Code::InvalidArgument));
}

#[test]
fn only_a_file_system_of_hugepages_is_one() {
    assert_eq!(hugepages(Path::new("/proc/vswitch")), None);
    assert_eq!(hugepages(Path::new("/nowhere/vswitch")), None);
}
