/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/sources.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/attach/silent.h"
#include "nic/stopped.h"

static void program_read(pid_t pid, char text[VB_PROGRAM_SIZE])
{
	char path[64];
	FILE *file;

	snprintf(text, VB_PROGRAM_SIZE, "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(text, VB_PROGRAM_SIZE, file))
		text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

/* --- the listener: processes that start later connect to it --- */

static int listener_bind(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = snprintf(address.sun_path + 1, VB_CAPTURE_NAME_SIZE, "%s", name);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || (!bind(fd, (void *)&address, size) && !listen(fd, 128)))
		return fd;
	close(fd);
	return -1;
}

/* name: NULL: one of the names that all processes of the user look for. */
static int listener_open(const char *name)
{
	char text[VB_CAPTURE_NAME_SIZE];
	int fd = -1;

	if (name)
		return listener_bind(name);
	for (unsigned number = 0; number < VB_CAPTURE_NAMES && fd < 0; number++) {
		vb_capture_name(text, geteuid(), number);
		fd = listener_bind(text);
	}
	return fd;
}

__attribute__((format(printf, 1, 2))) static void tell_nobody(const char *format, ...)
{
	(void)format;
}

void vb_sources_open(struct vb_sources *sources, const struct vb_sources_options *options)
{
	*sources = (struct vb_sources){ .options = *options };
	if (!options->tell)
		sources->options.tell = tell_nobody;
	sources->uid = geteuid();
	sources->listener = listener_open(options->name);
	if (sources->listener < 0)
		sources->options.tell(
			"%s: other captures of this user run: the beginning of programs that "
			"start now may be missing",
			options->tool);
}

/* --- asking --- */

static struct vb_source *source_known(const struct vb_sources *sources, pid_t pid)
{
	for (unsigned i = 0; i < sources->count; i++)
		if (sources->list[i]->pid == pid && sources->list[i]->state != VB_SOURCE_ENDED)
			return sources->list[i];
	return NULL;
}

static struct vb_source *source_new(struct vb_sources *sources)
{
	struct vb_source **list = realloc(sources->list, (sources->count + 1) * sizeof(*list));
	struct vb_source *source = calloc(1, sizeof(*source));

	if (list)
		sources->list = list;
	if (source)
		source->notes = calloc(1, sources->options.notes_size + 1);
	if (!list || !source || !source->notes) {
		free(source);
		return NULL;
	}
	list[sources->count++] = source;
	return source;
}

static bool request_send(const struct vb_sources *sources, int socket)
{
	const struct vb_capture_request request = { .magic = VB_CAPTURE_MAGIC,
						    .version = VB_CAPTURE_VERSION,
						    .bytes = sources->options.bytes,
						    .wants = sources->options.wants };

	return send(socket, &request, sizeof(request), MSG_NOSIGNAL) >= 0;
}

/* Takes the socket over. */
static void source_ask(struct vb_sources *sources, int socket, const struct ucred *cred)
{
	const bool wanted = !sources->options.alone || cred->pid == sources->options.pid;
	struct vb_source *source =
		wanted && !source_known(sources, cred->pid) ? source_new(sources) : NULL;

	if (!source || !request_send(sources, socket)) {
		if (source)
			source->state = VB_SOURCE_ENDED;
		close(socket);
		return;
	}
	source->pid = cred->pid;
	source->uid = cred->uid;
	source->socket = socket;
	source->interface = -1;
	program_read(cred->pid, source->program);
}

/*
 * The process came by itself, and its program waits here. If its slot was asked a moment before,
 * its service thread would answer that some time, when the program has gone on.
 */
static bool source_asked_again(struct vb_sources *sources, int socket, const struct ucred *cred)
{
	struct vb_source *source = source_known(sources, cred->pid);

	if (!source || source->state != VB_SOURCE_ASKED || !request_send(sources, socket))
		return false;
	close(source->socket);
	source->socket = socket;
	return true;
}

static bool peer_of(int socket, struct ucred *cred)
{
	socklen_t size = sizeof(*cred);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, cred, &size);
}

static void accept_all(struct vb_sources *sources)
{
	struct ucred cred;
	int fd;

	while ((fd = accept4(sources->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		/* Root captures processes of all users, another user its own. */
		if (!peer_of(fd, &cred) || (cred.uid != sources->uid && sources->uid))
			close(fd);
		else if (!source_asked_again(sources, fd, &cred))
			source_ask(sources, fd, &cred);
		sources->came = true;
	}
}

static bool inode_is_new(struct vb_sources *sources, unsigned long inode)
{
	unsigned long *list;

	for (size_t i = 0; i < sources->inode_count; i++)
		if (sources->inodes[i] == inode)
			return false;
	list = realloc(sources->inodes, (sources->inode_count + 1) * sizeof(*list));
	if (!list)
		return false;
	sources->inodes = list;
	list[sources->inode_count++] = inode;
	return true;
}

static bool name_ask(void *arg, unsigned slot, const char *text, unsigned long inode)
{
	struct vb_sources *sources = arg;
	struct ucred cred;
	int fd = -1;

	if (!inode || !inode_is_new(sources, inode))
		return true;
	fd = vb_ask_connect(text);
	if (fd < 0)
		return true;
	if (!peer_of(fd, &cred) || !vb_ask_is_holder(slot, cred.uid)) {
		close(fd);
		return true;
	}
	sources->pid_of_slot[slot] = cred.pid;
	source_ask(sources, fd, &cred);
	return true;
}

/* A process that is stopped answers when it goes on. */
static void stopped_tell(const struct vb_sources *sources, struct vb_source *source)
{
	if (!vb_stopped_process(source->pid))
		return;
	source->told = true;
	sources->options.tell("%s: process %d (%s) is stopped; it takes part as soon as it goes on",
			      sources->options.tool, source->pid, source->program);
}

void vb_sources_look(struct vb_sources *sources)
{
	bool found = !sources->options.pid || sources->complained;
	char line[VB_SILENT_LINE];

	sources->came = false;
	if (vb_ask_names(name_ask, sources) && !sources->complained) {
		sources->complained = true;
		sources->options.tell("%s: /proc/net/unix: %s", sources->options.tool,
				      strerror(errno));
	}
	for (unsigned i = 0; i < sources->count; i++)
		if (sources->list[i]->state == VB_SOURCE_ASKED && !sources->list[i]->told)
			stopped_tell(sources, sources->list[i]);
	for (unsigned slot = 0; slot < VB_ASK_SLOTS && !found; slot++)
		found = sources->pid_of_slot[slot] == sources->options.pid;
	if (!found)
		sources->options.tell("%s: %s; waiting for it", sources->options.tool,
				      vb_silent_words(sources->options.pid, 0, line));
	sources->complained |= !found;
}

/* --- answers --- */

static int answer_receive(int socket, struct vb_capture_answer *answer, int *ring)
{
	ssize_t size = vb_fd_receive(socket, answer, sizeof(*answer), MSG_DONTWAIT, ring);

	if (size < 0 && size != -ECONNRESET)
		return (int)-size;
	if (size != (ssize_t)sizeof(*answer) || answer->magic != VB_CAPTURE_MAGIC ||
	    answer->version != VB_CAPTURE_VERSION)
		return EPROTO;
	return answer->error ? (int)answer->error : *ring < 0 ? EPROTO : 0;
}

static const char *words_of(int err)
{
	switch (err) {
	case EPERM:
		return "it belongs to another user";
	case EPROTO:
		return "its Verbena is of another version, or it has ended";
	case EBUSY:
		return "too many captures of it run already";
	}
	return strerror(err);
}

static void source_end(struct vb_source *source)
{
	source->state = VB_SOURCE_ENDED;
	close(source->socket);
	source->socket = -1;
}

static void source_answer(struct vb_sources *sources, struct vb_source *source)
{
	struct vb_capture_answer answer;
	int ring, err = answer_receive(source->socket, &answer, &ring);

	if (err == EAGAIN)
		return;
	if (!err)
		err = -vb_capture_open(&source->reader, ring, &answer);
	if (ring >= 0)
		close(ring);
	if (!err) {
		source->state = VB_SOURCE_READY;
		source->captured = true;
		return;
	}
	/* Processes of others, and those that have just ended, are not worth a word. */
	if ((err != EPERM && !kill(source->pid, 0)) || source->pid == sources->options.pid)
		sources->options.tell("%s: process %d (%s) cannot take part: %s",
				      sources->options.tool, source->pid, source->program,
				      words_of(err));
	source_end(source);
}

void vb_sources_wait(struct vb_sources *sources, int timeout_ms)
{
	struct pollfd *list = calloc(sources->count + 1, sizeof(*list));

	if (!list)
		return;
	list[0] = (struct pollfd){ .fd = sources->listener, .events = POLLIN };
	for (unsigned i = 0; i < sources->count; i++)
		list[i + 1] = (struct pollfd){ .fd = sources->list[i]->state == VB_SOURCE_ENDED
							     ? -1
							     : sources->list[i]->socket,
					       .events = POLLIN };
	poll(list, sources->count + 1, timeout_ms);
	for (unsigned i = sources->count; i; i--) {
		struct vb_source *source = sources->list[i - 1];

		/* A process that hangs up has written everything: it is read once more. */
		if (list[i].revents && source->state == VB_SOURCE_ASKED)
			source_answer(sources, source);
		else if (list[i].revents && source->state == VB_SOURCE_READY)
			source_end(source);
	}
	if (list[0].revents)
		accept_all(sources);
	free(list);
}

/* --- rings --- */

struct hand {
	struct vb_source *source;
	vb_source_each *each;
	void *arg;
};

static void record_hand_out(void *arg, const struct vb_capture_head *record)
{
	const struct hand *hand = arg;

	hand->each(hand->arg, hand->source, record);
}

bool vb_sources_read(struct vb_sources *sources, vb_source_each *each, void *arg)
{
	size_t count = 0;

	for (unsigned i = 0; i < sources->count; i++) {
		struct hand hand = { sources->list[i], each, arg };

		if (!hand.source->reader.head)
			continue;
		count += vb_capture_read(&hand.source->reader, record_hand_out, &hand);
		if (hand.source->state == VB_SOURCE_ENDED) { /* for the last time */
			hand.source->lost = vb_capture_lost(&hand.source->reader);
			hand.source->stations_lost = vb_capture_stations_lost(&hand.source->reader);
			vb_capture_close(&hand.source->reader);
		}
	}
	return count;
}

uint64_t vb_source_lost(const struct vb_source *source)
{
	return source->reader.head ? vb_capture_lost(&source->reader) : source->lost;
}

uint64_t vb_source_stations_lost(const struct vb_source *source)
{
	return source->reader.head ? vb_capture_stations_lost(&source->reader)
				   : source->stations_lost;
}

void vb_sources_close(struct vb_sources *sources)
{
	for (unsigned i = 0; i < sources->count; i++) {
		struct vb_source *source = sources->list[i];

		if (source->socket >= 0 && source->state != VB_SOURCE_ENDED)
			close(source->socket);
		if (source->reader.head)
			vb_capture_close(&source->reader);
		free(source->notes);
		free(source);
	}
	free(sources->list);
	free(sources->inodes);
	if (sources->listener >= 0)
		close(sources->listener);
}
