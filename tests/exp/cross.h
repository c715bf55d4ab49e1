/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers of the cross-channel tests: a queue that manages others, and messages both ways. */
#ifndef TESTS_EXP_CROSS_H
#define TESTS_EXP_CROSS_H

#include "rig.h"

enum {
	WAIT_ID = 1000,
	ENABLE_ID = 2000,
	FAR_AT = 64 << 10, /* where the far end receives */
	NEAR_AT = 128 << 10,
};

extern const struct rig_opts cross_plain, cross_managed_send, cross_managed_recv;

struct master {
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* connected to itself */
};

struct master master_open(struct rig_end *end);
void master_close(struct master *master);

/* Signaled; they return an error number. */
int post_wait(struct ibv_qp *qp, struct ibv_cq *cq, int count, uint64_t wr_id, bool last);
int post_enable(struct ibv_qp *qp, struct ibv_qp *target, bool sends, int count, uint64_t wr_id);

/* The next completion is this one. */
void ends(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* No completion comes for a while. */
void stays_empty(struct ibv_cq *cq);

/* At the near end, by an offset in its arena. */
int post_send(struct rig *rig, uint64_t wr_id, uint32_t at, uint32_t length);
int post_recv(struct rig *rig, uint64_t wr_id, uint32_t at, uint32_t length);
void far_recv(struct rig *rig, uint64_t wr_id, uint32_t at, uint32_t length);
/* The far end sends bytes of its arena, and waits for the completion. */
struct far_message {
	uint32_t at, length;
	bool waits;
};
uint64_t far_send_now(struct rig_end *end, const void *message);
void far_send(struct rig *rig, uint32_t at, uint32_t length);
/* A completion of the far end's send_cq. */
uint64_t far_drain(struct rig_end *end, const void *unused);

#endif
