/* SPDX-License-Identifier: BSD-2-Clause */
/* Posted work and its completions: what the shadow believes, and what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/check.h"
#include "check/report.h"
#include "check/watch.h"

enum { QPN = 0x2a001, LKEY = 0x1a01 };

static const struct vb_stack here = { .depth = 0 };
static unsigned reports[VB_RULE_COUNT];
static char memory[4096];
static struct vb_object *cq, *qp, *mr;

void vb_watch_ends(struct vb_work *work)
{
	(void)work;
}

void vb_watch_forget(const struct vb_object *owner)
{
	(void)owner;
}

void vb_report(enum vb_rule rule, const struct vb_call *calls, const char *format, ...)
{
	(void)calls;
	(void)format;
	reports[rule]++;
}

static int begin(void **state)
{
	static int cq_handle, qp_handle, mr_handle;

	(void)state;
	vb_objects_forget();
	vb_ranges_forget();
	memset(reports, 0, sizeof(reports));
	cq = vb_object_add(VB_KIND_CQ, &cq_handle, &here);
	qp = vb_object_add(VB_KIND_QP, &qp_handle, &here);
	mr = vb_object_add(VB_KIND_MR, &mr_handle, &here);
	qp->send_cq = qp->receive_cq = cq;
	qp->qpn = QPN;
	qp->type = IBV_QPT_RC;
	qp->state = IBV_QPS_RTS;
	vb_object_name_qpn(qp);
	mr->addr = mr->iova = (uintptr_t)memory;
	mr->length = sizeof(memory);
	mr->lkey = LKEY;
	mr->rkey = LKEY + 1;
	mr->host_memory = true;
	vb_object_name_keys(mr);
	return 0;
}

static struct vb_work *push(struct vb_queue *queue, enum vb_work_kind kind, uint64_t wr_id,
			    bool signaled)
{
	struct ibv_sge sge = { (uintptr_t)memory + 64 * wr_id, 64, LKEY };
	struct vb_work *work = vb_queue_push(queue);

	assert_non_null(work);
	work->wr_id = wr_id;
	work->kind = kind;
	work->signaled = signaled;
	work->stack = &here;
	work->epoch = vb_work_epoch;
	vb_work_gather(work, &sge, 1);
	assert_int_equal(work->piece_count, 1);
	if (kind == VB_WORK_SEND) {
		work->inside[0].range->reads++;
		vb_sum_send(queue, work);
	} else {
		work->inside[0].range->writes++;
		vb_sum_receive(queue, work);
	}
	cq->owed += signaled;
	return work;
}

static void complete(enum ibv_wc_opcode opcode, uint64_t wr_id, uint32_t length)
{
	const struct ibv_wc wc = { .wr_id = wr_id,
				   .qp_num = QPN,
				   .opcode = opcode,
				   .status = IBV_WC_SUCCESS,
				   .byte_len = length };

	vb_work_completed(cq, &wc, &here);
}

static unsigned all_reports(void)
{
	unsigned count = 0;

	for (int i = 0; i < VB_RULE_COUNT; i++)
		count += reports[i];
	return count;
}

static uint32_t left(const struct vb_queue *queue)
{
	return queue->tail - queue->head;
}

/* --- sends --- */

static void a_completion_frees_the_unsignaled_work_before_it(void **state)
{
	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, false);
	push(&qp->sends, VB_WORK_SEND, 2, false);
	push(&qp->sends, VB_WORK_SEND, 3, true);
	push(&qp->sends, VB_WORK_SEND, 4, true);
	complete(IBV_WC_SEND, 3, 0);
	assert_int_equal(left(&qp->sends), 1);
	assert_int_equal(cq->owed, 1);
	assert_null(vb_range_in_use((uintptr_t)memory, 4 * 64));
	assert_non_null(vb_range_in_use((uintptr_t)memory + 4 * 64, 1));
	assert_int_equal(all_reports(), 0);
}

static void a_change_is_reported_at_the_completion_that_frees(void **state)
{
	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, false);
	push(&qp->sends, VB_WORK_SEND, 2, true);
	memory[64]++;
	assert_int_equal(all_reports(), 0);
	complete(IBV_WC_SEND, 2, 0);
	assert_int_equal(reports[VB_RULE_SEND_CHANGED], 1);
	assert_int_equal(all_reports(), 1);
}

/* A receive or READ that wrote there meanwhile is the rule `overlap`. */
static void a_change_by_the_device_is_not_the_programs(void **state)
{
	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, true);
	push(&qp->receives, VB_WORK_RECEIVE, 1, true);
	memory[64]++;
	complete(IBV_WC_RECV, 1, 64);
	complete(IBV_WC_SEND, 1, 0);
	assert_int_equal(reports[VB_RULE_SEND_CHANGED], 0);
}

static void a_failure_may_name_unsignaled_work(void **state)
{
	const struct ibv_wc wc = { .wr_id = 1, .qp_num = QPN, .status = IBV_WC_RETRY_EXC_ERR };

	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, false);
	push(&qp->sends, VB_WORK_SEND, 2, true);
	vb_work_completed(cq, &wc, &here);
	assert_int_equal(left(&qp->sends), 1);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_false(qp->sends.lost);
}

static void a_completion_that_does_not_fit_ends_the_shadow_of_its_queue(void **state)
{
	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, true);
	push(&qp->receives, VB_WORK_RECEIVE, 2, true);
	memory[64]++;
	complete(IBV_WC_SEND, 77, 0);
	assert_true(qp->sends.lost);
	assert_false(qp->receives.lost);
	assert_null(vb_queue_push(&qp->sends));
	assert_null(vb_range_in_use((uintptr_t)memory + 64, 64));
	complete(IBV_WC_SEND, 1, 0);
	assert_int_equal(all_reports(), 0);
}

static void refused_posts_are_taken_back(void **state)
{
	uint32_t tail;

	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, true);
	tail = qp->sends.tail;
	push(&qp->sends, VB_WORK_SEND, 2, true);
	push(&qp->sends, VB_WORK_SEND, 3, false);
	vb_queue_cut(&qp->sends, tail, cq);
	assert_int_equal(left(&qp->sends), 1);
	assert_int_equal(cq->owed, 1);
	assert_null(vb_range_in_use((uintptr_t)memory + 2 * 64, 2 * 64));
}

static void a_queue_grows_in_its_order(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 40; i++) { /* the middle of the first ring */
		push(&qp->sends, VB_WORK_SEND, 1, true);
		complete(IBV_WC_SEND, 1, 0);
	}
	for (uint64_t i = 0; i < 60; i++)
		push(&qp->sends, VB_WORK_SEND, i, true);
	for (uint64_t i = 0; i < 200; i++)
		push(&qp->sends, VB_WORK_SEND, i % 60, true);
	for (uint64_t i = 0; i < 60; i++)
		complete(IBV_WC_SEND, i, 0);
	for (uint64_t i = 0; i < 200; i++)
		complete(IBV_WC_SEND, i % 60, 0);
	assert_false(qp->sends.lost);
	assert_int_equal(left(&qp->sends), 0);
	assert_int_equal(all_reports(), 0);
}

/* --- memory --- */

static void work_with_memory_that_cannot_be_seen_has_no_pieces(void **state)
{
	struct ibv_sge sges[3] = { { (uintptr_t)memory, 64, LKEY },
				   { (uintptr_t)memory + 64, 64, LKEY },
				   { (uintptr_t)memory + 128, 64, LKEY + 9 } };
	struct vb_work *work = vb_queue_push(&qp->sends);

	(void)state;
	vb_work_gather(work, sges, 3); /* an unknown key */
	assert_int_equal(work->piece_count, 0);
	sges[2].lkey = LKEY;
	vb_work_gather(work, sges, 3);
	assert_int_equal(work->piece_count, 3);
	vb_work_end(work);
	sges[2].length = sizeof(memory); /* behind the end of the region */
	vb_work_gather(work, sges, 3);
	assert_int_equal(work->piece_count, 0);
	sges[2].length = 0;
	vb_work_gather(work, sges, 3);
	assert_int_equal(work->piece_count, 2);
}

/* --- receives --- */

static void a_write_behind_the_message_is_reported(void **state)
{
	(void)state;
	push(&qp->receives, VB_WORK_RECEIVE, 1, true);
	push(&qp->receives, VB_WORK_RECEIVE, 2, true);
	memory[64 + 63]++;
	complete(IBV_WC_RECV, 1, 64);
	assert_int_equal(all_reports(), 0);
	memory[2 * 64 + 63]++;
	complete(IBV_WC_RECV, 2, 0);
	assert_int_equal(reports[VB_RULE_RECV_WRITTEN], 1);
	assert_int_equal(cq->owed, 0);
}

static void memory_that_peers_may_write_is_theirs(void **state)
{
	(void)state;
	mr->access = IBV_ACCESS_REMOTE_WRITE;
	push(&qp->receives, VB_WORK_RECEIVE, 1, true);
	memory[64]++;
	complete(IBV_WC_RECV, 1, 0);
	assert_int_equal(all_reports(), 0);
}

static void shared_receives_complete_in_any_order(void **state)
{
	static int srq_handle;
	struct vb_object *srq = vb_object_add(VB_KIND_SRQ, &srq_handle, &here);

	(void)state;
	qp->srq = srq;
	for (uint64_t i = 1; i <= 4; i++)
		push(&srq->receives, VB_WORK_RECEIVE, i, true);
	complete(IBV_WC_RECV, 3, 64);
	complete(IBV_WC_RECV, 1, 64);
	assert_int_equal(left(&srq->receives), 2);
	complete(IBV_WC_RECV, 4, 64);
	complete(IBV_WC_RECV, 2, 64);
	assert_int_equal(left(&srq->receives), 0);
	assert_false(srq->receives.lost);
	assert_null(vb_range_in_use((uintptr_t)memory, sizeof(memory)));
}

/* Which of the two is complete, nobody can say. */
static void shared_receives_with_one_wr_id_are_let_go(void **state)
{
	static int srq_handle;
	struct vb_object *srq = vb_object_add(VB_KIND_SRQ, &srq_handle, &here);

	(void)state;
	qp->srq = srq;
	push(&srq->receives, VB_WORK_RECEIVE, 1, true);
	push(&srq->receives, VB_WORK_RECEIVE, 1, true);
	complete(IBV_WC_RECV, 1, 64);
	assert_true(srq->receives.lost);
	assert_int_equal(all_reports(), 0);
}

static void completions_of_a_gone_qp_say_nothing(void **state)
{
	(void)state;
	push(&qp->sends, VB_WORK_SEND, 1, true);
	memory[64]++;
	vb_object_ended(qp, true, &here);
	complete(IBV_WC_SEND, 1, 0);
	assert_int_equal(all_reports(), 0);
}

/* --- objects --- */

static void objects_are_found_by_handle_number_and_key(void **state)
{
	static char handles[5000];

	(void)state;
	assert_ptr_equal(vb_object_of_qpn(QPN), qp);
	assert_ptr_equal(vb_object_of_lkey(LKEY), mr);
	assert_ptr_equal(vb_object_of_rkey(LKEY + 1), mr);
	assert_null(vb_object_of_lkey(LKEY + 1));
	for (unsigned i = 0; i < sizeof(handles); i++)
		assert_non_null(vb_object_add(VB_KIND_AH, &handles[i], &here));
	for (unsigned i = 0; i < sizeof(handles); i++)
		assert_ptr_equal(vb_object_of(&handles[i])->handle, &handles[i]);
	assert_null(vb_object_of(memory));
}

static size_t of_64(void *p)
{
	(void)p;
	return 64;
}

static void the_memory_of_a_handle_that_dies_stays(void **state)
{
	struct vb_object *object = vb_object_add(VB_KIND_AH, memory + 8, &here);

	(void)state;
	assert_false(vb_object_keeps(memory, of_64));
	vb_object_dying(object);
	assert_true(vb_object_keeps(memory, of_64));
	assert_false(vb_object_keeps(memory + 64, of_64));
	vb_object_ended(object, true, &here);
	assert_false(vb_object_keeps(memory, of_64));
	assert_ptr_equal(vb_object_of(memory + 8)->gone, &here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_completion_frees_the_unsignaled_work_before_it, begin),
		cmocka_unit_test_setup(a_change_is_reported_at_the_completion_that_frees, begin),
		cmocka_unit_test_setup(a_change_by_the_device_is_not_the_programs, begin),
		cmocka_unit_test_setup(a_failure_may_name_unsignaled_work, begin),
		cmocka_unit_test_setup(a_completion_that_does_not_fit_ends_the_shadow_of_its_queue,
				       begin),
		cmocka_unit_test_setup(refused_posts_are_taken_back, begin),
		cmocka_unit_test_setup(a_queue_grows_in_its_order, begin),
		cmocka_unit_test_setup(work_with_memory_that_cannot_be_seen_has_no_pieces, begin),
		cmocka_unit_test_setup(a_write_behind_the_message_is_reported, begin),
		cmocka_unit_test_setup(memory_that_peers_may_write_is_theirs, begin),
		cmocka_unit_test_setup(shared_receives_complete_in_any_order, begin),
		cmocka_unit_test_setup(shared_receives_with_one_wr_id_are_let_go, begin),
		cmocka_unit_test_setup(completions_of_a_gone_qp_say_nothing, begin),
		cmocka_unit_test_setup(objects_are_found_by_handle_number_and_key, begin),
		cmocka_unit_test_setup(the_memory_of_a_handle_that_dies_stays, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
