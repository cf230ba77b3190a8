/* Paths that are opened without following links. A user who may write to a directory of a path
 * could otherwise lead the process to any file or socket. */
#define _GNU_SOURCE
#include "shim.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* The directory of an absolute path, opened component by component; *leaf is the rest of the path.
 * Negative: errno says why. */
static int open_parent(const char *path, const char **leaf)
{
	char name[NAME_MAX + 1];
	int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (at >= 0) {
		int next;
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (path[len] == '\0') {
			*leaf = path;
			return at;
		}
		if (len > NAME_MAX || (len == 2 && memcmp(path, "..", 2) == 0)) {
			close(at);
			errno = len > NAME_MAX ? ENAMETOOLONG : EINVAL;
			return -1;
		}
		memcpy(name, path, len);
		name[len] = '\0';
		/* A link is no directory: ENOTDIR. */
		next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(at);
		at = next;
		path += len;
	}
	return -1;
}

int vs_open_no_links(const char *path, int flags, unsigned int mode)
{
	const char *leaf;
	int at, fd, error;

	if (path[0] != '/') {
		errno = EINVAL;
		return -1;
	}
	at = open_parent(path, &leaf);
	if (at < 0)
		return -1;
	if (strcmp(leaf, "..") == 0) {
		errno = EINVAL;
		fd = -1;
	} else {
		fd = openat(at, leaf[0] == '\0' ? "." : leaf, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	}
	error = errno;
	close(at);
	errno = error;
	return fd;
}

/* A socket, and in a directory that all users may write to one of root or of this process: any
 * other user could have put it there. */
static bool may_connect(const char *path, int fd)
{
	struct stat leaf, directory;
	char parent[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	int at;
	bool known;

	if (fstat(fd, &leaf) != 0)
		return false;
	if (!S_ISSOCK(leaf.st_mode)) {
		errno = ENOTSOCK;
		return false;
	}
	if (leaf.st_uid == 0 || leaf.st_uid == geteuid())
		return true;
	snprintf(parent, sizeof(parent), "%s", path);
	*(strrchr(parent, '/') + 1) = '\0';
	at = vs_open_no_links(parent, O_PATH | O_DIRECTORY, 0);
	known = at >= 0 && fstat(at, &directory) == 0;
	if (at >= 0)
		close(at);
	if (known && (directory.st_mode & S_IWOTH) == 0)
		return true;
	errno = EACCES;
	return false;
}

/* Drivers and librte_vhost connect by path, again and again. What they call `connect` is this one.
 * It treats only paths that begin with two slashes: it follows no link there, and takes a socket
 * only. The kernel takes two slashes for one. */
int connect(int socket, const struct sockaddr *address, socklen_t len)
{
	const size_t before = offsetof(struct sockaddr_un, sun_path);
	const struct sockaddr_un *given = (const struct sockaddr_un *)address;
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	char path[sizeof(given->sun_path) + 1];
	int fd, rc = -1, error;

	if (address == NULL || len <= before + 2 || len > sizeof(*given) || given->sun_family != AF_UNIX ||
	    given->sun_path[0] != '/' || given->sun_path[1] != '/')
		return syscall(SYS_connect, socket, address, len);
	memcpy(path, given->sun_path, len - before);
	path[len - before] = '\0';
	fd = vs_open_no_links(path, O_PATH, 0);
	if (fd < 0)
		return -1;
	if (may_connect(path, fd)) {
		snprintf(here.sun_path, sizeof(here.sun_path), "/proc/self/fd/%d", fd);
		rc = syscall(SYS_connect, socket, &here, sizeof(here));
	}
	error = errno;
	close(fd);
	errno = error;
	return rc;
}
