/* SPDX-License-Identifier: BSD-2-Clause */
/* Who waits for a neighbour, and when the kernel is asked again; the kernel is the test. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rdmacm/neighbour.h"

#define MS 1000000ull

static bool answers;   /* somebody has the address */
static unsigned looks; /* at the kernel's table */

static bool look(const union ibv_gid *src, const union ibv_gid *dst, uint32_t scope)
{
	(void)src, (void)dst, (void)scope;
	looks++;
	return answers;
}

/* --- what the rest of the library would do --- */

const struct vb_engine_table *vb_cma_engine(void)
{
	static const struct vb_engine_table table = { .neighbour = look };

	return &table;
}

void vb_cma_lock(void)
{
}

void vb_cma_unlock(void)
{
}

void vb_cma_resolved(struct vb_cma_id *id, int err)
{
	id->state = err ? VB_CMA_ADDR_BOUND : VB_CMA_ADDR_RESOLVED;
}

/* --- */

static struct vb_cma_id waiter(uint8_t last_byte)
{
	struct vb_cma_id id;

	memset(&id, 0, sizeof(id));
	id.state = VB_CMA_ADDR_QUERY;
	id.dgid.raw[15] = last_byte;
	return id;
}

static void tick_to(uint64_t *now_ns, uint64_t end_ns)
{
	for (; *now_ns < end_ns; *now_ns += MS / 10)
		vb_cma_neighbour_tick(*now_ns);
}

static void nobody_is_waited_for_until_the_timeout(void **state)
{
	struct vb_cma_id id = waiter(1);
	uint64_t now_ns = 1000 * MS;

	(void)state;
	answers = false;
	looks = 0;
	vb_cma_neighbour_wait(&id, 300, now_ns);
	tick_to(&now_ns, 1299 * MS);
	assert_int_equal(id.state, VB_CMA_ADDR_QUERY);
	tick_to(&now_ns, 1360 * MS);
	assert_int_equal(id.state, VB_CMA_ADDR_BOUND);
	assert_true(looks < 20); /* less and less often */
	assert_true(vb_cma_neighbour_next_ns() == VB_NEVER_NS);
}

static void an_answer_ends_the_wait(void **state)
{
	struct vb_cma_id id = waiter(2);
	uint64_t now_ns = 1000 * MS;

	(void)state;
	answers = false;
	vb_cma_neighbour_wait(&id, 300, now_ns);
	tick_to(&now_ns, 1010 * MS);
	answers = true;
	tick_to(&now_ns, 1070 * MS);
	assert_int_equal(id.state, VB_CMA_ADDR_RESOLVED);
}

/* Each of them asks for a look soon. None puts off the look that the others wait for. */
static void who_comes_later_keeps_nobody_waiting(void **state)
{
	struct vb_cma_id first = waiter(3), later[1000];
	uint64_t now_ns = 1000 * MS;

	(void)state;
	answers = false;
	vb_cma_neighbour_wait(&first, 100, now_ns);
	for (int i = 0; i < 1000; i++) {
		later[i] = waiter(4);
		vb_cma_neighbour_wait(&later[i], 60000, now_ns);
		tick_to(&now_ns, now_ns + MS / 2);
	}
	assert_int_equal(first.state, VB_CMA_ADDR_BOUND);
	for (int i = 0; i < 1000; i++)
		vb_cma_neighbour_drop(&later[i]);
	assert_true(vb_cma_neighbour_next_ns() == VB_NEVER_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_waited_for_until_the_timeout),
		cmocka_unit_test(an_answer_ends_the_wait),
		cmocka_unit_test(who_comes_later_keeps_nobody_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
