/* SPDX-License-Identifier: BSD-2-Clause */
/* Indirect keys: lists and strided patterns that WRITE, READ and SEND go through. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

enum {
	BASE = 0x10000, /* the address of a key's first byte, which is no address of memory */
	PARTS_MAX = 16,
	FAR_AT = 64 << 10, /* where the parts of the far end begin */
	SOURCE = 512 << 10,
};

static const struct rig_opts with_umr = { .create_flags = IBV_EXP_QP_CREATE_UMR,
					  .max_inl_send_klms = PARTS_MAX };

/* What a key is filled with, as offsets in the arena of its end. */
struct shape {
	uint32_t count;
	uint64_t rounds; /* 0: a list */
	struct {
		uint32_t at, bytes, stride;
	} part[PARTS_MAX];
	uint64_t access;
	bool through_memory; /* not inline */
};

static const struct shape list = {
	.count = 3,
	.part = { { FAR_AT + 900, 100 }, { FAR_AT, 1 }, { FAR_AT + 5000, 3000 } },
	.access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |
		  IBV_EXP_ACCESS_REMOTE_READ,
};

/* Two columns of a matrix with rows of 64 bytes. */
static const struct shape columns = {
	.count = 2,
	.rounds = 500,
	.part = { { FAR_AT + 8, 8, 64 }, { FAR_AT + 40, 4, 64 } },
	.access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |
		  IBV_EXP_ACCESS_REMOTE_READ,
	.through_memory = true,
};

static uint32_t length_of(const struct shape *shape)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < shape->count; i++)
		length += shape->part[i].bytes;
	return (uint32_t)(length * (shape->rounds ? shape->rounds : 1));
}

/* Moves the bytes of the shape between an arena and a row of bytes. */
static void model(const struct shape *shape, uint8_t *arena, uint8_t *row, bool in)
{
	for (uint64_t round = 0; round < (shape->rounds ? shape->rounds : 1); round++)
		for (uint32_t i = 0; i < shape->count; i++) {
			uint8_t *at = arena + shape->part[i].at + round * shape->part[i].stride;

			memcpy(in ? at : row, in ? row : at, shape->part[i].bytes);
			row += shape->part[i].bytes;
		}
}

/* --- at an end --- */

static struct ibv_mr *create_key(struct rig_end *end, uint32_t entries)
{
	struct ibv_exp_create_mr_in in = {
		.pd = end->pd,
		.attr = { .max_klm_list_size = entries,
			  .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			  .exp_access_flags = IBV_EXP_ACCESS_LOCAL_WRITE },
	};

	return ibv_exp_create_mr(&in);
}

static struct ibv_exp_wc fill(struct rig_end *end, struct ibv_mr *key, const struct shape *shape)
{
	struct ibv_exp_mem_region regions[PARTS_MAX];
	struct ibv_exp_mem_repeat_block blocks[PARTS_MAX];
	size_t bytes[PARTS_MAX], strides[PARTS_MAX], rounds = shape->rounds;
	struct ibv_exp_mkey_list_container_attr memory = { .pd = end->pd,
							   .max_klm_list_size = PARTS_MAX };
	struct ibv_exp_mkey_list_container *container = NULL;
	struct ibv_exp_send_wr *bad, wr = { .wr_id = 99, .exp_opcode = IBV_EXP_WR_UMR_FILL };
	struct ibv_exp_wc wc;

	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	if (shape->through_memory)
		wr.ext_op.umr.memory_objects = container = ibv_exp_alloc_mkey_list_memory(&memory);
	else
		wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	for (uint32_t i = 0; i < shape->count; i++) {
		const uint64_t at = (uintptr_t)end->arena + shape->part[i].at;

		regions[i] = (struct ibv_exp_mem_region){ at, end->mr, shape->part[i].bytes };
		bytes[i] = shape->part[i].bytes;
		strides[i] = shape->part[i].stride;
		blocks[i] =
			(struct ibv_exp_mem_repeat_block){ at, end->mr, &bytes[i], &strides[i] };
	}
	wr.ext_op.umr.umr_type = rounds ? IBV_EXP_UMR_REPEAT : IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.exp_access = shape->access;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.base_addr = BASE;
	wr.ext_op.umr.num_mrs = shape->count;
	if (rounds) {
		wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = blocks;
		wr.ext_op.umr.mem_list.rb.repeat_count = &rounds;
		wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	} else {
		wr.ext_op.umr.mem_list.mem_reg_list = regions;
	}
	RIG_EQ(ibv_exp_post_send(end->qp, &wr, &bad), 0);
	wc = rig_wait(end->send_cq);
	RIG_EQ(wc.wr_id, 99);
	if (container)
		RIG_EQ(ibv_exp_dealloc_mkey_list_memory(container), 0);
	return wc;
}

static uint64_t make_key(struct rig_end *end, const void *shape)
{
	struct ibv_exp_wc wc;

	end->extra = create_key(end, PARTS_MAX);
	RIG_TRUE(end->extra);
	wc = fill(end, end->extra, shape);
	RIG_EQ(wc.status, IBV_WC_SUCCESS);
	RIG_EQ(wc.exp_opcode, IBV_EXP_WC_UMR);
	return end->extra->rkey;
}

static uint64_t refill_key(struct rig_end *end, const void *shape)
{
	return fill(end, end->extra, shape).status;
}

static uint64_t empty_key(struct rig_end *end, const void *unused)
{
	struct ibv_exp_send_wr *bad, wr = { .exp_opcode = IBV_EXP_WR_UMR_INVALIDATE,
					    .exp_send_flags = IBV_EXP_SEND_SIGNALED };

	(void)unused;
	wr.ext_op.umr.modified_mr = end->extra;
	RIG_EQ(ibv_exp_post_send(end->qp, &wr, &bad), 0);
	return rig_wait(end->send_cq).status;
}

static uint64_t drop_key(struct rig_end *end, const void *unused)
{
	(void)unused;
	RIG_EQ(ibv_dereg_mr(end->extra), 0);
	end->extra = NULL;
	return 0;
}

/* --- the far key --- */

static struct ibv_exp_send_wr rdma(struct rig *rig, struct ibv_sge *sge, int opcode, uint32_t rkey,
				   uint32_t length)
{
	struct ibv_exp_send_wr wr = {
		.wr_id = 3,
		.sg_list = sge,
		.num_sge = 1,
		.exp_opcode = opcode,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};

	*sge = (struct ibv_sge){ (uintptr_t)rig->near.arena + SOURCE, length, rig->near.mr->lkey };
	wr.wr.rdma.remote_addr = BASE;
	wr.wr.rdma.rkey = rkey;
	return wr;
}

static void run(struct rig *rig, struct ibv_exp_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_exp_send_wr *bad;

	RIG_EQ(ibv_exp_post_send(rig->near.qp, wr, &bad), 0);
	rig_sent(rig, wr->wr_id, status);
}

static void goes_through_the_far_key(const struct shape *shape)
{
	static uint8_t wanted[RIG_ARENA];
	const uint32_t length = length_of(shape);
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;
	uint32_t rkey;

	rig_open(&rig, &with_umr);
	rkey = (uint32_t)rig_far(&rig, make_key, shape, sizeof(*shape));
	rig_fill(rig.far_arena, RIG_ARENA, 5);
	rig_fill(rig.near.arena + SOURCE, length, 6);
	memcpy(wanted, rig.far_arena, RIG_ARENA);
	model(shape, wanted, rig.near.arena + SOURCE, true);
	wr = rdma(&rig, &sge, IBV_EXP_WR_RDMA_WRITE, rkey, length);
	run(&rig, &wr, IBV_WC_SUCCESS);
	assert_memory_equal(rig.far_arena, wanted, RIG_ARENA);
	/* and back, without the first bytes */
	memset(rig.near.arena + SOURCE, 0, length);
	wr = rdma(&rig, &sge, IBV_EXP_WR_RDMA_READ, rkey, length - 7);
	wr.wr.rdma.remote_addr += 7;
	run(&rig, &wr, IBV_WC_SUCCESS);
	model(shape, rig.far_arena, wanted, false);
	assert_memory_equal(rig.near.arena + SOURCE, wanted + 7, length - 7);
	rig_far(&rig, drop_key, NULL, 0);
	rig_close(&rig);
}

static void writes_and_reads_go_through_a_list(void **state)
{
	goes_through_the_far_key(&list);
}

static void writes_and_reads_go_through_a_pattern(void **state)
{
	goes_through_the_far_key(&columns);
}

static void write_with_imm_goes_through_a_pattern(void **state)
{
	static uint8_t wanted[RIG_ARENA];
	struct rig_receive receive = { .wr_id = 5, .addr = 64, .length = 16 };
	const uint32_t length = length_of(&columns);
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &with_umr);
	rig_fill(rig.near.arena + SOURCE, length, 6);
	rig_far(&rig, rig_post_recv, &receive, sizeof(receive));
	wr = rdma(&rig, &sge, IBV_EXP_WR_RDMA_WRITE_WITH_IMM,
		  (uint32_t)rig_far(&rig, make_key, &columns, sizeof(columns)), length);
	run(&rig, &wr, IBV_WC_SUCCESS);
	assert_int_equal(rig_far(&rig, rig_received, NULL, 0), length);
	model(&columns, rig.far_arena, wanted, false);
	assert_memory_equal(wanted, rig.near.arena + SOURCE, length);
	rig_far(&rig, drop_key, NULL, 0);
	rig_close(&rig);
}

/* Each fault fails the request, and leaves the far memory alone. */
static void a_key_opens_no_more_than_it_was_filled_with(void **state)
{
	static const struct {
		int opcode;
		int shift;
		uint64_t without;
		bool emptied;
	} rows[] = {
		{ IBV_EXP_WR_RDMA_WRITE, 1, 0, false },
		{ IBV_EXP_WR_RDMA_WRITE, -1, 0, false },
		{ IBV_EXP_WR_RDMA_READ, 1, 0, false },
		{ IBV_EXP_WR_RDMA_WRITE, 0, IBV_EXP_ACCESS_REMOTE_WRITE, false },
		{ IBV_EXP_WR_RDMA_READ, 0, IBV_EXP_ACCESS_REMOTE_READ, false },
		{ IBV_EXP_WR_RDMA_WRITE, 0, 0, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct shape shape = list;
		struct ibv_exp_send_wr wr;
		struct ibv_sge sge;
		struct rig rig;
		uint32_t rkey;

		shape.access &= ~rows[i].without;
		rig_open(&rig, &with_umr);
		rkey = (uint32_t)rig_far(&rig, make_key, &shape, sizeof(shape));
		if (rows[i].emptied)
			assert_int_equal(rig_far(&rig, empty_key, NULL, 0), IBV_WC_SUCCESS);
		memset(rig.near.arena + SOURCE, 0xff, 8192);
		wr = rdma(&rig, &sge, rows[i].opcode, rkey, length_of(&shape));
		wr.wr.rdma.remote_addr += (uint64_t)(int64_t)rows[i].shift;
		run(&rig, &wr, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(rig.far_arena[FAR_AT], 0);
		assert_int_equal(rig.far_arena[FAR_AT + 900], 0);
		rig_far(&rig, drop_key, NULL, 0);
		rig_close(&rig);
	}
}

static uint64_t deregister_under_key(struct rig_end *end, const void *shape)
{
	struct ibv_mr *whole = end->mr;
	uint64_t rkey;

	end->mr = ibv_reg_mr(end->pd, end->arena, RIG_ARENA,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	rkey = make_key(end, shape);
	RIG_EQ(ibv_dereg_mr(end->mr), 0);
	end->mr = whole;
	return rkey;
}

static void a_key_ends_with_the_region_of_a_part(void **state)
{
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &with_umr);
	wr = rdma(&rig, &sge, IBV_EXP_WR_RDMA_WRITE,
		  (uint32_t)rig_far(&rig, deregister_under_key, &list, sizeof(list)), 10);
	run(&rig, &wr, IBV_WC_REM_ACCESS_ERR);
	rig_far(&rig, drop_key, NULL, 0);
	rig_close(&rig);
}

static void a_key_is_filled_again(void **state)
{
	struct shape other = list;
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &with_umr);
	other.part[0].at += 20000;
	wr = rdma(&rig, &sge, IBV_EXP_WR_RDMA_WRITE,
		  (uint32_t)rig_far(&rig, make_key, &list, sizeof(list)), 10);
	memset(rig.near.arena + SOURCE, 0x77, 10);
	run(&rig, &wr, IBV_WC_SUCCESS);
	assert_int_equal(rig_far(&rig, refill_key, &other, sizeof(other)), IBV_WC_SUCCESS);
	memset(rig.near.arena + SOURCE, 0x88, 10);
	run(&rig, &wr, IBV_WC_SUCCESS);
	assert_int_equal(rig.far_arena[list.part[0].at], 0x77);
	assert_int_equal(rig.far_arena[other.part[0].at + 9], 0x88);
	rig_far(&rig, drop_key, NULL, 0);
	rig_close(&rig);
}

/* --- the near key --- */

static void elements_may_be_indirect(const struct shape *shape)
{
	static uint8_t row[RIG_ARENA];
	const uint32_t length = length_of(shape);
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge[2];
	struct rig rig;

	rig_open(&rig, &with_umr);
	make_key(&rig.near, shape);
	rig_fill(rig.near.arena, RIG_ARENA, 9);
	model(shape, rig.near.arena, row, false);
	/* an ordinary element, and an indirect one */
	wr = rdma(&rig, &sge[0], IBV_EXP_WR_RDMA_WRITE, rig.far.rkey, 10);
	sge[1] = (struct ibv_sge){ BASE, length, rig.near.extra->lkey };
	wr.num_sge = 2;
	wr.wr.rdma.remote_addr = (uintptr_t)rig.far_arena + 64;
	run(&rig, &wr, IBV_WC_SUCCESS);
	assert_memory_equal(rig.far_arena + 64, rig.near.arena + SOURCE, 10);
	assert_memory_equal(rig.far_arena + 74, row, length);
	/* READ scatters */
	rig_fill(rig.far_arena + 74, length, 10);
	wr.exp_opcode = IBV_EXP_WR_RDMA_READ;
	run(&rig, &wr, IBV_WC_SUCCESS);
	model(shape, rig.near.arena, row, false);
	assert_memory_equal(row, rig.far_arena + 74, length);
	drop_key(&rig.near, NULL);
	rig_close(&rig);
}

static void elements_of_writes_and_reads_may_be_indirect(void **state)
{
	elements_may_be_indirect(&list);
	elements_may_be_indirect(&columns);
}

static void a_send_gathers_and_a_receive_scatters(void **state)
{
	struct shape to = list, from = columns;
	struct rig_receive receive = { .wr_id = 5, .addr = BASE, .extra = 1 };
	static uint8_t row[RIG_ARENA], got[RIG_ARENA];
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;

	to.part[2].bytes = 5899; /* as long as the pattern */
	receive.length = length_of(&to);
	rig_open(&rig, &with_umr);
	rig_far(&rig, make_key, &to, sizeof(to));
	assert_int_equal(rig_far(&rig, rig_post_recv, &receive, sizeof(receive)), 0);
	make_key(&rig.near, &from);
	rig_fill(rig.near.arena, RIG_ARENA, 11);
	model(&from, rig.near.arena, row, false);
	wr = rdma(&rig, &sge, IBV_EXP_WR_SEND, 0, length_of(&from));
	sge = (struct ibv_sge){ BASE, length_of(&from), rig.near.extra->lkey };
	run(&rig, &wr, IBV_WC_SUCCESS);
	assert_int_equal(rig_far(&rig, rig_received, NULL, 0), length_of(&from));
	model(&to, rig.far_arena, got, false);
	assert_memory_equal(got, row, length_of(&from));
	rig_far(&rig, drop_key, NULL, 0);
	drop_key(&rig.near, NULL);
	rig_close(&rig);
}

/* Small messages take other ways: the short one, and riding along. */
static void small_messages_through_keys(void **state)
{
	struct shape small = { .count = 2,
			       .part = { { FAR_AT, 3 }, { FAR_AT + 90, 5 } },
			       .access = IBV_EXP_ACCESS_LOCAL_WRITE };
	struct rig_receive receive = { .wr_id = 5, .addr = BASE, .length = 8, .extra = 1 };
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct rig rig;

	rig_open(&rig, &with_umr);
	rig_far(&rig, make_key, &small, sizeof(small));
	make_key(&rig.near, &small);
	for (int i = 0; i < 5; i++) {
		uint8_t row[8], got[8];

		assert_int_equal(rig_far(&rig, rig_post_recv, &receive, sizeof(receive)), 0);
		rig_fill(rig.near.arena + FAR_AT, 100, (uint64_t)i);
		model(&small, rig.near.arena, row, false);
		wr = rdma(&rig, &sge, IBV_EXP_WR_SEND, 0, 8);
		sge = (struct ibv_sge){ BASE, 8, rig.near.extra->lkey };
		run(&rig, &wr, IBV_WC_SUCCESS);
		assert_int_equal(rig_far(&rig, rig_received, NULL, 0), 8);
		model(&small, rig.far_arena, got, false);
		assert_memory_equal(got, row, 8);
	}
	rig_far(&rig, drop_key, NULL, 0);
	drop_key(&rig.near, NULL);
	rig_close(&rig);
}

/* A part is looked at when the request is executed, which then fails. */
static void a_part_outside_of_its_region_is_refused(void **state)
{
	struct shape far_off = list;
	struct rig rig;

	rig_open(&rig, &with_umr);
	rig.near.extra = create_key(&rig.near, PARTS_MAX);
	far_off.part[1].at = RIG_ARENA;
	assert_int_equal(fill(&rig.near, rig.near.extra, &far_off).status, IBV_WC_MW_BIND_ERR);
	drop_key(&rig.near, NULL);
	rig_close(&rig);
}

static void calls_that_cannot_be(void **state)
{
	struct ibv_exp_device_attr device = { .comp_mask = IBV_EXP_DEVICE_ATTR_UMR };
	struct ibv_exp_mkey_attr attr = { 0 };
	struct ibv_exp_send_wr *bad, wr = { .exp_opcode = IBV_EXP_WR_UMR_FILL };
	struct rig rig;

	rig_open(&rig, &with_umr);
	assert_int_equal(ibv_exp_query_device(rig.near.context, &device), 0);
	assert_true(device.comp_mask & IBV_EXP_DEVICE_ATTR_UMR);
	assert_true(device.exp_device_cap_flags & IBV_EXP_DEVICE_UMR);
	assert_null(create_key(&rig.near, device.umr_caps.max_klm_list_size + 1));
	assert_int_equal(errno, EINVAL);
	assert_null(create_key(&rig.near, 0));
	assert_int_equal(errno, EINVAL);
	rig.near.extra = create_key(&rig.near, 3);
	assert_int_equal(ibv_exp_query_mkey(rig.near.extra, &attr), 0);
	assert_int_equal(attr.max_klm_list_size, 3);
	assert_int_equal(ibv_exp_query_mkey(rig.near.mr, &attr), EINVAL);
	wr.ext_op.umr.modified_mr = rig.near.extra;
	wr.ext_op.umr.num_mrs = 1; /* neither inline nor a container */
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EINVAL);
	drop_key(&rig.near, NULL);
	rig_close(&rig);
	rig_open(&rig, NULL); /* no IBV_EXP_QP_CREATE_UMR */
	rig.near.extra = create_key(&rig.near, 3);
	wr.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
	wr.ext_op.umr.modified_mr = rig.near.extra;
	assert_int_equal(ibv_exp_post_send(rig.near.qp, &wr, &bad), EOPNOTSUPP);
	drop_key(&rig.near, NULL);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_and_reads_go_through_a_list),
		cmocka_unit_test(writes_and_reads_go_through_a_pattern),
		cmocka_unit_test(write_with_imm_goes_through_a_pattern),
		cmocka_unit_test(a_key_opens_no_more_than_it_was_filled_with),
		cmocka_unit_test(a_key_ends_with_the_region_of_a_part),
		cmocka_unit_test(a_key_is_filled_again),
		cmocka_unit_test(elements_of_writes_and_reads_may_be_indirect),
		cmocka_unit_test(a_send_gathers_and_a_receive_scatters),
		cmocka_unit_test(small_messages_through_keys),
		cmocka_unit_test(a_part_outside_of_its_region_is_refused),
		cmocka_unit_test(calls_that_cannot_be),
	};
	int failed;

	rig_start();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return failed;
}
