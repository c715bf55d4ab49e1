/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection manager whose peer is the test:
 *
 *   test: vb_cm_connect, ...  ->  cm  ->  rig_take      what the peer would get
 *   test: rig_give            ->  cm  ->  rig_event     what the library above would get
 */
#ifndef VB_TESTS_CM_RIG_H
#define VB_TESTS_CM_RIG_H

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cm/cm.h"

enum {
	RIG_SLOT = 5,
	RIG_QPN = 0x5001,
	RIG_PEER_QPN = 0x123456,
	RIG_PEER_ID = 0x77000001,
	RIG_PORT = 7174,
	RIG_QUEUE = 64,
	RIG_ENDPOINTS = 16,
};
#define RIG_GUID      0x0011223344556677ull
#define RIG_PEER_GUID 0x8899aabbccddeeffull
#define RIG_SERVICE   vb_cm_service_id(RDMA_PS_TCP, RIG_PORT)
#define RIG_SIDR      vb_cm_service_id(RDMA_PS_UDP, RIG_PORT)
#define MS            1000000ull

struct rig_sent {
	struct vb_cm_route route;
	struct vb_cm_message message;
	uint64_t at_ns;
};

struct rig_event {
	struct vb_cm_endpoint *endpoint;
	struct vb_cm_event event; /* its pointers are gone, but for the listener */
	uint8_t private_data[256];
};

struct rig {
	struct vb_cm cm;
	uint64_t now_ns, random;
	union ibv_gid own, own6, peer; /* 10.0.0.1, fd00::1, 10.0.0.2; loopback is own, too */
	struct vb_cm_route route;      /* to and from the peer */
	bool infiniband; /* both have ports as well: LIDs 1 and 2, GIDs fe80::1 and fe80::2 */
	struct rig_sent sent[RIG_QUEUE];
	unsigned sent_head, sent_tail;
	struct rig_event events[RIG_QUEUE];
	unsigned events_head, events_tail;
	struct vb_cm_endpoint incoming[RIG_ENDPOINTS];
	unsigned incoming_count, incoming_max;
	struct vb_cm_endpoint a, b, listener;
};

union ibv_gid rig_port_gid(uint8_t number);
union ibv_gid rig_gid4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
int rig_setup(void **state);
int rig_teardown(void **state);

/* What the connection manager sent: one that must be there, or none. */
struct rig_sent rig_take_sent(struct rig *rig, enum vb_cm_attribute attribute);
struct vb_cm_message rig_take(struct rig *rig, enum vb_cm_attribute attribute);
void rig_take_none(struct rig *rig);
void rig_take_rej(struct rig *rig, unsigned reason);

/* What it reported. */
struct rig_event rig_event(struct rig *rig, struct vb_cm_endpoint *endpoint,
			   enum vb_cm_event_type type);
void rig_event_none(struct rig *rig);

/* Messages go through the codec both ways. */
void rig_give(struct rig *rig, const struct vb_cm_message *message);
void rig_give_from(struct rig *rig, const struct vb_cm_route *route,
		   const struct vb_cm_message *message);
/* Lets time pass, tick by tick. */
void rig_wait(struct rig *rig, uint64_t ns);

/* The usual. */
struct vb_cm_ip rig_ip(const struct rig *rig);
struct vb_cm_connect_params rig_connect_params(struct rig *rig, const struct vb_cm_ip *ip);
struct vb_cm_accept_params rig_accept_params(void);
void rig_connect(struct rig *rig, struct vb_cm_endpoint *endpoint);
struct vb_cm_message rig_rep(const struct vb_cm_endpoint *endpoint);
void rig_listen(struct rig *rig, uint64_t service_id, uint32_t backlog);
struct vb_cm_message rig_req(struct rig *rig, uint32_t id, uint32_t qpn);
/* A message with both ids, as the peer of this endpoint would send it. */
struct vb_cm_message rig_answer(const struct vb_cm_endpoint *endpoint, enum vb_cm_attribute attr);
struct vb_cm_message rig_dreq(const struct vb_cm_endpoint *endpoint);

/* Shorter ways to a state; nothing is left to be taken. */
void rig_request_sent(struct rig *rig, struct vb_cm_endpoint *endpoint);
/* The REP that it got. */
struct vb_cm_message rig_replied(struct rig *rig, struct vb_cm_endpoint *endpoint);
void rig_establish_active(struct rig *rig, struct vb_cm_endpoint *endpoint);
struct vb_cm_endpoint *rig_request(struct rig *rig);
struct vb_cm_endpoint *rig_accepted(struct rig *rig);
struct vb_cm_endpoint *rig_establish_passive(struct rig *rig);

#define rig_run(tests) cmocka_run_group_tests(tests, NULL, NULL)
#define rig_test(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

#endif
