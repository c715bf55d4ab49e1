/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why does a process not go on? It tells the state of its queues, CQs and waiting calls to its own
 * user and to root, in the way of describe.h. The asker compares two answers, and joins those of
 * several processes (why_words.c).
 */
#ifndef VB_ENGINE_ATTACH_WHY_H
#define VB_ENGINE_ATTACH_WHY_H

#include <assert.h>
#include <stdint.h>

enum vb_waits_kind {
	VB_WAITS_QP = 1,
	VB_WAITS_CQ,
	VB_WAITS_CALL, /* a call that waits for the program */
	VB_WAITS_ID,   /* an identifier of librdmacm */
	VB_WAITS_KINDS,
};

/* The reason why the oldest work request of a QP waits. */
enum vb_why_wait {
	VB_WAIT_NOT,
	VB_WAIT_RECEIVE, /* the target has posted no receive */
	VB_WAIT_PEER,    /* the target is not ready; words says why */
	VB_WAIT_ANSWER,  /* packets are under way, and not acknowledged */
	VB_WAIT_BUSY,    /* for a moment */
	VB_WAIT_RULE,    /* a fault rule delays or loses it */
	VB_WAIT_CQE,     /* completions of a CQ were not made; words says which */
	VB_WAIT_ENABLE,  /* the queue is managed, and it was not enabled */
};

#define VB_WHY_NEVER UINT64_MAX

/* Times are those of CLOCK_MONOTONIC. Fields without a meaning for the kind are 0. */
struct vb_why_record {
	uint32_t kind;
	uint32_t id; /* QPN; number of the CQ, as in a listing of objects; object of the call */
	uint64_t progress; /* changes whenever the object gets on */
	uint8_t type;      /* QP: enum ibv_qp_type, ibv_qp_state, vb_why_wait */
	uint8_t state;
	uint8_t wait;       /* identifier: enum vb_describe_cm_wait */
	uint8_t on_wire;    /* QP: packets carry it */
	uint8_t dest_local; /* QP: the peer is on this host */
	uint8_t opcode;     /* QP: of the oldest work request, enum ibv_wr_opcode */
	uint8_t rnr_retry, timeout, retry_cnt;
	uint8_t armed; /* CQ */
	uint8_t reserved[2];
	uint32_t dest_qpn;
	uint8_t dest_gid[16];
	uint32_t sends;    /* QP: work requests that are not done */
	uint32_t receives; /* QP: posted receives, of its SRQ as well */
	uint32_t send_cq, recv_cq;
	uint64_t wr_id;             /* QP: of the oldest work request */
	uint64_t since_ns;          /* QP: it waits since then; call: likewise; 0: not known */
	uint64_t give_up_ns;        /* QP: it fails then; VB_WHY_NEVER */
	uint32_t tries;             /* QP: repetitions so far */
	uint32_t in_flight, window; /* QP on the wire: packets */
	uint32_t count;             /* CQ: completions that wait; call: what it waits for */
	uint32_t depth;             /* CQ: cqe */
	uint32_t polls;             /* CQ: polls that found nothing; a hint */
	uint64_t failed_ns;         /* QP in ERR or SQE: since then */
	char call[24];
	char words
		[200]; /* QP: the sentence of the wait or the failure; call: of what it waits for */
};
static_assert(sizeof(struct vb_why_record) == 344, "layout of a record");

struct vb_nic;

/* Makes the records of this process; *records is the caller's. 0, -EAGAIN or -ENOMEM. */
int vb_why_list(struct vb_nic *nic, struct vb_why_record **records, uint32_t *count);

#endif
