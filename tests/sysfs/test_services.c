/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ServiceRecords of subnet administration, through /dev/infiniband/umad1. Under `verbena run`.
 * With an argument the program registers a service of that id, and holds it until its input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mad/sa.h"
#include "wire/bytes.h"

enum {
	MAD = 256,
	WAIT_MS = 10000,
	COMPONENTS_AT = 48,
	ID = 1 << 0,
	GID = 1 << 1,
	LEASE = 1 << 4,
	KEY = 1 << 5,
	NAME = 1 << 6,
	GID_AT = VB_SA_DATA_AT + 8,
	KEY_AT = VB_SA_DATA_AT + 32,
	NAME_AT = VB_SA_DATA_AT + 48,
};

struct message {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD + 8 * VB_SA_SERVICE_SIZE];
};

static int fd;
static uint32_t agents[2]; /* of subnet management, of subnet administration */
static uint16_t lid;
static uint8_t port_guid[8];

static uint32_t register_agent(uint8_t qpn, uint8_t class, uint8_t version)
{
	struct ib_user_mad_reg_req2 request = { .qpn = qpn,
						.mgmt_class = class,
						.mgmt_class_version = version };

	assert_int_equal(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request), 0);
	return request.id;
}

static struct message exchange(const struct message *request)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct message answer = { 0 };

	assert_true(write(fd, request, sizeof(request->hdr) + MAD) > 0);
	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	assert_true(read(fd, &answer, sizeof(answer)) > 0);
	return answer;
}

static struct message ask(uint8_t class, uint8_t method, uint16_t attribute)
{
	static uint8_t transaction;
	const int sa = class == VB_MAD_CLASS_SUBN_ADM;
	struct message message = { .hdr = { .id = agents[sa],
					    .timeout_ms = WAIT_MS,
					    .qpn = htonl((uint32_t)sa),
					    .lid = sa ? lid : 0xffff },
				   .mad = { 1, class, sa ? 2 : 1, method } };

	message.mad[15] = ++transaction;
	vb_put16(message.mad + 16, attribute);
	return message;
}

static void begin(void)
{
	struct message message;

	fd = open("/dev/infiniband/umad1", O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, IB_USER_MAD_ENABLE_PKEY), 0);
	agents[0] = register_agent(0, VB_MAD_CLASS_SUBN_DIRECTED, 1);
	agents[1] = register_agent(1, VB_MAD_CLASS_SUBN_ADM, 2);
	message = ask(VB_MAD_CLASS_SUBN_DIRECTED, VB_MAD_GET, 0x11); /* NodeInfo */
	message = exchange(&message);
	memcpy(port_guid, message.mad + 64 + 20, sizeof(port_guid));
	message = ask(VB_MAD_CLASS_SUBN_DIRECTED, VB_MAD_GET, 0x15); /* PortInfo */
	message = exchange(&message);
	memcpy(&lid, message.mad + 64 + 16, sizeof(lid));
}

static struct message name_service(uint8_t method, uint64_t id, uint64_t components)
{
	struct message message = ask(VB_MAD_CLASS_SUBN_ADM, method, VB_SA_SERVICE_RECORD);

	vb_put64(message.mad + COMPONENTS_AT, components);
	vb_put64(message.mad + VB_SA_DATA_AT, id);
	memcpy(message.mad + GID_AT, "\xfe\x80", 2);
	memcpy(message.mad + GID_AT + 8, port_guid, sizeof(port_guid));
	return message;
}

static uint16_t status_of(const struct message *message)
{
	return vb_get16(message->mad + 4);
}

static uint16_t change(uint8_t method, uint64_t id, uint32_t lease, uint8_t key)
{
	const uint64_t components = ID | GID | NAME | (lease ? LEASE : 0) | (key ? KEY : 0);
	struct message message = name_service(method, id, components);

	vb_put32(message.mad + VB_SA_DATA_AT + VB_SA_LEASE_AT, lease);
	message.mad[KEY_AT] = key;
	strcpy((char *)message.mad + NAME_AT, "a service");
	message = exchange(&message);
	return status_of(&message);
}

/* The number of records; *table: the answer. */
static unsigned count(uint64_t id, struct message *table)
{
	*table = name_service(VB_MAD_GET_TABLE, id, id ? ID : 0);
	*table = exchange(table);
	if (status_of(table) == VB_SA_NO_RECORDS)
		return 0;
	assert_int_equal(status_of(table), 0);
	return (table->hdr.length - (unsigned)sizeof(table->hdr) - VB_SA_DATA_AT) /
	       VB_SA_SERVICE_SIZE;
}

/* --- tests --- */

static void a_service_is_registered_seen_and_withdrawn(void **state)
{
	struct message table;

	(void)state;
	assert_int_equal(count(0, &table), 0);
	assert_int_equal(change(VB_MAD_SET, 7, 0, 0), 0);
	assert_int_equal(count(7, &table), 1);
	assert_int_equal(count(8, &table), 0);
	assert_int_equal(count(0, &table), 1);
	assert_string_equal((char *)table.mad + NAME_AT, "a service");
	assert_int_equal(vb_get32(table.mad + VB_SA_DATA_AT + VB_SA_LEASE_AT), VB_SA_LEASE_EVER);
	assert_int_equal(vb_get16(table.mad + VB_SA_DATA_AT + 24), 0xffff); /* P_Key */
	assert_int_equal(change(VB_MAD_DELETE, 7, 0, 0), 0);
	assert_int_equal(count(0, &table), 0);
	assert_int_equal(change(VB_MAD_DELETE, 7, 0, 0), VB_SA_NO_RECORDS);
}

static void a_key_protects_its_record(void **state)
{
	struct message table;

	(void)state;
	assert_int_equal(change(VB_MAD_SET, 7, 0, 5), 0);
	assert_int_equal(change(VB_MAD_SET, 7, 0, 6), VB_SA_DENIED);
	assert_int_equal(change(VB_MAD_DELETE, 7, 0, 0), VB_SA_DENIED);
	assert_int_equal(count(7, &table), 1);
	assert_int_equal(table.mad[KEY_AT], 0); /* nobody reads it */
	assert_int_equal(change(VB_MAD_DELETE, 7, 0, 5), 0);
}

static void a_lease_runs_out(void **state)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	struct message table;
	uint32_t left;

	(void)state;
	assert_int_equal(change(VB_MAD_SET, 9, 2, 0), 0);
	assert_int_equal(count(9, &table), 1);
	left = vb_get32(table.mad + VB_SA_DATA_AT + VB_SA_LEASE_AT);
	assert_true(left == 1 || left == 2);
	assert_int_equal(change(VB_MAD_SET, 9, 1, 0), 0); /* a new lease */
	for (int i = 0; i < 500 && count(9, &table); i++)
		nanosleep(&pause, NULL);
	assert_int_equal(count(9, &table), 0);
}

static void a_process_has_so_many_services(void **state)
{
	struct message table;

	(void)state;
	for (uint64_t id = 1; id <= VB_SA_SERVICES_OWN; id++)
		assert_int_equal(change(VB_MAD_SET, id, 0, 0), 0);
	assert_int_equal(change(VB_MAD_SET, 1000, 0, 0), VB_SA_NO_RESOURCES);
	assert_int_equal(change(VB_MAD_SET, 1, 0, 0), 0); /* it is there */
	assert_int_equal(count(33, &table), 1);
	for (uint64_t id = 1; id <= VB_SA_SERVICES_OWN; id++)
		assert_int_equal(change(VB_MAD_DELETE, id, 0, 0), 0);
}

static void bad_records_are_refused(void **state)
{
	struct message message = name_service(VB_MAD_SET, 7, ID);

	(void)state;
	message = exchange(&message);
	assert_int_equal(status_of(&message), VB_SA_INSUFFICIENT);
	message = name_service(VB_MAD_SET, 7, ID | GID);
	message.mad[GID_AT + 15] ^= 1; /* another port */
	message = exchange(&message);
	assert_int_equal(status_of(&message), VB_SA_INVALID_GID);
	message = name_service(VB_MAD_SET, 7, ID | GID | LEASE); /* over before it began */
	message = exchange(&message);
	assert_int_equal(status_of(&message), VB_SA_INVALID);
	message = name_service(VB_MAD_SET, 7, ID | GID | UINT64_C(1) << 40);
	message = exchange(&message);
	assert_int_equal(status_of(&message), VB_SA_INVALID);
}

static void other_processes_services_are_seen(void **state)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	struct message table;
	char command[512] = "exec '", *end = command + strlen(command);
	ssize_t length = readlink("/proc/self/exe", end, 400);
	FILE *other;

	(void)state;
	assert_true(length > 0 && length < 400);
	strcpy(end + length, "' 77 >/dev/null");
	other = popen(command, "w");
	assert_non_null(other);
	for (int i = 0; i < 500 && !count(77, &table); i++)
		nanosleep(&pause, NULL);
	assert_int_equal(count(77, &table), 1);
	assert_int_equal(change(VB_MAD_SET, 77, 0, 0), VB_SA_DENIED);
	assert_int_equal(change(VB_MAD_DELETE, 77, 0, 0), VB_SA_DENIED);
	assert_int_equal(pclose(other), 0);
	assert_int_equal(count(77, &table), 0);
}

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

/* Processes that bind such a name and tell anything. */
static void forged_records_are_not_believed(void **state)
{
	static const char name[] = "verbena.mad.service.0000000000000063.00000000";
	struct sockaddr_un own = { .sun_family = AF_UNIX }, from;
	const socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof(name);
	struct message message = name_service(VB_MAD_GET_TABLE, 0, 0), answer = { 0 };
	int forger = socket(AF_UNIX, SOCK_DGRAM, 0);
	unsigned long before;
	struct pollfd wait = { .fd = forger, .events = POLLIN };

	(void)state;
	memcpy(own.sun_path + 1, name, sizeof(name) - 1);
	assert_int_equal(bind(forger, (void *)&own, size), 0);
	before = refused_count();
	for (int kind = 0; kind < 3; kind++) {
		uint8_t query[8], record[2 * VB_SA_SERVICE_SIZE] = { 0 };
		socklen_t length = sizeof(from);
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child) { /* too long, another id, another port */
			if (poll(&wait, 1, WAIT_MS) != 1 ||
			    recvfrom(forger, query, sizeof(query), 0, (void *)&from, &length) < 0)
				_exit(1);
			vb_put64(record, kind == 1 ? 98 : 99);
			memset(record + 28, 0xff, 4);
			if (kind < 2)
				memcpy(record + 8, message.mad + GID_AT, 16);
			(void)sendto(forger, record,
				     kind ? VB_SA_SERVICE_SIZE : 2 * VB_SA_SERVICE_SIZE, 0,
				     (void *)&from, length);
			_exit(0);
		}
		message.mad[15]++;
		answer = exchange(&message);
		assert_int_equal(status_of(&answer), VB_SA_NO_RECORDS);
		assert_int_equal(refused_count(), before + 1 + (unsigned long)kind);
	}
	close(forger);
}

static int hold(const char *id)
{
	char rest[16];

	begin();
	if (change(VB_MAD_SET, strtoull(id, NULL, 0), 0, 0))
		return 1;
	printf("registered\n");
	fflush(stdout);
	while (read(0, rest, sizeof(rest)) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_is_registered_seen_and_withdrawn),
		cmocka_unit_test(a_key_protects_its_record),
		cmocka_unit_test(a_lease_runs_out),
		cmocka_unit_test(a_process_has_so_many_services),
		cmocka_unit_test(bad_records_are_refused),
		cmocka_unit_test(other_processes_services_are_seen),
		cmocka_unit_test(forged_records_are_not_believed),
	};

	if (argc > 1)
		return hold(argv[1]);
	begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
