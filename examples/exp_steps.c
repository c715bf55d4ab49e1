/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Experimental verbs step by step, in one process: two QPs of one device are connected to each
 * other. An extended atomic changes two of four counters that share 32 bytes. A WRITE fills a
 * column of a matrix through an indirect key.
 *
 *   exp_steps [DEVICE]
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 1, ROWS = 5, COLUMNS = 4, COUNTERS = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static int gid_index = -1;
static uint16_t lid;

static struct {
	uint64_t counters[COUNTERS]; /* 32 bytes, at a multiple of 32 */
	uint64_t before[COUNTERS];
	uint64_t matrix[ROWS][COLUMNS];
	uint64_t column[ROWS];
} memory __attribute__((aligned(32)));

/* Calls that return an error number. */
static void must(const char *call, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", call, strerror(err));
	exit(1);
}

/* Calls that return NULL and set errno. */
static void *must_have(const char *call, void *object)
{
	must(call, object ? 0 : errno);
	return object;
}

static void open_device(const char *name)
{
	struct ibv_device **list = must_have("ibv_get_device_list", ibv_get_device_list(NULL));
	struct ibv_exp_device_attr attr = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
							 IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |
							 IBV_EXP_DEVICE_ATTR_UMR };
	struct ibv_exp_port_attr port = { 0 };

	for (int i = 0; list[i] && !context; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			context = must_have("ibv_open_device", ibv_open_device(list[i]));
	ibv_free_device_list(list);
	must("no such device", context ? 0 : ENODEV);
	must("ibv_exp_query_device", ibv_exp_query_device(context, &attr));
	must("no extended atomics, or no UMR",
	     attr.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS &&
			     attr.exp_device_cap_flags & IBV_EXP_DEVICE_UMR
		     ? 0
		     : EOPNOTSUPP);
	printf("operands of up to %u bytes, keys of up to %u entries\n",
	       1u << attr.ext_atom.log_max_atomic_inline, attr.umr_caps.max_klm_list_size);
	must("ibv_exp_query_port", ibv_exp_query_port(context, PORT, &port));
	lid = port.port_attr.lid;
	gid_index = port.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET ? 1 : -1;
}

static void create_objects(void)
{
	struct ibv_exp_cq_init_attr cq_attr = { 0 };
	struct ibv_exp_reg_mr_in in = {
		.addr = &memory,
		.length = sizeof(memory),
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |
			      IBV_EXP_ACCESS_REMOTE_ATOMIC,
	};

	in.pd = pd = must_have("ibv_alloc_pd", ibv_alloc_pd(context));
	mr = must_have("ibv_exp_reg_mr", ibv_exp_reg_mr(&in));
	cq = must_have("ibv_exp_create_cq",
		       ibv_exp_create_cq(context, 16, NULL, NULL, 0, &cq_attr));
	for (int i = 0; i < 2; i++) {
		struct ibv_exp_qp_init_attr attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = { .max_send_wr = 4, .max_send_sge = 1 },
			.qp_type = IBV_QPT_RC,
			.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
				     IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG |
				     IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
			.pd = pd,
			.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
			.max_atomic_arg = sizeof(memory.counters),
			.max_inl_send_klms = 1,
		};

		qp[i] = must_have("ibv_exp_create_qp", ibv_exp_create_qp(context, &attr));
	}
}

static void connect_qp(struct ibv_qp *from, const struct ibv_qp *to)
{
	struct ibv_exp_qp_attr attr = {
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .dlid = lid, .port_num = PORT },
	};

	if (gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 1;
		attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
		must("ibv_query_gid",
		     ibv_query_gid(context, PORT, gid_index, &attr.ah_attr.grh.dgid));
	}
	attr.qp_state = IBV_QPS_INIT;
	must("INIT", ibv_exp_modify_qp(from, &attr,
				       IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
					       IBV_EXP_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	must("RTR",
	     ibv_exp_modify_qp(from, &attr,
			       IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
				       IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
				       IBV_EXP_QP_MAX_DEST_RD_ATOMIC | IBV_EXP_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	must("RTS", ibv_exp_modify_qp(from, &attr,
				      IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
					      IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_SQ_PSN |
					      IBV_EXP_QP_MAX_QP_RD_ATOMIC));
}

/* Posts a request and waits until it is done. */
static void run(struct ibv_qp *through, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;
	struct ibv_exp_wc wc;
	int count;

	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	must("ibv_exp_post_send", ibv_exp_post_send(through, wr, &bad));
	while (!(count = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc))))
		;
	must("ibv_exp_poll_cq", count < 0 ? EIO : 0);
	if (wc.status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "the request failed: %s\n", ibv_wc_status_str(wc.status));
	exit(1);
}

/* Adds to two counters at once. No carry leaves a counter. */
static void add_to_counters(void)
{
	static uint64_t add[COUNTERS] = { 1, 0, 0, 5 };
	static uint64_t ends[COUNTERS] = { 1ull << 63, 1ull << 63, 1ull << 63, 1ull << 63 };
	struct ibv_sge sge = { (uintptr_t)memory.before, sizeof(memory.before), mr->lkey };
	struct ibv_exp_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
		.exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE,
	};

	memory.counters[0] = UINT64_MAX;
	memory.counters[3] = 37;
	wr.ext_op.masked_atomics.log_arg_sz = 5;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)memory.counters;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	/* Longer than 8 bytes: the addresses of the operands. */
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = (uintptr_t)add;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = (uintptr_t)ends;
	run(qp[0], &wr);
	printf("counters: %llu %llu %llu %llu, the last one was %llu\n",
	       (unsigned long long)memory.counters[0], (unsigned long long)memory.counters[1],
	       (unsigned long long)memory.counters[2], (unsigned long long)memory.counters[3],
	       (unsigned long long)memory.before[3]);
}

/* A key for one column, made by the owner of the matrix. */
static struct ibv_mr *open_column(unsigned column)
{
	struct ibv_exp_create_mr_in in = {
		.pd = pd,
		.attr = { .max_klm_list_size = 1,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = IBV_EXP_ACCESS_LOCAL_WRITE },
	};
	size_t bytes = sizeof(uint64_t), stride = sizeof(memory.matrix[0]), rows = ROWS;
	struct ibv_exp_mem_repeat_block block = { (uintptr_t)&memory.matrix[0][column], mr, &bytes,
						  &stride };
	struct ibv_mr *key = must_have("ibv_exp_create_mr", ibv_exp_create_mr(&in));
	struct ibv_exp_send_wr wr = { .exp_opcode = IBV_EXP_WR_UMR_FILL,
				      .exp_send_flags = IBV_EXP_SEND_INLINE };

	wr.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	wr.ext_op.umr.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.base_addr = 0; /* those who use the key count from 0 */
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = &block;
	wr.ext_op.umr.mem_list.rb.repeat_count = &rows;
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	run(qp[1], &wr);
	return key;
}

static void write_column(void)
{
	struct ibv_sge sge = { (uintptr_t)memory.column, sizeof(memory.column), mr->lkey };
	struct ibv_exp_send_wr wr = { .sg_list = &sge,
				      .num_sge = 1,
				      .exp_opcode = IBV_EXP_WR_RDMA_WRITE };
	struct ibv_mr *key = open_column(2);

	for (unsigned row = 0; row < ROWS; row++)
		memory.column[row] = row + 1;
	wr.wr.rdma.remote_addr = 0;
	wr.wr.rdma.rkey = key->rkey;
	run(qp[0], &wr);
	for (unsigned row = 0; row < ROWS; row++)
		printf("row %u: %llu %llu %llu %llu\n", row,
		       (unsigned long long)memory.matrix[row][0],
		       (unsigned long long)memory.matrix[row][1],
		       (unsigned long long)memory.matrix[row][2],
		       (unsigned long long)memory.matrix[row][3]);
	must("ibv_dereg_mr", ibv_dereg_mr(key));
}

static void destroy_objects(void)
{
	for (int i = 0; i < 2; i++)
		must("ibv_destroy_qp", ibv_destroy_qp(qp[i]));
	must("ibv_destroy_cq", ibv_destroy_cq(cq));
	must("ibv_dereg_mr", ibv_dereg_mr(mr));
	must("ibv_dealloc_pd", ibv_dealloc_pd(pd));
	must("ibv_close_device", ibv_close_device(context));
}

int main(int argc, char **argv)
{
	open_device(argc > 1 ? argv[1] : NULL);
	create_objects();
	connect_qp(qp[0], qp[1]);
	connect_qp(qp[1], qp[0]);
	add_to_counters();
	write_column();
	destroy_objects();
	return 0;
}
