/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/real.h"

#include "sysfs/nl_socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/netlink.h>

#include "base/fork.h"
#include "sysfs/nl_answer.h"
#include "sysfs/redirect.h"

_Atomic uint64_t vb_nl_suspects[VB_NL_FDS / VB_NL_WORD];

/* --- the table --- */

struct entry {
	int fd;
	ino_t inode;            /* the program may have closed fd and opened another file */
	unsigned char *waiting; /* owned; datagrams as in struct vb_nl_out */
	size_t length, at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* owned; under lock */
static size_t entry_count;    /* under lock */

static void lock_table(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&lock);
}

/* libibverbs registers before, as for the tree. */
static void watch_fork(void)
{
	static const struct vb_fork_handlers at_fork = { lock_table, unlock_table, unlock_table };

	vb_adapter_load();
	vb_fork_register(VB_FORK_NETLINK, &at_fork);
}

static ino_t inode_of(int fd)
{
	struct stat info;

	return fstat(fd, &info) || !S_ISSOCK(info.st_mode) ? 0 : info.st_ino;
}

static void set_suspect(int fd)
{
	const unsigned bit = (unsigned)fd < VB_NL_FDS ? (unsigned)fd : VB_NL_FDS - 1;

	atomic_fetch_or(&vb_nl_suspects[bit / VB_NL_WORD], UINT64_C(1) << bit % VB_NL_WORD);
}

/* Under lock. Bits are computed anew, because high descriptors share one. */
static void forget_entry(struct entry *entry)
{
	free(entry->waiting);
	*entry = entries[--entry_count];
	for (size_t i = 0; i < VB_NL_FDS / VB_NL_WORD; i++)
		atomic_store(&vb_nl_suspects[i], 0);
	for (size_t i = 0; i < entry_count; i++)
		set_suspect(entries[i].fd);
}

/* Under lock. Entries of descriptors that were closed are found here, and forgotten. */
static struct entry *find_entry(int fd)
{
	for (size_t i = 0; i < entry_count; i++) {
		if (entries[i].fd != fd)
			continue;
		if (entries[i].inode == inode_of(fd))
			return &entries[i];
		forget_entry(&entries[i]);
		return NULL;
	}
	return NULL;
}

static void forget_closed(void)
{
	for (size_t i = entry_count; i-- > 0;)
		if (entries[i].inode != inode_of(entries[i].fd))
			forget_entry(&entries[i]);
}

static bool add_entry(int fd)
{
	const ino_t inode = inode_of(fd);
	struct entry *grown;

	lock_table();
	forget_closed();
	grown = realloc(entries, (entry_count + 1) * sizeof(*grown));
	if (grown) {
		entries = grown;
		entries[entry_count++] = (struct entry){ .fd = fd, .inode = inode };
		set_suspect(fd);
	}
	unlock_table();
	return grown;
}

bool vb_nl_socket_is_ours(int fd)
{
	const int saved_errno = errno;
	bool found;

	lock_table();
	found = find_entry(fd);
	unlock_table();
	errno = saved_errno;
	return found;
}

int vb_nl_socket_open(int type)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int fd = REAL(socket)(AF_NETLINK, type, NETLINK_USERSOCK);

	if (fd < 0)
		return fd;
	pthread_once(&once, watch_fork);
	if (add_entry(fd))
		return fd;
	close(fd);
	errno = ENOMEM;
	return -1;
}

/*
 * --- sending answers ---
 *
 * Calls of the kernel itself: libverbena-sockets has locks that come before the one here, and a
 * thread must not be cancelled under it.
 */

static struct sockaddr_nl address_of(uint32_t portid)
{
	return (struct sockaddr_nl){ .nl_family = AF_NETLINK, .nl_pid = portid };
}

/* Beyond the numbers that programs and the kernel choose for themselves. */
static uint32_t random_portid(void)
{
	uint32_t portid = 0;

	if (getrandom(&portid, sizeof(portid), GRND_NONBLOCK) != sizeof(portid))
		portid = (uint32_t)gettid() * 2654435761u;
	return portid | UINT32_C(0xc0000000);
}

static int connect_to(int fd, uint32_t portid)
{
	const struct sockaddr_nl address = address_of(portid);

	return (int)syscall(SYS_connect, fd, &address, sizeof(address));
}

void vb_nl_socket_seal(int fd)
{
	connect_to(fd, random_portid());
}

/* The number of the program's socket; the kernel gives it one if it has none. 0: no socket. */
static uint32_t portid_of(int fd)
{
	struct sockaddr_nl address = address_of(0);
	socklen_t length = sizeof(address);

	if (syscall(SYS_getsockname, fd, &address, &length))
		return 0;
	if (address.nl_pid)
		return address.nl_pid;
	address = address_of(0);
	if (syscall(SYS_bind, fd, &address, sizeof(address)))
		return 0;
	length = sizeof(address);
	return syscall(SYS_getsockname, fd, &address, &length) ? 0 : address.nl_pid;
}

/* A socket of this moment, which the program's socket listens to. */
static int open_sender(int fd)
{
	enum { TRIES = 16 };
	int sender =
		(int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);

	for (int i = 0; sender >= 0 && i < TRIES; i++) {
		const struct sockaddr_nl address = address_of(random_portid());

		if (syscall(SYS_bind, sender, &address, sizeof(address)))
			continue; /* another process has the number */
		if (!connect_to(fd, address.nl_pid))
			return sender;
		break;
	}
	if (sender >= 0)
		syscall(SYS_close, sender);
	return -1;
}

/* True: go on; false: the receive buffer is full. */
static bool send_datagram(int sender, struct entry *entry, const struct sockaddr_nl *to)
{
	uint32_t size;
	ssize_t sent;

	memcpy(&size, entry->waiting + entry->at, sizeof(size));
	do
		sent = syscall(SYS_sendto, sender, entry->waiting + entry->at + sizeof(size), size,
			       MSG_DONTWAIT | MSG_NOSIGNAL, to, sizeof(*to));
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno == EAGAIN)
		return false;
	entry->at += sizeof(size) + size;
	return true;
}

/* Under lock. */
static void send_waiting(struct entry *entry)
{
	const struct sockaddr_nl to = address_of(portid_of(entry->fd));
	int sender = open_sender(entry->fd);

	while (sender >= 0 && entry->at < entry->length && send_datagram(sender, entry, &to))
		;
	if (sender < 0 || entry->at == entry->length) {
		free(entry->waiting);
		entry->waiting = NULL;
		entry->at = entry->length = 0;
	}
	if (sender >= 0)
		syscall(SYS_close, sender);
}

/* Under lock. False: no memory, or the program asks but does not read. */
static bool append_answer(struct entry *entry, const struct vb_nl_out *out)
{
	const size_t kept = entry->length - entry->at;
	unsigned char *bytes;

	if (kept + out->length > VB_NL_OUT_MAX)
		return false;
	if (entry->at)
		memmove(entry->waiting, entry->waiting + entry->at, kept);
	entry->at = 0;
	entry->length = kept;
	bytes = realloc(entry->waiting, kept + out->length);
	if (!bytes)
		return false;
	memcpy(bytes + kept, out->bytes, out->length);
	entry->waiting = bytes;
	entry->length += out->length;
	return true;
}

static int deliver(int fd, const struct vb_nl_out *out)
{
	struct entry *entry;
	bool kept = true;

	if (out->failed)
		return -ENOBUFS;
	if (!out->length)
		return 0;
	lock_table();
	entry = find_entry(fd);
	if (entry)
		kept = append_answer(entry, out);
	if (entry && kept)
		send_waiting(entry);
	unlock_table();
	return kept ? 0 : -ENOBUFS;
}

void vb_nl_socket_resume(int fd)
{
	const int saved_errno = errno;
	struct entry *entry;

	lock_table();
	entry = find_entry(fd);
	if (entry && entry->waiting)
		send_waiting(entry);
	unlock_table();
	errno = saved_errno;
}

/* --- requests --- */

static bool option_is_set(int fd, int option)
{
	int value = 0;
	socklen_t length = sizeof(value);

	return !getsockopt(fd, SOL_NETLINK, option, &value, &length) && value;
}

/* Other processes are asked meanwhile, so that a cancelled thread would leave something behind. */
int vb_nl_socket_request(int fd, const void *datagram, size_t size)
{
	const struct vb_nl_options options = { option_is_set(fd, NETLINK_EXT_ACK),
					       option_is_set(fd, NETLINK_CAP_ACK) };
	struct vb_nl_out out = { .portid = portid_of(fd) };
	const bool was_inside = vb_redirect_pause(true);
	int cancel_state, result;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	vb_nl_answer(datagram, size, &options, &out);
	result = deliver(fd, &out);
	vb_nl_free(&out);
	pthread_setcancelstate(cancel_state, NULL);
	vb_redirect_pause(was_inside);
	return result;
}
