/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs of other hosts for the agents of this host. They come under the lock of a lane, so they wait
 * in a ring for the service thread. The counters of the port are the sum over all processes: the
 * service thread asks each, and answers when all have told, or after a moment. It never waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/attach/ask.h"
#include "engine/watch.h"
#include "gsi/impl.h"
#include "gsi/mad.h"
#include "mad/agent.h"

enum {
	ASKING_MAX = 16,         /* requests for counters at a time */
	ASKED_MAX = 256,         /* processes that one of them asks */
	PATIENCE_NS = 100000000, /* for the slowest process */
};

/* A request for counters whose answer is not complete. Service thread only. */
struct asking {
	struct vb_gsi *gsi;
	struct vb_gsi_datagram request;
	struct vb_mad_port port;
	uint16_t clear; /* pass two of a Set: the values are told already */
	int timer;
	int sockets[ASKED_MAX]; /* -1: has answered */
	unsigned socket_count, open_count;
};

/* --- answering --- */

static void send_answer(struct vb_gsi *gsi, const struct vb_gsi_datagram *request,
			const uint8_t mad[VB_MAD_SIZE])
{
	struct vb_gsi_datagram answer = {
		.src = request->dst,
		.dst = request->src,
		.scope = request->scope,
		.traffic_class = request->traffic_class,
	};

	memcpy(answer.mad, mad, sizeof(answer.mad));
	vb_gsi_count(gsi, VB_GSI_ANSWERED);
	(void)vb_gsi_send(gsi->nic, &answer);
}

static uint16_t answer_now(struct vb_gsi *gsi, const struct vb_gsi_datagram *request,
			   const struct vb_mad_port *port)
{
	uint8_t mad[VB_MAD_SIZE];
	uint16_t clear;

	if (vb_agent_answer(port, request->mad, mad, &clear))
		send_answer(gsi, request, mad);
	else
		vb_gsi_count(gsi, VB_GSI_NOBODY);
	return clear;
}

/* --- asking processes for their counters --- */

static void begin_asking(struct vb_gsi *gsi, const struct vb_gsi_datagram *request, uint16_t clear);

static void end_asking(struct asking *asking)
{
	struct vb_gsi *gsi = asking->gsi;
	uint16_t clear;

	for (unsigned i = 0; i < asking->socket_count; i++)
		if (asking->sockets[i] >= 0) {
			vb_unwatch(gsi->nic, asking->sockets[i]);
			close(asking->sockets[i]);
		}
	vb_unwatch(gsi->nic, asking->timer);
	close(asking->timer);
	gsi->inbox.asking_count--;
	if (!asking->clear) {
		clear = answer_now(gsi, &asking->request, &asking->port);
		if (clear)
			begin_asking(gsi, &asking->request, clear);
	}
	free(asking);
}

static void on_patience(int fd, void *arg)
{
	end_asking(arg);
}

static void add_counts(struct asking *asking, int socket)
{
	struct vb_describe_answer answer;
	struct vb_port_counts counts;
	int memfd = -1;
	ssize_t size = vb_fd_receive(socket, &answer, sizeof(answer), MSG_DONTWAIT, &memfd);

	if (size == (ssize_t)sizeof(answer) && answer.magic == VB_DESCRIBE_MAGIC &&
	    answer.version == VB_DESCRIBE_VERSION && !answer.error && answer.record_count == 1 &&
	    answer.record_size == sizeof(counts) && memfd >= 0 &&
	    pread(memfd, &counts, sizeof(counts), 0) == (ssize_t)sizeof(counts))
		vb_mad_port_count(&asking->port, &counts);
	vb_fd_close(&memfd);
}

static void on_counts(int fd, void *arg)
{
	struct asking *asking = arg;

	for (unsigned i = 0; i < asking->socket_count; i++)
		if (asking->sockets[i] == fd) {
			add_counts(asking, fd);
			vb_unwatch(asking->gsi->nic, fd);
			close(fd);
			asking->sockets[i] = -1;
			asking->open_count--;
		}
	if (!asking->open_count)
		end_asking(asking);
}

static bool ask_one(struct asking *asking, int socket)
{
	const struct vb_describe_request request = { .magic = VB_DESCRIBE_MAGIC,
						     .version = VB_DESCRIBE_VERSION,
						     .what = VB_DESCRIBE_PORT,
						     .clear = asking->clear };

	return send(socket, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		       (ssize_t)sizeof(request) &&
	       !vb_watch_running(asking->gsi->nic, socket, on_counts, asking);
}

/* A process may have several slots, and this one is asked by no socket. */
static bool is_asked(const struct asking *asking, const struct ucred *cred, unsigned slot)
{
	struct ucred other;
	socklen_t size = sizeof(other);

	if (cred->pid == getpid() || !vb_ask_is_holder(slot, cred->uid))
		return true;
	for (unsigned i = 0; i < asking->socket_count; i++)
		if (!getsockopt(asking->sockets[i], SOL_SOCKET, SO_PEERCRED, &other, &size) &&
		    other.pid == cred->pid)
			return true;
	return false;
}

static bool ask_name(void *arg, unsigned slot, const char *text, unsigned long inode)
{
	struct asking *asking = arg;
	int socket = inode ? vb_ask_connect(text) : -1;
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (socket < 0)
		return true;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) ||
	    is_asked(asking, &cred, slot) || !ask_one(asking, socket)) {
		close(socket);
		return true;
	}
	asking->sockets[asking->socket_count++] = socket;
	asking->open_count++;
	return asking->socket_count < ASKED_MAX;
}

static struct asking *new_asking(struct vb_gsi *gsi)
{
	const struct itimerspec patience = { .it_value = { 0, PATIENCE_NS } };
	const bool may = gsi->inbox.asking_count < ASKING_MAX;
	struct asking *asking = may ? calloc(1, sizeof(*asking)) : NULL;

	if (!asking)
		return NULL;
	asking->gsi = gsi;
	asking->timer = vb_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (asking->timer < 0 || timerfd_settime(asking->timer, 0, &patience, NULL) ||
	    vb_watch_running(gsi->nic, asking->timer, on_patience, asking)) {
		vb_fd_close(&asking->timer);
		free(asking);
		return NULL;
	}
	gsi->inbox.asking_count++;
	return asking;
}

/* Also pass two of a Set, with counters to clear. */
static void begin_asking(struct vb_gsi *gsi, const struct vb_gsi_datagram *request, uint16_t clear)
{
	const struct vb_device *dev = vb_mad_device_at(&request->dst, false);
	struct asking *asking = dev ? new_asking(gsi) : NULL;
	struct vb_port_counts own;

	if (!asking) {
		vb_gsi_count(gsi, VB_GSI_FULL);
		return;
	}
	asking->request = *request;
	asking->clear = clear;
	vb_mad_port_fill(gsi->nic, dev, &asking->port);
	vb_port_counts(gsi->nic, &own);
	vb_mad_port_count(&asking->port, &own);
	vb_port_counts_clear(gsi->nic, clear);
	(void)vb_ask_names(ask_name, asking);
	if (!asking->open_count)
		end_asking(asking);
}

/* --- the ring --- */

static void take_one(struct vb_gsi *gsi, const struct vb_gsi_datagram *request)
{
	const struct vb_device *dev;
	struct vb_mad_port port;
	struct vb_mad mad;

	vb_mad_parse(request->mad, &mad);
	if (mad.management_class == VB_MAD_CLASS_PERF) {
		begin_asking(gsi, request, 0);
		return;
	}
	dev = vb_mad_device_at(&request->dst, true);
	if (!dev) {
		vb_gsi_count(gsi, VB_GSI_NOBODY); /* only InfiniBand ports have QP 0 */
		return;
	}
	vb_mad_port_fill(gsi->nic, dev, &port);
	answer_now(gsi, request, &port);
}

static bool pop(struct vb_gsi *gsi, struct vb_gsi_datagram *request)
{
	struct vb_gsi_inbox *inbox = &gsi->inbox;
	bool any;

	pthread_mutex_lock(&gsi->lock);
	any = inbox->taken != inbox->put;
	if (any)
		*request = inbox->ring[inbox->taken++ % VB_GSI_INBOX];
	pthread_mutex_unlock(&gsi->lock);
	return any;
}

/* Called by the service thread. */
static void on_inbox(int fd, void *arg)
{
	struct vb_gsi *gsi = arg;
	struct vb_gsi_datagram request;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
	while (pop(gsi, &request))
		take_one(gsi, &request);
}

/* Under gsi->lock. */
static bool open_inbox(struct vb_gsi *gsi)
{
	struct vb_gsi_inbox *inbox = &gsi->inbox;

	if (inbox->event >= 0)
		return true;
	if (!inbox->ring)
		inbox->ring = calloc(VB_GSI_INBOX, sizeof(*inbox->ring));
	if (!inbox->ring || !gsi->nic->engine)
		return false;
	inbox->event = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (inbox->event >= 0 && vb_watch_running(gsi->nic, inbox->event, on_inbox, gsi))
		vb_fd_close(&inbox->event);
	return inbox->event >= 0;
}

void vb_gsi_to_agent(struct vb_gsi *gsi, const struct vb_gsi_datagram *request)
{
	struct vb_gsi_inbox *inbox = &gsi->inbox;
	const uint64_t one = 1;
	bool kept = false;

	pthread_mutex_lock(&gsi->lock);
	if (open_inbox(gsi) && inbox->put - inbox->taken < VB_GSI_INBOX) {
		inbox->ring[inbox->put++ % VB_GSI_INBOX] = *request;
		kept = write(inbox->event, &one, sizeof(one)) == (ssize_t)sizeof(one);
	}
	pthread_mutex_unlock(&gsi->lock);
	if (!kept)
		vb_gsi_count(gsi, VB_GSI_FULL);
}
