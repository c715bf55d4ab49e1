/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_listen: requests for the port of an identifier become identifiers of their own. */
#include <errno.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/choice.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma.h"
#include "rdmacm/system.h"

static int listen_endpoint(struct vb_cma_id *id, int backlog)
{
	const struct sockaddr *addr = &id->id.route.addr.src_addr;
	struct vb_cm_listen_params params = {
		.service_id = vb_cm_service_id(vb_cma_port_space(id), vb_address_port(addr)),
		.family = vb_cma_family(id),
		.scope = id->scope,
		.backlog = backlog > 0 ? (uint32_t)backlog : 0,
		.qp_type = id->id.qp_type,
	};

	if (!vb_address_is_any(addr))
		params.address = vb_address_gid(addr);
	vb_cm_endpoint_init(vb_cma_cm(), &id->endpoint);
	return vb_cm_listen(&id->endpoint, &params);
}

static int listen_locked(struct vb_cma_id *id, int backlog)
{
	int err = vb_cma_id_expect(id, VB_CMA_ADDR_BOUND, "rdma_listen");

	if (!err)
		err = vb_cma_claim_exclusive(id);
	if (!err)
		err = listen_endpoint(id, backlog);
	if (err)
		return err;
	err = vb_cma_claim_open(id);
	if (err) {
		vb_cm_destroy(&id->endpoint, vb_now_ns());
		return err;
	}
	id->has_endpoint = true;
	id->state = VB_CMA_LISTEN;
	return 0;
}

/* Opens the port for other hosts. A failure is no error: requests of this host still come. */
static void listen_to_hosts(const struct sockaddr *addr, const union ibv_gid *own)
{
	if (vb_address_is_any(addr))
		(void)vb_cma_engine()->gsi_listen(NULL);
	else if (!vb_address_is_loopback(addr) || vb_choice_udp_to_self())
		(void)vb_cma_engine()->gsi_listen(own);
}

static int bind_anywhere(struct vb_cma_id *id)
{
	const struct sockaddr_in any = { .sin_family = AF_INET };

	return vb_cma_system_bind(id, (const struct sockaddr *)&any, "rdma_listen");
}

VB_PUBLIC int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	VB_NO_CANCEL;
	VB_CMA_PASS(id, rdma_listen, (shadow, backlog));
	struct vb_cma_id *listener = vb_cma_id(id);
	struct sockaddr_storage addr;
	union ibv_gid own;
	int err = listener->state == VB_CMA_IDLE ? bind_anywhere(listener) : 0;

	if (!err)
		err = vb_cma_system_listen(listener, backlog);
	if (!err) {
		vb_cma_lock();
		/* After the unlock another thread may fetch a request and destroy the listener. */
		addr = id->route.addr.src_storage;
		own = vb_cma_is_by_gid(listener) ? listener->sgid
						 : vb_address_gid(&id->route.addr.src_addr);
		err = listen_locked(listener, backlog);
		vb_cma_unlock();
	}
	if (!err)
		listen_to_hosts((const struct sockaddr *)&addr, &own);
	return vb_return_minus_one(err);
}
