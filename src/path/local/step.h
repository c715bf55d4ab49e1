/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the local path: what its files tell each other about the WQE at hand. */
#ifndef VB_PATH_LOCAL_STEP_H
#define VB_PATH_LOCAL_STEP_H

#include "exec/copy.h"
#include "exec/reason.h"
#include "path/complete.h"
#include "path/local/local.h"

enum { VB_PIECE = 1 << 20 }; /* bytes copied within one hazard */

enum vb_step {
	VB_STEP_NEXT,  /* the WQE at next is complete, or there is a new one there */
	VB_STEP_AGAIN, /* progress was made, more of the same WQE follows */
	VB_STEP_PEND,  /* not now */
	VB_STEP_WIRE,  /* not here: packets may get there */
};

/* Where the WQE at hand goes. */
enum vb_verdict {
	VB_VERDICT_HERE,    /* through memory: inside a hazard, gate open, receive queue resolved */
	VB_VERDICT_PACKETS, /* the wire carries it, to run->wire_peer */
	VB_VERDICT_SILENT,  /* nobody answers */
};

struct vb_step_context {
	struct vb_run *run;
	struct vb_qp *qp;
	struct vb_wqe *wqe;             /* at sq.next, or that of aside */
	struct vb_aside *aside;         /* datagrams: one that was put aside; NULL: none */
	struct ibv_sge sge[VB_SGE_MAX]; /* its elements, checked, as addresses of this process */
	unsigned sge_count;
	struct vb_peer *inside; /* whom our hazard names */
	uint32_t inside_qpn;    /* and which QP of it */
	unsigned since_hazard;  /* operations since it was published */
	enum vb_reason why; /* SILENT: for this reason; PACKETS: if none can be sent, for this */
	struct vb_report report;
};

/* --- complete.c --- */

/* The WQE at next is done, for a reason. */
enum vb_step vb_step_complete(struct vb_step_context *step, enum vb_reason reason);
/* Done for a reason that the target learns of as well. */
enum vb_step vb_step_refuse(struct vb_step_context *step, enum vb_reason reason, bool quiet);
/*
 * The kernel lets us touch the target's memory no more. The message begins anew, by packets; so does
 * everything behind it. Whatever it had taken was given back.
 */
enum vb_step vb_step_denied(struct vb_step_context *step);
/* The process whose memory it was has ended. Of XRC it may be another one than that of the QP, which
 * then answers, as it does when it finds no such SRQ. */
enum vb_step vb_step_ended(struct vb_step_context *step);

/* --- bind.c --- */

void vb_step_leave(struct vb_step_context *step);
/* Looks at the connected peer. */
enum vb_verdict vb_step_bind(struct vb_step_context *step);
/* The numbers of a message that is too long for path MTUs that differ. */
void vb_step_report_mtu(struct vb_step_context *step);
/* The same for one target of a datagram, or for a group. */
enum vb_verdict vb_step_bind_datagram(struct vb_step_context *step, uint32_t qpn);
/* VB_VERDICT_PACKETS: to a process of this host, or with NULL to an address. */
enum vb_verdict vb_step_by_packets(struct vb_step_context *step, struct vb_peer *peer,
				   enum vb_reason why);
/* Is it too early for a verdict? */
static inline bool vb_step_is_attaching(const struct vb_step_context *step, enum vb_verdict verdict)
{
	return verdict == VB_VERDICT_SILENT && step->why == VB_WHY_PEER_ATTACHING;
}

/* --- memory.c --- */

/* Between the bound peer's memory and ours. -ECANCELED: something was taken away there meanwhile, so
 * nothing was copied and all of it is to be looked at again; else as vb_copy. */
ssize_t vb_step_copy(struct vb_step_context *step, enum vb_direction direction,
		     const struct vb_iov *local, const struct vb_iov *remote);
/* Why it copied nothing, where that is no fault of memory: VB_WHY_PEER_NOT_READY (all of it again),
 * VB_WHY_PEER_ENDED, VB_WHY_PEER_UNTOUCHABLE; else VB_OK. */
enum vb_reason vb_step_copy_refused(ssize_t copied);
/* Around several calls for the same bytes; false: as above. */
bool vb_step_copy_begin(struct vb_step_context *step, uint64_t address, uint64_t length);
void vb_step_copy_end(struct vb_step_context *step);

/* --- pend.c --- */

/* Does the wire carry it? A connection for which there is no way stays, and waits. */
static inline bool vb_step_by_wire(const struct vb_step_context *step, enum vb_verdict verdict)
{
	return verdict == VB_VERDICT_PACKETS && !step->run->no_wire;
}
/* Any verdict but HERE. */
enum vb_step vb_step_not_here(struct vb_step_context *step, enum vb_verdict verdict);
/* The peer does not answer for a reason: wait, or give up as the QP's timers say. */
enum vb_step vb_step_unanswered(struct vb_step_context *step, enum vb_reason reason);
/* No receive is posted. */
enum vb_step vb_step_no_receive(struct vb_step_context *step);
/* Someone else is at it for a moment. */
enum vb_step vb_step_busy(struct vb_step_context *step);

/* A fault rule has lost it: RC tries again, and gives up as above. */
enum vb_step vb_step_lost(struct vb_step_context *step);

/* Begins or continues to wait; true when it has taken too long. */
bool vb_step_waited_long(struct vb_qp *qp, enum vb_pend_why why, uint64_t wait_ns);

/* --- aside.c --- */

/* A datagram whose target is about to be attached: it is complete, or waits for room. */
enum vb_step vb_step_set_aside(struct vb_step_context *step);
/* Others for the same slot were put aside. */
bool vb_step_is_behind(const struct vb_step_context *step);
/* One that was put aside finds no receive. */
enum vb_step vb_step_aside_late(struct vb_step_context *step);

/* --- fault.c --- */

/* Fault rules, before the WQE is executed; true: they decided what comes next instead. */
bool vb_step_fault(struct vb_step_context *step, enum vb_step *next);

/* --- the operations --- */

/* Checks the elements of a WQE and translates them to step->sge; VB_OK or VB_WHY_LOCAL_KEY. */
static inline enum vb_reason vb_step_local(struct vb_step_context *step, const struct vb_wqe *wqe,
					   unsigned access)
{
	return vb_path_check_sges(step->qp, wqe, access, step->sge, &step->sge_count,
				  &step->report);
}
/* Copies the elements' bytes one after the other; false: memory is missing. */
bool vb_step_gather(const struct vb_step_context *step, uint8_t *out);
enum vb_step vb_step_send(struct vb_step_context *step);
enum vb_step vb_step_datagram(struct vb_step_context *step);
/* The rest of it, once it is bound to its target. */
enum vb_step vb_step_to_target(struct vb_step_context *step);
/* RDMA_WRITE and RDMA_READ, a run of them at a time. */
enum vb_step vb_step_rdma(struct vb_step_context *step);
enum vb_step vb_step_write_imm(struct vb_step_context *step);
enum vb_step vb_step_atomic(struct vb_step_context *step);
enum vb_step vb_step_atomic_write(struct vb_step_context *step);

/* Rights, resources and key of an RDMA operation at the bound target. */
enum vb_reason vb_step_remote(struct vb_step_context *step, const struct vb_wqe *wqe,
			      uint64_t *address);

#endif
