/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts that binaries have compiled into them (x86-64 and other LP64 machines). The headers are
 * installed on the build machine, so a header of another age shows here, at compile time, and not
 * in a program. Structs that newer headers extend are measured from the end that does not move.
 *
 * Running it checks what the compiler cannot: what the inline functions of the header do with a
 * context that is laid out as ours are.
 */
#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nic/device.h"

#define SIZE(type, bytes)     static_assert(sizeof(struct type) == (bytes), #type)
#define AT_LEAST(type, bytes) static_assert(sizeof(struct type) >= (bytes), #type)
#define AT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define FROM_END(type, member, bytes)                                                 \
	static_assert(sizeof(struct type) - offsetof(struct type, member) == (bytes), \
		      #type "." #member " from the end")

/* Numbers are those of x86-64. Elsewhere a mutex may be larger, and moves what lies behind it. */
#define WITH_MUTEX(bytes) ((bytes) + sizeof(pthread_mutex_t) - 40)

/* Devices. Providers read the pointer right behind the public part. */
SIZE(ibv_device, 664);
AT(ibv_device, node_type, 16);
AT(ibv_device, transport_type, 20);
AT(ibv_device, name, 24);
AT(ibv_device, dev_name, 88);
AT(ibv_device, dev_path, 152);
AT(ibv_device, ibdev_path, 408);
AT(vb_device, ibv, 0);
AT(vb_device, ops, 664);

/* Contexts */
SIZE(ibv_context, WITH_MUTEX(328));
AT(ibv_context, device, 0);
AT(ibv_context, ops, 8);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_context, num_comp_vectors, 272);
AT(ibv_context, mutex, 280);
AT(ibv_context, abi_compat, WITH_MUTEX(320));
SIZE(ibv_context_ops, 256);
AT(ibv_context_ops, alloc_mw, 56);
AT(ibv_context_ops, bind_mw, 64);
AT(ibv_context_ops, dealloc_mw, 72);
AT(ibv_context_ops, poll_cq, 88);
AT(ibv_context_ops, req_notify_cq, 96);
AT(ibv_context_ops, post_srq_recv, 160);
AT(ibv_context_ops, post_send, 200);
AT(ibv_context_ops, post_recv, 208);

/* It grows at the top: 648 bytes in version 44, and every member keeps its distance from the end.
 */
AT_LEAST(verbs_context, 648);
FROM_END(verbs_context, context, WITH_MUTEX(328));
FROM_END(verbs_context, sz, WITH_MUTEX(336));
FROM_END(verbs_context, priv, WITH_MUTEX(440));
FROM_END(verbs_context, query_port, WITH_MUTEX(648));
FROM_END(verbs_context, create_cq_ex, WITH_MUTEX(448));
FROM_END(verbs_context, query_device_ex, WITH_MUTEX(432));
FROM_END(verbs_context, create_qp_ex, WITH_MUTEX(384));
FROM_END(verbs_context, get_srq_num, WITH_MUTEX(376));
FROM_END(verbs_context, open_xrcd, WITH_MUTEX(360));
FROM_END(verbs_context, close_xrcd, WITH_MUTEX(352));

/* Queue pairs, with the work request functions behind the public part */
SIZE(ibv_qp, WITH_MUTEX(160));
AT(ibv_qp, context, 0);
AT(ibv_qp, pd, 16);
AT(ibv_qp, qp_num, 52);
AT(ibv_qp, state, 56);
AT(ibv_qp, qp_type, 60);
AT_LEAST(ibv_qp_ex, 352);
AT(ibv_qp_ex, comp_mask, WITH_MUTEX(160));
AT(ibv_qp_ex, wr_id, WITH_MUTEX(168));
AT(ibv_qp_ex, wr_flags, WITH_MUTEX(176));
AT(ibv_qp_ex, wr_atomic_cmp_swp, WITH_MUTEX(184));
AT(ibv_qp_ex, wr_atomic_fetch_add, WITH_MUTEX(192));
AT(ibv_qp_ex, wr_bind_mw, WITH_MUTEX(200));
AT(ibv_qp_ex, wr_local_inv, WITH_MUTEX(208));
AT(ibv_qp_ex, wr_rdma_read, WITH_MUTEX(216));
AT(ibv_qp_ex, wr_rdma_write, WITH_MUTEX(224));
AT(ibv_qp_ex, wr_rdma_write_imm, WITH_MUTEX(232));
AT(ibv_qp_ex, wr_send, WITH_MUTEX(240));
AT(ibv_qp_ex, wr_send_imm, WITH_MUTEX(248));
AT(ibv_qp_ex, wr_send_inv, WITH_MUTEX(256));
AT(ibv_qp_ex, wr_send_tso, WITH_MUTEX(264));
AT(ibv_qp_ex, wr_set_ud_addr, WITH_MUTEX(272));
AT(ibv_qp_ex, wr_set_xrc_srqn, WITH_MUTEX(280));
AT(ibv_qp_ex, wr_set_inline_data, WITH_MUTEX(288));
AT(ibv_qp_ex, wr_set_inline_data_list, WITH_MUTEX(296));
AT(ibv_qp_ex, wr_set_sge, WITH_MUTEX(304));
AT(ibv_qp_ex, wr_set_sge_list, WITH_MUTEX(312));
AT(ibv_qp_ex, wr_start, WITH_MUTEX(320));
AT(ibv_qp_ex, wr_complete, WITH_MUTEX(328));
AT(ibv_qp_ex, wr_abort, WITH_MUTEX(336));
AT(ibv_qp_ex, wr_atomic_write, WITH_MUTEX(344));
SIZE(ibv_qp_attr, 144);
SIZE(ibv_qp_init_attr, 64);
SIZE(ibv_qp_init_attr_ex, 136);
SIZE(ibv_send_wr, 128);
SIZE(ibv_recv_wr, 32);
SIZE(ibv_sge, 16);

/* Completion queues */
SIZE(ibv_cq, WITH_MUTEX(128));
AT_LEAST(ibv_cq_ex, 288);
AT(ibv_cq_ex, comp_mask, WITH_MUTEX(128));
AT(ibv_cq_ex, status, WITH_MUTEX(132));
AT(ibv_cq_ex, wr_id, WITH_MUTEX(136));
AT(ibv_cq_ex, start_poll, WITH_MUTEX(144));
AT(ibv_cq_ex, next_poll, WITH_MUTEX(152));
AT(ibv_cq_ex, end_poll, WITH_MUTEX(160));
AT(ibv_cq_ex, read_opcode, WITH_MUTEX(168));
AT(ibv_cq_ex, read_vendor_err, WITH_MUTEX(176));
AT(ibv_cq_ex, read_byte_len, WITH_MUTEX(184));
AT(ibv_cq_ex, read_imm_data, WITH_MUTEX(192));
AT(ibv_cq_ex, read_qp_num, WITH_MUTEX(200));
AT(ibv_cq_ex, read_src_qp, WITH_MUTEX(208));
AT(ibv_cq_ex, read_wc_flags, WITH_MUTEX(216));
AT(ibv_cq_ex, read_slid, WITH_MUTEX(224));
AT(ibv_cq_ex, read_sl, WITH_MUTEX(232));
AT(ibv_cq_ex, read_dlid_path_bits, WITH_MUTEX(240));
AT(ibv_cq_ex, read_completion_ts, WITH_MUTEX(248));
AT(ibv_cq_ex, read_cvlan, WITH_MUTEX(256));
AT(ibv_cq_ex, read_flow_tag, WITH_MUTEX(264));
AT(ibv_cq_ex, read_tm_info, WITH_MUTEX(272));
AT(ibv_cq_ex, read_completion_wallclock_ns, WITH_MUTEX(280));
SIZE(ibv_cq_init_attr_ex, 56);
SIZE(ibv_comp_channel, 16);
SIZE(ibv_wc, 48);

/* The rest of the objects, and attributes */
SIZE(ibv_pd, 16);
SIZE(ibv_mr, 48);
SIZE(ibv_mw, 32);
SIZE(ibv_srq, WITH_MUTEX(128));
SIZE(ibv_ah, 24);
SIZE(ibv_wq, WITH_MUTEX(152));
SIZE(ibv_dm, 32);
SIZE(ibv_xrcd, 8);
SIZE(ibv_device_attr, 232);
AT_LEAST(ibv_device_attr_ex, 400);
AT_LEAST(ibv_port_attr, 52); /* 56 since version 56 */
AT(ibv_port_attr, flags, 47);
AT(ibv_port_attr, port_cap_flags2, 48);
SIZE(ibv_gid_entry, 32);
SIZE(ibv_async_event, 16);

/* Connection manager */
SIZE(rdma_cm_id, 416);
AT(rdma_cm_id, verbs, 0);
AT(rdma_cm_id, channel, 8);
AT(rdma_cm_id, context, 16);
AT(rdma_cm_id, qp, 24);
AT(rdma_cm_id, route, 32);
AT(rdma_cm_id, ps, 344);
AT(rdma_cm_id, port_num, 348);
AT(rdma_cm_id, event, 352);
AT(rdma_cm_id, send_cq_channel, 360);
AT(rdma_cm_id, srq, 392);
AT(rdma_cm_id, pd, 400);
AT(rdma_cm_id, qp_type, 408);
SIZE(rdma_cm_event, 80);
SIZE(rdma_addrinfo, 96);
SIZE(rdma_conn_param, 24);
SIZE(rdma_event_channel, 4);

static size_t size_asked; /* what the inline function said its struct holds */

static int port_query(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t size)
{
	size_asked = size;
	memset(attr, 0, size);
	return 0;
}

static struct verbs_context context = {
	.query_port = port_query,
	.sz = sizeof(context),
	.context.abi_compat = __VERBS_ABI_IS_EXTENDED,
};

static int failures;

static void expect(int held, const char *promise)
{
	if (!held)
		failures++;
	printf("%s - %s\n", held ? "ok" : "not ok", promise);
}

int main(void)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_port_attr port;

	expect(verbs_get_ctx(&context.context) == &context, "an extended context is recognised");
	expect(ibv_query_port(&context.context, 1, &port) == 0, "query_port goes to the slot");
	expect(size_asked == sizeof(port), "with the caller's size");

	errno = 0;
	expect(!ibv_alloc_dm(&context.context, &dm_attr) && errno == EOPNOTSUPP,
	       "an empty slot is EOPNOTSUPP");
	context.sz = sizeof(context) - offsetof(struct verbs_context, query_port) - 1;
	expect(!verbs_get_ctx_op(&context.context, query_port),
	       "a slot above the context's size is not touched");
	context.context.abi_compat = NULL;
	expect(!verbs_get_ctx(&context.context),
	       "a context of old layout is not taken for extended");
	return failures ? 1 : 0;
}
