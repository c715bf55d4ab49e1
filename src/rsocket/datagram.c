/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram rsockets: opening, closing, names, receiving. */
#include "rsocket/datagram.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "rsocket/cursor.h"

enum { POLL_BATCH = 16, GRH_SIZE = 40 };

static void watch_gone(struct vb_rs_service_watch *watch)
{
	struct vb_rs_datagram *datagram = vb_container(watch, struct vb_rs_datagram, watch);

	vb_rs_put(datagram->rs);
}

int vb_rs_datagram_create(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = calloc(1, sizeof(*datagram));
	int err;

	if (!datagram)
		return -ENOMEM;
	rs->datagram = datagram;
	datagram->rs = rs;
	vb_list_init(&datagram->dests);
	vb_list_init(&datagram->waiting);
	vb_list_init(&datagram->watch.node);
	datagram->watch.ready = vb_rs_datagram_udp_ready;
	datagram->watch.gone = watch_gone;
	datagram->watch.fd =
		vb_fd_high(socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (datagram->watch.fd < 0)
		return -errno;
	err = vb_rs_service_start(NULL);
	err = err ? err : vb_rs_service_watch(&datagram->watch);
	if (err)
		return err;
	datagram->watched = true;
	vb_rs_get(rs);
	return 0;
}

void vb_rs_datagram_close(struct vb_rs *rs)
{
	if (rs->datagram->watched)
		vb_rs_service_unwatch(&rs->datagram->watch);
	rs->datagram->watched = false;
}

void vb_rs_datagram_destroy(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;

	if (!datagram)
		return;
	vb_list_for(waiting, &datagram->waiting, struct vb_rs_waiting, node) {
		free(waiting);
	}
	vb_rs_datagram_qp_destroy(rs);
	vb_fd_close(&datagram->watch.fd);
	free(datagram);
	rs->datagram = NULL;
}

static void learn_name(struct vb_rs *rs)
{
	socklen_t size = sizeof(rs->local);

	getsockname(rs->datagram->watch.fd, &rs->local.sa, &size);
}

int vb_rs_datagram_bind(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	if (bind(rs->datagram->watch.fd, addr, size))
		return -errno;
	learn_name(rs);
	rs->state = VB_RS_BOUND;
	return 0;
}

int vb_rs_datagram_name(struct vb_rs *rs, struct sockaddr *addr, socklen_t *size)
{
	return getsockname(rs->datagram->watch.fd, addr, size) ? -errno : 0;
}

bool vb_rs_datagram_is_connected(const struct vb_rs *rs)
{
	return rs->datagram->connected;
}

int vb_rs_datagram_connect(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	int err = 0;

	if (!addr || size < sizeof(addr->sa_family))
		return -EINVAL;
	pthread_mutex_lock(&rs->lock);
	if (addr->sa_family == AF_UNSPEC) {
		rs->datagram->connected = false;
	} else {
		err = vb_rs_check_addr(rs, addr, size);
		if (!err) {
			memset(&rs->peer, 0, sizeof(rs->peer));
			memcpy(&rs->peer, addr,
			       rs->domain == AF_INET ? sizeof(rs->peer.in) : sizeof(rs->peer.in6));
			rs->datagram->connected = true;
		}
	}
	pthread_mutex_unlock(&rs->lock);
	return err;
}

int vb_rs_datagram_option(struct vb_rs *rs, int level, int name, const void *value, socklen_t size)
{
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
		return 0; /* the rsocket keeps the timeout; its UDP socket never blocks */
	return setsockopt(rs->datagram->watch.fd, level, name, value, size) ? -errno : 0;
}

short vb_rs_datagram_events(struct vb_rs *rs)
{
	const struct vb_rs_datagram *datagram = rs->datagram;
	short events = 0;

	if (!vb_list_empty(&datagram->waiting) || rs->error || rs->read_shut)
		events |= POLLIN | POLLRDNORM;
	if (!datagram->qp || datagram->send_free)
		events |= POLLOUT | POLLWRNORM;
	return (short)(rs->error ? events | POLLERR : events);
}

bool vb_rs_datagram_is_welcome(const struct vb_rs *rs, const union vb_rs_addr *source)
{
	if (!rs->datagram->connected)
		return true;
	if (rs->domain == AF_INET)
		return source->in.sin_port == rs->peer.in.sin_port &&
		       source->in.sin_addr.s_addr == rs->peer.in.sin_addr.s_addr;
	return source->in6.sin6_port == rs->peer.in6.sin6_port &&
	       !memcmp(&source->in6.sin6_addr, &rs->peer.in6.sin6_addr, 16);
}

/* Puts the datagram of a slot into the list of unread ones; false: it is malformed or unwelcome. */
static bool take_slot(struct vb_rs *rs, uint32_t slot, uint32_t size)
{
	const uint8_t *bytes = vb_rs_recv_slot(rs->datagram, slot) + GRH_SIZE;
	struct vb_rs_waiting *waiting;
	struct vb_rs_ud header;
	int length;

	if (size < GRH_SIZE)
		return false;
	length = vb_rs_ud_parse(bytes, size - GRH_SIZE, &header);
	if (length < 0 || header.ipv6 != (rs->domain == AF_INET6))
		return false;
	waiting = calloc(1, sizeof(*waiting));
	if (!waiting)
		return false;
	waiting->slot = (int)slot;
	waiting->offset = GRH_SIZE + (uint32_t)length;
	waiting->size = size - waiting->offset;
	waiting->source.sa.sa_family = (sa_family_t)rs->domain;
	waiting->source.in.sin_port = htons(header.port); /* IPv6 has the port at the same place */
	if (header.ipv6)
		memcpy(&waiting->source.in6.sin6_addr, header.addr, 16);
	else
		memcpy(&waiting->source.in.sin_addr, header.addr, 4);
	if (!vb_rs_datagram_is_welcome(rs, &waiting->source)) {
		free(waiting);
		return false;
	}
	vb_list_append(&rs->datagram->waiting, &waiting->node);
	return true;
}

static void on_completion(struct vb_rs *rs, const struct ibv_wc *wc)
{
	if (wc->wr_id >> 32 != VB_RS_WORK_RECEIVE) {
		rs->datagram->send_free++;
		return;
	}
	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (!take_slot(rs, (uint32_t)wc->wr_id, wc->byte_len))
		vb_rs_datagram_post_receive(rs, (uint32_t)wc->wr_id);
}

void vb_rs_datagram_progress(struct vb_rs *rs)
{
	struct ibv_wc wc[POLL_BATCH];
	int count;

	do {
		count = ibv_poll_cq(rs->cq, POLL_BATCH, wc);
		for (int i = 0; i < count; i++)
			on_completion(rs, &wc[i]);
	} while (count == POLL_BATCH);
}

static bool datagram_decided(struct vb_rs *rs)
{
	return !vb_list_empty(&rs->datagram->waiting) || rs->error || rs->closed || rs->read_shut;
}

static void waiting_free(struct vb_rs *rs, struct vb_rs_waiting *waiting)
{
	vb_list_remove(&waiting->node);
	if (waiting->slot >= 0)
		vb_rs_datagram_post_receive(rs, (uint32_t)waiting->slot);
	else
		rs->datagram->waiting_count--;
	free(waiting);
}

static ssize_t read_first(struct vb_rs *rs, struct vb_cursor *to, int *flags,
			  union vb_rs_addr *source)
{
	struct vb_rs_waiting *waiting =
		vb_container(rs->datagram->waiting.next, struct vb_rs_waiting, node);
	const uint8_t *bytes = waiting->slot >= 0
				       ? vb_rs_recv_slot(rs->datagram, (uint32_t)waiting->slot)
				       : waiting->bytes;
	const size_t size = waiting->size < to->left ? waiting->size : to->left;
	const ssize_t result = *flags & MSG_TRUNC ? (ssize_t)waiting->size : (ssize_t)size;

	vb_cursor_write(to, bytes + waiting->offset, size);
	*source = waiting->source;
	if (!(*flags & MSG_PEEK)) {
		const bool cut = waiting->size > size;

		waiting_free(rs, waiting);
		*flags = cut ? MSG_TRUNC : 0;
	} else {
		*flags = waiting->size > size ? MSG_TRUNC : 0;
	}
	return result;
}

ssize_t vb_rs_datagram_recv(struct vb_rs *rs, const struct iovec *iov, int count, int *flags,
			    union vb_rs_addr *source)
{
	struct vb_cursor to;
	ssize_t result = vb_cursor_init(&to, iov, count);

	if (result)
		return result;
	if (*flags & MSG_ERRQUEUE)
		return -EAGAIN;
	vb_rs_lock(rs);
	result = vb_rs_wait(rs, datagram_decided,
			    vb_rs_deadline(rs->nonblock || (*flags & MSG_DONTWAIT),
					   rs->options.receive_timeout_ns));
	if (!result && rs->closed)
		result = -EBADF;
	if (!result && rs->error) {
		result = -rs->error;
		rs->error = 0;
	}
	if (!result && !vb_list_empty(&rs->datagram->waiting))
		result = read_first(rs, &to, flags, source);
	pthread_mutex_unlock(&rs->lock);
	return result;
}
