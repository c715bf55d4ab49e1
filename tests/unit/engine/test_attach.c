/* SPDX-License-Identifier: BSD-2-Clause */
/* Who connects to the slot socket; the test is the service thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/epoll.h>

#include "engine/engine.h"
#include "nic/slot.h"

enum { MANY = 100 };

static struct vb_nic *nic;
static struct vb_engine engine;

static int set_up(void **state)
{
	nic = vb_nic_get();
	assert_non_null(nic);
	engine.epoll = epoll_create1(EPOLL_CLOEXEC);
	nic->engine = &engine;
	return engine.epoll < 0;
}

static unsigned count_peers(void)
{
	unsigned count = 0;

	vb_list_for(peer, &nic->peers, struct vb_peer, node)
		count += !peer->self;
	return count;
}

static void those_who_come_all_the_time_leave_it_time_for_others(void **state)
{
	unsigned before;

	for (int i = 0; i < MANY; i++)
		assert_true(vb_slot_connect(nic->slots[0].slot) >= 0);
	vb_attach_accept(nic, nic->slots[0].listener);
	assert_in_range(count_peers(), 1, MANY / 4);
	do {
		before = count_peers();
		vb_attach_accept(nic, nic->slots[0].listener);
	} while (count_peers() > before);
	assert_int_equal(count_peers(), MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_who_come_all_the_time_leave_it_time_for_others),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
