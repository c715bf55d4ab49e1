/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptor numbers, the administrator's settings, the preload library's configuration. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload-sockets/config.h"
#include "rsocket/fd_table.h"
#include "rsocket/settings.h"

struct thing {
	struct vb_fd_object object;
	atomic_int released;
};

static void thing_release(struct vb_fd_object *object)
{
	atomic_fetch_add(&((struct thing *)object)->released, 1);
}

static void numbers_mean_objects_until_removed(void **state)
{
	static struct vb_fd_table table;
	const int numbers[] = { 0, 1, 1023, 1024, 70000, VB_FD_PAGE * VB_FD_PAGES - 1 };
	struct vb_fd_object *before;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct thing thing = { .released = 0 };

		vb_fd_object_init(&thing.object, thing_release);
		assert_null(vb_fd_table_get(&table, numbers[i]));
		assert_int_equal(vb_fd_table_set(&table, numbers[i], &thing.object, &before), 0);
		assert_null(before);
		assert_true(vb_fd_table_has(&table, numbers[i]));
		assert_ptr_equal(vb_fd_table_get(&table, numbers[i]), &thing.object);
		vb_fd_object_put(&thing.object);
		assert_ptr_equal(vb_fd_table_remove(&table, numbers[i]), &thing.object);
		assert_null(vb_fd_table_remove(&table, numbers[i]));
		assert_int_equal(thing.released, 0);
		vb_fd_object_put(&thing.object);
		assert_int_equal(thing.released, 1);
		assert_false(vb_fd_object_try_get(&thing.object));
	}
	assert_null(vb_fd_table_get(&table, -1));
	assert_null(vb_fd_table_get(&table, VB_FD_PAGE * VB_FD_PAGES));
	assert_int_equal(vb_fd_table_set(&table, VB_FD_PAGE * VB_FD_PAGES, NULL, &before), -EMFILE);
}

static struct vb_fd_table shared;

static void *look_up_often(void *unused)
{
	for (int i = 0; i < 200000; i++) {
		struct vb_fd_object *object = vb_fd_table_get(&shared, 5);

		if (!object)
			continue;
		assert_int_equal(((struct thing *)object)->released, 0);
		vb_fd_object_put(object);
	}
	return unused;
}

static void a_lookup_never_meets_a_released_object(void **state)
{
	static struct thing things[20000];
	struct vb_fd_object *object;
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, look_up_often, NULL);
	for (int i = 0; i < 20000; i++) {
		vb_fd_object_init(&things[i].object, thing_release);
		assert_int_equal(vb_fd_table_set(&shared, 5, &things[i].object, &object), 0);
		object = vb_fd_table_remove(&shared, 5);
		assert_ptr_equal(object, &things[i].object);
		vb_fd_object_put(object);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(things[i].released, 1);
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void settings_are_read_from_files(void **state)
{
	char directory[] = "/tmp/rsocket-settings-XXXXXX", command[300];
	struct vb_rs_settings settings;

	assert_non_null(mkdtemp(directory));
	vb_rs_settings_read(directory, &settings);
	assert_int_equal(settings.receive_size, 131072);
	assert_int_equal(settings.rq_size, 384);
	write_file(directory, "mem_default", "1000000\n");
	write_file(directory, "sqsize_default", "1"); /* too small */
	write_file(directory, "rqsize_default", "9999999");
	write_file(directory, "inline_default", "-5");
	write_file(directory, "iomap_size", "12");
	write_file(directory, "polling_time", "rubbish");
	vb_rs_settings_read(directory, &settings);
	assert_int_equal(settings.receive_size, 1000000);
	assert_int_equal(settings.send_size, 131072);
	assert_int_equal(settings.sq_size, VB_RS_QUEUE_MIN);
	assert_int_equal(settings.rq_size, VB_RS_QUEUE_MAX);
	assert_int_equal(settings.inline_size, 64);
	assert_int_equal(settings.iomap_count, 12);
	assert_int_equal(settings.polling_time_us, 10);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
}

static void lines_of_the_configuration_choose_sockets(void **state)
{
	static const struct {
		const char *line;
		bool counts, matches; /* iperf3, AF_INET, SOCK_STREAM, IPPROTO_TCP */
	} rows[] = {
		{ "# iperf3 INET STREAM TCP", false, false },
		{ "", false, false },
		{ "iperf3 INET STREAM", false, false },
		{ "iperf3 INET STREAM TCP", true, true },
		{ "iperf AF_INET SOCK_STREAM IPPROTO_TCP", true, true },
		{ "* * * *", true, true },
		{ "* PF_INET * *", true, true },
		{ "nc * * *", true, false },
		{ "* INET6 * *", true, false },
		{ "* * DGRAM *", true, false },
		{ "* * * UDP", true, false },
		{ "* IB * *", true, false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(vb_sockets_line_counts(rows[i].line), rows[i].counts);
		assert_int_equal(vb_sockets_line_matches(rows[i].line, "iperf3", AF_INET,
							 SOCK_STREAM, IPPROTO_TCP),
				 rows[i].matches);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_mean_objects_until_removed),
		cmocka_unit_test(a_lookup_never_meets_a_released_object),
		cmocka_unit_test(settings_are_read_from_files),
		cmocka_unit_test(lines_of_the_configuration_choose_sockets),
	};

	return cmocka_run_group_tests_name("rsocket tables", tests, NULL, NULL);
}
