/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What exported functions answer that have nothing to do with a device: those that refuse, each
 * by the convention of its man page, and the small ones that need no object. Looked up by name
 * and version, as plug-ins do it.
 *
 * usage: test_answers LIBDIR
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/rdmacm.h"

static void *verbs, *rdmacm;

static void *open_library(const char *dir, const char *name)
{
	char path[PATH_MAX];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

static void *lookup(void *library, const char *name, const char *version)
{
	void *address = dlvsym(library, name, version);

	if (!address)
		fail_msg("%s", dlerror());
	return address;
}

/* A local pointer with the type of the declaration in the header. */
#define FUNCTION(library, name, version) \
	__typeof__(&(name)) p_##name = lookup(library, #name, version)
#define CALL(name) (p_##name)

#define IBV_1_0 "IBVERBS_1.0"
#define IBV_1_1 "IBVERBS_1.1"
#define PRIVATE "IBVERBS_PRIVATE_34"
#define CM_1_0  "RDMACM_1.0"

static void old_names_fail_by_their_convention(void **state)
{
	static const char *const pointers[] = { "ibv_get_device_list", "ibv_open_device",
						"ibv_alloc_pd",        "ibv_reg_mr",
						"ibv_create_cq",       "ibv_create_srq",
						"ibv_create_qp",       "ibv_create_ah" };
	static const char *const numbers[] = { "ibv_query_device", "ibv_query_port",
					       "ibv_modify_qp", "ibv_destroy_cq" };
	static const char *const minus_ones[] = { "ibv_query_gid", "ibv_query_pkey",
						  "ibv_get_cq_event", "ibv_get_async_event" };

	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		void *(*call)(void *) = lookup(verbs, pointers[i], IBV_1_0);

		errno = 0;
		assert_null(call(NULL));
		assert_int_equal(errno, ENOSYS);
		/* The current function is another one. */
		assert_ptr_not_equal(call, lookup(verbs, pointers[i], IBV_1_1));
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int (*call)(void *) = lookup(verbs, numbers[i], IBV_1_0);

		assert_int_equal(call(NULL), ENOSYS);
	}
	for (size_t i = 0; i < sizeof(minus_ones) / sizeof(minus_ones[0]); i++) {
		int (*call)(void *) = lookup(verbs, minus_ones[i], IBV_1_0);

		errno = 0;
		assert_int_equal(call(NULL), -1);
		assert_int_equal(errno, ENOSYS);
	}
}

static void plain_lookup_finds_the_current_version(void **state)
{
	static const char *const names[] = { "ibv_alloc_pd", "ibv_query_gid",
					     "ibv_get_device_list" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_ptr_equal(dlsym(verbs, names[i]), lookup(verbs, names[i], IBV_1_1));
}

static void expect_refusals(int number)
{
	char node[32], name[32];
	void (*register_driver)(void *);
	int (*create_cq_ex)(void *), (*execute_ioctl)(void *, void *), (*poll)(void *, int, void *);
	void *(*open_device)(void *, void *);

	snprintf(node, sizeof(node), "IBVERBS_PRIVATE_%d", number);
	snprintf(name, sizeof(name), "verbs_register_driver_%d", number);
	register_driver = lookup(verbs, name, node);
	create_cq_ex = lookup(verbs, "ibv_cmd_create_cq_ex", node);
	execute_ioctl = lookup(verbs, "execute_ioctl", node);
	open_device = lookup(verbs, "verbs_open_device", node);
	poll = lookup(verbs, "ibv_cmd_poll_cq", node);

	register_driver(NULL);
	assert_false(*(bool *)lookup(verbs, "verbs_allow_disassociate_destroy", node));
	assert_int_equal(create_cq_ex(NULL), EOPNOTSUPP);
	assert_int_equal(execute_ioctl(NULL, NULL), EOPNOTSUPP);
	assert_int_equal(poll(NULL, 1, NULL), -1);
	errno = 0;
	assert_null(open_device(NULL, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void providers_may_register_and_are_refused_commands(void **state)
{
	static const int nodes[] = { 34, 57, 59, 64, 65 };

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		expect_refusals(nodes[i]);
}

static void a_refused_post_points_at_its_request(void **state)
{
	int (*post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **) =
		lookup(verbs, "ibv_cmd_post_send", PRIVATE);
	struct ibv_send_wr wr = { 0 }, *bad_wr = NULL;

	assert_int_equal(post(NULL, &wr, &bad_wr), EOPNOTSUPP);
	assert_ptr_equal(bad_wr, &wr);
}

static size_t log_size(const char *path)
{
	char text[256] = "";
	FILE *file = fopen(path, "r");
	size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	if (size)
		assert_string_equal(text, "device: says 7\n");
	return size;
}

static void the_provider_log_is_silent_unless_asked(void **state)
{
	void (*log)(void *, uint32_t, const char *, ...) = lookup(verbs, "__verbs_log", PRIVATE);
	char path[] = "/tmp/verbena-log-XXXXXX";

	close(mkstemp(path));
	setenv("VERBS_LOG_FILE", path, 1);
	unsetenv("VERBS_LOG_LEVEL");
	log(NULL, 1, "%s: says %d\n", "device", 7);
	assert_int_equal(log_size(path), 0);

	setenv("VERBS_LOG_LEVEL", "2", 1);
	log(NULL, 3, "%s: says %d\n", "device", 7);
	assert_int_equal(log_size(path), 0);
	errno = EXDEV;
	log(NULL, 2, "%s: says %d\n", "device", 7);
	assert_int_equal(errno, EXDEV);
	assert_int_not_equal(log_size(path), 0);

	unsetenv("VERBS_LOG_LEVEL");
	unsetenv("VERBS_LOG_FILE");
	unlink(path);
}

static void absent_features_are_not_supported(void **state)
{
	FUNCTION(verbs, ibv_reg_dmabuf_mr, "IBVERBS_1.12");
	FUNCTION(verbs, ibv_query_ece, "IBVERBS_1.10");
	FUNCTION(verbs, ibv_query_qp_data_in_order, "IBVERBS_1.14");
	struct ibv_ece ece = { .vendor_id = 1, .options = 2, .comp_mask = 3 };

	FUNCTION(verbs, ibv_is_fork_initialized, "IBVERBS_1.13");
	FUNCTION(verbs, ibv_fork_init, IBV_1_1);

	if (access("/dev/udmabuf", F_OK)) {
		errno = 0;
		assert_null(CALL(ibv_reg_dmabuf_mr)(NULL, 0, 0, 0, -1, 0));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_int_equal(CALL(ibv_query_ece)(NULL, &ece), EOPNOTSUPP);
	assert_int_equal(ece.vendor_id | ece.options | ece.comp_mask, 0);
	assert_int_equal(CALL(ibv_query_qp_data_in_order)(NULL, IBV_WR_RDMA_WRITE, 0), 0);
	assert_int_equal(CALL(ibv_fork_init)(), 0);
	assert_int_equal(CALL(ibv_is_fork_initialized)(), IBV_FORK_UNNEEDED);
}

/* "unknown" exactly outside of the enumeration, and no name twice. */
static void expect_named(const char *(*name)(int), int first, int last)
{
	for (int i = first; i <= last; i++) {
		assert_non_null(name(i));
		assert_string_not_equal(name(i), "unknown");
		for (int j = first; j < i; j++)
			assert_string_not_equal(name(i), name(j));
	}
	assert_string_equal(name(last + 1), "unknown");
	assert_string_equal(name(-1000), "unknown");
	assert_string_equal(name(INT_MAX), "unknown");
}

static void every_enumerator_has_a_name(void **state)
{
	const char *(*wr_opcode_str)(int) = lookup(verbs, "ibv_wr_opcode_str", PRIVATE);
	const char *(*wc_status_str)(int) = lookup(verbs, "ibv_wc_status_str", IBV_1_1);

	expect_named(wc_status_str, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE);
	expect_named(lookup(verbs, "ibv_event_type_str", IBV_1_1), IBV_EVENT_CQ_ERR,
		     20); /* IBV_EVENT_DEVICE_SPEED_CHANGE */
	expect_named(lookup(verbs, "ibv_port_state_str", IBV_1_1), IBV_PORT_NOP,
		     IBV_PORT_ACTIVE_DEFER);
	expect_named(lookup(verbs, "ibv_node_type_str", IBV_1_1), IBV_NODE_CA,
		     IBV_NODE_UNSPECIFIED);
	expect_named(wr_opcode_str, IBV_WR_RDMA_WRITE, IBV_WR_DRIVER1);
	assert_string_equal(wr_opcode_str(IBV_WR_ATOMIC_WRITE), "atomic-write");
	assert_string_equal(wc_status_str(IBV_WC_RETRY_EXC_ERR),
			    "transport retry counter exceeded");
}

static void rates_convert_both_ways(void **state)
{
	FUNCTION(verbs, ibv_rate_to_mbps, IBV_1_1);
	FUNCTION(verbs, mbps_to_ibv_rate, IBV_1_1);
	FUNCTION(verbs, ibv_rate_to_mult, IBV_1_0);
	FUNCTION(verbs, mult_to_ibv_rate, IBV_1_0);
	int multiples = 0;

	for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
		int mbps = CALL(ibv_rate_to_mbps)(rate), mult = CALL(ibv_rate_to_mult)(rate);

		assert_true(mbps >= 2500);
		assert_int_equal(CALL(mbps_to_ibv_rate)(mbps), rate);
		if (mult < 0)
			continue;
		multiples++;
		assert_int_equal(CALL(mult_to_ibv_rate)(mult), rate);
		/* The multiple is of the signalling rate, give or take the coding. */
		assert_in_range(mult * 2500, mbps * 9 / 10, mbps);
	}
	assert_int_equal(multiples, 15);
	assert_int_equal(CALL(ibv_rate_to_mbps)(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(CALL(ibv_rate_to_mbps)(IBV_RATE_MAX), -1);
	assert_int_equal(CALL(ibv_rate_to_mult)(IBV_RATE_14_GBPS), -1);
	assert_int_equal(CALL(mult_to_ibv_rate)(-1), IBV_RATE_MAX);
	assert_int_equal(CALL(mbps_to_ibv_rate)(-1), IBV_RATE_MAX);
	assert_int_equal(CALL(mbps_to_ibv_rate)(1), IBV_RATE_MAX);
}

static void sysfs_files_are_read_as_lines(void **state)
{
	int (*read_file)(const char *, const char *, char *, size_t) =
		lookup(verbs, "ibv_read_sysfs_file", IBV_1_0);
	const char *(*sysfs_path)(void) = lookup(verbs, "ibv_get_sysfs_path", IBV_1_0);
	char dir[] = "/tmp/verbena-sysfs-XXXXXX", path[64], text[8];
	FILE *file;

	assert_string_equal(sysfs_path(), "/fake/sys"); /* set in main, with slashes behind */
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/attr", dir);
	file = fopen(path, "w");
	fputs("1234567\n", file);
	fclose(file);

	assert_int_equal(read_file(dir, "attr", text, sizeof(text)), 7);
	assert_string_equal(text, "1234567");
	assert_int_equal(read_file(dir, "attr", text, sizeof(text) - 1), -1);
	errno = 0;
	assert_int_equal(read_file(dir, "none", text, sizeof(text)), -1);
	assert_int_equal(errno, ENOENT);
	unlink(path);
	rmdir(dir);
}

static void a_channel_and_an_identifier_come_and_go(void **state)
{
	FUNCTION(rdmacm, rdma_create_event_channel, CM_1_0);
	FUNCTION(rdmacm, rdma_destroy_event_channel, CM_1_0);
	FUNCTION(rdmacm, rdma_create_id, CM_1_0);
	FUNCTION(rdmacm, rdma_destroy_id, CM_1_0);
	FUNCTION(rdmacm, rsend, CM_1_0);
	struct rdma_event_channel *channel = CALL(rdma_create_event_channel)();
	struct rdma_cm_id *id = NULL;

	assert_non_null(channel);
	assert_true(channel->fd >= 0);
	assert_int_equal(CALL(rdma_create_id)(channel, &id, &channel, RDMA_PS_TCP), 0);
	assert_ptr_equal(id->context, &channel);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(id->ps, RDMA_PS_TCP);
	assert_int_equal(CALL(rdma_destroy_id)(id), 0);
	CALL(rdma_destroy_event_channel)(channel);
	/* A descriptor that is no rsocket. */
	errno = 0;
	assert_true(CALL(rsend)(0, "", 1, 0) == -1);
	assert_int_equal(errno, EBADF);
}

static void waiting_works_on_ordinary_descriptors(void **state)
{
	FUNCTION(rdmacm, rpoll, CM_1_0);
	FUNCTION(rdmacm, rselect, CM_1_0);
	struct timeval now = { 0 };
	struct pollfd poll_fd;
	fd_set readable;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	poll_fd = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	assert_int_equal(CALL(rpoll)(&poll_fd, 1, 0), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(CALL(rpoll)(&poll_fd, 1, -1), 1);
	assert_int_equal(poll_fd.revents, POLLIN);
	FD_ZERO(&readable);
	FD_SET(fds[0], &readable);
	assert_int_equal(CALL(rselect)(fds[0] + 1, &readable, NULL, NULL, &now), 1);
	close(fds[0]);
	close(fds[1]);
}

static void an_identifier_knows_its_ports(void **state)
{
	FUNCTION(rdmacm, rdma_get_src_port, CM_1_0);
	FUNCTION(rdmacm, rdma_get_dst_port, CM_1_0);
	struct rdma_cm_id id = { 0 };
	struct sockaddr_ib *sib = (struct sockaddr_ib *)&id.route.addr.dst_addr;

	assert_int_equal(CALL(rdma_get_src_port)(&id), 0);
	id.route.addr.src_sin.sin_family = AF_INET;
	id.route.addr.src_sin.sin_port = htons(7471);
	assert_int_equal(CALL(rdma_get_src_port)(&id), htons(7471));
	id.route.addr.dst_sin6.sin6_family = AF_INET6;
	id.route.addr.dst_sin6.sin6_port = htons(18515);
	assert_int_equal(CALL(rdma_get_dst_port)(&id), htons(18515));
	sib->sib_family = AF_IB;
	sib->sib_sid = htobe64(RDMA_IB_IP_PS_TCP | 4791);
	assert_int_equal(CALL(rdma_get_dst_port)(&id), htons(4791));
}

static void events_are_named_after_their_enumerators(void **state)
{
	const char *(*event_str)(int) = lookup(rdmacm, "rdma_event_str", CM_1_0);

	assert_string_equal(event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
	assert_string_equal(event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	assert_string_equal(event_str(RDMA_CM_EVENT_ADDRINFO_RESOLVED),
			    "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	assert_string_equal(event_str(RDMA_CM_EVENT_USER), "RDMA_CM_EVENT_USER");
	for (int i = 0; i <= (int)RDMA_CM_EVENT_INTERNAL; i++)
		assert_memory_equal(event_str(i), "RDMA_CM_EVENT_", 14);
	assert_string_equal(event_str(RDMA_CM_EVENT_INTERNAL + 1), "UNKNOWN EVENT");
	assert_string_equal(event_str(-1), "UNKNOWN EVENT");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_names_fail_by_their_convention),
		cmocka_unit_test(plain_lookup_finds_the_current_version),
		cmocka_unit_test(providers_may_register_and_are_refused_commands),
		cmocka_unit_test(a_refused_post_points_at_its_request),
		cmocka_unit_test(the_provider_log_is_silent_unless_asked),
		cmocka_unit_test(absent_features_are_not_supported),
		cmocka_unit_test(every_enumerator_has_a_name),
		cmocka_unit_test(rates_convert_both_ways),
		cmocka_unit_test(sysfs_files_are_read_as_lines),
		cmocka_unit_test(a_channel_and_an_identifier_come_and_go),
		cmocka_unit_test(waiting_works_on_ordinary_descriptors),
		cmocka_unit_test(an_identifier_knows_its_ports),
		cmocka_unit_test(events_are_named_after_their_enumerators),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s LIBDIR\n", argv[0]);
		return 2;
	}
	setenv("SYSFS_PATH", "/fake/sys//", 1);
	verbs = open_library(argv[1], "libibverbs.so.1");
	rdmacm = open_library(argv[1], "librdmacm.so.1");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
