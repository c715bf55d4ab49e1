/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread: where it runs. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "nic/nic.h"

static void *start_pinned(void *arg)
{
	const cpu_set_t *one = arg;
	struct vb_nic *nic;

	if (sched_setaffinity(0, sizeof(*one), one))
		return NULL;
	nic = vb_nic_get();
	return nic && !vb_engine_start(nic) ? nic : NULL;
}

static void a_pinned_thread_does_not_pin_the_service_thread(void **state)
{
	cpu_set_t all, one, its;
	pthread_t thread;
	void *nic;
	int cpu = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		skip();
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(pthread_create(&thread, NULL, start_pinned, &one), 0);
	pthread_join(thread, &nic);
	assert_non_null(nic);
	assert_int_equal(sched_getaffinity(((struct vb_nic *)nic)->self->tid, sizeof(its), &its),
			 0);
	assert_true(CPU_EQUAL(&its, &all));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pinned_thread_does_not_pin_the_service_thread),
	};

	return cmocka_run_group_tests_name("engine/service", tests, NULL, NULL);
}
