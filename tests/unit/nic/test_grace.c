/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer's thread that stays inside for long, as one that was stopped: what ends without it, what
 * waits for it, and how often. The test plays the peer, whose segment it makes and whose life mutex
 * it holds; its thread touches this process.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "nic/qp.h"
#include "nic/srq.h"
#include "rig.h"

enum { CALLS = 50, SOON_S = 60 }; /* before, each of the calls took 5 s */

static struct rig rig;
static struct vb_segment peer_seg;
static struct vb_peer *peer;
static struct vb_thread stopped;
static const bool no_fences;
static uint32_t own_slot;
static char memory[3][4096] __attribute__((aligned(4096)));

static int open_peer(void **state)
{
	struct vb_hazard_cell *cells;
	uint64_t offset;

	(void)state;
	rig_open(&rig);
	assert_int_equal(vb_async_init(&rig.ctx), 0);
	own_slot = rig.nic->seg.head->slot;
	assert_int_equal(vb_segment_create(&peer_seg, own_slot + 1), 0);
	offset = vb_segment_alloc(&peer_seg, VB_HAZARD_PAGE * sizeof(*cells));
	atomic_store(&peer_seg.head->hazard_pages[0], offset);
	atomic_store(&peer_seg.head->hazard_count, 2);
	assert_int_equal(pthread_mutex_lock(&peer_seg.head->life), 0);
	peer = vb_peer_new();
	assert_non_null(peer);
	peer->slot = own_slot + 1;
	peer->memfd = dup(peer_seg.shown_fd);
	peer->lent_memfd = dup(peer_seg.parts[VB_PART_LENT].memfd);
	assert_int_equal(vb_peer_map(peer, own_slot + 1), 0);
	vb_list_append(&rig.nic->peers, &peer->node);
	cells = vb_segment_at(&peer_seg, offset);
	memset(&stopped, 0, sizeof(stopped));
	stopped.hazard = &cells[0];
	stopped.second = &cells[1];
	stopped.fences = &no_fences;
	return 0;
}

static int close_peer(void **state)
{
	(void)state;
	vb_hazard_copy_end(&stopped);
	vb_hazard_leave(&stopped);
	vb_nic_quarantine_check(rig.nic);
	vb_list_remove(&peer->node);
	vb_peer_put(peer);
	if (!vb_life_over(&peer_seg.head->life))
		pthread_mutex_unlock(&peer_seg.head->life);
	vb_segment_destroy(&peer_seg);
	vb_async_close(&rig.ctx);
	vb_async_free(&rig.ctx);
	rig_close(&rig);
	return 0;
}

/* The peer's thread is inside, through a QP of ours. */
static void enter(uint32_t qpn)
{
	vb_hazard_enter(&stopped, vb_hazard_name(own_slot, qpn));
	vb_hazard_watch(&stopped, rig.nic->self);
}

/* And copies to or from a page of ours. */
static void copy(unsigned page)
{
	uint64_t from = (uintptr_t)memory[page];

	assert_true(vb_hazard_copy_begin(&stopped, from, from + sizeof(memory[page]),
					 VB_COPY_ONE_CALL));
}

static int pass(const struct vb_ending *ending)
{
	uint32_t slot;

	return vb_grace_pass(rig.nic, ending, &slot);
}

static struct vb_ending page_ending(unsigned page)
{
	return vb_ending_memory((uintptr_t)memory[page], sizeof(memory[page]));
}

/* Waits a moment for the thread, and lets that moment be as long ago as calls wait together. */
static void wait_in_vain(const struct vb_ending *ending)
{
	struct vb_grace grace;
	uint32_t slot = 0;

	vb_grace_begin(rig.nic, &grace, ending, true);
	assert_int_equal(vb_grace_wait(&grace, 30, &slot), -ETIMEDOUT);
	assert_int_equal(slot, own_slot + 1);
	vb_grace_drop(&grace);
	for (unsigned i = 0; i < VB_STUCK_MAX; i++)
		if (rig.nic->stuck[i].cell)
			rig.nic->stuck[i].since_ns -= (VB_STUCK_PEER_MS + 1) * 1000000ull;
}

static void assert_soon(uint64_t began_ns)
{
	assert_in_range(vb_now_ns() - began_ns, 0, SOON_S * 1000000000ull);
}

/* --- what does not concern the thread --- */

static void a_qp_that_the_thread_does_not_name_ends_without_it(void **state)
{
	struct vb_ending ending = vb_ending_qp(0x123456);

	(void)state;
	enter(0x123457);
	copy(0);
	assert_int_equal(pass(&ending), 0);
}

static void memory_that_the_thread_does_not_reach_ends_without_it(void **state)
{
	const struct vb_ending before = page_ending(0), behind = page_ending(2);
	uint64_t began = vb_now_ns();

	(void)state;
	enter(0x123456);
	for (unsigned i = 0; i < CALLS; i++)
		assert_int_equal(pass(&before), 1);
	vb_hazard_watch(&stopped, rig.nic->self);
	copy(1);
	for (unsigned i = 0; i < CALLS; i++) {
		assert_int_equal(pass(&before), 1);
		assert_int_equal(pass(&behind), 1);
	}
	assert_soon(began);
}

static void regions_of_other_memory_are_deregistered_at_once(void **state)
{
	struct vb_mr *mrs[CALLS];
	uint64_t began;

	(void)state;
	for (unsigned i = 0; i < CALLS; i++)
		mrs[i] = rig_register(rig.pd, memory[i % 2], sizeof(memory[0]));
	enter(0x123456);
	copy(2);
	began = vb_now_ns();
	for (unsigned i = 0; i < CALLS; i++)
		assert_int_equal(vb_mr_deregister(mrs[i]), 0);
	assert_soon(began);
}

/* --- what does --- */

static void the_memory_that_the_thread_reaches_waits_for_it(void **state)
{
	const struct vb_ending ending = page_ending(1);
	struct vb_grace grace;

	(void)state;
	enter(0x123456);
	copy(1);
	vb_grace_begin(rig.nic, &grace, &ending, true);
	for (unsigned i = 0; i < 100; i++)
		assert_false(vb_grace_settled(&grace));
	vb_hazard_copy_end(&stopped);
	grace.look_ns = 1; /* the next look is due */
	assert_true(vb_grace_settled(&grace));
	assert_true(grace.inside);
}

static void all_calls_together_wait_once_for_the_same_thread(void **state)
{
	const struct vb_ending ending = page_ending(1);
	struct vb_mr *mr = rig_register(rig.pd, memory[1], sizeof(memory[1]));
	uint64_t began;

	(void)state;
	enter(0x123456);
	copy(1);
	wait_in_vain(&ending);
	began = vb_now_ns();
	for (unsigned i = 0; i < CALLS; i++)
		assert_int_equal(vb_mr_deregister(mr), -EBUSY);
	assert_soon(began);
	/* It goes on: nothing is left of that. */
	vb_hazard_copy_end(&stopped);
	assert_int_equal(vb_mr_deregister(mr), 0);
}

static void a_thread_that_has_moved_is_waited_for_anew(void **state)
{
	const struct vb_ending ending = page_ending(1);
	struct vb_grace grace;

	(void)state;
	enter(0x123456);
	copy(1);
	wait_in_vain(&ending);
	vb_hazard_copy_end(&stopped);
	vb_hazard_leave(&stopped);
	enter(0x123456);
	copy(1);
	vb_grace_begin(rig.nic, &grace, &ending, true);
	assert_false(vb_grace_settled(&grace));
	vb_hazard_copy_end(&stopped);
	vb_hazard_leave(&stopped);
	assert_true(vb_grace_settled(&grace));
	assert_false(grace.inside);
}

static void the_end_of_the_process_ends_the_wait(void **state)
{
	const struct vb_ending ending = page_ending(1);

	(void)state;
	enter(0x123456);
	copy(1);
	wait_in_vain(&ending);
	pthread_mutex_unlock(&peer_seg.head->life);
	assert_int_equal(pass(&ending), 0);
}

/* The life mutex is marked when one of the threads has ended. */
static void a_copy_that_outlives_the_process_is_waited_for(void **state)
{
	const struct vb_ending ending = page_ending(1);
	struct vb_grace grace;
	pid_t dying = fork();
	siginfo_t info;

	(void)state;
	if (!dying) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(dying > 0);
	peer->pid = dying;
	atomic_store(&stopped.hazard->tid, (uint32_t)dying);
	enter(0x123456);
	copy(1);
	pthread_mutex_unlock(&peer_seg.head->life);
	vb_grace_begin(rig.nic, &grace, &ending, true);
	assert_false(vb_grace_over(&grace));
	assert_int_equal(kill(dying, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)dying, &info, WEXITED | WNOWAIT), 0);
	assert_true(vb_grace_over(&grace)); /* nobody has waited for it: a zombie copies nothing */
	assert_int_equal(waitpid(dying, NULL, 0), dying);
}

static void shared_memory_waits_for_the_thread_itself(void **state)
{
	const struct vb_ending anything = { 0 };
	struct vb_grace grace;

	(void)state;
	enter(0x123456);
	vb_grace_begin(rig.nic, &grace, &anything, true);
	for (unsigned i = 0; i < 100; i++)
		assert_false(vb_grace_settled(&grace));
	vb_hazard_leave(&stopped);
	assert_true(vb_grace_settled(&grace));
}

/* --- the thread's side --- */

static void no_copy_begins_after_something_was_taken_away(void **state)
{
	const struct vb_ending ending = page_ending(0);
	uint64_t from = (uintptr_t)memory[1];

	(void)state;
	enter(0x123456);
	assert_int_equal(pass(&ending), 1);
	assert_false(vb_hazard_copy_begin(&stopped, from, from + 1, 0));
	assert_int_equal(atomic_load(&stopped.hazard->copy) & VB_COPY_NOW, 0);
	vb_hazard_watch(&stopped, rig.nic->self);
	assert_true(vb_hazard_copy_begin(&stopped, from, from + 1, 0));
}

static void through_a_second_process_all_memory_is_reached(void **state)
{
	const struct vb_ending ending = page_ending(1);

	(void)state;
	assert_true(vb_hazard_enter_second(&stopped, own_slot));
	wait_in_vain(&ending);
	assert_int_equal(pass(&ending), -ETIMEDOUT);
	vb_hazard_leave_second(&stopped);
	assert_int_equal(pass(&ending), 0);
}

/* --- QPs --- */

static struct vb_cq *cq;

static struct vb_qp *make_qp(struct vb_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.send_cq = &cq->ibv,
		.recv_cq = &cq->ibv,
		.srq = srq ? &srq->ibv : NULL,
	};
	struct vb_qp *qp;

	assert_int_equal(vb_qp_create(rig.pd, &init, &qp), 0);
	return qp;
}

static void end_qp(struct vb_qp *qp)
{
	assert_int_equal(vb_qp_close(qp, IBV_QPS_RESET), 0);
	vb_qp_withdraw(qp);
	assert_int_equal(vb_qp_destroy(qp), 0);
}

static int open_qps(void **state)
{
	const struct vb_cq_spec spec = { .cqe = 16 };

	open_peer(state);
	assert_int_equal(vb_cq_create(&rig.ctx.verbs.context, &spec, &cq), 0);
	return 0;
}

static int close_qps(void **state)
{
	assert_int_equal(vb_cq_destroy(cq), 0);
	return close_peer(state);
}

static void a_qp_that_cannot_end_is_in_error_and_ends_later(void **state)
{
	struct vb_qp *qp = make_qp(NULL);
	const struct vb_ending ending = vb_ending_qp(qp->ibv.qp_num);

	(void)state;
	enter(qp->ibv.qp_num);
	copy(1);
	wait_in_vain(&ending);
	assert_int_equal(vb_qp_close(qp, IBV_QPS_RESET), -EBUSY);
	assert_int_equal(vb_qp_state(qp), IBV_QPS_ERR);
	assert_false(atomic_load(&qp->receives.flush_ready));
	vb_hazard_copy_end(&stopped);
	qp->flush_grace.look_ns = 1;
	vb_qp_flush_check(qp);
	assert_true(atomic_load(&qp->receives.flush_ready));
	end_qp(qp);
}

static void receives_of_other_qps_are_flushed_at_once(void **state)
{
	struct vb_qp *named = make_qp(NULL), *other = make_qp(NULL);
	const struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	(void)state;
	assert_int_equal(vb_qp_modify(named, &init, mask), 0);
	assert_int_equal(vb_qp_modify(other, &init, mask), 0);
	enter(named->ibv.qp_num);
	copy(1);
	vb_qp_enter_error(named);
	vb_qp_enter_error(other);
	assert_false(atomic_load(&named->receives.flush_ready));
	assert_true(atomic_load(&other->receives.flush_ready));
	vb_hazard_copy_end(&stopped);
	vb_hazard_leave(&stopped);
	vb_qp_flush_check(named);
	assert_true(atomic_load(&named->receives.flush_ready));
	end_qp(named);
	end_qp(other);
}

static bool is_free(uint32_t qpn)
{
	const struct vb_own_slot *own = &rig.nic->slots[0];

	const unsigned row = qpn % VB_QP_PER_SLOT / VB_QP_PER_ROW;

	for (uint32_t i = own->rows[row].free_head; i != own->rows[row].free_tail; i++)
		if (vb_own_slot_free(own, row, i) == qpn % VB_QP_PER_SLOT)
			return true;
	return false;
}

static void a_number_is_used_again_when_no_thread_is_in_its_entry(void **state)
{
	struct vb_qp *named = make_qp(NULL), *other = make_qp(NULL);
	uint32_t named_number = named->ibv.qp_num, other_number = other->ibv.qp_num;

	(void)state;
	enter(named_number);
	end_qp(named);
	end_qp(other);
	assert_true(is_free(other_number));
	assert_false(is_free(named_number));
	vb_hazard_leave(&stopped);
	vb_nic_quarantine_check(rig.nic);
	assert_true(is_free(named_number));
}

static void an_srq_grows_beside_a_thread_in_another_queue(void **state)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct vb_srq *srq;
	struct vb_qp *with, *without;

	(void)state;
	assert_int_equal(vb_srq_create(rig.pd, &init, &srq), 0);
	with = make_qp(srq);
	without = make_qp(NULL);
	enter(without->ibv.qp_num);
	assert_int_equal(vb_rq_grow(&srq->rq, 100), 0);
	enter(with->ibv.qp_num);
	assert_int_equal(vb_rq_grow(&srq->rq, 300), -EBUSY);
	vb_hazard_leave(&stopped);
	end_qp(with);
	end_qp(without);
	assert_int_equal(vb_srq_destroy(srq), 0);
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, open_peer, close_peer)
#define QP_TEST(name) cmocka_unit_test_setup_teardown(name, open_qps, close_qps)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_qp_that_the_thread_does_not_name_ends_without_it),
		TEST(memory_that_the_thread_does_not_reach_ends_without_it),
		TEST(regions_of_other_memory_are_deregistered_at_once),
		TEST(the_memory_that_the_thread_reaches_waits_for_it),
		TEST(all_calls_together_wait_once_for_the_same_thread),
		TEST(a_thread_that_has_moved_is_waited_for_anew),
		TEST(the_end_of_the_process_ends_the_wait),
		TEST(a_copy_that_outlives_the_process_is_waited_for),
		TEST(shared_memory_waits_for_the_thread_itself),
		TEST(no_copy_begins_after_something_was_taken_away),
		TEST(through_a_second_process_all_memory_is_reached),
		QP_TEST(a_qp_that_cannot_end_is_in_error_and_ends_later),
		QP_TEST(receives_of_other_qps_are_flushed_at_once),
		QP_TEST(a_number_is_used_again_when_no_thread_is_in_its_entry),
		QP_TEST(an_srq_grows_beside_a_thread_in_another_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
