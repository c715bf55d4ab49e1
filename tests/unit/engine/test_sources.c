/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processes are asked to be captured, and by which socket; the test is such a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/attach/sources.h"
#include "nic/nic.h"

static struct vb_sources sources;
static char name[VB_CAPTURE_NAME_SIZE];

static int set_up(void **state)
{
	(void)state;
	snprintf(name, sizeof(name), "verbena-test-sources.%d", (int)getpid());
	vb_sources_open(&sources, &(struct vb_sources_options){ .tool = "test",
								.wants = VB_WANT_PACKETS,
								.pid = getpid(),
								.name = name });
	return sources.listener < 0;
}

static int tear_down(void **state)
{
	(void)state;
	vb_sources_close(&sources);
	return 0;
}

static int come(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	assert_int_equal(
		connect(fd, (void *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
		0);
	return fd;
}

static unsigned count_own(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < sources.count; i++)
		count += sources.list[i]->pid == getpid();
	return count;
}

static void a_process_that_comes_is_asked(void **state)
{
	struct vb_capture_request request;
	int fd = come();

	(void)state;
	vb_sources_wait(&sources, 0);
	assert_int_equal(recv(fd, &request, sizeof(request), 0), sizeof(request));
	assert_int_equal(count_own(), 1);
	close(fd);
}

/* Nobody serves the slot: the program would go on, and its first packets be lost. */
static void a_process_that_comes_is_asked_though_its_slot_was_asked_before(void **state)
{
	struct vb_capture_request request;
	int fd;

	(void)state;
	assert_non_null(vb_nic_get());
	vb_sources_look(&sources);
	assert_int_equal(count_own(), 1);
	fd = come();
	vb_sources_wait(&sources, 0);
	assert_int_equal(recv(fd, &request, sizeof(request), 0), sizeof(request));
	assert_int_equal(count_own(), 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_process_that_comes_is_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_process_that_comes_is_asked_though_its_slot_was_asked_before, set_up,
			tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
