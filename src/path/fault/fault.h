/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on demand: rules that lose, double, delay, turn round or spoil packets, fail or hold back
 * work requests, or end the device. verbena-faults(7) describes their syntax. The paths ask; what
 * happens then is theirs to do. Each answer depends on the rule, its seed and how many packets or
 * work requests it has seen before, on nothing else.
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
	unsigned rule; /* which one decided, from 1 */
	uint64_t delay_ns;
	enum ibv_wc_status status;
	uint32_t corrupt_bit;
	bool bit_drawn; /* by the seed: it is to be one that the receiver checks */
};

struct vb_fault_counter {
	const char *rule; /* as written */
	uint64_t seen;    /* packets or work requests that it is about */
	uint64_t hits;    /* those that it decided on */
};

/*
 * Reads VERBENA_FAULTS and VERBENA_FAULTS_FILE, once. -EINVAL, and a line on standard error: there
 * is a rule that cannot be understood; none is in force then.
 */
int vb_fault_load(void);

extern _Atomic bool vb_fault_in_force; /* through vb_fault_any only */

/* Are there any rules? One load: nothing below needs to be called if not. */
static inline bool vb_fault_any(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_fault_in_force, memory_order_relaxed), 0);
}

/* A packet of the wire that leaves or comes in. peer_qpn: 0 if it is not known. */
void vb_fault_packet(bool out, uint32_t qpn, uint32_t peer_qpn, uint8_t bth_opcode,
		     struct vb_fault_verdict *verdict);
/* A work request of the send queue, before it is executed; once per try. */
void vb_fault_wr(uint32_t qpn, uint32_t peer_qpn, enum ibv_wr_opcode opcode, bool wire,
		 struct vb_fault_verdict *verdict);

unsigned vb_fault_count(void);
struct vb_fault_counter vb_fault_counter(unsigned index);

struct vb_nic;

/*
 * IBV_EVENT_DEVICE_FATAL to every context that has a CQ, every QP on its way to ERR: they get there
 * when the engine attends. Takes nic->lock; not inside a hazard.
 */
void vb_fault_device_fatal(struct vb_nic *nic);

#endif
