/* SPDX-License-Identifier: BSD-2-Clause */
/* The network between the hosts of a world. */
#ifndef VB_TESTS_SIM_NETWORK_H
#define VB_TESTS_SIM_NETWORK_H

#include "port/port.h"
#include "rng.h"
#include "wire/packet.h"

struct world;
struct host;

enum { NETWORK_HOSTS = 4, PARTITIONS_MAX = 4 };

/* A packet on its way. */
struct transit {
	struct transit *next; /* free ones */
	struct vb_icrc_flow flow;
	unsigned to;
	uint8_t traffic_class;
	uint32_t length;
	uint8_t bytes[VB_PACKET_MAX];
};

struct partition {
	unsigned a, b;
	uint64_t from_ns, to_ns;
};

/* What gets lost. */
enum network_only { ONLY_NOTHING, ONLY_REQUESTS, ONLY_ANSWERS };

/* Chances in parts per 10,000. */
struct network {
	struct rng rng;
	bool ipv6;
	enum network_only only; /* else anything */
	uint32_t loss, burst_loss, repeat, reorder, damage, mark;
	uint32_t delay_ns, jitter_ns, reorder_ns;
	uint32_t stale_ns;  /* how late a repetition may be; 0: as late as anything */
	uint32_t ns_per_kb; /* 0: no limit */
	uint32_t queue_ns;  /* what does not fit is lost */
	unsigned losing;    /* packets of a burst that are still to be lost */
	struct partition partitions[PARTITIONS_MAX];
	unsigned partition_count;
	uint64_t busy_ns[NETWORK_HOSTS][NETWORK_HOSTS], last_ns[NETWORK_HOSTS][NETWORK_HOSTS];
	uint64_t sent, lost, repeated;
};

void network_send(struct world *world, unsigned from, const struct vb_way *way,
		  const uint8_t *bytes, uint32_t length);
void network_return(struct transit *transit);
/* Frees what is kept for the next packets. */
void network_fini(void);

#endif
