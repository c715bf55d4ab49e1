/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "lane.h"

static bool wanted(struct ibv_context *ctx, const char *device, struct ibv_port_attr *attr)
{
	if (ibv_query_port(ctx, 1, attr))
		return false;
	if (device)
		return !strcmp(ibv_get_device_name(ctx->device), device);
	return attr->link_layer == IBV_LINK_LAYER_ETHERNET && attr->state == IBV_PORT_ACTIVE;
}

static void device_open(struct home *home, const char *device, struct ibv_port_attr *attr)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count > 0, "no RDMA device (%s)", strerror(errno));
	for (int i = 0; i < count && !home->ctx; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		CHECK(ctx, "ibv_open_device %s: %s", list[i]->name, strerror(errno));
		if (wanted(ctx, device, attr))
			home->ctx = ctx;
		else
			ibv_close_device(ctx);
	}
	ibv_free_device_list(list);
	CHECK(home->ctx, "no device %s", device ? device : "with an active Ethernet port");
}

void home_open(struct home *home, const char *device, int gid_index)
{
	static const union ibv_gid none;
	struct ibv_port_attr port;
	struct ibv_device_attr attr;

	*home = (struct home){ .gid_index = gid_index };
	device_open(home, device, &port);
	CHECK(!ibv_query_gid(home->ctx, 1, gid_index, &home->gid) &&
		      memcmp(&home->gid, &none, sizeof(none)),
	      "%s has no GID %d", ibv_get_device_name(home->ctx->device), gid_index);
	CHECK(!ibv_query_device(home->ctx, &attr), "ibv_query_device");
	home->mtu_bytes = 128u << port.active_mtu;
	home->rd_atomic = attr.max_qp_init_rd_atom < 16 ? attr.max_qp_init_rd_atom : 16;
	home->dest_rd_atomic = attr.max_qp_rd_atom < 16 ? attr.max_qp_rd_atom : 16;
	home->pd = ibv_alloc_pd(home->ctx);
	CHECK(home->pd, "ibv_alloc_pd: %s", strerror(errno));
}

void home_prepare(struct home *home, const struct terms *terms, bool events)
{
	uint32_t receives = terms->qp_type == IBV_QPT_RC ? terms->recv_depth : slot_count(terms);
	uint32_t depth = terms->lanes * (terms->window + receives);

	if (events) {
		home->channel = ibv_create_comp_channel(home->ctx);
		CHECK(home->channel, "ibv_create_comp_channel: %s", strerror(errno));
	}
	home->cq = ibv_create_cq(home->ctx, (int)depth, NULL, home->channel, 0);
	CHECK(home->cq, "ibv_create_cq of %u: %s", depth, strerror(errno));
}

void home_close(struct home *home)
{
	int err = ibv_destroy_cq(home->cq);

	CHECK(!err, "ibv_destroy_cq: %s", strerror(err));
	if (home->channel)
		CHECK(!(err = ibv_destroy_comp_channel(home->channel)), "channel: %s",
		      strerror(err));
	CHECK(!(err = ibv_dealloc_pd(home->pd)), "ibv_dealloc_pd: %s", strerror(err));
	CHECK(!ibv_close_device(home->ctx), "ibv_close_device: %s", strerror(errno));
}
