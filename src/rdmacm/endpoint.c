/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: synchronous identifiers that are made together with their QP. */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma.h"
#include "rdmacm/system.h"

static int keep_qp_attr(struct vb_cma_id *id, const struct ibv_qp_init_attr *attr, int qp_type)
{
	if (!attr)
		return 0;
	id->qp_init_attr = malloc(sizeof(*attr));
	if (!id->qp_init_attr)
		return -ENOMEM;
	*id->qp_init_attr = *attr;
	id->qp_init_attr->qp_type = (enum ibv_qp_type)qp_type;
	return 0;
}

static int make_passive(struct vb_cma_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	int err = vb_cma_system_bind(id, res->ai_src_addr, "rdma_create_ep");

	if (err)
		return err;
	if (pd)
		id->id.pd = pd;
	return keep_qp_attr(id, attr, res->ai_qp_type);
}

static int resolve_endpoint(struct vb_cma_id *id, const struct rdma_addrinfo *res)
{
	enum { TIMEOUT_MS = 2000 };
	struct rdma_cm_id *pub = &id->id;

	if (rdma_resolve_addr(pub, res->ai_src_addr, res->ai_dst_addr, TIMEOUT_MS))
		return -errno;
	if (!res->ai_route_len)
		return rdma_resolve_route(pub, TIMEOUT_MS) ? -errno : 0;
	if (rdma_set_option(pub, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
			    res->ai_route_len))
		return -errno;
	return vb_cma_event_wait(id, true);
}

static int keep_connect_data(struct vb_cma_id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	id->connect = malloc(res->ai_connect_len);
	if (!id->connect)
		return -ENOMEM;
	memcpy(id->connect, res->ai_connect, res->ai_connect_len);
	id->connect_len = res->ai_connect_len;
	return 0;
}

static int make_active(struct vb_cma_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	int err = resolve_endpoint(id, res);

	if (!err && attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		err = rdma_create_qp(&id->id, pd, attr) ? -errno : 0;
	}
	return err ? err : keep_connect_data(id, res);
}

static int create_ep(struct rdma_cm_id **out, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *attr)
{
	VB_NO_CANCEL_ASLEEP; /* no thread would have the identifier */
	struct rdma_cm_id *id;
	int err = vb_cma_id_create(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space,
				   (enum ibv_qp_type)res->ai_qp_type);

	if (err)
		return err;
	err = res->ai_flags & RAI_PASSIVE ? make_passive(vb_cma_id(id), res, pd, attr)
					  : make_active(vb_cma_id(id), res, pd, attr);
	if (err) {
		rdma_destroy_ep(id);
		return err;
	}
	*out = id;
	vb_tell_filled(out, sizeof(*out));
	return 0;
}

VB_PUBLIC int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	VB_NO_CANCEL;

	if (!id || !res)
		return vb_cma_null(__func__);
	return vb_return_minus_one(create_ep(id, res, pd, qp_init_attr));
}

VB_PUBLIC void rdma_destroy_ep(struct rdma_cm_id *id)
{
	VB_NO_CANCEL;

	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* A failure was explained with its event. */
static int check_request(const struct rdma_cm_event *event)
{
	vb_explained |= event->status || event->event == RDMA_CM_EVENT_REJECTED;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED;
	if (event->status)
		return event->status < 0 ? event->status : -event->status;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	vb_explain("rdma_get_request: the listener has the event %s, not a request",
		   rdma_event_str(event->event));
	return -EINVAL;
}

/* Makes the QP that rdma_create_ep described. */
static int create_qp_of(struct vb_cma_id *listener, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr attr;
	int err;

	if (!listener->qp_init_attr)
		return 0;
	attr = *listener->qp_init_attr;
	if (!rdma_create_qp(event->id, listener->id.pd, &attr))
		return 0;
	err = -errno;
	/* The caller does not get the identifier, and so cannot destroy it. */
	rdma_destroy_id(event->id);
	event->id = NULL;
	return err;
}

static int get_request(struct vb_cma_id *listener, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	int err;

	if (!listener->sync) {
		vb_explain("rdma_get_request: the identifier has an event channel; fetch events");
		return -EINVAL;
	}
	vb_cma_event_done(listener);
	if (rdma_get_cm_event(listener->id.channel, &event))
		return -errno;
	err = check_request(event);
	if (!err)
		err = create_qp_of(listener, event);
	if (err) {
		vb_cma_event_keep(listener, event);
		return err;
	}
	*id = event->id;
	(*id)->event = event;
	vb_tell_filled(id, sizeof(*id));
	return 0;
}

VB_PUBLIC int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	VB_CANCEL_POINT;

	if (!listen || !id)
		return vb_cma_null(__func__);
	return vb_return_minus_one(get_request(vb_cma_id(listen), id));
}
