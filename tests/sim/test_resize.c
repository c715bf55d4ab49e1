/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared receive queue that gets a longer ring while a message is on its way into it. */
#include <infiniband/tm_types.h>

#include "nic/srq.h"
#include "nic/tm.h"
#include "rig_case.h"

enum { LONGER = 200 };

static void open_queue(bool tags)
{
	rig.with_srq = true;
	rig.with_tags = tags;
	rig_open(&rig);
}

static void grow(void)
{
	const struct ibv_srq_attr attr = { .max_wr = LONGER };
	const uint8_t *before = (const uint8_t *)rig.srq->rq.cells;

	assert_int_equal(vb_srq_modify(rig.srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_ptr_not_equal(rig.srq->rq.cells, before);
}

static unsigned state_of(uint32_t index)
{
	return vb_cell_state(atomic_load(&vb_rq_cell(&rig.srq->rq, index)->word));
}

static void fail_qp(void)
{
	rig_modify(&rig, IBV_QPS_ERR);
	vb_roce_post(rig.wired);
	rig_turn(&rig);
}

/* A header that matches no tag, where there are tags. */
static void give_first(void)
{
	const struct ibv_tmh header = { .opcode = IBV_TMH_NO_TAG };

	memcpy(rig.payload, &header, sizeof(header));
	rig_give_op(&rig, VB_OP_SEND_FIRST, RIG_RQ_PSN, RIG_MTU);
	rig_turn(&rig);
	assert_int_equal(state_of(0), VB_CELL_TAKEN);
}

static void the_message_goes_on(bool tags)
{
	open_queue(tags);
	rig_post_recv(&rig, 4096);
	give_first();
	grow();
	rig_give_op(&rig, VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 100);
	rig_turn(&rig);
	assert_int_equal(rig_poll(&rig).byte_len, RIG_MTU + 100);
}

static void its_receive_goes_back_to_the_queue(bool tags)
{
	open_queue(tags);
	rig_post_recv(&rig, 4096);
	give_first();
	grow();
	fail_qp();
	assert_int_equal(state_of(0), VB_CELL_RETURNED);
	vb_rq_collect_all_returned(rig.qp->nic);
	assert_int_equal(state_of(1), VB_CELL_POSTED); /* at the end */
}

/* It was refused, and the NAK was still to be sent, when the queue grew. */
static void its_receive_tells_of_the_error(bool tags)
{
	open_queue(tags);
	rig_post_recv(&rig, RIG_MTU);
	give_first();
	rig_give(&rig, rig_request(VB_OP_SEND_LAST, RIG_RQ_PSN + 1, 100));
	grow();
	rig_turn(&rig);
	assert_int_equal(rig_poll(&rig).status, IBV_WC_LOC_LEN_ERR);
	rig_poll_none(&rig);
}

#define BOTH(name)                              \
	static void name##_plain(void **state)  \
	{                                       \
		(void)state;                    \
		name(false);                    \
	}                                       \
	static void name##_tagged(void **state) \
	{                                       \
		(void)state;                    \
		name(true);                     \
	}

BOTH(the_message_goes_on)
BOTH(its_receive_goes_back_to_the_queue)
BOTH(its_receive_tells_of_the_error)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_RC(the_message_goes_on_plain),
		TEST_RC(the_message_goes_on_tagged),
		TEST_RC(its_receive_goes_back_to_the_queue_plain),
		TEST_RC(its_receive_goes_back_to_the_queue_tagged),
		TEST_RC(its_receive_tells_of_the_error_plain),
		TEST_RC(its_receive_tells_of_the_error_tagged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
