/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/ask.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "shm/slot_user.h"

enum { ANSWER_MS = 1000, BUSY_MS = 5000, PAUSE_MS = 20, LISTENS = 1 << 16 };

struct name {
	unsigned slot;
	char text[VB_ASK_NAME_SIZE];
};

/* The names of slots in this network namespace, as src/shm/slot.h has them. */
struct names {
	struct name *list;
	size_t count;
};

static bool name_add(struct names *names, unsigned slot, const char *text)
{
	struct name *list = realloc(names->list, (names->count + 1) * sizeof(*list));

	if (!list)
		return false;
	names->list = list;
	list[names->count].slot = slot;
	snprintf(list[names->count++].text, VB_ASK_NAME_SIZE, "%s", text);
	return true;
}

/* The slot in verbena.<slot> or, for own slots, verbena.<slot>.<random>; 0: another name. */
static unsigned slot_of(const char *name)
{
	unsigned slot, own = 0;
	int length = 0;

	if (sscanf(name, "verbena.%4u%n.%*16[0-9a-f]%n", &slot, &length, &length) < 1 ||
	    name[length] || slot >= VB_ASK_SLOTS)
		return 0;
	own = strchr(name + sizeof("verbena."), '.') != NULL;
	return own == (slot >= VB_SLOT_OWN_MIN) ? slot : 0;
}

int vb_ask_names(vb_ask_each_name *each, void *arg)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];
	bool complete = true;

	if (!file)
		return -errno;
	while (complete && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, " @verbena.");
		unsigned slot, flags = 0;
		unsigned long inode = 0;

		line[strcspn(line, "\n")] = '\0';
		slot = name && strlen(name) < VB_ASK_NAME_SIZE ? slot_of(name + 2) : 0;
		(void)sscanf(line, "%*s %*s %*s %x %*s %*s %lu", &flags, &inode);
		if (slot)
			complete = each(arg, slot, name + 2, flags & LISTENS ? inode : 0);
	}
	fclose(file);
	return complete ? 0 : -ENOMEM;
}

static bool names_collect(void *names, unsigned slot, const char *text, unsigned long inode)
{
	(void)inode;
	return name_add(names, slot, text);
}

static int by_slot(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return (x->slot > y->slot) - (x->slot < y->slot);
}

int vb_ask_connect(const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t room = sizeof(address.sun_path) - 1;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int length = snprintf(address.sun_path + 1, room, "%s", text);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	if (fd < 0 || !connect(fd, (void *)&address, size))
		return fd;
	close(fd);
	return -1;
}

bool vb_ask_is_holder(unsigned slot, uid_t uid)
{
	struct vb_uid_map map;
	uint32_t user;

	if (slot < VB_SLOT_OWN_MIN)
		return true;
	vb_uid_map_read(&map);
	return !vb_uid_outside(&map, uid, &user) || vb_slot_weight(user, slot);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int left_ms(uint64_t until_ms)
{
	uint64_t now = now_ms();

	return until_ms > now ? (int)(until_ms - now) : 0;
}

static size_t record_size(enum vb_describe_what what)
{
	static const size_t sizes[VB_DESCRIBE_WHATS] = {
		[VB_DESCRIBE_OBJECTS] = sizeof(struct vb_describe_record),
		[VB_DESCRIBE_WAITS] = sizeof(struct vb_why_record),
		[VB_DESCRIBE_PORT] = sizeof(struct vb_port_counts),
	};

	return sizes[what];
}

static int answer_receive(int socket, uint64_t until_ms, enum vb_describe_what what,
			  struct vb_describe_answer *answer, int *memfd)
{
	struct pollfd wait = { .fd = socket, .events = POLLIN };
	ssize_t size;

	if (poll(&wait, 1, left_ms(until_ms)) <= 0)
		return ETIMEDOUT;
	size = vb_fd_receive(socket, answer, sizeof(*answer), 0, memfd);
	/* A process that does not know the request hangs up. */
	if (size != (ssize_t)sizeof(*answer) || answer->magic != VB_DESCRIBE_MAGIC ||
	    answer->version != VB_DESCRIBE_VERSION ||
	    (!answer->error && answer->record_size != record_size(what)) ||
	    answer->record_count > VB_DESCRIBE_RECORDS_MAX)
		return EPROTO;
	return (int)answer->error;
}

/* Read, not mapped: the other process may be hostile, and could cut the file short. */
static int records_read(struct vb_asked_process *process, size_t one, int memfd)
{
	size_t size = process->answer.record_count * one, at = 0;

	process->records = calloc(process->answer.record_count + 1, one);
	if (!process->records)
		return ENOMEM;
	while (at < size) {
		ssize_t n = pread(memfd, (char *)process->records + at, size - at, (off_t)at);

		if (n <= 0)
			return EPROTO;
		at += (size_t)n;
	}
	return 0;
}

static int request_send(int socket, const struct vb_ask_filter *filter)
{
	const struct vb_describe_request request = { .magic = VB_DESCRIBE_MAGIC,
						     .version = VB_DESCRIBE_VERSION,
						     .what = (uint16_t)filter->what,
						     .clear = filter->clear };

	return send(socket, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request)
		       ? 0
		       : errno;
}

static int answer_take(struct vb_asked_process *process, int socket, enum vb_describe_what what,
		       uint64_t until_ms)
{
	int memfd = -1, err = answer_receive(socket, until_ms, what, &process->answer, &memfd);

	if (!err)
		err = memfd < 0 ? EPROTO : records_read(process, record_size(what), memfd);
	if (err) {
		free(process->records);
		process->records = NULL;
		process->answer.record_count = 0;
	}
	if (memfd >= 0)
		close(memfd);
	return err;
}

static struct vb_asked_process *process_add(struct vb_asked_processes *all,
					    const struct ucred *cred, unsigned slot)
{
	struct vb_asked_process *list = realloc(all->list, (all->count + 1) * sizeof(*list));

	if (!list)
		return NULL;
	all->list = list;
	list[all->count] =
		(struct vb_asked_process){ .pid = cred->pid, .uid = cred->uid, .slot = slot };
	return &list[all->count++];
}

static bool is_wanted(const struct vb_ask_filter *filter, pid_t pid)
{
	bool listed = !filter->pids;

	for (unsigned i = 0; i < filter->pid_count; i++)
		listed |= filter->pids[i] == pid;
	return listed && (!filter->only || filter->only == pid) && filter->except != pid;
}

/* Sends the request, if the process is wanted. Takes the socket over. */
static void ask_process(struct vb_asked_processes *all, const struct name *name, int socket,
			const struct vb_ask_filter *filter)
{
	const unsigned slot = name->slot;
	struct ucred cred;
	socklen_t size = sizeof(cred);
	struct vb_asked_process *process = NULL;
	bool known = false;

	if (!getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) &&
	    vb_ask_is_holder(slot, cred.uid)) {
		all->pid_of_slot[slot] = cred.pid;
		for (unsigned i = 0; i < all->count; i++) /* another of its slots */
			known |= all->list[i].pid == cred.pid && cred.pid;
		if (!known && is_wanted(filter, cred.pid))
			process = process_add(all, &cred, slot);
	}
	if (!process) {
		close(socket);
		return;
	}
	snprintf(process->name, VB_ASK_NAME_SIZE, "%s", name->text);
	process->error = request_send(socket, filter);
	process->socket = socket;
}

/* A process that is busy for a moment answers EAGAIN, and is asked again for BUSY_MS. */
static void hear_answer(struct vb_asked_process *process, const struct vb_ask_filter *filter,
			uint64_t until_ms)
{
	if (!process->error)
		process->error = answer_take(process, process->socket, filter->what, until_ms);
	close(process->socket);
	until_ms += BUSY_MS - ANSWER_MS;
	while (process->error == EAGAIN && left_ms(until_ms)) {
		int again;

		poll(NULL, 0, PAUSE_MS);
		again = vb_ask_connect(process->name);
		if (again < 0)
			return;
		process->error = request_send(again, filter);
		if (!process->error)
			process->error = answer_take(process, again, filter->what, until_ms);
		close(again);
	}
}

static int by_pid(const void *a, const void *b)
{
	const struct vb_asked_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* All requests first, then the answers: the waits for silent processes overlap. */
int vb_ask_processes(struct vb_asked_processes *all, const struct vb_ask_filter *filter)
{
	struct names names = { 0 };
	uint64_t until_ms;
	int err;

	*all = (struct vb_asked_processes){ 0 };
	err = vb_ask_names(names_collect, &names);
	if (err) {
		free(names.list);
		return err;
	}
	if (names.count)
		qsort(names.list, names.count, sizeof(*names.list), by_slot);
	for (size_t i = 0; i < names.count; i++) {
		int fd = vb_ask_connect(names.list[i].text);

		if (fd < 0)
			continue; /* not listening, or gone since */
		ask_process(all, &names.list[i], fd, filter);
	}
	free(names.list);
	until_ms = now_ms() + ANSWER_MS;
	for (unsigned i = 0; i < all->count; i++)
		hear_answer(&all->list[i], filter, until_ms);
	if (all->count)
		qsort(all->list, all->count, sizeof(*all->list), by_pid);
	return 0;
}

void vb_ask_free(struct vb_asked_processes *all)
{
	for (unsigned i = 0; i < all->count; i++)
		free(all->list[i].records);
	free(all->list);
}
