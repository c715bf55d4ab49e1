/* SPDX-License-Identifier: BSD-2-Clause */
/* Tries the system calls of the local path: peer memory, memfd, abstract sockets, netlink. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <linux/userfaultfd.h>

#include "doctor.h"

/* --- memory of a sibling --- */

#define WRITTEN 0x7665726265766961ull

static volatile uint64_t word; /* at the same address in both children */

/* Allows all processes, as the library does; tells that it is ready; waits for the write. */
static void serve_as_target(int ready, int done)
{
	char byte = 0;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (write(ready, &byte, 1) != 1 || read(done, &byte, 1) != 0)
		_exit(EIO);
	_exit(word == WRITTEN ? 0 : EIO);
}

static int touch_target(void *argument)
{
	const pid_t target = *(const pid_t *)argument;
	uint64_t value = 0;
	struct iovec own = { &value, sizeof(value) };
	struct iovec peer = { (void *)&word, sizeof(word) };

	if (process_vm_readv(target, &own, 1, &peer, 1, 0) != sizeof(value))
		return errno;
	value = WRITTEN;
	if (process_vm_writev(target, &own, 1, &peer, 1, 0) != sizeof(value))
		return errno;
	return 0;
}

/* ready: the target writes to us. done: we close it, and the target reads the end. */
static int try_sibling(const int ready[2], const int done[2])
{
	int result = EIO, status;
	char byte;
	pid_t target = fork();

	if (target == 0) {
		close(done[1]);
		serve_as_target(ready[1], done[0]);
	}
	close(ready[1]);
	if (target < 0) {
		close(done[1]);
		return errno;
	}
	if (read(ready[0], &byte, 1) == 1)
		result = probe_run(touch_target, &target);
	close(done[1]);
	while (waitpid(target, &status, 0) < 0 && errno == EINTR)
		;
	if (!result && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		result = EIO;
	return result;
}

static int try_peer_memory(void)
{
	int ready[2], done[2], result;

	if (pipe2(ready, O_CLOEXEC))
		return errno;
	if (pipe2(done, O_CLOEXEC)) {
		close(ready[0]);
		close(ready[1]);
		return errno;
	}
	result = try_sibling(ready, done);
	close(ready[0]);
	close(done[0]);
	return result;
}

static const char *peer_memory_advice(int result)
{
	if (result == -SIGSYS || result == EPERM)
		return "a seccomp filter, Yama or another security module forbids it: allow "
		       "process_vm_readv and process_vm_writev (docker run --security-opt "
		       "seccomp=unconfined, or --cap-add SYS_PTRACE)";
	if (result == ENOSYS)
		return "the kernel was built without CONFIG_CROSS_MEMORY_ATTACH, or a sandbox "
		       "hides it";
	return "see process_vm_readv(2)";
}

void check_peer_memory(void)
{
	const int result = try_peer_memory();

	if (!result) {
		report(VERDICT_OK, "peer memory",
		       "a process can read and write the memory of another one of its user");
		return;
	}
	report(VERDICT_WARN, "peer memory",
	       "process_vm_readv/writev between two processes: %s; they exchange packets, which "
	       "is slower",
	       probe_text(result));
	advise("%s", peer_memory_advice(result));
}

/* --- shared memory --- */

static int try_memfd(void *argument)
{
	enum { SIZE = 1 << 20 };
	int fd = memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *memory;

	if (fd < 0 || ftruncate(fd, SIZE) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return errno;
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return errno;
	memory[SIZE - 1] = 1;
	return 0;
}

void check_memfd(void)
{
	const int result = probe_run(try_memfd, NULL);

	if (!result) {
		report(VERDICT_OK, "shared memory", "memfd_create with sealing works");
		return;
	}
	report(VERDICT_FAIL, "shared memory", "a sealed memfd of 1 MB: %s", probe_text(result));
	advise("Verbena keeps its queues in a memfd; allow memfd_create, and check the memory "
	       "limit and 'ulimit -f'");
}

/* --- mapped regions --- */

/* The calls that hold pages (src/nic/hold.h). */
static int try_userfaultfd(void *argument)
{
	const uint64_t move = 1 << 16; /* UFFD_FEATURE_MOVE */
	struct uffdio_api api = { .api = UFFD_API, .features = move };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);

	return fd < 0 || ioctl(fd, UFFDIO_API, &api) ? errno : 0;
}

/* A matter of speed, which programs ask for: no warning. */
void check_mapping(void)
{
	const int result = probe_run(try_userfaultfd, NULL);
	const char *choice = getenv("VERBENA_MAP");

	report(VERDICT_OK, "mapped regions",
	       "VERBENA_MAP is %s; regions of programs with one thread can be mapped; userfaultfd, "
	       "which makes sure that no page is pinned: %s",
	       choice && *choice ? choice : "off", result ? probe_text(result) : "works");
}

/* --- abstract sockets --- */

static int try_abstract_socket(void *argument)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	socklen_t length;

	/* A 0 byte in front makes the name abstract: no file, and freed with the process. */
	length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			     snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
				      "verbena.doctor.%d", getpid()));
	if (listener < 0 || peer < 0 || bind(listener, (struct sockaddr *)&name, length) ||
	    listen(listener, 1) || connect(peer, (struct sockaddr *)&name, length))
		return errno;
	return send(peer, "", 1, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

void check_abstract_socket(void)
{
	const int result = probe_run(try_abstract_socket, NULL);

	if (!result) {
		report(VERDICT_OK, "local sockets", "abstract unix sockets work");
		return;
	}
	report(VERDICT_FAIL, "local sockets", "an abstract unix socket: %s", probe_text(result));
	advise("processes find each other by such sockets; a sandbox or security module forbids "
	       "them");
}

/* --- addresses --- */

static int try_netlink(void *argument)
{
	struct if_nameindex *names;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return errno;
	names = if_nameindex();
	return names ? 0 : errno;
}

void check_netlink(void)
{
	const int result = probe_run(try_netlink, NULL);

	if (!result) {
		report(VERDICT_OK, "addresses", "the kernel lists interfaces and addresses");
		return;
	}
	report(VERDICT_WARN, "addresses", "the routing socket: %s; only 'lo' is known",
	       probe_text(result));
	advise("allow AF_NETLINK sockets (systemd: RestrictAddressFamilies), or live with "
	       "127.0.0.1");
}
