//! Which directories a container gets, and how.
//!
//! A kubelet is believed in nothing: IDs are those of devices that there are, each once.

use super::{Config, Used};
use crate::vhost_dir::VhostDir;
use nix::sys::statfs::{HUGETLBFS_MAGIC, statfs};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;
use vswitch_net_types::shown;
use vswitch_proto::kubelet::v1beta1::{ContainerAllocateResponse, ContainerPreferredAllocationRequest, Mount};

/// What IDs begin with.
const PREFIX: &str = "vhost-";

/// The variable that names a container's directories, with `:` between them.
const VARIABLE: &str = "VSWITCH_VHOST_DIRS";

/// Where a container finds its directory for hugepages: where DPDK looks by itself.
const HUGEPAGES: &str = "/dev/hugepages";

/// Between two looks whether a directory is still in use.
const LOOK: Duration = Duration::from_millis(50);

/// Directories for containers.
#[derive(Debug)]
pub(super) struct Allocator {
    count: u16,
    vhost: PathBuf,
    hugepages: Option<PathBuf>,
    used: Used,
    wait: Duration,
}

/// The directory, if it is, or can be made, in a file system of hugepages.
pub(super) fn hugepages(directory: &Path) -> Option<PathBuf> {
    let above = directory.parent()?;
    let is = |path: &Path| statfs(path).is_ok_and(|found| found.filesystem_type() == HUGETLBFS_MAGIC);
    is(above).then(|| directory.to_owned())
}

impl Allocator {
    pub(super) fn new(config: Config) -> Self {
        let Config { count, vhost, hugepages, used, wait, .. } = config;
        Self { count, vhost, hugepages, used, wait }
    }

    /// All devices.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(id)
    }

    /// The number of a device.
    fn number(&self, id: &str) -> Option<u16> {
        let number = id.strip_prefix(PREFIX)?.parse().ok().filter(|number| *number < self.count)?;
        (self::id(number) == id).then_some(number)
    }

    /// The numbers of devices, each once.
    fn numbers<'a>(&self, ids: impl IntoIterator<Item = &'a String>) -> Result<BTreeSet<u16>, Status> {
        let mut numbers = BTreeSet::new();
        for id in ids {
            let Some(number) = self.number(id) else {
                let words = format!("{:?} is no device: there are vhost-0 to {}", shown(id), self::id(self.count - 1));
                return Err(Status::invalid_argument(words));
            };
            if !numbers.insert(number) {
                return Err(Status::invalid_argument(format!("{id} is there twice")));
            }
        }
        Ok(numbers)
    }

    /// The devices that a container had better get: those that nobody uses, the lowest first.
    pub(super) fn preferred(&self, request: &ContainerPreferredAllocationRequest) -> Result<Vec<String>, Status> {
        let mut chosen = self.numbers(&request.must_include_device_i_ds)?;
        let size = usize::try_from(request.allocation_size).ok().filter(|size| *size <= usize::from(self.count));
        let Some(size) = size.filter(|size| chosen.len() <= *size) else {
            let words = format!("allocation_size {} does not do", request.allocation_size);
            return Err(Status::invalid_argument(words));
        };
        let mut left: Vec<u16> = request.available_device_i_ds.iter().filter_map(|id| self.number(id)).collect();
        left.sort_unstable_by_key(|number| ((self.used.0)(&self.vhost.join(id(*number))), *number));
        for number in left {
            if chosen.len() == size {
                break;
            }
            chosen.insert(number);
        }
        Ok(chosen.into_iter().map(id).collect())
    }

    /// Checks all containers' devices before anything is made of one.
    pub(super) fn check<'a>(&self, containers: impl Iterator<Item = &'a Vec<String>>) -> Result<(), Status> {
        self.numbers(containers.flatten()).map(drop)
    }

    /// Makes directories for a container, with nothing in them.
    pub(super) async fn allocate(&self, ids: &[String]) -> Result<ContainerAllocateResponse, Status> {
        let numbers = self.numbers(ids)?;
        let (mut directories, mut mounts) = (Vec::new(), Vec::new());
        for number in numbers {
            let path = self.made(&self.vhost, number).await?;
            if let Some(root) = self.hugepages.as_ref().filter(|_| mounts.is_empty()) {
                mounts.push(mount(Path::new(HUGEPAGES), &self.made(root, number).await?)?);
            }
            let mount = mount(&path, &path)?;
            directories.push(mount.container_path.clone());
            mounts.push(mount);
        }
        let envs = HashMap::from([(VARIABLE.to_owned(), directories.join(":"))]);
        Ok(ContainerAllocateResponse { envs, mounts })
    }

    /// A device's directory below a root. A kubelet gives a device away again when containers have
    /// ended; CNI detaches its port a bit later.
    async fn made(&self, root: &Path, number: u16) -> Result<PathBuf, Status> {
        let id = id(number);
        let socket = self.vhost.join(&id);
        let deadline = Instant::now() + self.wait;
        while (self.used.0)(&socket) {
            if Instant::now() >= deadline {
                let words = format!("{id} is still attached to the Pod that had it before; try again");
                return Err(Status::unavailable(words));
            }
            tokio::time::sleep(LOOK).await;
        }
        let at = root.to_owned();
        let made = tokio::task::spawn_blocking(move || fresh(&at, &id)).await;
        made.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| {
            Status::internal(format!("the directory of {PREFIX}{number} below {}: {error}", root.display()))
        })
    }
}

fn id(number: u16) -> String {
    format!("{PREFIX}{number}")
}

/// An empty directory of root's.
fn fresh(root: &Path, id: &str) -> io::Result<PathBuf> {
    let directory = VhostDir::make(root, &[id])?;
    directory.withdraw()?;
    Ok(directory.path().to_owned())
}

fn mount(inside: &Path, outside: &Path) -> Result<Mount, Status> {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let (Some(container_path), Some(host_path)) = (text(inside), text(outside)) else {
        return Err(Status::internal(format!("{} is no UTF-8", outside.display())));
    };
    Ok(Mount { container_path, host_path, read_only: false })
}

#[cfg(test)]
mod tests;
