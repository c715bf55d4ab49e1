/* SPDX-License-Identifier: BSD-2-Clause */
#include "end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (; *list; list++)
		if (!name || !strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

struct ibv_context *pp_device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *device;
	struct ibv_context *context = NULL;

	if (!list) {
		perror("Failed to get IB devices list");
		return NULL;
	}
	device = find(list, name);
	if (!device && name)
		fprintf(stderr, "IB device %s not found\n", name);
	else if (!device)
		fprintf(stderr, "No IB devices found\n");
	else if (!(context = ibv_open_device(device)))
		fprintf(stderr, "Couldn't get context for %s\n", ibv_get_device_name(device));
	ibv_free_device_list(list);
	return context;
}

static bool query_port(struct pp_end *end)
{
	const struct pp_options *options = &end->options;
	uint8_t ib_port = (uint8_t)options->ib_port;

	if (ibv_query_port(end->context, ib_port, &end->port)) {
		fprintf(stderr, "Couldn't get port info of port %u\n", options->ib_port);
		return false;
	}
	if (end->port.link_layer != IBV_LINK_LAYER_ETHERNET && !end->port.lid) {
		fprintf(stderr, "Couldn't get local LID\n");
		return false;
	}
	if (options->gid_index >= 0 &&
	    ibv_query_gid(end->context, ib_port, options->gid_index, &end->gid)) {
		fprintf(stderr, "can't read sgid of index %d\n", options->gid_index);
		return false;
	}
	return true;
}

bool pp_end_open(struct pp_end *end, const struct pp_options *options, size_t grh)
{
	*end = (struct pp_end){ .options = *options, .grh = grh };
	setvbuf(stdout, NULL, _IOLBF, 0);
	end->context = pp_device_open(options->device);
	if (!end->context || !query_port(end))
		return false;
	end->pd = ibv_alloc_pd(end->context);
	if (!end->pd) {
		fprintf(stderr, "Couldn't allocate PD\n");
		return false;
	}
	return pp_memory_open(end);
}

static bool close_failed(const char *what)
{
	fprintf(stderr, "Couldn't %s\n", what);
	return false;
}

/* Closes all that is open, also after a failed opening. */
bool pp_end_close(struct pp_end *end)
{
	bool ok = true;

	if (end->cq && end->events)
		ibv_ack_cq_events(end->cq, end->events);
	if (end->cq && ibv_destroy_cq(end->cq))
		ok = close_failed("destroy CQ");
	if (end->channel && ibv_destroy_comp_channel(end->channel))
		ok = close_failed("destroy completion channel");
	if (!pp_memory_close(end))
		ok = false;
	if (end->pd && ibv_dealloc_pd(end->pd))
		ok = close_failed("deallocate PD");
	if (end->context && ibv_close_device(end->context))
		ok = close_failed("release context");
	return ok;
}

struct pp_address pp_end_address(const struct pp_end *end, struct ibv_qp *qp)
{
	return (struct pp_address){
		.lid = end->port.lid,
		.qpn = qp->qp_num,
		.psn = pp_psn(),
		.gid = end->gid,
	};
}

void pp_address_print(const char *whose, const struct pp_address *address, char before_gid)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, address->gid.raw, gid, sizeof(gid));
	printf("  %-15s LID 0x%04x, QPN 0x%06x, PSN 0x%06x%c GID %s\n", whose, address->lid,
	       address->qpn, address->psn, before_gid, gid);
}
