/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the local path: the functions of its files, and the WQE that they execute. */
#ifndef VB_PATH_LOCAL_STEP_H
#define VB_PATH_LOCAL_STEP_H

#include "capture/ring.h"
#include "exec/copy.h"
#include "exec/mapped.h"
#include "exec/reason.h"
#include "path/complete.h"
#include "path/local/local.h"

struct vb_claim;
struct vb_message;

enum { VB_PIECE = 1 << 20 }; /* bytes copied within one hazard */

/* A part of the target's memory, and its view; not mapped: view.at is NULL. */
struct vb_aim {
	struct vb_mapped view;
	uint64_t from, to; /* addresses of the target */
};

enum vb_step {
	VB_STEP_NEXT,  /* the WQE is complete: go on with the one at next */
	VB_STEP_AGAIN, /* the same WQE must be executed again: more of it follows */
	VB_STEP_PEND,  /* the WQE waits */
	VB_STEP_WIRE,  /* the WQE cannot go through memory: packets may get there */
};

/* The destination of the WQE at hand. */
enum vb_verdict {
	VB_VERDICT_HERE,    /* through memory: inside a hazard, gate open, receive queue resolved */
	VB_VERDICT_PACKETS, /* the wire carries it, to run->wire_peer */
	VB_VERDICT_SILENT,  /* no peer answers */
	VB_VERDICT_BUSY,    /* the target moves its memory: soon again */
};

struct vb_step_context {
	struct vb_run *run;
	struct vb_qp *qp;
	struct vb_wqe *wqe;             /* at sq.next, or that of aside */
	struct vb_aside *aside;         /* a datagram that was put aside; NULL: the WQE at next */
	struct ibv_sge sge[VB_SGE_MAX]; /* elements of the WQE, checked, as own addresses */
	unsigned sge_count;
	struct vb_peer *inside; /* the peer that this thread's hazard names; NULL: none */
	uint32_t inside_qpn;    /* and the QP there */
	unsigned since_hazard;  /* operations since the hazard was published */
	uint64_t begun_ns;      /* while captured: when the WQE was tried last */
	uint32_t receive;       /* that the WQE has completed, if it consumes one */
	/* SILENT: for this reason no peer answers. PACKETS: the failure if none can be sent. */
	enum vb_reason why;
	struct vb_report report;
};

/* --- capture.c: a program captures --- */

/* The WQE at next, or that of aside, is about to complete for a reason. */
void vb_step_capture(struct vb_step_context *step, enum vb_reason reason);
/* No receive was posted for it; it is tried again. */
void vb_step_capture_rnr(struct vb_step_context *step);

/* --- complete.c --- */

/* Completes the WQE at next, which has succeeded. Inline: a list of WRITEs has many. */
static inline void vb_step_succeed(struct vb_step_context *step)
{
	if (vb_captured())
		vb_step_capture(step, VB_OK);
	vb_path_complete(step->qp, VB_OK, &step->report, &step->run->notice);
}
/* The same for any reason. */
enum vb_step vb_step_complete(struct vb_step_context *step, enum vb_reason reason);
/* Completes the WQE for a reason that the target learns of as well. */
enum vb_step vb_step_refuse(struct vb_step_context *step, enum vb_reason reason, bool quiet);
/*
 * The kernel no longer lets this process touch the target's memory. The message begins anew by
 * packets, and all later messages go by packets. Callers have given back the receive before.
 */
enum vb_step vb_step_denied(struct vb_step_context *step);
/* The process that had the memory has ended. With XRC it may be another process than that of the
 * QP, which then answers as if there were no such SRQ. */
enum vb_step vb_step_ended(struct vb_step_context *step);

/* --- bind.c --- */

void vb_step_leave(struct vb_step_context *step);
/* Binds to the connected peer. */
enum vb_verdict vb_step_bind(struct vb_step_context *step);
/* Reports the numbers of a message that is too long for path MTUs that differ. */
void vb_step_report_mtu(struct vb_step_context *step);
/* The same for one target of a datagram, or for a group. */
enum vb_verdict vb_step_bind_datagram(struct vb_step_context *step, uint32_t qpn);
/* VB_VERDICT_PACKETS: to a process of this host, or with NULL to an address. */
enum vb_verdict vb_step_by_packets(struct vb_step_context *step, struct vb_peer *peer,
				   enum vb_reason why);
/* True: it is too early for a verdict. */
static inline bool vb_step_is_attaching(const struct vb_step_context *step, enum vb_verdict verdict)
{
	return verdict == VB_VERDICT_SILENT && step->why == VB_WHY_PEER_ATTACHING;
}

/* --- memory.c --- */

/* Copies between the bound peer's memory and this process. -ECANCELED: the peer has taken something
 * away since the checks; nothing was copied, and all checks must be repeated. Else as vb_copy. */
ssize_t vb_step_copy(struct vb_step_context *step, enum vb_direction direction,
		     const struct vb_iov *local, const struct vb_iov *remote);
/* The same to or from a view (exec/mapped.h): the remote side has addresses of this process, and
 * stands for aim. -ECANCELED also if the region has ended meanwhile. */
ssize_t vb_step_copy_mapped(struct vb_step_context *step, enum vb_direction direction,
			    const struct vb_iov *local, const struct vb_iov *remote,
			    const struct vb_aim *aim);
/* The reason why nothing was copied: VB_WHY_PEER_NOT_READY (all checks again), VB_WHY_PEER_ENDED,
 * VB_WHY_PEER_UNTOUCHABLE; VB_OK: none, or memory is missing. */
enum vb_reason vb_step_copy_refused(ssize_t copied);
/* Brackets around several calls for the same bytes; false: -ECANCELED as above. */
bool vb_step_copy_begin(struct vb_step_context *step, uint64_t address, uint64_t length);
void vb_step_copy_end(struct vb_step_context *step);

/* --- indirect.c --- */

/*
 * Copies the next bytes of a WRITE or READ whose rkey is indirect, and moves sq.offset. The local
 * side was checked. Else a reason, those of vb_step_copy_refused among them.
 */
enum vb_reason vb_step_indirect(struct vb_step_context *step, enum vb_direction direction);

/* --- pend.c --- */

/* True: the wire carries the WQE. A connection without a way for packets stays, and waits. */
static inline bool vb_step_by_wire(const struct vb_step_context *step, enum vb_verdict verdict)
{
	return verdict == VB_VERDICT_PACKETS && !step->run->no_wire;
}
/* Acts on any verdict but HERE. */
enum vb_step vb_step_not_here(struct vb_step_context *step, enum vb_verdict verdict);
/* The peer does not answer for a reason: the WQE waits, or fails as the QP's timers say. */
enum vb_step vb_step_unanswered(struct vb_step_context *step, enum vb_reason reason);
/* No receive is posted. */
enum vb_step vb_step_no_receive(struct vb_step_context *step);
/* Another thread or process is busy there for a moment: the WQE waits. */
enum vb_step vb_step_busy(struct vb_step_context *step);
/* The completions of a CQ that the WQE waits for were not made yet. */
enum vb_step vb_step_wait_cqe(struct vb_step_context *step);

/* A fault rule has lost the message: RC tries again, and gives up as above. */
enum vb_step vb_step_lost(struct vb_step_context *step);

/* Begins or continues a wait; true: the wait has taken wait_ns. */
bool vb_step_waited_long(struct vb_qp *qp, enum vb_pend_why why, uint64_t wait_ns);

/* --- apart.c --- */

/* As vb_recv_claim. False also if the sender keeps away from the owner for a moment. */
bool vb_step_claim(struct vb_step_context *step, struct vb_claim *claim);
/* The connection is new. */
void vb_apart_begin(struct vb_remote *remote);
/* True: a receive is missing, and it is too early for another look. */
bool vb_apart_waits(struct vb_remote *remote, uint64_t now_ns);
/* A look found no receive, or it found one. */
void vb_apart_missed(struct vb_remote *remote, uint64_t now_ns);
void vb_apart_found(struct vb_remote *remote);

/* --- shelf.c --- */

/* A message was copied by a system call. If many would ride in a shelf, the target makes one. */
void vb_step_shelf_wish(struct vb_step_context *step);

/* --- datagram.c --- */

/* The bytes before a datagram with a payload of this length. */
void vb_datagram_grh(const struct vb_av *av, uint32_t length, bool imm, uint8_t *out);
/* Adds to a message what its address tells. */
void vb_datagram_address(const struct vb_av *av, struct vb_message *message);

/* --- aside.c --- */

/* The target of the datagram is about to be attached: the WQE completes, or waits for room. */
enum vb_step vb_step_set_aside(struct vb_step_context *step);
/* True: earlier datagrams for the same slot were put aside. */
bool vb_step_is_behind(const struct vb_step_context *step);
/* A datagram that was put aside finds no receive. */
enum vb_step vb_step_aside_late(struct vb_step_context *step);

/* --- fault.c --- */

/* Fault rules judge a WQE before its execution; true: they decided, and *next is the step. */
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
/* The rest of a datagram, once it is bound to its target. */
enum vb_step vb_step_to_target(struct vb_step_context *step);
/* RDMA_WRITE and RDMA_READ, several WQEs at a time. */
enum vb_step vb_step_rdma(struct vb_step_context *step);
enum vb_step vb_step_write_imm(struct vb_step_context *step);
enum vb_step vb_step_atomic(struct vb_step_context *step);
enum vb_step vb_step_atomic_write(struct vb_step_context *step);
enum vb_step vb_step_masked(struct vb_step_context *step);
enum vb_step vb_step_flush(struct vb_step_context *step);

/* Checks that the bound target has as many READ resources as operations would be under way. */
enum vb_reason vb_step_depth(struct vb_step_context *step);
/* Checks rights, resources and key of an RDMA operation at the bound target. */
enum vb_reason vb_step_remote(struct vb_step_context *step, const struct vb_wqe *wqe,
			      uint64_t *address);

#endif
