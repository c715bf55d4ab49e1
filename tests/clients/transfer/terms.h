/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run is about. The client decides; the server learns it over the side channel. */
#ifndef TRANSFER_TERMS_H
#define TRANSFER_TERMS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum op_kind {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_CAS,
	OP_ADD,
	OP_KIND_COUNT,
};

/* Both sides must agree on these. Sent as it is: both sides are of one byte order. */
struct terms {
	uint32_t magic;
	uint32_t qp_type;    /* enum ibv_qp_type: RC, UC or UD */
	uint32_t kinds;      /* a bit per op_kind */
	uint32_t lanes;      /* QPs */
	uint32_t ops;        /* per lane and direction */
	uint32_t window;     /* send queue depth */
	uint32_t recv_depth; /* receive queue depth; for RC less than a round needs, so that RNR
				happens */
	uint32_t size_max;
	uint32_t round_ops; /* of a round, at most */
	uint32_t mtu_bytes;
	uint32_t both;                /* the server sends as well */
	uint32_t lossy;               /* UC and UD messages may be missing, repeated or late */
	uint32_t missing_percent_max; /* with lossy */
	uint32_t receives_max;        /* UC and UD: on each QP, even if a round needs more */
	uint32_t link_lost;           /* packets; LINK_LOST_UNKNOWN: nobody knows */
	uint32_t timeout, retry_cnt;
	uint32_t deadline_s;
	uint32_t region_size; /* per lane: what a round may touch */
	uint64_t seed;
};

enum { LINK_LOST_UNKNOWN = 0x7fffffff };

/* Each side has its own. */
struct options {
	struct terms terms;
	const char *device, *host, *port;
	int gid_index;
	bool events;  /* sleep for completions instead of polling */
	bool pair;    /* both sides, in two processes made by fork */
	bool verbose; /* who is connected to whom, and every counter that moved */
	bool stop;    /* once there is a connection */
};

void options_read(struct options *options, int argc, char **argv);
bool terms_valid(const struct terms *terms);

/* Ops that consume a receive of the target. */
static inline bool kind_is_message(enum op_kind kind)
{
	return kind == OP_SEND || kind == OP_SEND_IMM || kind == OP_WRITE_IMM;
}

static inline bool kind_is_send(enum op_kind kind)
{
	return kind == OP_SEND || kind == OP_SEND_IMM;
}

static inline bool kind_is_write(enum op_kind kind)
{
	return kind == OP_WRITE || kind == OP_WRITE_IMM;
}

static inline bool kind_is_atomic(enum op_kind kind)
{
	return kind == OP_CAS || kind == OP_ADD;
}

#endif
