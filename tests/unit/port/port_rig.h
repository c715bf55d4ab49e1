/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port in a network namespace of its own, with the test in the place of the wire engine and of
 *the service thread:
 *
 *	child process
 *	+------------------------------------------+
 *	| outer epoll -- port -- UDP, slot, memory |
 *	| lo 127.0.0.1 ::1                         |
 *	+------------------------------------------+
 */
#ifndef VB_TESTS_UNIT_PATH_PORT_RIG_H
#define VB_TESTS_UNIT_PATH_PORT_RIG_H

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "../netns.h"
#include "base/clock.h"
#include "net/gid.h"
#include "nic/lane.h"
#include "port/impl.h"
#include "wire/packet.h"

enum { RIG_KEPT = 256, RIG_PACKET = 64, RIG_PATIENCE_MS = 20000 };

/* What an input saw, in order; the first bytes of each packet. */
struct rig_seen {
	struct vb_icrc_flow flow;
	uint8_t bytes[RIG_PACKET];
	uint32_t length;
	uint8_t traffic_class, hop_limit;
	struct vb_peer *peer;
	bool forwarded, icrc_right;
	uint16_t id, position;
};

struct rig {
	struct vb_nic *nic;
	struct vb_port *port;
	int outer;
	unsigned count;
	struct rig_seen seen[RIG_KEPT];
};

static inline unsigned rig_input(void *arg, const struct vb_arrival *arrival)
{
	struct rig *rig = arg;
	struct rig_seen *seen = &rig->seen[rig->count++ % RIG_KEPT];

	*seen = (struct rig_seen){ .flow = *arrival->flow,
				   .length = arrival->length,
				   .traffic_class = arrival->traffic_class,
				   .hop_limit = arrival->hop_limit,
				   .position = arrival->position,
				   .peer = arrival->peer,
				   .forwarded = arrival->forwarded };
	memcpy(seen->bytes, arrival->bytes,
	       arrival->length < RIG_PACKET ? arrival->length : RIG_PACKET);
	if (arrival->length > VB_ICRC_LENGTH)
		seen->icrc_right = vb_icrc_check(arrival->flow, arrival->bytes,
						 arrival->length - VB_ICRC_LENGTH, &seen->id);
	return 1;
}

/* path: what VERBENA_PATH says; NULL for unset. */
static inline struct rig *rig_open(const char *path)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	CHECK(rig);
	if (path)
		setenv("VERBENA_PATH", path, 1);
	else
		unsetenv("VERBENA_PATH");
	rig->nic = vb_nic_get();
	CHECK(rig->nic);
	rig->outer = epoll_create1(EPOLL_CLOEXEC);
	rig->port = vb_port_new(rig->nic, rig->outer, VB_LANE_FIRST);
	CHECK(rig->port);
	CHECK(vb_port_of(rig->nic) == rig->port);
	return rig;
}

static inline uint32_t rig_own_qpn(const struct rig *rig, uint32_t index)
{
	return rig->nic->seg.head->slot << VB_QP_INDEX_BITS | index;
}

/* The address of a text, as a GID. */
static inline union ibv_gid rig_gid(const char *text)
{
	union ibv_gid gid;
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		return vb_gid_ipv4(ipv4);
	CHECK(inet_pton(AF_INET6, text, gid.raw) == 1);
	return gid;
}

static inline struct vb_way rig_way(struct rig *rig, const char *from, const char *to,
				    struct vb_peer *peer)
{
	struct vb_av av = { .sgid = rig_gid(from), .dgid = rig_gid(to), .local = true };
	struct vb_way way;

	CHECK(!vb_port_resolve(rig->port, &av, peer, 0x1234567, &way));
	CHECK(way.resolved);
	return way;
}

/* A packet for a QP with a number in its payload, and its ICRC at position i of a burst. */
static inline void rig_packet(uint8_t *out, uint32_t length, uint32_t qpn, uint8_t number,
			      const struct vb_way *way, unsigned i)
{
	memset(out, number, length);
	out[0] = 4; /* RC SEND_ONLY */
	out[5] = (uint8_t)(qpn >> 16);
	out[6] = (uint8_t)(qpn >> 8);
	out[7] = (uint8_t)qpn;
	out[12] = number;
	vb_icrc_put(&way->flow, vb_port_id(i), out, length - VB_ICRC_LENGTH);
}

static inline void rig_send(struct rig *rig, const struct vb_way *way, const uint8_t *bytes,
			    uint32_t length, uint32_t segment)
{
	const struct vb_burst burst = { way, bytes, length, segment };

	vb_port_send(rig->port, &burst, 1);
}

static inline void rig_send_one(struct rig *rig, const struct vb_way *way, uint32_t qpn,
				uint8_t number)
{
	uint8_t packet[RIG_PACKET];

	rig_packet(packet, sizeof(packet), qpn, number, way, 0);
	rig_send(rig, way, packet, sizeof(packet), sizeof(packet));
}

/* Takes in once whatever is there, waiting for it up to timeout_ms. */
static inline unsigned rig_receive_within(struct rig *rig, int timeout_ms)
{
	struct pollfd ready = { .fd = rig->port->inner, .events = POLLIN };

	poll(&ready, 1, timeout_ms);
	return vb_port_receive(rig->port, false, 1024, rig_input, rig);
}

/* Receives until there are count packets; a test that would wait longer fails. */
static inline void rig_receive(struct rig *rig, unsigned count)
{
	uint64_t end_ns = vb_now_ns() + RIG_PATIENCE_MS * 1000000ull;

	while (rig->count < count && vb_now_ns() < end_ns)
		rig_receive_within(rig, 100);
	CHECK(rig->count == count);
}

#define RIG_TEST(body)                                       \
	static void body(void **state)                       \
	{                                                    \
		int result = netns_run(body##_in_namespace); \
                                                             \
		if (result == NETNS_SKIPPED)                 \
			skip();                              \
		assert_int_equal(result, 0);                 \
	}

#endif
