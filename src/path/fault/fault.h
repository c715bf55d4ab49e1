/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on demand: rules that drop, double, delay, reorder or corrupt packets, fail or hold back
 * work requests, or end the device. verbena-faults(7) describes their syntax. The paths ask for a
 * verdict, and carry it out. A verdict depends only on the rule, its seed and the number of packets
 * or work requests that the rule has seen before. The adversary (base/adversary.h) decides where no
 * rule does.
 */
#ifndef VB_PATH_FAULT_H
#define VB_PATH_FAULT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum vb_fault_action {
	VB_FAULT_NONE,
	VB_FAULT_DROP,
	VB_FAULT_DUPLICATE,
	VB_FAULT_DELAY,   /* by delay_ns */
	VB_FAULT_REORDER, /* until another packet has passed, delay_ns at most */
	VB_FAULT_CORRUPT, /* corrupt_bit, modulo the number of bits that the packet has */
	VB_FAULT_FAIL,    /* complete with status */
	VB_FAULT_FATAL,   /* vb_fault_device_fatal */
	VB_FAULT_ACTION_COUNT,
};

struct vb_fault_verdict {
	enum vb_fault_action action;
	unsigned rule; /* number of the rule that decided, from 1 */
	uint64_t delay_ns;
	enum ibv_wc_status status;
	uint32_t corrupt_bit;
	bool bit_drawn; /* the seed chose corrupt_bit: the path takes a bit that receivers check */
	uint64_t late_ns; /* the adversary: the work request is executed, and completes later */
};

struct vb_qp;
struct vb_wqe;

struct vb_fault_counter {
	const char *rule; /* text of the rule */
	uint64_t seen;    /* packets or work requests that the rule is about */
	uint64_t hits;    /* packets or work requests that the rule decided on */
};

/*
 * Reads VERBENA_FAULTS and VERBENA_FAULTS_FILE, once. -EINVAL, and a line on standard error: a rule
 * is wrong, and no rule is in force.
 */
int vb_fault_load(void);

extern _Atomic bool vb_fault_in_force; /* read by vb_fault_any only */

/* True: rules are in force. One load; without rules no function below needs a call. */
static inline bool vb_fault_any(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_fault_in_force, memory_order_relaxed), 0);
}

/* The verdict on a packet of the wire that leaves or comes in. peer_qpn: 0 if unknown. */
void vb_fault_packet(bool out, uint32_t qpn, uint32_t peer_qpn, uint8_t bth_opcode,
		     struct vb_fault_verdict *verdict);
/* The verdict on a work request of the send queue, before its execution; once per try. */
void vb_fault_wr(uint32_t qpn, uint32_t peer_qpn, enum ibv_wr_opcode opcode, bool wire,
		 struct vb_fault_verdict *verdict);

/* The verdict of the adversary, where no rule has decided; once per work request. index: of the
 * work request in the send queue. */
void vb_fault_adverse_wr(struct vb_qp *qp, const struct vb_wqe *wqe, uint32_t index, bool wire,
			 struct vb_fault_verdict *verdict);
void vb_fault_adverse_packet(bool out, uint32_t qpn, uint8_t bth_opcode,
			     struct vb_fault_verdict *verdict);

/*
 * The wait before the next try of a reliable message whose tries so far were all lost by rules. The
 * first wait is short, each later one as long as all before it together, with the QP's timeout at
 * most. 0: waited_ns, the sum of the waits, has reached the QP's patience. The clock does not
 * count: a process without a CPU would use up its patience without a try.
 */
uint64_t vb_fault_lost_wait_ns(uint64_t waited_ns, uint64_t timeout_ns, uint64_t patience_ns);

unsigned vb_fault_count(void);
struct vb_fault_counter vb_fault_counter(unsigned index);

struct vb_nic;

/*
 * Raises IBV_EVENT_DEVICE_FATAL in every context that has a CQ, and asks the engine to move every
 * QP to ERR. Takes nic->lock; not called inside a hazard.
 */
void vb_fault_device_fatal(struct vb_nic *nic);

#endif
