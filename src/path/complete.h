/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a work request of the send queue, on every path. */
#ifndef VB_PATH_COMPLETE_H
#define VB_PATH_COMPLETE_H

#include "exec/reason.h"
#include "nic/qp.h"

/* The executor's note that pollers must be told of completions at the end of its turn. */
struct vb_notice {
	bool due;   /* a visible completion was published */
	bool error; /* one with a bad status */
};

/*
 * Completes the WQE at sq.next for a reason; report has the numbers of the reason's sentence. A bad
 * status moves the QP to ERR (SQE on UC and UD). The caller holds the executor's token.
 */
void vb_path_complete(struct vb_qp *qp, enum vb_reason reason, struct vb_report *report,
		      struct vb_notice *notice);
/* The WQE at next was executed before (pend.executed), and completes now. */
void vb_path_complete_late(struct vb_qp *qp, struct vb_notice *notice);
/* Flushes all WQEs up to end. */
void vb_path_flush(struct vb_qp *qp, uint32_t end, struct vb_notice *notice);
/* Tells pollers now: before an event that the program may take for the end of completions. */
void vb_path_tell(struct vb_qp *qp, struct vb_notice *notice);

/* --- explain.c: lines under VERBENA_EXPLAIN --- */

/* About the WQE at sq.next. */
void vb_path_explain(const struct vb_qp *qp, enum vb_reason reason, struct vb_report *report);
/* The WQE has waited for VB_LONG_WAIT_NS: for a receive (VB_WHY_NO_RECEIVE), or for an answer. */
enum { VB_LONG_WAIT_NS = 1000000000 };
void vb_path_explain_wait(const struct vb_qp *qp, enum vb_reason reason, struct vb_report *report);
/* It is the first one that a QP in ERR or SQE flushes. */
void vb_path_explain_flush(struct vb_qp *qp);
/* Its CQ is full. */
void vb_path_explain_overrun(const struct vb_qp *qp, const struct vb_wqe *wqe);
/* Writes the sentence of a reason that is about a key or a right; false: the row's will do. access:
 * the right that the request needs. */
enum { VB_PATH_WORDS = 320 };
/* The row's sentence is UC's: it has no GRH. */
#define VB_DATAGRAM_SHORT                                                                        \
	"dropped: {l} bytes, and 40 of the GRH before them, do not fit into the receive posted " \
	"at "                                                                                    \
	"QP {p}, which has room for {h}"
bool vb_path_words(const struct vb_remote *target, const struct vb_report *report, unsigned access,
		   char text[VB_PATH_WORDS]);

/* While a program captures: packets with these PSNs, from the QP, are those of the WQE, which lies
 * at an index of its queue, or is a datagram that was put aside. */
struct vb_psn_range {
	uint32_t first, count;
};
void vb_path_capture_psns(const struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index,
			  struct vb_psn_range psns);

/* Executes a work request that stays in this process. VB_WHY_CQE_WAIT: it waits. */
enum vb_reason vb_path_stay(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_report *report);

/*
 * Checks the elements of a WQE and translates them to addresses of this process; sge has room for
 * VB_SGE_MAX. VB_OK or VB_WHY_LOCAL_KEY.
 */
enum vb_reason vb_path_check_sges(struct vb_qp *qp, const struct vb_wqe *wqe, unsigned access,
				  struct ibv_sge *sge, unsigned *count, struct vb_report *report);

/*
 * Makes the memory of translated elements present where it may be missing (nic/odp.h); false: the
 * memory is not mapped. The check comes before the first packet; memory may still go away later.
 */
bool vb_path_present(const struct ibv_sge *sge, unsigned count, bool write);

/* Copies length bytes of translated elements, from offset on, to out; false: memory is missing. */
bool vb_path_gather(const struct ibv_sge *sge, unsigned count, uint64_t offset, uint32_t length,
		    uint8_t *out);
/* The other way round; the last bytes become visible last. */
bool vb_path_scatter(const struct ibv_sge *sge, unsigned count, uint64_t offset, uint32_t length,
		     const uint8_t *from);
/* Copies so that the tail, from the last multiple of 8 on, becomes visible last. */
bool vb_path_copy_ordered(uint8_t *to, const uint8_t *from, uint32_t length);

#endif
