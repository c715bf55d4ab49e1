/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { READS = 16 }; /* under way at once, as perftest asks for */
enum { ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

struct ibv_context *endpoint_open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;

	if (!devices || !devices[0])
		bench_die(0, "no RDMA device");
	context = ibv_open_device(devices[0]);
	if (!context)
		bench_die(errno, "ibv_open_device");
	ibv_free_device_list(devices);
	return context;
}

/* The IPv4 entry if there is one, else the first. */
static void choose_gid(struct endpoint *endpoint, int gids)
{
	for (int i = 0; i < gids; i++) {
		union ibv_gid gid;

		if (ibv_query_gid(endpoint->context, ENDPOINT_PORT, i, &gid))
			continue;
		if (i && !IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw))
			continue;
		endpoint->gid = gid;
		endpoint->gid_index = i;
		if (i)
			return;
	}
}

void endpoint_open(struct endpoint *endpoint, size_t buffer_size, int cqe)
{
	struct ibv_port_attr port;

	*endpoint = (struct endpoint){ .context = endpoint_open_device() };
	if (ibv_query_port(endpoint->context, ENDPOINT_PORT, &port))
		bench_die(errno, "ibv_query_port");
	endpoint->lid = port.lid;
	choose_gid(endpoint, port.gid_tbl_len);
	endpoint->pd = ibv_alloc_pd(endpoint->context);
	endpoint->cq = ibv_create_cq(endpoint->context, cqe, NULL, NULL, 0);
	endpoint->buffer = aligned_alloc(4096, buffer_size);
	if (!endpoint->pd || !endpoint->cq || !endpoint->buffer)
		bench_die(errno, "PD, CQ or buffer");
	memset(endpoint->buffer, 0, buffer_size);
	endpoint->mr = ibv_reg_mr(endpoint->pd, endpoint->buffer, buffer_size, ACCESS_ALL);
	if (!endpoint->mr)
		bench_die(errno, "ibv_reg_mr");
}

struct ibv_qp *endpoint_create_qp(const struct endpoint *endpoint, struct ibv_cq *cq,
				  uint32_t depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { depth, depth, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(endpoint->pd, &init);

	if (!qp)
		bench_die(errno, "ibv_create_qp");
	return qp;
}

struct address endpoint_address(const struct endpoint *endpoint, const struct ibv_qp *qp)
{
	return (struct address){
		.gid = endpoint->gid,
		.lid = endpoint->lid,
		.qpn = qp->qp_num,
		.rkey = endpoint->mr->rkey,
		.buffer = (uintptr_t)endpoint->buffer,
	};
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what)
{
	int error = ibv_modify_qp(qp, attr, mask);

	if (error)
		bench_die(error, what);
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = ENDPOINT_PORT,
		.qp_access_flags = ACCESS_ALL,
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	       "QP to INIT");
}

static void to_rtr(const struct endpoint *endpoint, struct ibv_qp *qp, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = READS,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = peer->gid, .sgid_index = endpoint->gid_index,
				 .hop_limit = 64 },
			.dlid = peer->lid,
			.port_num = ENDPOINT_PORT,
		},
	};

	modify(qp, &attr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	       "QP to RTR");
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = READS,
	};

	modify(qp, &attr,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC,
	       "QP to RTS");
}

void endpoint_connect(const struct endpoint *endpoint, struct ibv_qp *qp,
		      const struct address *peer)
{
	to_init(qp);
	to_rtr(endpoint, qp, peer);
	to_rts(qp);
}

void endpoint_reap(struct ibv_cq *cq, int count)
{
	struct ibv_wc wc[16];

	while (count > 0) {
		int polled = ibv_poll_cq(cq, count < 16 ? count : 16, wc);

		if (polled < 0)
			bench_die(0, "ibv_poll_cq failed");
		for (int i = 0; i < polled; i++)
			if (wc[i].status != IBV_WC_SUCCESS)
				bench_die(0, ibv_wc_status_str(wc[i].status));
		count -= polled;
	}
}
