/* SPDX-License-Identifier: BSD-2-Clause */
/* Who brings the wire on when the service thread does not, and before what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../gsi/gsi_rig.h"
#include "engine/wire/wire_impl.h"

enum { NEVER = 1 }; /* a time that is long past */

static struct vb_lane *wire_of(struct vb_nic *nic)
{
	int err;
	struct vb_lane *lane = vb_wire_get(nic, &err);

	CHECK(lane);
	return lane;
}

/* Nothing is there to do for the service thread, so that nobody else will bring it on soon. */
static void forget_when(struct vb_lane *lane)
{
	atomic_store(&lane->brought_ns, NEVER);
}

static bool was_brought_on(struct vb_lane *lane)
{
	return atomic_load(&lane->brought_ns) != NEVER;
}

static void holders_stand_in(void)
{
	struct vb_lane *lane;

	prepare_host();
	lane = wire_of(nic_of_process());
	vb_wire_lock(lane);
	atomic_store(&lane->shut_out, true);
	forget_when(lane);
	vb_wire_unlock(lane);
	CHECK(was_brought_on(lane));
}

/* Whoever holds the lock does, the service thread comes and goes. */
static void service_is_shut_out(void)
{
	const uint64_t end_ns = vb_now_ns() + PATIENCE_MS * 1000000ull;
	struct vb_nic *nic;
	struct vb_lane *lane;

	prepare_host();
	nic = nic_of_process();
	lane = wire_of(nic);
	vb_wire_lock(lane);
	while (!atomic_load(&lane->shut_out) && vb_now_ns() < end_ns) {
		/* It may be about to change the addresses, which waits for the lock. */
		vb_wire_unlock(lane);
		vb_nic_ring(nic);
		vb_wire_lock(lane);
		usleep(100);
	}
	CHECK(atomic_load(&lane->shut_out));
	forget_when(lane);
	vb_wire_unlock(lane);
	CHECK(was_brought_on(lane));
	while (atomic_load(&lane->shut_out) && vb_now_ns() < end_ns)
		usleep(100);
	CHECK(!atomic_load(&lane->shut_out)); /* it has had the lock since */
}

static void found_completions_count(void)
{
	static struct vb_cq cq; /* no queue completes there */
	struct vb_lane *lane;

	prepare_host();
	cq.nic = nic_of_process();
	vb_waiters_init(&cq.waiters);
	lane = wire_of(cq.nic);
	forget_when(lane);
	for (unsigned i = 0; i < VB_FOUND_POLLS; i++)
		CHECK(vb_engine_found(&cq, 3) == 3);
	CHECK(!was_brought_on(lane)); /* no QP of this lane completes there */
	atomic_store(&cq.lanes, 1u << lane->number);
	for (unsigned i = 0; i < VB_FOUND_POLLS; i++)
		CHECK(vb_engine_found(&cq, 3) == 3);
	CHECK(was_brought_on(lane));
}

/* A program with many packets polls rarely, and yet brings the wire on. */
static void packets_count_as_polls(void)
{
	struct vb_nic *nic;
	struct vb_lane *lane;

	prepare_host();
	nic = nic_of_process();
	lane = wire_of(nic);
	pthread_mutex_lock(&vb_service_turn); /* the service thread would count anew */
	atomic_store(&lane->polls, 0);
	vb_engine_poll_wire(nic, 1u << lane->number);
	CHECK(atomic_load(&lane->polls) < 20);
	atomic_store(&lane->polls, 0);
	vb_wire_lock(lane);
	lane->polled_packets -= 4000;
	vb_wire_unlock(lane);
	vb_engine_poll_wire(nic, 1u << lane->number);
	CHECK(atomic_load(&lane->polls) >= 1000);
	pthread_mutex_unlock(&vb_service_turn);
}

/* Nobody watches the name but this test. */
static void messages_come_after_packets(void)
{
	struct vb_cm_message message;
	struct vb_nic *nic;
	struct vb_lane *lane;
	int listener;

	prepare_host();
	nic = nic_of_process();
	listener = claim(nic, VB_CM_DUAL, "");
	lane = wire_of(nic);
	message = request(comm_id_of(nic, 1), "127.0.0.1");
	CHECK(!say(nic, "127.0.0.1", "127.0.0.1", &message));
	forget_when(lane);
	hear(nic, listener, &message);
	CHECK(was_brought_on(lane));
}

CASE(a_holder_of_the_lock_stands_in, holders_stand_in, NULL)
CASE(the_service_thread_asks_for_it, service_is_shut_out, NULL)
CASE(polls_that_find_something_bring_it_on, found_completions_count, NULL)
CASE(many_packets_count_as_many_polls, packets_count_as_polls, NULL)
CASE(a_message_comes_after_the_packets_before_it, messages_come_after_packets, NULL)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_holder_of_the_lock_stands_in),
		cmocka_unit_test(the_service_thread_asks_for_it),
		cmocka_unit_test(polls_that_find_something_bring_it_on),
		cmocka_unit_test(many_packets_count_as_many_polls),
		cmocka_unit_test(a_message_comes_after_the_packets_before_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
