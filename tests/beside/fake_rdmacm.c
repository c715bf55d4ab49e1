/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A librdmacm.so.1 as the system might have it, over the made-up libibverbs. It connects
 * identifiers of the same process. It has no rdma_establish, as an older one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake.h"

#undef ibv_get_device_list

enum { ROOM = 64 };

struct channel {
	struct rdma_event_channel ext; /* first */
	struct rdma_cm_event *queue[ROOM];
	int first, last;
};

struct id {
	struct rdma_cm_id ext; /* first */
	struct id *peer, *next;
	bool listens;
};

static struct id *all;

static struct fake_device *device(void)
{
	static struct ibv_device **list;

	if (!list)
		list = ibv_get_device_list(NULL);
	return (struct fake_device *)list[0];
}

static int fail(int err)
{
	errno = err;
	return -1;
}

/* --- channels --- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	channel->ext.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	device()->cm_channels++;
	return &channel->ext;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
	device()->cm_channels--;
}

static struct rdma_cm_event *raise_event(struct id *id, enum rdma_cm_event_type type)
{
	struct channel *channel = (struct channel *)id->ext.channel;
	struct rdma_cm_event *event = calloc(1, sizeof(*event));
	const uint64_t one = 1;

	event->id = &id->ext;
	event->event = type;
	channel->queue[channel->last++ % ROOM] = event;
	return write(channel->ext.fd, &one, sizeof(one)) < 0 ? NULL : event;
}

int rdma_get_cm_event(struct rdma_event_channel *ext, struct rdma_cm_event **event)
{
	struct channel *channel = (struct channel *)ext;
	uint64_t count;

	if (read(ext->fd, &count, sizeof(count)) < 0)
		return -1;
	*event = channel->queue[channel->first++ % ROOM];
	device()->cm_events++;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	device()->cm_events--;
	free(event);
	return 0;
}

/* --- identifiers --- */

struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **list = calloc(2, sizeof(struct ibv_context *));

	list[0] = ibv_open_device(&device()->ibv);
	*count = 1;
	return list;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space ps)
{
	struct id *id = calloc(1, sizeof(*id));

	id->ext.channel = channel;
	id->ext.context = context;
	id->ext.ps = ps;
	id->ext.qp_type = ps == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD;
	id->next = all;
	all = id;
	device()->ids++;
	*out = &id->ext;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *ext)
{
	struct id **link = &all;

	while (*link != (struct id *)ext)
		link = &(*link)->next;
	*link = (*link)->next;
	device()->ids--;
	free(ext);
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	id->channel = channel;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	device()->cm_options++;
	return 0;
}

static void take_device(struct id *id)
{
	static struct ibv_context *context;

	if (!context)
		context = ibv_open_device(&device()->ibv);
	id->ext.verbs = context;
	id->ext.port_num = 1;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	const struct sockaddr_in *sin = (const struct sockaddr_in *)addr;
	const uint32_t host = ntohl(sin->sin_addr.s_addr);

	if (sin->sin_family != AF_INET || (host && host >> 8 != 0xc00002))
		return fail(ENODEV);
	if (!host && device()->refused_binds > 0) {
		device()->refused_binds--;
		return fail(EADDRINUSE);
	}
	id->route.addr.src_sin = *sin;
	if (!sin->sin_port)
		id->route.addr.src_sin.sin_port = htons(FAKE_INDEX);
	if (host)
		take_device((struct id *)id);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	if (src && rdma_bind_addr(id, src))
		return -1;
	take_device((struct id *)id);
	id->route.addr.dst_sin = *(struct sockaddr_in *)dst;
	raise_event((struct id *)id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	raise_event((struct id *)id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	((struct id *)id)->listens = true;
	return 0;
}

static struct id *find_listener(__be16 port)
{
	struct id *id = all;

	while (id && !(id->listens && id->ext.route.addr.src_sin.sin_port == port))
		id = id->next;
	return id;
}

int rdma_connect(struct rdma_cm_id *ext, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)ext;
	struct id *listener = find_listener(ext->route.addr.dst_sin.sin_port);
	struct rdma_cm_event *event;
	struct rdma_cm_id *child;

	if (device()->cm_fails || !listener)
		return fail(FAKE_ERRNO);
	rdma_create_id(listener->ext.channel, &child, listener->ext.context, ext->ps);
	take_device((struct id *)child);
	id->peer = (struct id *)child;
	id->peer->peer = id;
	event = raise_event(id->peer, RDMA_CM_EVENT_CONNECT_REQUEST);
	event->listen_id = &listener->ext;
	event->param.conn.private_data = param->private_data;
	event->param.conn.private_data_len = param->private_data_len;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	raise_event((struct id *)id, RDMA_CM_EVENT_ESTABLISHED);
	raise_event(((struct id *)id)->peer, RDMA_CM_EVENT_ESTABLISHED);
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	raise_event(((struct id *)id)->peer, RDMA_CM_EVENT_REJECTED)->status = 28;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	raise_event((struct id *)id, RDMA_CM_EVENT_DISCONNECTED);
	raise_event(((struct id *)id)->peer, RDMA_CM_EVENT_DISCONNECTED);
	return 0;
}

/* --- QPs --- */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!id->pd)
		id->pd = pd ? pd : ibv_alloc_pd(id->verbs);
	id->qp = ibv_create_qp(id->pd, attr);
	return id->qp ? 0 : -1;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
}
