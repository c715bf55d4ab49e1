/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /dev/infiniband/umad* by the kernel's interface: agents, answers, timeouts, classes, refusals,
 * and what descriptors do. Under `verbena run`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gsi/mad.h"

#define ROCE       "/dev/infiniband/umad0"
#define INFINIBAND "/dev/infiniband/umad1"

enum { MAD = 256, HEADER = 24, WAIT_MS = 10000, SHORT_MS = 50, NODE_INFO = 0x11 };
enum { SUBN = 0x01, DIRECTED = 0x81, PERF = 0x04, VENDOR = 0x32, GET = 1, RESPONSE = 0x80 };

struct message {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD];
};

static int open_node(const char *path, int flags)
{
	int fd = open(path, O_RDWR | flags);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, IB_USER_MAD_ENABLE_PKEY), 0);
	return fd;
}

static int register_agent(int fd, uint8_t qpn, uint8_t class, uint64_t methods)
{
	struct ib_user_mad_reg_req2 request = {
		.qpn = qpn,
		.mgmt_class = class,
		.mgmt_class_version = 1,
		.method_mask = { methods },
		.oui = class == VENDOR ? 0x1405 : 0,
	};

	return ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request) ? -errno : (int)request.id;
}

static struct message ask_for(int agent, uint8_t class, uint16_t attribute, uint32_t timeout_ms)
{
	struct message message = { .hdr = { .id = (uint32_t)agent,
					    .timeout_ms = timeout_ms,
					    .qpn = htonl(class != SUBN && class != DIRECTED),
					    .lid = htons(class == DIRECTED ? 0xffff : 0) },
				   .mad = { 1, class, 1, GET } };

	message.mad[15] = 42; /* transaction */
	message.mad[17] = (uint8_t)attribute;
	if (class == VENDOR)
		memcpy(message.mad + 37, "\0\x14\x05", 3);
	return message;
}

static bool is_readable(int fd, int wait_ms)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, wait_ms) == 1 && wait.revents & POLLIN;
}

static struct message hear(int fd, size_t length)
{
	struct message message = { 0 };

	assert_true(is_readable(fd, WAIT_MS));
	assert_int_equal(read(fd, &message, sizeof(message)), sizeof(message.hdr) + length);
	assert_int_equal(message.hdr.length, sizeof(message.hdr) + length);
	return message;
}

static void tell(int fd, const struct message *message)
{
	assert_int_equal(write(fd, message, sizeof(*message)), sizeof(*message));
}

/* The LID of the InfiniBand port, from its PortInfo. */
static uint16_t own_lid(void)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 0, DIRECTED, 0);
	struct message message = ask_for(agent, DIRECTED, 0x15, WAIT_MS);
	uint16_t lid;

	tell(fd, &message);
	message = hear(fd, MAD);
	memcpy(&lid, message.mad + 64 + 16, sizeof(lid));
	close(fd);
	return lid; /* network order */
}

static void an_agent_answers_before_the_write_returns(void **state)
{
	int fd = open_node(INFINIBAND, O_NONBLOCK), agent = register_agent(fd, 0, SUBN, 0);
	struct message message = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);

	assert_true(agent >= 0);
	assert_int_equal(read(fd, &message, sizeof(message)), -1);
	assert_int_equal(errno, EAGAIN);
	tell(fd, &message);
	assert_true(is_readable(fd, 0));
	message = hear(fd, MAD);
	assert_int_equal(message.hdr.id, agent);
	assert_int_equal(message.hdr.status, 0);
	assert_int_equal(message.mad[3], GET | RESPONSE);
	assert_int_equal(message.mad[15], 42);
	assert_int_equal(message.mad[64], 1);
	close(fd);
}

static void without_pkeys_the_header_is_shorter(void **state)
{
	int fd = open(INFINIBAND, O_RDWR), agent;
	struct ib_user_mad_reg_req request = { .qpn = 0, .mgmt_class = SUBN };
	struct message asked;
	uint8_t bytes[sizeof(struct ib_user_mad_hdr_old) + MAD];

	request.mgmt_class_version = 1;
	assert_int_equal(ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &request), 0);
	agent = (int)request.id;
	assert_int_equal(ioctl(fd, IB_USER_MAD_ENABLE_PKEY), -1); /* too late */
	assert_int_equal(errno, EINVAL);
	asked = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);
	memcpy(bytes, &asked.hdr, sizeof(struct ib_user_mad_hdr_old));
	memcpy(bytes + sizeof(struct ib_user_mad_hdr_old), asked.mad, MAD);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(bytes[sizeof(struct ib_user_mad_hdr_old) + 3], GET | RESPONSE);
	close(fd);
}

static void a_request_without_answer_comes_back(void **state)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 0, SUBN, 0);
	struct message message = ask_for(agent, SUBN, NODE_INFO, SHORT_MS);

	message.hdr.lid = htons(0xbfff); /* no port has it */
	message.hdr.retries = 2;
	tell(fd, &message);
	assert_int_equal(write(fd, &message, sizeof(message)), -1); /* the same transaction */
	assert_int_equal(errno, EINVAL);
	message = hear(fd, HEADER);
	assert_int_equal(message.hdr.status, ETIMEDOUT);
	assert_int_equal(message.hdr.id, agent);
	assert_int_equal(message.mad[15], 42);
	close(fd);
}

static void a_class_reaches_the_program_that_registered_it(void **state)
{
	int server = open_node(INFINIBAND, 0), client = open_node(INFINIBAND, 0);
	int owner = register_agent(server, 1, VENDOR, 1ull << GET);
	int agent = register_agent(client, 1, VENDOR, 0);
	struct message message = ask_for(agent, VENDOR, 0, WAIT_MS);

	assert_true(owner >= 0 && agent >= 0);
	assert_int_equal(register_agent(client, 1, VENDOR, 1ull << GET), -EINVAL); /* taken */
	message.hdr.lid = own_lid();
	tell(client, &message);
	message = hear(server, MAD);
	assert_int_equal(message.hdr.id, owner);
	assert_int_equal(message.hdr.lid, own_lid());
	message.mad[3] |= RESPONSE;
	message.mad[100] = 99;
	tell(server, &message);
	message = hear(client, MAD);
	assert_int_equal(message.hdr.status, 0);
	assert_int_equal(message.mad[100], 99);
	assert_false(is_readable(client, SHORT_MS)); /* no timeout follows */
	/* The class is free when its last descriptor is closed, and then nobody has it. */
	close(server);
	message = ask_for(agent, VENDOR, 0, WAIT_MS);
	message.mad[15]++;
	message.hdr.lid = own_lid();
	do {
		owner = register_agent(client, 1, VENDOR, 1ull << GET);
	} while (owner == -EINVAL); /* the service thread notices */
	assert_true(owner >= 0);
	assert_int_equal(ioctl(client, IB_USER_MAD_UNREGISTER_AGENT, &owner), 0);
	tell(client, &message);
	message = hear(client, MAD);
	assert_int_equal(message.mad[5], 0x04); /* the class is not supported */
	close(client);
}

static void bad_messages_are_refused(void **state)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 0, SUBN, 0);
	struct message message = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);
	uint8_t longer[sizeof(message) + 1] = { 0 };
	static const size_t lengths[] = { 0, 10, sizeof(message.hdr), sizeof(message.hdr) + 35 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		assert_int_equal(write(fd, &message, lengths[i]), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(write(fd, longer, sizeof(longer)), -1);
	assert_int_equal(errno, EINVAL);
	message.hdr.id = (uint32_t)agent + 1; /* not registered */
	assert_int_equal(write(fd, &message, sizeof(message)), -1);
	message.hdr.id = 1000;
	assert_int_equal(write(fd, &message, sizeof(message)), -1);
	message = ask_for(agent, PERF, 1, WAIT_MS); /* by an agent of QP 0 */
	assert_int_equal(write(fd, &message, sizeof(message)), -1);
	assert_false(is_readable(fd, 0));
	close(fd);
}

static void bad_agents_are_refused(void **state)
{
	int fd = open_node(INFINIBAND, 0), roce = open_node(ROCE, 0), id = 31;
	struct ib_user_mad_reg_req2 request = { .qpn = 1, .flags = 0x80 };

	assert_int_equal(register_agent(fd, 2, 0, 0), -EINVAL);
	assert_int_equal(register_agent(fd, 1, SUBN, 0), -EINVAL);
	assert_int_equal(register_agent(fd, 0, PERF, 0), -EINVAL);
	assert_int_equal(register_agent(roce, 0, SUBN, 0), -EPROTONOSUPPORT);
	assert_int_equal(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(request.flags, IB_USER_MAD_USER_RMPP); /* the flags that there are */
	assert_int_equal(ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id), -1);
	assert_int_equal(errno, EINVAL);
	for (int i = 0; i < 32; i++)
		assert_int_equal(register_agent(fd, 1, 0, 0), i);
	assert_int_equal(register_agent(fd, 1, 0, 0), -ENOMEM);
	close(fd);
	close(roce);
}

static void a_short_buffer_loses_nothing(void **state)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 0, SUBN, 0);
	struct message message = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);

	tell(fd, &message);
	assert_int_equal(read(fd, &message, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(hear(fd, MAD).mad[3], GET | RESPONSE);
	close(fd);
}

/* A RoCE port has no LID: a MAD needs a GRH, and its answer comes with one. */
static void on_ethernet_a_grh_is_needed(void **state)
{
	int fd = open_node(ROCE, 0), agent = register_agent(fd, 1, PERF, 0), file;
	struct message message = ask_for(agent, PERF, 1, WAIT_MS);
	unsigned part[8];
	FILE *gid;

	assert_int_equal(write(fd, &message, sizeof(message)), -1);
	assert_int_equal(errno, EINVAL);
	file = open("/sys/class/infiniband/verbena0/ports/1/gids/1", O_RDONLY);
	gid = fdopen(file, "r");
	assert_int_equal(fscanf(gid, "%x:%x:%x:%x:%x:%x:%x:%x", &part[0], &part[1], &part[2],
				&part[3], &part[4], &part[5], &part[6], &part[7]),
			 8);
	fclose(gid);
	for (int i = 0; i < 8; i++) {
		message.hdr.gid[2 * i] = (uint8_t)(part[i] >> 8);
		message.hdr.gid[2 * i + 1] = (uint8_t)part[i];
	}
	message.hdr.grh_present = 1;
	message.hdr.gid_index = 1;
	tell(fd, &message);
	message = hear(fd, MAD);
	assert_int_equal(message.mad[64], 1);
	assert_int_equal(message.hdr.grh_present, 1);
	close(fd);
}

/* Writes that the library does not see take the way through the service thread. */
static void duplicates_and_vectors_work(void **state)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 0, SUBN, 0), copy = dup(fd);
	struct message message = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);
	const struct iovec part = { &message, sizeof(message) };

	close(fd);
	tell(copy, &message);
	assert_int_equal(hear(copy, MAD).mad[3], GET | RESPONSE);
	message = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);
	assert_int_equal(writev(copy, &part, 1), sizeof(message));
	assert_int_equal(hear(copy, MAD).mad[3], GET | RESPONSE);
	assert_int_equal(ioctl(copy, IB_USER_MAD_UNREGISTER_AGENT, &agent), 0);
	close(copy);
}

static void a_child_of_fork_uses_the_file_of_its_parent(void **state)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 0, SUBN, 0), status;
	struct message message = ask_for(agent, SUBN, NODE_INFO, WAIT_MS);
	pid_t child = fork();

	if (!child) {
		bool good = write(fd, &message, sizeof(message)) == sizeof(message) &&
			    is_readable(fd, WAIT_MS) &&
			    read(fd, &message, sizeof(message)) == sizeof(message);

		_exit(!good || message.mad[3] != (GET | RESPONSE));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	tell(fd, &message);
	assert_int_equal(hear(fd, MAD).mad[3], GET | RESPONSE);
	close(fd);
}

/* --- forged answers --- */

static unsigned long refused_count(void)
{
	FILE *file = fopen("/sys/class/infiniband/verbena1/ports/1/hw_counters/mad_dropped_refused",
			   "r");
	unsigned long count;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &count), 1);
	fclose(file);
	return count;
}

/* Any process of the host can write to the name of a file. */
static void forge(uint32_t file, const struct vb_gsi_datagram *datagram, size_t size)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int length = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "verbena.mad.%x", file);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	assert_int_equal(
		sendto(fd, datagram, size, 0, (void *)&to,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
		size);
	close(fd);
}

static void await_refused(unsigned long count)
{
	for (int i = 0; i < WAIT_MS && refused_count() < count; i++)
		poll(NULL, 0, 1);
	assert_int_equal(refused_count(), count);
}

static void forged_answers_are_refused_and_counted(void **state)
{
	int server = open_node(INFINIBAND, 0), client = open_node(INFINIBAND, 0);
	int owner = register_agent(server, 1, VENDOR, 1ull << GET);
	int agent = register_agent(client, 1, VENDOR, 0);
	struct message message = ask_for(agent, VENDOR, 0, WAIT_MS);
	struct vb_gsi_datagram forged = { .magic = VB_GSI_MAGIC,
					  .src.raw = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	unsigned long before;
	uint32_t high;

	assert_true(owner >= 0 && agent >= 0);
	message.hdr.lid = own_lid();
	tell(client, &message);
	message = hear(server, MAD);
	before = refused_count();
	memcpy(&high, message.mad + 8, sizeof(high));
	forged.dst = forged.src;
	memcpy(forged.mad, message.mad, sizeof(forged.mad));
	forge(ntohl(high) >> VB_MAD_AGENT_BITS, &forged, sizeof(forged)); /* no answer */
	await_refused(before + 1);
	forged.mad[3] |= RESPONSE;
	forge(ntohl(high) >> VB_MAD_AGENT_BITS, &forged, sizeof(forged)); /* of another port */
	await_refused(before + 2);
	forged.src.raw[12] = 8; /* of another host, but not from the wire */
	forge(ntohl(high) >> VB_MAD_AGENT_BITS, &forged, sizeof(forged));
	forge(ntohl(high) >> VB_MAD_AGENT_BITS, &forged, 100);
	assert_false(is_readable(client, SHORT_MS));
	message.mad[3] |= RESPONSE;
	message.mad[15]++; /* another transaction */
	tell(server, &message);
	await_refused(before + 3);
	message.mad[15]--;
	tell(server, &message);
	assert_int_equal(hear(client, MAD).hdr.status, 0);
	close(server);
	close(client);
}

/* --- subnet administration --- */

enum { SA = 0x03, SET = 2, GET_TABLE = 0x12, DELETE = 0x15, NODE_RECORD = 0x11, MEMBER = 0x38 };

static struct message ask_sa(int agent, uint8_t method, uint16_t attribute)
{
	static uint8_t transaction = 100;
	struct message message = ask_for(agent, SA, attribute, WAIT_MS);

	message.mad[2] = 2;
	message.mad[3] = method;
	message.mad[15] = ++transaction;
	message.hdr.lid = own_lid();
	return message;
}

/* The own port joins, or leaves, ff12::1. */
static struct message ask_member(int agent, uint8_t method)
{
	int fd = open_node(INFINIBAND, 0), own = register_agent(fd, 0, SUBN, 0);
	struct message message = ask_for(own, SUBN, NODE_INFO, WAIT_MS), member;

	tell(fd, &message);
	message = hear(fd, MAD);
	close(fd);
	member = ask_sa(agent, method, MEMBER);
	memcpy(member.mad + 48, "\0\0\0\0\0\1\0\3", 8); /* MGID, PortGID, JoinState */
	memcpy(member.mad + 56, "\xff\x12", 2);
	member.mad[56 + 15] = 1;
	memcpy(member.mad + 56 + 16, "\xfe\x80", 2);
	memcpy(member.mad + 56 + 24, message.mad + 64 + 20, 8); /* the port's GUID */
	member.mad[56 + 48] = 1;
	return member;
}

static unsigned status_of(const struct message *message)
{
	return (unsigned)message->mad[4] << 8 | message->mad[5];
}

static void groups_are_joined_seen_and_left(void **state)
{
	int fd = open_node(INFINIBAND, 0), agent = register_agent(fd, 1, SA, 0);
	struct message message = ask_member(agent, SET), table;

	tell(fd, &message);
	message = hear(fd, MAD);
	assert_int_equal(status_of(&message), 0);
	assert_true(message.mad[56 + 36] >= 0xc0); /* a multicast LID */
	table = ask_sa(agent, GET_TABLE, MEMBER);
	tell(fd, &table);
	table = hear(fd, 56 + 56);
	assert_memory_equal(table.mad + 56, message.mad + 56, 16);
	message = ask_member(agent, DELETE);
	tell(fd, &message);
	message = hear(fd, MAD);
	assert_int_equal(status_of(&message), 0);
	table = ask_sa(agent, GET_TABLE, MEMBER);
	tell(fd, &table);
	table = hear(fd, MAD);
	assert_int_equal(status_of(&table), 0x0300); /* no records */
	close(fd);
}

static void one_program_at_a_time_has_issm(void **state)
{
	int fd = open("/dev/infiniband/issm1", O_RDWR | O_NONBLOCK);

	assert_true(fd >= 0);
	assert_int_equal(open("/dev/infiniband/issm1", O_RDWR | O_NONBLOCK), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
	fd = open("/dev/infiniband/issm1", O_RDWR);
	assert_true(fd >= 0);
	close(fd);
}

static void the_class_in_sysfs_names_device_and_port(void **state)
{
	char text[32] = "";
	FILE *file = fopen("/sys/class/infiniband_mad/umad1/ibdev", "r");

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	assert_string_equal(text, "verbena1\n");
	fclose(file);
	file = fopen("/sys/class/infiniband_mad/abi_version", "r");
	assert_non_null(fgets(text, sizeof(text), file));
	assert_string_equal(text, "5\n");
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_agent_answers_before_the_write_returns),
		cmocka_unit_test(without_pkeys_the_header_is_shorter),
		cmocka_unit_test(a_request_without_answer_comes_back),
		cmocka_unit_test(a_class_reaches_the_program_that_registered_it),
		cmocka_unit_test(bad_messages_are_refused),
		cmocka_unit_test(bad_agents_are_refused),
		cmocka_unit_test(a_short_buffer_loses_nothing),
		cmocka_unit_test(on_ethernet_a_grh_is_needed),
		cmocka_unit_test(duplicates_and_vectors_work),
		cmocka_unit_test(a_child_of_fork_uses_the_file_of_its_parent),
		cmocka_unit_test(forged_answers_are_refused_and_counted),
		cmocka_unit_test(groups_are_joined_seen_and_left),
		cmocka_unit_test(one_program_at_a_time_has_issm),
		cmocka_unit_test(the_class_in_sysfs_names_device_and_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
