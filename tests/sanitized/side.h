/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program as a user of verbs would write it, for the tools that watch programs. Two sides talk:
 * threads of one process, or processes. Both sides know nothing of the tools.
 */
#ifndef VB_SANITIZED_SIDE_H
#define VB_SANITIZED_SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum {
	BUFFER_BYTES = 16384,
	GRH_BYTES = 40,
	UD_QKEY = 0x1234,
	TURNS_MAX = 64,
	FILLED_MAX = 9000, /* a message has no further bytes with a value */
	/* Values of wr_id. */
	SENT = 1,
	RECEIVED = 2,
};

/* The QPs of a side. */
enum lane { LANE_RC, LANE_SHARED, LANE_UD, LANES };

/* The address of a side, for the other one. */
struct place {
	union ibv_gid gid;
	uint64_t open_address;
	uint32_t open_rkey;
	uint32_t qpn[LANES];
	uint16_t lid;
};

/* One thread writes the note and then tells another one by verbs alone. */
struct note {
	unsigned turns[TURNS_MAX]; /* the element of a turn is its number */
	bool asked;
};

struct side {
	bool server;
	int socket;        /* to the other side: addresses, before and after the talk */
	struct note *note; /* shared with the other side; NULL: in another process */
	unsigned turn;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[LANES];
	struct ibv_ah *ah;
	uint8_t *in, *out, *open; /* received into; sent from; written to and read from afar */
	struct ibv_mr *in_mr, *out_mr, *open_mr;
	struct place there;
	struct ibv_wc early; /* a completion that came before the one that was waited for */
	bool has_early;
};

/* Ends the program unless the condition holds. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
void check(bool holds, const char *text, const char *file, int line);

void exchange(const struct side *side, const void *mine, void *theirs, size_t size);
void side_open(struct side *side);
void side_close(struct side *side);

/* The whole talk over verbs, and over the connection manager. */
void talk(struct side *side);
void talk_by_address(struct side *side);

/* Parts of the talk, for the planted errors. */
void receive_post(struct side *side, enum lane lane, uint32_t room);
void send_post(struct side *side, enum lane lane, struct ibv_send_wr *wr, uint32_t length);
void fill(struct side *side, uint32_t length);
/* The next completion; the next completion with this wr_id. */
struct ibv_wc completion(struct side *side);
struct ibv_wc completion_of(struct side *side, uint64_t wr_id);

/* A program with an error; false: no such error is known. */
bool planted(const char *error, struct side *side);

#endif
