/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addrinfo, rdma_query_addrinfo, rdma_write_cm_event.
 *
 * The C library looks names up within the call, without the lock, and the Subnet Administrator
 * services; the answer is an event. An identifier has one question at a time: from the call until
 * the application has taken the result, or has fetched the event of a failure.
 */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "rdmacm/cma.h"
#include "rdmacm/service.h"

/* The resolver's codes, as errno values for the status of an event. -1 has two meanings. */
static int errno_of(int code)
{
	static_assert(EAI_BADFLAGS == -1, "also the answer of this library, with errno");

	switch (code) {
	case EAI_BADFLAGS:
	case EAI_SYSTEM:
		return errno ? -errno : -EINVAL;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_ADDRFAMILY:
	case EAI_FAMILY:
		return -EAFNOSUPPORT;
	case EAI_SOCKTYPE:
		return -EINVAL;
	default:
		return -ENOENT;
	}
}

/* Of the Subnet Administrator only ports on InfiniBand can ask. */
static int check_sa(const struct vb_cma_id *id, const char *node, const char *service)
{
	if (node) {
		vb_explain("rdma_resolve_addrinfo: RAI_SA is for services, and node must be NULL");
		return -EOPNOTSUPP;
	}
	if (!service || id->state != VB_CMA_ADDR_BOUND || !id->device) {
		vb_explain("rdma_resolve_addrinfo: RAI_SA needs a service, and an identifier that "
			   "is bound to an InfiniBand port");
		return -EINVAL;
	}
	if (!vb_cma_is_infiniband(id)) {
		vb_explain("rdma_resolve_addrinfo: a RoCE port has no Subnet Administrator to ask");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int refuse_empty(void)
{
	vb_explain("rdma_resolve_addrinfo: there is neither a node nor a service nor hints");
	return -EINVAL;
}

static int check_hints(const struct vb_cma_id *id, const char *node, const char *service,
		       const struct rdma_addrinfo *hints)
{
	if (!hints)
		return node || service ? 0 : refuse_empty();
	if (!(hints->ai_flags & RAI_SA))
		return 0;
	if (hints->ai_flags & RAI_DNS) {
		vb_explain("rdma_resolve_addrinfo: RAI_SA and RAI_DNS exclude each other");
		return -EOPNOTSUPP;
	}
	return check_sa(id, node, service);
}

static int begin_question(struct vb_cma_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	int err = vb_cma_stale(id->generation, "rdma_resolve_addrinfo");

	if (err)
		return err;
	vb_cma_lock();
	if (id->info_asked) {
		vb_explain("rdma_resolve_addrinfo: the identifier has a question, or an answer "
			   "that rdma_query_addrinfo has not fetched");
		err = -EBUSY;
	} else {
		err = check_hints(id, node, service, hints);
	}
	if (!err)
		id->info_asked = id->looking_up = true;
	vb_cma_unlock();
	return err;
}

static int look_up(const struct vb_cma_id *id, const char *node, const char *service,
		   const struct rdma_addrinfo *hints, struct rdma_addrinfo **info)
{
	int code;

	if (hints && hints->ai_flags & RAI_SA)
		return vb_cma_services(id->device->device, service, info);
	errno = 0;
	code = rdma_getaddrinfo(node, service, hints, info);
	return code ? errno_of(code) : 0;
}

/* A thread in rdma_destroy_id waits until looking_up is false, and frees the identifier then. */
static int end_question(struct vb_cma_id *id, int status, struct rdma_addrinfo *info)
{
	enum rdma_cm_event_type type =
		status ? RDMA_CM_EVENT_ADDRINFO_ERROR : RDMA_CM_EVENT_ADDRINFO_RESOLVED;
	int err = -ECANCELED;

	vb_cma_lock();
	if (!id->removing)
		err = vb_cma_event_raise(id, type, status);
	if (!err)
		id->info = info;
	else
		id->info_asked = false;
	if (id->removing)
		vb_explain("rdma_resolve_addrinfo: the identifier is destroyed meanwhile");
	id->looking_up = false;
	pthread_cond_broadcast(&id->acked);
	vb_cma_unlock();
	if (err)
		rdma_freeaddrinfo(info);
	return err;
}

static int resolve_info(struct vb_cma_id *id, const char *node, const char *service,
			const struct rdma_addrinfo *hints)
{
	const bool sync = id->sync;
	struct rdma_addrinfo *info = NULL;
	int status, err = begin_question(id, node, service, hints);

	if (err)
		return err;
	status = look_up(id, node, service, hints, &info);
	err = end_question(id, status, info);
	return err ? err : vb_cma_event_wait(id, sync);
}

void vb_cma_info_failed(struct vb_cma_id *id)
{
	vb_cma_lock();
	id->info_asked = false;
	vb_cma_unlock();
}

VB_PUBLIC int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
				    const struct rdma_addrinfo *hints)
{
	VB_NO_CANCEL;

	if (!id)
		return vb_cma_null(__func__);
	return vb_return_minus_one(resolve_info(vb_cma_id(id), node, service, hints));
}

VB_PUBLIC int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	VB_NO_CANCEL;
	struct vb_cma_id *asked = vb_cma_id(id);
	int err;

	if (!id || !info)
		return vb_cma_null(__func__);
	err = vb_cma_stale(asked->generation, "rdma_query_addrinfo");
	if (err)
		return vb_return_minus_one(err);
	vb_cma_lock();
	if (asked->info) {
		*info = asked->info;
		asked->info = NULL;
		asked->info_asked = false;
	} else {
		vb_explain("rdma_query_addrinfo: no answer waits: rdma_resolve_addrinfo asks, and "
			   "RDMA_CM_EVENT_ADDRINFO_RESOLVED tells of the answer");
		err = -ENOENT;
	}
	vb_cma_unlock();
	return vb_return_minus_one(err);
}

/* --- events of the application --- */

static int write_event(struct vb_cma_id *id, int status, uint64_t arg)
{
	struct vb_cma_event *event = vb_cma_event_create(id, RDMA_CM_EVENT_USER, status);
	int err = 0;

	if (!event)
		return -ENOMEM;
	*vb_abi_event_arg(&event->event) = arg;
	vb_cma_lock();
	if (id->removing || !id->id.channel) {
		vb_explain("rdma_write_cm_event: the identifier has no event channel, or is "
			   "destroyed meanwhile");
		err = -EINVAL;
	} else
		vb_cma_channel_queue(vb_cma_channel_of(id), event);
	vb_cma_unlock();
	if (err)
		free(event);
	return err;
}

VB_PUBLIC int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
				  uint64_t arg)
{
	VB_NO_CANCEL;
	int err;

	if (!id)
		return vb_cma_null(__func__);
	err = vb_cma_stale(vb_cma_id(id)->generation, "rdma_write_cm_event");
	if (!err && event != RDMA_CM_EVENT_USER) {
		vb_explain("rdma_write_cm_event: an application can write RDMA_CM_EVENT_USER only");
		err = -EINVAL;
	}
	return vb_return_minus_one(err ? err : write_event(vb_cma_id(id), status, arg));
}
