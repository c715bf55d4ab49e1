/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected QPs of one process, for the small programs of `verbena run --check`. */
#ifndef CHECK_RIG_H
#define CHECK_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUFFER = 4096, LARGE = 65536, DEPTH = 16 };

struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;    /* of both QPs */
	struct ibv_qp *a, *b; /* connected to each other */
	struct ibv_mr *mr;    /* of memory */
	char *memory;         /* BUFFER bytes each: for sends, for receives, spare */
	char *out, *in, *spare;
	char *large_out, *large_in; /* LARGE bytes each */
	union ibv_gid gid;
	int gid_index;
};

/* What a case may ask of the QPs. */
struct wish {
	struct ibv_qp_cap cap;
	bool sig_all;
	uint8_t timeout, min_rnr_timer, rnr_retry;
	uint8_t hop_limit;
	union ibv_gid *to; /* another address than the own one */
	struct ibv_srq *srq;
	uint8_t max_rd_atomic;
};

#define WISH ((struct wish){ { DEPTH, DEPTH, 1, 1, 0 }, false, 14, 12, 7, 64, NULL, NULL, 1 })

void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
/* QPs of that kind, in RTS. */
struct ibv_qp *rig_qp(struct rig *rig, struct ibv_cq *cq, const struct wish *wish);
void rig_connect(struct rig *rig, struct ibv_qp *from, struct ibv_qp *to, const struct wish *wish);
/* The pair of QPs again, on another CQ or with other attributes. */
void rig_renew(struct rig *rig, struct ibv_cq *cq, const struct wish *wish);

/* One SGE of the rig's memory. */
struct ibv_sge rig_sge(const struct rig *rig, const char *at, size_t length);
/* Waits for a completion. */
struct ibv_wc rig_wait(struct ibv_cq *cq);
void rig_wait_for(struct ibv_cq *cq, int count);
/* Fails the program if the condition does not hold. */
#define MUST(condition) rig_must(condition, #condition, __LINE__)
void rig_must(bool holds, const char *text, int line);

#endif
