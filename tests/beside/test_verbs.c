/* SPDX-License-Identifier: BSD-2-Clause */
/* One program with a device of Verbena and one of a system library that is made up (fake.h). */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/verbs.h"
#include "fake.h"

static struct fake_device *fake;
static struct ibv_context *ours, *theirs;
static struct ibv_pd *our_pd, *their_pd;

static int open_both(void **state)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list || count != 2 || list[2])
		return -1;
	fake = (struct fake_device *)list[1];
	ours = ibv_open_device(list[0]);
	theirs = ibv_open_device(list[1]);
	ibv_free_device_list(list);
	our_pd = ours ? ibv_alloc_pd(ours) : NULL;
	their_pd = theirs ? ibv_alloc_pd(theirs) : NULL;
	return our_pd && their_pd ? 0 : -1;
}

static int close_both(void **state)
{
	return ibv_dealloc_pd(our_pd) || ibv_dealloc_pd(their_pd) || ibv_close_device(ours) ||
	       ibv_close_device(theirs);
}

static void list_has_ours_then_theirs(void **state)
{
	struct ibv_device **first = ibv_get_device_list(NULL), **second = ibv_get_device_list(NULL);

	assert_string_equal(ibv_get_device_name(first[0]), "verbena0");
	assert_string_equal(ibv_get_device_name(first[1]), "fake0");
	assert_ptr_equal(first[1], second[1]);
	assert_int_equal(ibv_get_device_guid(first[1]), FAKE_GUID);
	assert_int_equal(ibv_get_device_index(first[1]), FAKE_INDEX);
	assert_int_equal(ibv_get_device_index(first[0]), -1);
	ibv_free_device_list(first);
	ibv_free_device_list(second);
	assert_int_equal(fake->lists, 1); /* which holds the device */
}

static void provider_has_its_own_library(void **state)
{
	assert_int_equal(fake->registered, 1);
	assert_int_equal(fake->commands, 1);
}

static void objects_go_to_their_library(void **state)
{
	char bytes[64];
	struct ibv_mr *mr = ibv_reg_mr(their_pd, bytes, sizeof(bytes), 0);
	struct ibv_mr *own = ibv_reg_mr(our_pd, bytes, sizeof(bytes), 0);

	assert_non_null(mr);
	assert_non_null(own);
	assert_ptr_equal(mr->context, theirs);
	assert_int_equal(fake->mrs, 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(own), 0);
	assert_int_equal(fake->mrs, 0);
}

static void answers_are_the_devices_own(void **state)
{
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(theirs, &attr), 0);
	assert_int_equal(attr.max_qp, FAKE_ODD);
	assert_int_equal(ibv_query_device(ours, &attr), 0);
	assert_int_not_equal(attr.max_qp, FAKE_ODD);
}

/* --- errors --- */

static void errno_is_that_of_the_program(void **state)
{
	union ibv_gid gid;
	char bytes[64];

	errno = 0;
	assert_null(ibv_reg_mr(their_pd, bytes, FAKE_ODD, 0));
	assert_int_equal(errno, FAKE_ERRNO);
	errno = 0;
	assert_int_equal(ibv_query_gid(theirs, 1, FAKE_ODD, &gid), -1);
	assert_int_equal(errno, FAKE_ERRNO);
	errno = 0;
	assert_int_equal(ibv_query_gid_table(theirs, NULL, 0, 0), -FAKE_ERRNO);
	assert_int_equal(errno, FAKE_ERRNO);
}

static void errno_of_inline_calls_is_that_of_the_program(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1 };

	errno = 0;
	assert_null(ibv_create_cq_ex(theirs, &attr));
	assert_int_equal(errno, FAKE_ERRNO);
	errno = 0;
	assert_null(ibv_alloc_mw(their_pd, IBV_MW_TYPE_1));
	assert_int_equal(errno, FAKE_ERRNO);
}

static void success_leaves_errno_alone(void **state)
{
	union ibv_gid gid;

	errno = EDOM;
	assert_int_equal(ibv_query_gid(theirs, 1, 0, &gid), 0);
	assert_int_equal(errno, EDOM);
}

static void missing_calls_are_not_supported(void **state)
{
	struct ibv_mr_init_attr attr = { .length = 1 };
	uint64_t speed;

	errno = 0;
	assert_null(ibv_reg_mr_ex(their_pd, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_query_port_speed(theirs, 1, &speed), EOPNOTSUPP);
	assert_int_equal(ibv_query_port_speed(ours, 1, &speed), 0);
}

static void absent_verbs_are_not_supported(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };

	errno = 0;
	assert_null(ibv_alloc_dm(theirs, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* --- queues --- */

static void posts_and_polls_are_the_providers(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(theirs, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(their_pd, &init);
	struct ibv_send_wr wr = { 0 }, *bad = NULL;
	struct ibv_wc wc;

	assert_non_null(qp);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), FAKE_POSTED);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, (uintptr_t)cq);
	assert_int_equal(ibv_resize_cq(cq, 2), FAKE_ERRNO);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(fake->qps + fake->cqs, 0);
}

static void events_are_acknowledged_where_they_came_from(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(theirs);
	struct ibv_cq *cq = ibv_create_cq(theirs, 1, fake, channel, 0), *found;
	struct ibv_async_event event;
	void *arg;

	assert_int_equal(ibv_get_async_event(theirs, &event), 0);
	ibv_ack_async_event(&event);
	assert_int_equal(fake->acks, 1);
	assert_int_equal(ibv_get_cq_event(channel, &found, &arg), 0);
	assert_ptr_equal(found, cq);
	assert_ptr_equal(arg, fake);
	ibv_ack_cq_events(cq, 3);
	assert_int_equal(fake->cq_acks, 3);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* An object of one device, given to the other. */
static void parts_of_the_other_device_are_refused(void **state)
{
	struct ibv_cq *our_cq = ibv_create_cq(ours, 1, NULL, NULL, 0);
	struct ibv_cq *their_cq = ibv_create_cq(theirs, 1, NULL, NULL, 0);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ours);
	struct ibv_qp_init_attr init = { .send_cq = our_cq,
					 .recv_cq = our_cq,
					 .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_init_attr_ex ex = { .send_cq = our_cq,
					  .recv_cq = our_cq,
					  .qp_type = IBV_QPT_RC,
					  .comp_mask = IBV_QP_INIT_ATTR_PD,
					  .pd = their_pd };

	errno = 0;
	assert_null(ibv_create_qp(their_pd, &init));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_create_qp_ex(theirs, &ex));
	assert_int_equal(errno, EINVAL);
	init.send_cq = init.recv_cq = their_cq;
	errno = 0;
	assert_null(ibv_create_qp(our_pd, &init));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_create_cq(theirs, 1, NULL, channel, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_destroy_cq(our_cq), 0);
	assert_int_equal(ibv_destroy_cq(their_cq), 0);
	assert_int_equal(fake->qps + fake->cqs, 0);
}

/* --- contexts, threads, fork --- */

static void files_are_imported_by_their_library(void **state)
{
	struct ibv_context *imported = ibv_import_device(FAKE_FD), *own;
	struct ibv_pd *pd;

	assert_non_null(imported);
	pd = ibv_alloc_pd(imported);
	assert_int_equal(fake->pds, 2);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(imported), 0);
	assert_int_equal(fake->contexts, 1);
	own = ibv_import_device(dup(ours->cmd_fd));
	assert_non_null(own);
	assert_ptr_equal(own->device, ours->device);
	assert_int_equal(ibv_close_device(own), 0);
	errno = 0;
	assert_null(ibv_import_device(STDERR_FILENO));
	assert_int_equal(errno, FAKE_ERRNO);
}

static void closed_contexts_are_gone(void **state)
{
	struct ibv_context *context = ibv_open_device(&fake->ibv);

	assert_int_equal(fake->contexts, 2);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(fake->contexts, 1);
	errno = 0;
	assert_int_equal(ibv_close_device(context), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(fake->contexts, 1);
}

static void *ask_pkey(void *unused)
{
	__be16 pkey;

	return ibv_query_pkey(theirs, 1, 0, &pkey) ? fake : NULL;
}

/* The thread was begun by another C library than the one that it calls. */
static void threads_of_the_program_may_call(void **state)
{
	pthread_t thread;
	void *failed;

	fake->letters = 0;
	assert_int_equal(pthread_create(&thread, NULL, ask_pkey, NULL), 0);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(fake->letters, 4);
}

static void fork_init_reaches_both(void **state)
{
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(fake->forks, 1);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_ENABLED);
}

/* A child makes what it needs anew, on both devices. */
static int child(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int bad = 0;

	for (int i = 0; i < 2; i++) {
		struct ibv_context *context = ibv_open_device(list[i]);
		struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

		bad += !pd || ibv_dealloc_pd(pd) || ibv_close_device(context);
	}
	ibv_free_device_list(list);
	return bad;
}

static void children_have_both_devices(void **state)
{
	const pid_t pid = fork();
	int status;

	if (!pid)
		_exit(child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The last one would find a place of the set that was not given back. */
static void contexts_come_and_go(void **state)
{
	for (int i = 0; i < 1000; i++) {
		struct ibv_context *context = ibv_open_device(&fake->ibv);

		assert_non_null(context);
		assert_int_equal(ibv_close_device(context), 0);
	}
	assert_int_equal(fake->contexts, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_has_ours_then_theirs),
		cmocka_unit_test(provider_has_its_own_library),
		cmocka_unit_test(objects_go_to_their_library),
		cmocka_unit_test(answers_are_the_devices_own),
		cmocka_unit_test(errno_is_that_of_the_program),
		cmocka_unit_test(errno_of_inline_calls_is_that_of_the_program),
		cmocka_unit_test(success_leaves_errno_alone),
		cmocka_unit_test(missing_calls_are_not_supported),
		cmocka_unit_test(absent_verbs_are_not_supported),
		cmocka_unit_test(posts_and_polls_are_the_providers),
		cmocka_unit_test(events_are_acknowledged_where_they_came_from),
		cmocka_unit_test(parts_of_the_other_device_are_refused),
		cmocka_unit_test(files_are_imported_by_their_library),
		cmocka_unit_test(closed_contexts_are_gone),
		cmocka_unit_test(threads_of_the_program_may_call),
		cmocka_unit_test(fork_init_reaches_both),
		cmocka_unit_test(children_have_both_devices),
		cmocka_unit_test(contexts_come_and_go),
	};

	return cmocka_run_group_tests_name("beside", tests, open_both, close_both);
}
