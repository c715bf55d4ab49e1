/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a ping-pong: a device, a protection domain, one registered buffer for all messages, a
 * completion queue. A program opens it first and closes it last.
 */
#ifndef UTILS_END_H
#define UTILS_END_H

#include "meet.h"
#include "options.h"

enum { PP_GRH_SIZE = 40, PP_BATCH = 16 };

struct pp_end {
	struct pp_options options;
	struct ibv_context *context;
	struct ibv_port_attr port;
	union ibv_gid gid; /* zero without a GID index */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;       /* the same CQ, if completions carry their time; else NULL */
	unsigned events;               /* taken from the channel, not acknowledged yet */
	struct ibv_wc batch[PP_BATCH]; /* polled, not handed out yet */
	int batch_at, batch_count;
	char *buffer;       /* the grh bytes, then the message */
	size_t grh;         /* PP_GRH_SIZE with datagrams, else 0 */
	size_t sends_apart; /* --chk, client: offset of the message that it sends; else 0 */
	struct ibv_dm *dm;
	struct ibv_mr *mr;
};

/* A work completion, from either of the polling calls. */
struct pp_completion {
	uint64_t wr_id, timestamp;
	enum ibv_wc_status status;
	uint32_t qpn;
};

/* False after a complaint. cqe: completions that may wait at a time. */
bool pp_end_open(struct pp_end *end, const struct pp_options *options, size_t grh);
bool pp_end_create_cq(struct pp_end *end, unsigned cqe);
bool pp_end_close(struct pp_end *end);

/* The device of that name, or (NULL) the first; NULL after a complaint. */
struct ibv_context *pp_device_open(const char *name);

/* Prints a line of an address, as "  local address:  LID ...". */
void pp_address_print(const char *whose, const struct pp_address *address, char before_gid);
struct pp_address pp_end_address(const struct pp_end *end, struct ibv_qp *qp);

/* 1: *completion is the next one; 0: there is none now; -1 after a complaint. */
int pp_cq_next(struct pp_end *end, struct pp_completion *completion);
/* With --events: sleeps until the CQ's event, and arms the CQ again. */
bool pp_cq_wait(struct pp_end *end);
bool pp_cq_arm(struct pp_end *end);

/* The scatter/gather elements of receives and of sends. */
struct ibv_sge pp_end_receive_sge(const struct pp_end *end);
struct ibv_sge pp_end_send_sge(const struct pp_end *end);

/* With --chk: before the first send, and after the last receive. */
bool pp_pattern_write(struct pp_end *end);
bool pp_pattern_check(struct pp_end *end);

#endif
