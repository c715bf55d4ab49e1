/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grace periods. The test plays threads of this process (rig_thread) and a peer process, whose
 * segment it makes and whose life mutex it holds:
 *
 *   own process, slot S          peer process, slot P
 *   hazard words: threads        hazard words: its threads; naming S: they touch us
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct vb_grace grace;
static const struct vb_ending anything; /* shared memory that any thread may be inside of */
static uint32_t own_slot, other_slot;

static int open_rig(void **state)
{
	rig_open(&rig);
	own_slot = rig.nic->seg.head->slot;
	other_slot = own_slot == 5 ? 6 : 5;
	return 0;
}

static int close_rig(void **state)
{
	rig_close(&rig);
	return 0;
}

static bool over_at_once(bool own_too)
{
	bool over;

	vb_grace_begin(rig.nic, &grace, &anything, own_too);
	over = vb_grace_over(&grace);
	vb_grace_drop(&grace);
	return over;
}

static void with_nobody_inside_it_is_over_at_once(void **state)
{
	assert_true(over_at_once(false));
	assert_true(over_at_once(true));
}

static void it_waits_for_the_word_that_names_us(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);

	vb_hazard_enter(thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, false);
	for (int i = 0; i < 100; i++)
		assert_false(vb_grace_over(&grace));
	vb_hazard_leave(thread);
	assert_true(vb_grace_over(&grace));
	rig_thread_end(thread);
}

static void who_left_and_entered_again_is_not_waited_for(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);

	vb_hazard_enter(thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, false);
	vb_hazard_leave(thread);
	vb_hazard_enter(thread, own_slot);
	assert_true(vb_grace_over(&grace));
	rig_thread_end(thread);
}

static void who_enters_after_it_began_is_not_waited_for(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);

	vb_grace_begin(rig.nic, &grace, &anything, true);
	vb_hazard_enter(thread, own_slot);
	assert_true(vb_grace_over(&grace));
	rig_thread_end(thread);
}

static void threads_of_ours_that_touch_others_count_only_when_asked_for(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);

	vb_hazard_enter(thread, other_slot);
	assert_true(over_at_once(false));
	assert_false(over_at_once(true));
	vb_hazard_leave(thread);
	assert_true(over_at_once(true));
	rig_thread_end(thread);
}

static void a_thread_does_not_wait_for_itself(void **state)
{
	struct vb_thread *self = vb_thread_get();

	assert_non_null(self);
	vb_hazard_enter(self, own_slot);
	assert_true(over_at_once(true));
	vb_hazard_leave(self);
}

static void it_waits_for_each_of_several(void **state)
{
	enum { THREADS = VB_HAZARD_PAGE + 3 }; /* more than a page of words */
	struct vb_thread *threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		threads[i] = rig_thread(rig.nic);
		vb_hazard_enter(threads[i], own_slot);
	}
	vb_grace_begin(rig.nic, &grace, &anything, false);
	assert_int_equal(grace.count, THREADS);
	for (int i = 0; i < THREADS; i++) {
		assert_false(vb_grace_over(&grace));
		vb_hazard_leave(threads[(i * 7) % THREADS]);
	}
	assert_true(vb_grace_over(&grace));
	for (int i = 0; i < THREADS; i++)
		rig_thread_end(threads[i]);
}

static void waiting_has_an_end_and_says_who_is_inside(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);
	uint32_t slot = 0;

	vb_hazard_enter(thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, false);
	assert_int_equal(vb_grace_wait(&grace, 2, &slot), -ETIMEDOUT);
	assert_int_equal(slot, own_slot);
	vb_hazard_leave(thread);
	assert_int_equal(vb_grace_wait(&grace, 2, &slot), 0);
	rig_thread_end(thread);
}

static void a_grace_period_that_is_dropped_holds_no_peer(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);
	int refs = atomic_load(&rig.nic->self->refs);

	vb_hazard_enter(thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, false);
	assert_int_equal(atomic_load(&rig.nic->self->refs), refs + 1);
	vb_grace_drop(&grace);
	assert_int_equal(atomic_load(&rig.nic->self->refs), refs);
	rig_thread_end(thread);
}

static void shared_memory_is_freed_when_nobody_is_inside_any_more(void **state)
{
	struct vb_thread *thread = rig_thread(rig.nic);
	uint64_t offset = vb_segment_alloc(&rig.nic->seg, 5000), again;

	vb_hazard_enter(thread, own_slot);
	vb_nic_free_later(rig.nic, 0, offset, 5000);
	again = vb_segment_alloc(&rig.nic->seg, 5000);
	assert_int_not_equal(again, offset);
	vb_hazard_leave(thread);
	vb_nic_quarantine_check(rig.nic);
	assert_true(vb_list_empty(&rig.nic->quarantine));
	assert_int_equal(vb_segment_alloc(&rig.nic->seg, 5000), offset);
	vb_segment_free(&rig.nic->seg, offset, 5000);
	vb_segment_free(&rig.nic->seg, again, 5000);
	rig_thread_end(thread);
}

/* --- a peer --- */

static struct vb_segment peer_seg;
static struct vb_peer *peer;
static struct vb_thread peer_thread;

static int open_peer(void **state)
{
	struct vb_hazard_cell *page;
	uint64_t offset;

	open_rig(state);
	assert_int_equal(vb_segment_create(&peer_seg, other_slot), 0);
	offset = vb_segment_alloc(&peer_seg, VB_HAZARD_PAGE * sizeof(*page));
	atomic_store(&peer_seg.head->hazard_pages[0], offset);
	atomic_store(&peer_seg.head->hazard_count, 1);
	assert_int_equal(pthread_mutex_lock(&peer_seg.head->life), 0);
	peer = vb_peer_new();
	assert_non_null(peer);
	peer->slot = other_slot;
	peer->memfd = dup(peer_seg.shown_fd);
	peer->lent_memfd = dup(peer_seg.parts[VB_PART_LENT].memfd);
	assert_int_equal(vb_peer_map(peer, other_slot), 0);
	page = vb_segment_at(&peer_seg, offset);
	peer_thread.hazard = &page[0];
	vb_list_append(&rig.nic->peers, &peer->node);
	return 0;
}

static int close_peer(void **state)
{
	vb_list_remove(&peer->node);
	vb_peer_put(peer);
	if (!vb_life_over(&peer_seg.head->life))
		pthread_mutex_unlock(&peer_seg.head->life);
	vb_segment_destroy(&peer_seg);
	return close_rig(state);
}

static void a_peer_that_touches_us_is_waited_for(void **state)
{
	vb_hazard_enter(&peer_thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, false);
	assert_false(vb_grace_over(&grace));
	vb_hazard_leave(&peer_thread);
	assert_true(vb_grace_over(&grace));
}

static void a_peer_that_touches_itself_or_a_third_is_not_waited_for(void **state)
{
	vb_hazard_enter(&peer_thread, other_slot);
	assert_true(over_at_once(true));
	vb_hazard_enter(&peer_thread, own_slot + 1 == other_slot ? own_slot + 2 : own_slot + 1);
	assert_true(over_at_once(true));
	vb_hazard_leave(&peer_thread);
}

static void a_peer_that_ends_inside_is_not_waited_for_any_longer(void **state)
{
	vb_hazard_enter(&peer_thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, false);
	assert_false(vb_grace_over(&grace));
	pthread_mutex_unlock(&peer_seg.head->life);
	assert_true(vb_grace_over(&grace));
	assert_true(over_at_once(true));
}

static void the_slot_of_a_peer_that_does_not_leave_is_told(void **state)
{
	uint32_t slot = 0;

	vb_hazard_enter(&peer_thread, own_slot);
	vb_grace_begin(rig.nic, &grace, &anything, true);
	assert_int_equal(vb_grace_wait(&grace, 2, &slot), -ETIMEDOUT);
	assert_int_equal(slot, other_slot);
	vb_grace_drop(&grace);
	vb_hazard_leave(&peer_thread);
}

/* --- threads --- */

struct visit {
	struct vb_hazard_cell *hazard;
	uint64_t sequence_before, sequence_after;
};

static void *visit(void *arg)
{
	struct visit *visit = arg;
	struct vb_thread *thread = vb_thread_get();

	visit->hazard = thread->hazard;
	visit->sequence_before = thread->sequence;
	for (int i = 0; i < 5; i++)
		vb_hazard_enter(thread, own_slot); /* and ends inside */
	visit->sequence_after = thread->sequence;
	return thread == vb_thread_get() ? NULL : thread;
}

static void run_visit(struct visit *out)
{
	pthread_t id;
	void *result;

	assert_int_equal(pthread_create(&id, NULL, visit, out), 0);
	pthread_join(id, &result);
	assert_null(result);
}

static void a_word_outlives_its_thread_and_its_sequence_goes_on(void **state)
{
	struct visit first, second;
	struct vb_thread *self = vb_thread_get();

	run_visit(&first);
	assert_ptr_not_equal(first.hazard, self->hazard);
	assert_true(over_at_once(true)); /* the end of the thread left the hazard */
	run_visit(&second);
	assert_ptr_equal(second.hazard, first.hazard);
	assert_int_equal(second.sequence_before, first.sequence_after);
}

#define TEST(name)      cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
#define PEER_TEST(name) cmocka_unit_test_setup_teardown(name, open_peer, close_peer)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(with_nobody_inside_it_is_over_at_once),
		TEST(it_waits_for_the_word_that_names_us),
		TEST(who_left_and_entered_again_is_not_waited_for),
		TEST(who_enters_after_it_began_is_not_waited_for),
		TEST(threads_of_ours_that_touch_others_count_only_when_asked_for),
		TEST(a_thread_does_not_wait_for_itself),
		TEST(it_waits_for_each_of_several),
		TEST(waiting_has_an_end_and_says_who_is_inside),
		TEST(a_grace_period_that_is_dropped_holds_no_peer),
		TEST(shared_memory_is_freed_when_nobody_is_inside_any_more),
		PEER_TEST(a_peer_that_touches_us_is_waited_for),
		PEER_TEST(a_peer_that_touches_itself_or_a_third_is_not_waited_for),
		PEER_TEST(a_peer_that_ends_inside_is_not_waited_for_any_longer),
		PEER_TEST(the_slot_of_a_peer_that_does_not_leave_is_told),
		TEST(a_word_outlives_its_thread_and_its_sequence_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
