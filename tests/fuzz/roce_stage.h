/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs of every type on an engine without sockets, threads or clock, and memory of which most must
 * never change. Packets come from whoever plays the peer:
 *
 *   fuzzer -> stage_packet -> engine -> QPs RC, RC with SRQ, UC, UD, XRC_RECV
 *                               |
 *             stage_send <------+------> stage_poll: each work request once, in order
 *             (no secret leaves)
 */
#ifndef VB_TESTS_FUZZ_ROCE_STAGE_H
#define VB_TESTS_FUZZ_ROCE_STAGE_H

#include "fuzz.h"
#include "path/roce/roce.h"

enum stage_qp { STAGE_RC, STAGE_RC_SRQ, STAGE_UC, STAGE_UD, STAGE_XRC, STAGE_QPS };

enum {
	STAGE_MTU = 256,
	STAGE_DEPTH = 16, /* of every queue */
	STAGE_QKEY = 0x11223344,
	STAGE_PEER_QPN = 0x123456,
	STAGE_PSN = 0xfffff0, /* they wrap soon */
	ZONE_BYTES = 4096,
};

/* Memory, a zone each, in this order; between them and around are zones that nobody may touch. */
enum stage_zone {
	ZONE_TARGET, /* registered with all rights */
	ZONE_MUTE,   /* registered for local use only; holds the secret */
	ZONE_RECV,   /* receives, in its first half */
	ZONE_LAND,   /* where answers go, in its first half */
	ZONE_SOURCE, /* what is sent */
	ZONES,
};

struct stage_end {
	struct vb_qp *qp;
	struct vb_wired *wired;
	bool pulled; /* by the program itself: modify to ERR */
	bool bereft; /* of memory, so that it may fail by itself */
	uint32_t sends, sends_done, recvs, recvs_done;
};

struct stage {
	struct vb_roce roce;
	struct vb_way way;
	struct vb_icrc_flow back;
	struct vb_pd *pd;
	struct vb_cq *cq;
	struct vb_srq *srq, *xrc_srq;
	struct vb_xrcd *xrcd;
	uint32_t srq_recvs, srq_done; /* of both, whose completions may come in any order */
	struct vb_mr *mr[ZONES];
	struct vb_ah *ah;
	uint8_t *memory;
	struct stage_end end[STAGE_QPS];
};

void stage_open(struct stage *stage);
/* Ends every QP, expects each work request to have completed, looks at the memory, frees all. */
void stage_close(struct stage *stage);

uint8_t *stage_zone(const struct stage *stage, enum stage_zone zone);

/* A whole UDP payload with its ICRC. */
struct stage_origin {
	bool stranger; /* not the connected peer's address */
	uint8_t traffic_class;
};
void stage_packet(struct stage *stage, const struct stage_origin *origin, const uint8_t *bytes,
		  uint32_t length);
/* The same for one that no QP may even notice. */
void stage_ignored(struct stage *stage, const struct stage_origin *origin, const uint8_t *bytes,
		   uint32_t length);

void stage_wait_ns(struct stage *stage, uint64_t ns);
void stage_post_send(struct stage *stage, enum stage_qp which, struct ibv_send_wr *wr);
void stage_post_recv(struct stage *stage, enum stage_qp which, uint32_t offset, uint32_t length);
/* The program ends a QP. */
void stage_pull(struct stage *stage, enum stage_qp which);
/* The program takes memory away, under whatever uses it, and offers it again with other keys. */
void stage_reregister(struct stage *stage, enum stage_zone zone);
/* RESET, and the same connection once more. */
void stage_reset(struct stage *stage, enum stage_qp which);
/* From RTS to SQD, or back. */
void stage_pause(struct stage *stage, enum stage_qp which);
void stage_poll(struct stage *stage);

#endif
