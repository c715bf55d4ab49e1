/* SPDX-License-Identifier: BSD-2-Clause */
/* Identifiers: made, moved to another channel, destroyed. */
#include <errno.h>
#include <stdlib.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma.h"
#include "rdmacm/connect_retry.h"
#include "rdmacm/disconnect_delay.h"
#include "rdmacm/multicast.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/system.h"

static const char *const state_names[VB_CMA_STATES] = {
	[VB_CMA_IDLE] = "not bound",
	[VB_CMA_ADDR_BOUND] = "bound to an address",
	[VB_CMA_ADDR_QUERY] = "resolving an address",
	[VB_CMA_ADDR_RESOLVED] = "address resolved",
	[VB_CMA_ROUTE_RESOLVED] = "route resolved",
	[VB_CMA_LISTEN] = "listening",
	[VB_CMA_CONNECT] = "connecting or connected",
	[VB_CMA_DISCONNECT] = "disconnected",
	[VB_CMA_REMOVED] = "without its device or event channel, which is gone",
};

const char *vb_cma_state_name(enum vb_cma_state state)
{
	return state_names[state];
}

int vb_cma_id_expect(struct vb_cma_id *id, enum vb_cma_state state, const char *call)
{
	int err = vb_cma_stale(id->generation, call);

	if (err || id->state == state)
		return err;
	vb_explain("%s: the identifier is %s; it must be %s", call, state_names[id->state],
		   state_names[state]);
	return -EINVAL;
}

static struct vb_cma_id *id_allocate(void *context, enum rdma_port_space ps,
				     enum ibv_qp_type qp_type)
{
	struct vb_cma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->generation = vb_cma_generation();
	id->claim = -1;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = qp_type;
	pthread_cond_init(&id->acked, NULL);
	pthread_cond_init(&id->qp_changed, NULL);
	vb_list_init(&id->node);
	vb_list_init(&id->channel_node);
	vb_list_init(&id->groups);
	vb_list_init(&id->retry_node);
	vb_list_init(&id->neighbour_node);
	return id;
}

static uint32_t numbers; /* given out so far; under the lock */

static void join_channel(struct vb_cma_id *id, struct vb_cma_channel *channel)
{
	id->id.channel = &channel->channel;
	vb_list_append(&channel->ids, &id->channel_node);
}

int vb_cma_id_add(struct vb_cma_channel *channel, void *context, enum rdma_port_space ps,
		  enum ibv_qp_type qp_type, struct vb_cma_id **out)
{
	struct vb_cma_id *id = id_allocate(context, ps, qp_type);

	if (!id)
		return -ENOMEM;
	id->number = ++numbers;
	join_channel(id, channel);
	vb_list_append(vb_cma_ids(), &id->node);
	*out = id;
	return 0;
}

void vb_cma_id_hang_up(struct vb_cma_id *id)
{
	vb_cma_connect_retry_drop(id);
	vb_cma_neighbour_drop(id);
	if (id->has_endpoint)
		vb_cm_destroy(&id->endpoint, vb_now_ns());
	id->has_endpoint = false;
	vb_cma_unbind(id);
}

/* No thread fetched the request. The peer is refused; the application never saw the identifier. */
static void refuse_unfetched(struct vb_cma_event *event)
{
	struct vb_cma_id *child = vb_cma_id(event->event.id);

	vb_cma_id_hang_up(child);
	vb_cma_id_free(child);
}

static void drop_events(struct vb_cma_id *id)
{
	struct vb_cma_channel *channel = vb_cma_channel_of(id);

	if (!channel)
		return;
	vb_list_for(event, &channel->events, struct vb_cma_event, node) {
		if (event->owner != id)
			continue;
		vb_cma_channel_withdraw(channel, event);
		if (event->event.id != &id->id)
			refuse_unfetched(event);
		free(event);
	}
}

void vb_cma_id_silence(struct vb_cma_id *id)
{
	drop_events(id);
	vb_cma_disconnect_delay_drop(id);
	vb_cma_id_hang_up(id);
	id->removing = true;
}

void vb_cma_id_free(struct vb_cma_id *id)
{
	vb_list_remove(&id->node);
	vb_list_remove(&id->channel_node);
	pthread_cond_destroy(&id->acked);
	pthread_cond_destroy(&id->qp_changed);
	rdma_freeaddrinfo(id->info);
	free(id->id.route.path_rec);
	free(id->qp_init_attr);
	free(id->connect);
	free(id);
}

int vb_cma_id_attach(struct vb_cma_id *id, struct ibv_device *device)
{
	struct vb_cma_device *acquired;
	int err;

	if (id->device)
		return id->device->device == device ? 0 : -EINVAL;
	err = vb_cma_device_acquire(device, &acquired);
	if (err)
		return err;
	id->id.verbs = acquired->verbs;
	id->id.pd = acquired->pd;
	id->id.port_num = 1;
	if (!id->id.route.addr.addr.ibaddr.pkey) /* a passive id has the P_Key of its request */
		(void)ibv_query_pkey(acquired->verbs, 1, 0, &id->id.route.addr.addr.ibaddr.pkey);
	vb_cma_lock();
	id->device = acquired;
	vb_cma_unlock();
	return 0;
}

void vb_cma_id_detach(struct vb_cma_id *id)
{
	struct vb_cma_device *device = id->device;

	if (!device)
		return;
	vb_cma_lock();
	id->device = NULL;
	vb_cma_unlock();
	id->id.verbs = NULL;
	id->id.pd = NULL;
	id->id.port_num = 0;
	vb_cma_device_release(device);
}

static int create_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
		     enum ibv_qp_type qp_type, struct vb_cma_id **out)
{
	struct vb_cma_channel *queue = (struct vb_cma_channel *)channel;
	int err = vb_cma_start();

	if (!err)
		err = channel ? vb_cma_stale(queue->generation, "rdma_create_id")
			      : vb_cma_channel_create(&queue);
	if (err)
		return err;
	vb_cma_lock();
	err = vb_cma_id_add(queue, context, ps, qp_type, out);
	vb_cma_unlock();
	if (!err) {
		(*out)->sync = !channel;
		(*out)->told = true;
	} else if (!channel) {
		vb_cma_channel_destroy(queue);
	}
	return err;
}

static bool port_space_exists(enum rdma_port_space ps)
{
	return ps == RDMA_PS_TCP || ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB || ps == RDMA_PS_IB;
}

int vb_cma_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		     enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct vb_cma_id *created;
	int err;

	if (!id || !port_space_exists(ps)) {
		vb_explain("rdma_create_id: there is no port space 0x%x", (unsigned)ps);
		return -EINVAL;
	}
	err = create_id(channel, context, ps, qp_type, &created);
	if (!err) {
		*id = &created->id;
		vb_tell_filled(id, sizeof(*id));
	}
	return err;
}

VB_PUBLIC int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			     void *context, enum rdma_port_space ps)
{
	VB_NO_CANCEL;
	bool ud = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;

	return vb_return_minus_one(
		vb_cma_id_create(channel, id, context, ps, ud ? IBV_QPT_UD : IBV_QPT_RC));
}

/* The application may still read events that it has fetched, or look an address up. */
static void wait_for_acks(struct vb_cma_id *id)
{
	while (id->events_acked != id->events_reported || id->looking_up)
		vb_cma_wait(&id->acked);
}

static void destroy_here(struct vb_cma_id *id)
{
	struct vb_cma_channel *own = id->sync ? vb_cma_channel_of(id) : NULL;

	vb_cma_lock();
	vb_cma_id_silence(id);
	vb_cma_rearm();
	vb_cma_unlock();
	if (id->id.event)
		rdma_ack_cm_event(id->id.event);
	vb_cma_system_destroy(id);
	vb_cma_lock();
	wait_for_acks(id);
	vb_cma_unlock();
	vb_cma_groups_leave(id); /* after the wait: fetching a join attaches the QP */
	if (id->device)
		vb_cma_device_release(id->device);
	vb_cma_lock();
	vb_cma_id_free(id);
	vb_cma_unlock();
	if (own)
		vb_cma_channel_destroy(own);
}

/* The identifier belongs to the parent process. Only the child's copy is freed. */
static void destroy_inherited(struct vb_cma_id *id)
{
	if (id->sync && id->id.channel)
		vb_cma_channel_destroy(vb_cma_channel_of(id));
	if (id->sync)
		free(id->id.event);
	rdma_freeaddrinfo(id->info);
	if (!id->is_systems) /* else they are the shadow's, which is the parent's */
		free(id->id.route.path_rec);
	free(id->qp_init_attr);
	free(id->connect);
	free(id);
}

VB_PUBLIC int rdma_destroy_id(struct rdma_cm_id *id)
{
	VB_NO_CANCEL;

	if (!id)
		return vb_cma_null(__func__);
	if (vb_cma_id(id)->generation != vb_cma_generation())
		destroy_inherited(vb_cma_id(id));
	else
		destroy_here(vb_cma_id(id));
	return 0;
}

static void change_channel(struct vb_cma_id *id, struct vb_cma_channel *to)
{
	vb_list_remove(&id->channel_node);
	join_channel(id, to);
}

/* A request that is not fetched yet has an identifier already, which moves with its event. */
static void move_events(struct vb_cma_id *id, struct vb_cma_channel *from,
			struct vb_cma_channel *to)
{
	vb_list_for(event, &from->events, struct vb_cma_event, node) {
		if (event->owner != id)
			continue;
		if (event->event.id != &id->id)
			change_channel(vb_cma_id(event->event.id), to);
		vb_cma_channel_withdraw(from, event);
		vb_cma_channel_queue(to, event);
	}
}

static void change_channel_of(struct vb_cma_id *id, struct vb_cma_channel *to)
{
	struct vb_cma_channel *from = vb_cma_channel_of(id);

	vb_cma_lock();
	if (from && from != to)
		move_events(id, from, to);
	if (from != to)
		change_channel(id, to);
	wait_for_acks(id);
	vb_cma_unlock();
}

int vb_cma_id_migrate(struct vb_cma_id *id, struct rdma_event_channel *channel)
{
	struct vb_cma_channel *old = vb_cma_channel_of(id), *to = (struct vb_cma_channel *)channel;
	bool was_sync = id->sync;
	int err = vb_cma_stale(id->generation, "rdma_migrate_id");

	if (!err && was_sync && !channel) {
		vb_explain("rdma_migrate_id: the identifier has no event channel, and gets none");
		err = -EINVAL;
	}
	if (!err && channel)
		err = vb_cma_stale(to->generation, "rdma_migrate_id");
	if (!err && !channel)
		err = vb_cma_channel_create(&to);
	if (err)
		return err;
	vb_cma_event_done(id);
	err = vb_cma_system_migrate(id, to);
	if (err) {
		if (!channel)
			vb_cma_channel_destroy(to);
		return err;
	}
	change_channel_of(id, to);
	id->sync = !channel;
	if (was_sync)
		vb_cma_channel_destroy(old);
	return 0;
}

VB_PUBLIC int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	VB_NO_CANCEL;

	return vb_return_minus_one(vb_cma_id_migrate(vb_cma_id(id), channel));
}
