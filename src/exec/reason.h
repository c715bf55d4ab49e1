/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a work request failed. The code that decides on an error names a reason. One row of the table
 * in reason.c has its consequences for the initiator, for the target and on the wire, and the
 * sentence that explains it.
 */
#ifndef VB_EXEC_REASON_H
#define VB_EXEC_REASON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vb_reason {
	VB_OK,
	/* decided at the initiator */
	VB_WHY_LOCAL_KEY,
	VB_WHY_LOCAL_MEMORY,
	VB_WHY_LENGTH_MAX,
	VB_WHY_ATOMIC_SGE,
	VB_WHY_ATOMIC_WRITE_SGE,
	VB_WHY_MASKED_SGE,
	VB_WHY_UD_LENGTH,
	VB_WHY_UD_ADDRESS,
	VB_WHY_RAW_LENGTH,
	VB_WHY_OPCODE_TRANSPORT,
	VB_WHY_CQ_OVERRUN,
	VB_WHY_WINDOW_BIND,
	VB_WHY_WINDOW_INVALID,
	VB_WHY_UMR,
	VB_WHY_ENABLE,
	VB_WHY_CQE_WAIT,
	VB_WHY_CQE_GONE,
	/* decided at the target */
	VB_WHY_RECV_SHORT,
	VB_WHY_RECV_KEY,
	VB_WHY_RECV_MEMORY,
	VB_WHY_RECV_INVALIDATE,
	VB_WHY_RKEY_UNKNOWN,
	VB_WHY_RKEY_IS_LKEY,
	VB_WHY_RKEY_PD,
	VB_WHY_RKEY_RANGE,
	VB_WHY_RKEY_RIGHT,
	VB_WHY_RKEY_INDIRECT,
	VB_WHY_RKEY_PATTERN,
	VB_WHY_REMOTE_MEMORY,
	VB_WHY_QP_RIGHT,
	VB_WHY_READ_DEPTH,
	VB_WHY_ATOMIC_ALIGN,
	VB_WHY_MASKED_ALIGN,
	VB_WHY_FLUSH_KIND,
	VB_WHY_TM_HEADER,
	VB_WHY_TARGET_CQ_OVERRUN,
	VB_WHY_SRQ_UNKNOWN,
	VB_WHY_SRQ_DOMAIN,
	VB_WHY_SRQ_UNTOUCHABLE,
	VB_WHY_OUT_OF_SEQUENCE,
	VB_WHY_PACKET_LENGTH,
	VB_WHY_MTU_DIFFERS,
	/* answers of a peer on the wire */
	VB_WHY_NAKED_INVALID,
	VB_WHY_NAKED_ACCESS,
	VB_WHY_NAKED_OPERATIONAL,
	VB_WHY_BAD_RESPONSE,
	VB_WHY_MTU_OF_READ,
	/* no answer */
	VB_WHY_NO_RECEIVE,
	VB_WHY_PEER_ENDED,
	VB_WHY_PEER_NO_QP,
	VB_WHY_PEER_NOT_READY,
	VB_WHY_PEER_IN_ERROR,
	VB_WHY_PEER_OTHER_TYPE,
	VB_WHY_PEER_OTHER_DEST,
	VB_WHY_PEER_OTHER_GID,
	VB_WHY_PEER_OTHER_PSN,
	VB_WHY_PEER_OTHER_PKEY,
	VB_WHY_PEER_TAKEN,
	VB_WHY_PEER_ATTACHING,
	VB_WHY_PEER_UNTOUCHABLE,
	VB_WHY_PEER_BY_PACKETS,
	VB_WHY_NOT_THIS_HOST,
	VB_WHY_PEER_SILENT,
	VB_WHY_PEER_MISSES,
	/* dropped datagrams */
	VB_WHY_DROP_QKEY,
	VB_WHY_DROP_NO_RECEIVE,
	VB_WHY_DROP_SHORT,
	/* fault rules */
	VB_WHY_INJECTED_STATUS,
	VB_WHY_INJECTED_LOSS,
	VB_WHY_INJECTED_FATAL,
	VB_REASON_COUNT,
};

struct vb_reason_row {
	enum ibv_wc_status status; /* of the initiator's work request */
	const char *sentence;
	enum ibv_wc_status recv_status; /* of the receive that is consumed; SUCCESS: none is */
	uint8_t syndrome;               /* of the NAK on the wire; 0: none */
	bool target_fails;              /* the target's QP goes to ERR */
	enum ibv_event_type event;      /* at the target; 0 (CQ_ERR): none */
};

const struct vb_reason_row *vb_reason_row(enum vb_reason reason);

/* The numbers that a sentence may name. */
struct vb_report {
	enum vb_reason reason;
	uint32_t qpn, peer_qpn;
	uint64_t wr_id;
	int opcode; /* enum ibv_wr_opcode; -1: a receive */
	uint32_t key;
	uint64_t addr, length;
	uint64_t have, want;
	enum ibv_wc_status status; /* VB_WHY_INJECTED_STATUS: replaces the status of the row */
};

/* Words of the code that explains, beside the numbers. */
struct vb_report_words {
	const char *sentence; /* instead of the row's; NULL: none */
	const char *peer;     /* about the process at the other end: " (pid 4711, rping)"; or "" */
	const char *request;  /* of a refusal: "WRITE" */
};

/* One line under VERBENA_EXPLAIN. */
void vb_report_explain(const struct vb_report *report, const struct vb_report_words *words);
/* The same at the target, which refuses the peer's request: that peer may explain nothing. */
void vb_report_refusal(const struct vb_report *report, const struct vb_report_words *words);
/* Writes what a report says; size: room, with the NUL. */
void vb_report_write(const struct vb_report *report, const struct vb_report_words *words,
		     char *text, size_t size);
/* "SEND", or "receive" for -1. */
const char *vb_opcode_words(int opcode);
/* A few words about a refused request, for the owner of the target's QP. */
const char *vb_reason_brief(enum vb_reason reason);

#endif
