/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, or two threads of one, with two RC connections between them. Each end has one CQ,
 * and one buffer that the peer may reach:
 *
 *    client  qp[0] ------ qp[0]  server
 *            qp[1] ------ qp[1]
 *            fd    ------ fd             a socket, for what the programs tell each other besides
 */
#ifndef ADVERSARY_PAIR_H
#define ADVERSARY_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { BUFFER_BYTES = 8192, HALF = BUFFER_BYTES / 2, DEPTH = 16, INLINE_BYTES = 32 };

struct end {
	int fd;
	bool right;      /* the corrected twin */
	unsigned rounds; /* how often it repeats what may go wrong */
	bool server;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	uint8_t *buffer; /* the first half is the peer's to reach, the second is for own messages */
	uint64_t peer_address;
	uint32_t peer_rkey;
	uint32_t inline_max; /* what the QPs got */
};

struct program {
	const char *name, *mistake;
	uint8_t rnr_retry; /* of the wrong program; the right one has 7 */
	bool one_process;  /* on the local path: see the file of the program */
	void (*client)(struct end *end);
	void (*server)(struct end *end);
};

extern const struct program programs[];
extern const unsigned program_count;

/* Ends the process: the program's assumption was wrong. */
void broken(const struct end *end, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* --- what every program does right --- */

void tell(struct end *end);    /* one byte to the peer, beside the NIC */
void await(struct end *end);   /* one byte from the peer */
bool is_told(struct end *end); /* takes that byte, if it is there */
void receive(struct end *end, unsigned qp, uint64_t wr_id);
/* From the second half of the own buffer to the first half of the peer's. */
struct ibv_send_wr work(struct end *end, enum ibv_wr_opcode opcode, uint32_t length,
			struct ibv_sge *sge);
void post(struct end *end, unsigned qp, struct ibv_send_wr *wr);
/* A lone work request, with a completion. */
void simple(struct end *end, unsigned qp, enum ibv_wr_opcode opcode, uint32_t length);
/* The next completion, which must be good. */
struct ibv_wc poll_one(struct end *end);
/* Sleeps for some microseconds. */
void rest(unsigned us);

#endif
