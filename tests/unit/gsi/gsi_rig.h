/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of QP 1: a host in a namespace, messages, counters. Behind cmocka.h. */
#ifndef VB_TESTS_UNIT_GSI_GSI_RIG_H
#define VB_TESTS_UNIT_GSI_GSI_RIG_H

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "../netns.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "gsi/gsi.h"
#include "net/gid.h"
#include "wire/cm.h"

enum { PORT = 7471, PATIENCE_MS = 20000, INITIAL = 77 };

static const char *path_choice; /* VERBENA_PATH of the test that runs */

static inline union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = { 0 };
	uint8_t ipv4[4];

	if (!*text)
		return gid;
	if (inet_pton(AF_INET, text, ipv4) == 1)
		return vb_gid_ipv4(ipv4);
	CHECK(inet_pton(AF_INET6, text, gid.raw) == 1);
	return gid;
}

static inline void prepare_host(void)
{
	netns_up("lo", true);
	netns_veth();
	if (path_choice)
		setenv("VERBENA_PATH", path_choice, 1);
	else
		unsetenv("VERBENA_PATH");
	setenv("VERBENA_DEVICES", "vb0", 1);
}

static inline struct vb_nic *nic_of_process(void)
{
	struct vb_nic *nic = vb_nic_get();

	vb_gsi_serve();
	CHECK(nic && !vb_engine_start(nic));
	return nic;
}

static inline uint32_t comm_id_of(const struct vb_nic *nic, uint32_t number)
{
	return nic->seg.head->slot << VB_COMM_ID_SLOT_SHIFT | number;
}

/* --- messages --- */

static inline struct vb_cm_message request(uint32_t comm_id, const char *to)
{
	struct vb_cm_message message = { .attribute = VB_CM_REQ, .transaction_id = INITIAL };
	struct vb_cm_ip ip = { .src = gid_of("127.0.0.1"), .dst = gid_of(to) };

	ip.ipv6 = !vb_gid_is_ipv4(&ip.dst);
	message.req.local_comm_id = comm_id;
	message.req.service_id = vb_cm_service_id(RDMA_PS_TCP, PORT);
	vb_cm_ip_emit(&ip, message.req.private_data);
	return message;
}

static inline int say(struct vb_nic *nic, const char *from, const char *to,
		      const struct vb_cm_message *message)
{
	struct vb_gsi_datagram datagram = { .src = gid_of(from),
					    .dst = gid_of(to),
					    .traffic_class = 0x28 };

	vb_cm_emit(message, datagram.mad);
	return vb_gsi_send(nic, &datagram);
}

static inline bool hear_within(struct vb_nic *nic, int fd, int timeout_ms,
			       struct vb_gsi_datagram *datagram)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uid_t uid;

	while (poll(&ready, 1, timeout_ms) == 1) {
		int err = vb_gsi_receive(nic, fd, datagram, &uid);

		CHECK(!err || err == -EAGAIN || err == -EBADMSG);
		if (!err)
			return true;
	}
	return false;
}

static inline struct vb_gsi_datagram hear(struct vb_nic *nic, int fd, struct vb_cm_message *message)
{
	struct vb_gsi_datagram datagram;

	CHECK(hear_within(nic, fd, PATIENCE_MS, &datagram));
	CHECK(!vb_cm_parse(datagram.mad, sizeof(datagram.mad), message));
	return datagram;
}

static inline int claim(struct vb_nic *nic, enum vb_cm_family family, const char *address)
{
	struct vb_cm_claim wanted = { .port_space = RDMA_PS_TCP,
				      .port = PORT,
				      .family = family,
				      .address = gid_of(address),
				      .replaces = -1 };
	int fd = vb_gsi_claim(nic, &wanted);

	CHECK(fd >= 0);
	return fd;
}

/* --- counters --- */

struct wanted {
	const char *name;
	uint64_t value;
};

static inline void pick(void *arg, const char *name, uint64_t value)
{
	struct wanted *wanted = arg;

	if (!strcmp(name, wanted->name))
		wanted->value = value;
}

static inline uint64_t counter(const char *name)
{
	struct wanted wanted = { name, UINT64_MAX };

	vb_gsi_counters_each(pick, &wanted);
	CHECK(wanted.value != UINT64_MAX);
	return wanted.value;
}

/* Whoever counts may do it a moment after the message was seen. */
static inline void await(const char *name, uint64_t value)
{
	uint64_t end_ns = vb_now_ns() + PATIENCE_MS * 1000000ull;

	while (counter(name) < value && vb_now_ns() < end_ns)
		sched_yield();
	CHECK(counter(name) == value);
}

#define CASE(name, body, path)               \
	static void name(void **state)       \
	{                                    \
		int result;                  \
                                             \
		path_choice = path;          \
		result = netns_run(body);    \
		if (result == NETNS_SKIPPED) \
			skip();              \
		assert_int_equal(result, 0); \
	}

#endif
