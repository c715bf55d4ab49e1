/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program finds below /sys/class/infiniband and /dev/infiniband under `verbena run`: the
 * same by each call of the C library that can ask, and the same as libibverbs says.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <net/if.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ways.h"

#define DEVICE "/sys/class/infiniband/verbena0"
#define PORT   DEVICE "/ports/1"
#define NODE   "/dev/infiniband/uverbs0"

enum { TEXT_SIZE = 256 };

static void read_text(const struct opener *opener, const char *path, char text[TEXT_SIZE])
{
	int fd = opener->open(path);
	ssize_t length;

	if (fd < 0)
		fail_msg("%s of %s: %s", opener->name, path, strerror(errno));
	length = read(fd, text, TEXT_SIZE - 1);
	assert_true(length >= 0);
	text[length] = '\0';
	close(fd);
}

static void assert_text(const char *path, const char *wanted)
{
	char text[TEXT_SIZE];

	for (int i = 0; openers[i].name; i++) {
		read_text(&openers[i], path, text);
		if (strcmp(text, wanted))
			fail_msg("%s of %s: '%s', not '%s'", openers[i].name, path, text, wanted);
	}
}

static void every_open_reads_the_same(void **state)
{
	assert_text(DEVICE "/node_type", "1: CA\n");
	assert_text(PORT "/link_layer", "Ethernet\n");
	assert_text("/sys//class/./infiniband//verbena0/ports/1/pkeys/0", "0xffff\n");
	assert_text("/sys/class/infiniband/verbena1/ports/1/link_layer", "InfiniBand\n");
	assert_text("/sys/class/infiniband_verbs/uverbs1/ibdev", "verbena1\n");
	assert_text("/sys/class/infiniband_verbs/abi_version", "6\n");
}

/* --- every way to ask about one --- */

static void assert_type(const char *path, mode_t type)
{
	mode_t mode;

	for (int i = 0; lookers[i].name; i++) {
		if (lookers[i].look(path, &mode))
			fail_msg("%s of %s: %s", lookers[i].name, path, strerror(errno));
		if ((mode & S_IFMT) != type)
			fail_msg("%s of %s: mode %o", lookers[i].name, path, mode);
	}
}

static void every_stat_sees_the_same(void **state)
{
	assert_type("/sys/class/infiniband", S_IFDIR);
	assert_type(DEVICE, S_IFDIR);
	assert_type(DEVICE "/device", S_IFDIR);
	assert_type(PORT "/state", S_IFREG);
	assert_type(NODE, S_IFCHR);
	assert_type("/dev/infiniband/rdma_cm", S_IFCHR);
}

static void assert_absent(const char *path)
{
	mode_t mode;

	for (int i = 0; openers[i + 1].name; i++) { /* the last one needs the directory */
		errno = 0;
		assert_int_equal(openers[i].open(path), -1);
		assert_int_equal(errno, ENOENT);
	}
	for (int i = 0; lookers[i].name; i++) {
		errno = 0;
		assert_int_equal(lookers[i].look(path, &mode), -1);
		assert_int_equal(errno, ENOENT);
	}
	assert_int_equal(access(path, F_OK), -1);
	assert_null(realpath(path, NULL));
	assert_null(opendir(path));
	assert_int_equal(errno, ENOENT);
}

static void what_does_not_exist_is_enoent(void **state)
{
	assert_absent("/sys/class/infiniband/mlx5_0");
	assert_absent(PORT "/gids/999");
	assert_absent("/sys/class/infiniband/verbena0/ports/2");
	assert_absent("/sys/class/infiniband_mad/umad99");
	assert_absent("/dev/infiniband/uverbs99");
	assert_absent("/dev/infiniband/umad99");
	assert_absent("/dev/infiniband/issm0"); /* RoCE */
}

/* Rust's library tries statx so. */
static void a_null_path_is_efault(void **state)
{
	const char *volatile none = NULL;
	struct stat info;
	char text[8];

	assert_int_equal(statx(0, none, 0, STATX_ALL, (struct statx *)none), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(stat(none, &info), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(access(none, F_OK), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(open(none, O_RDONLY), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(readlink(none, text, sizeof(text)), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(chdir(none), -1);
	assert_int_equal(errno, EFAULT);
}

static void neighbours_are_left_alone(void **state)
{
	assert_type("/sys/class", S_IFDIR);
	assert_type("/dev/null", S_IFCHR);
	assert_type("/sys/class/net/lo/", S_IFDIR);
	assert_int_equal(access("/sys/class/infinibandit", F_OK), -1);
	assert_int_equal(access("/dev/infinibands", F_OK), -1);
}

/* --- links and names --- */

static void links_lead_to_the_adapter(void **state)
{
	char text[PATH_MAX], *name;
	ssize_t length = readlink(DEVICE, text, sizeof(text));
	struct stat info;

	assert_true(length > 0);
	text[length] = '\0';
	assert_string_equal(text, "../../devices/virtual/verbena/verbena0/infiniband/verbena0");
	assert_int_equal(lstat(DEVICE, &info), 0);
	assert_true(S_ISLNK(info.st_mode));
	assert_ptr_equal(realpath(DEVICE "/device", text), text);
	assert_string_equal(text, "/sys/devices/virtual/verbena/verbena0");
	name = canonicalize_file_name("/sys/class/infiniband_verbs/uverbs0/device/infiniband");
	assert_string_equal(name, "/sys/devices/virtual/verbena/verbena0/infiniband");
	assert_int_equal(access(name, R_OK | X_OK), 0);
	free(name);
}

static void a_node_is_a_device_and_no_link(void **state)
{
	char *name = realpath("/dev//infiniband/uverbs0", NULL);
	struct stat info;
	int fd;

	assert_string_equal(name, NODE);
	free(name);
	assert_int_equal(lstat(NODE, &info), 0);
	assert_true(S_ISCHR(info.st_mode));
	assert_int_equal(access(NODE, R_OK | W_OK), 0);
	fd = open(NODE, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "command", 7), -1); /* nobody listens, and that shows */
	close(fd);
}

/* --- directories --- */

static unsigned count_entries(const char *path)
{
	DIR *directory = opendir(path);
	unsigned count = 0;
	struct dirent *entry;

	if (!directory)
		fail_msg("opendir of %s: %s", path, strerror(errno));
	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

static int no_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void directories_list_what_is_there(void **state)
{
	struct dirent **list;
	glob_t found;
	int count;

	assert_int_equal(count_entries("/sys/class/infiniband"), 2);
	assert_int_equal(count_entries("/sys/class/infiniband/"), 2);
	assert_int_equal(count_entries("/dev/infiniband"), 6);
	count = scandir("/sys/class/infiniband", &list, no_dots, alphasort);
	assert_int_equal(count, 2);
	assert_string_equal(list[0]->d_name, "verbena0");
	free(list[0]);
	free(list[1]);
	free(list);
	assert_int_equal(glob("/sys/class/infiniband/*/ports/1/sta[t]e", 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	assert_string_equal(found.gl_pathv[0], PORT "/state");
	globfree(&found);
}

static void entering_a_directory_works(void **state)
{
	int back = open(".", O_RDONLY | O_DIRECTORY), fd;

	assert_int_equal(chdir(PORT), 0);
	fd = open("gids/0", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(access("state", R_OK), 0);
	assert_int_equal(fchdir(back), 0);
	close(back);
}

/* --- what the files say is what the library says --- */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	assert_non_null(context);
	return context;
}

static void line_of(const char *path, char text[TEXT_SIZE])
{
	read_text(&openers[0], path, text);
}

static void gids_are_those_of_the_port(void **state)
{
	struct ibv_context *context = open_device("verbena0");
	char path[PATH_MAX], text[TEXT_SIZE], wanted[TEXT_SIZE], netdev[IF_NAMESIZE];
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(count_entries(PORT "/gids"), port.gid_tbl_len);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		for (int k = 0; k < 16; k += 2)
			sprintf(wanted + k / 2 * 5, "%02x%02x%c", gid.raw[k], gid.raw[k + 1],
				k < 14 ? ':' : '\n');
		snprintf(path, sizeof(path), PORT "/gids/%d", i);
		line_of(path, text);
		assert_string_equal(text, wanted);

		snprintf(path, sizeof(path), PORT "/gid_attrs/types/%d", i);
		if (ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0)) {
			/* As a kernel answers for an index without an address. */
			assert_int_equal(open(path, O_RDONLY), -1);
			assert_int_equal(errno, EINVAL);
			assert_int_equal(access(path, R_OK), 0);
			continue;
		}
		line_of(path, text);
		assert_string_equal(text, "RoCE v2\n");
		snprintf(path, sizeof(path), PORT "/gid_attrs/ndevs/%d", i);
		line_of(path, text);
		assert_non_null(if_indextoname(entry.ndev_ifindex, netdev));
		snprintf(wanted, sizeof(wanted), "%s\n", netdev);
		assert_string_equal(text, wanted);
		snprintf(path, sizeof(path), DEVICE "/device/net/%s/ifindex", netdev);
		assert_int_equal(access(path, R_OK), 0);
	}
	ibv_close_device(context);
}

/* The line of the file "rate", as the kernel prints it. The interface decides the speed. */
static void rate_of(const struct ibv_port_attr *port, char text[TEXT_SIZE])
{
	static const struct {
		uint8_t speed;
		const char *name;
		double gbit_s;
	} speeds[] = {
		{ 1, "", 2.5 },     { 2, " DDR", 5 },   { 4, " QDR", 10 },  { 8, " FDR10", 10 },
		{ 16, " FDR", 14 }, { 32, " EDR", 25 }, { 64, " HDR", 50 }, { 128, " NDR", 100 },
	};
	static const int lanes[] = { [1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2 };

	assert_in_range(port->active_width, 1, 16);
	text[0] = 0;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
		if (speeds[i].speed == port->active_speed)
			snprintf(text, TEXT_SIZE, "%g Gb/sec (%dX%s)\n",
				 lanes[port->active_width] * speeds[i].gbit_s,
				 lanes[port->active_width], speeds[i].name);
}

static void the_port_is_that_of_the_library(void **state)
{
	struct ibv_context *context = open_device("verbena1");
	char text[TEXT_SIZE], wanted[TEXT_SIZE];
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(ibv_query_device(context, &attr), 0);
	line_of("/sys/class/infiniband/verbena1/ports/1/lid", text);
	snprintf(wanted, sizeof(wanted), "0x%x\n", port.lid);
	assert_string_equal(text, wanted);
	line_of("/sys/class/infiniband/verbena1/ports/1/state", text);
	assert_int_equal(atoi(text), port.state);
	assert_string_equal(strchr(text, ' '), " ACTIVE\n");
	line_of("/sys/class/infiniband/verbena1/ports/1/rate", text);
	rate_of(&port, wanted);
	assert_string_equal(text, wanted);
	line_of("/sys/class/infiniband/verbena1/fw_ver", text);
	snprintf(wanted, sizeof(wanted), "%s\n", attr.fw_ver);
	assert_string_equal(text, wanted);
	line_of("/sys/class/infiniband/verbena1/node_guid", text);
	assert_int_equal(strlen(text), 20);
	ibv_close_device(context);
}

static void nothing_can_be_written(void **state)
{
	assert_int_equal(open(DEVICE "/node_desc", O_WRONLY), -1);
	assert_int_equal(errno, EACCES);
	assert_null(fopen(PORT "/state", "r+"));
	assert_int_equal(errno, EACCES);
	assert_int_equal(open(DEVICE "/mine", O_CREAT | O_RDWR, 0600), -1);
	assert_int_equal(access(DEVICE "/mine", F_OK), -1);
}

static void a_file_is_the_same_opened_and_named(void **state)
{
	struct stat named, opened;
	int fd = open(PORT "/gids/0", O_RDONLY);

	assert_int_equal(fstat(fd, &opened), 0);
	assert_int_equal(stat(PORT "/gids/0", &named), 0);
	assert_int_equal(named.st_ino, opened.st_ino);
	close(fd);
}

/* --- a guest in the process --- */

static void success_leaves_errno_alone(void **state)
{
	errno = 12345;
	assert_int_equal(access(PORT "/state", R_OK), 0);
	close(open(PORT "/gids/0", O_RDONLY));
	assert_int_equal(errno, 12345);
}

static unsigned open_descriptors(void)
{
	return count_entries("/proc/self/fd");
}

static void no_descriptor_stays_open(void **state)
{
	char text[TEXT_SIZE];
	unsigned before;

	line_of(PORT "/state", text);
	before = open_descriptors();
	for (int i = 0; i < 20; i++) {
		line_of(PORT "/gids/0", text);
		count_entries(PORT "/gids");
		free(realpath(DEVICE, NULL));
	}
	assert_int_equal(open_descriptors(), before);
}

static void it_survives_that_all_descriptors_are_closed(void **state)
{
	pid_t child = fork();
	int status;

	if (!child) {
		char text[TEXT_SIZE] = "";
		int fd;

		for (int i = 3; i < 8192; i++)
			close(i);
		fd = open(PORT "/link_layer", O_RDONLY);
		_exit(fd < 0 || read(fd, text, TEXT_SIZE - 1) <= 0 || strcmp(text, "Ethernet\n"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_text(PORT "/link_layer", "Ethernet\n"); /* and the child took nothing with it */
}

static void *read_for_a_while(void *arg)
{
	char text[TEXT_SIZE];

	for (int i = 0; i < 200; i++) {
		line_of(PORT "/gids/1", text);
		assert_int_equal(strlen(text), 40);
		assert_int_equal(access(NODE, R_OK), 0);
	}
	return NULL;
}

static void threads_read_at_the_same_time(void **state)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_for_a_while, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_open_reads_the_same),
		cmocka_unit_test(every_stat_sees_the_same),
		cmocka_unit_test(what_does_not_exist_is_enoent),
		cmocka_unit_test(a_null_path_is_efault),
		cmocka_unit_test(neighbours_are_left_alone),
		cmocka_unit_test(links_lead_to_the_adapter),
		cmocka_unit_test(a_node_is_a_device_and_no_link),
		cmocka_unit_test(directories_list_what_is_there),
		cmocka_unit_test(entering_a_directory_works),
		cmocka_unit_test(gids_are_those_of_the_port),
		cmocka_unit_test(the_port_is_that_of_the_library),
		cmocka_unit_test(nothing_can_be_written),
		cmocka_unit_test(a_file_is_the_same_opened_and_named),
		cmocka_unit_test(success_leaves_errno_alone),
		cmocka_unit_test(no_descriptor_stays_open),
		cmocka_unit_test(it_survives_that_all_descriptors_are_closed),
		cmocka_unit_test(threads_read_at_the_same_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
