/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the faults: a rule as struct, once its text is read. */
#ifndef VB_PATH_FAULT_RULE_H
#define VB_PATH_FAULT_RULE_H

#include <stddef.h>

#include "path/fault/fault.h"

enum {
	VB_FAULT_RULES_MAX = 64,
	VB_FAULT_TEXT_MAX = 200, /* bytes of one rule */
	VB_FAULT_WHY_MAX = 320,  /* bytes of a sentence about a wrong rule */
};

#define VB_FAULT_QPN_ANY UINT32_MAX
#define VB_FAULT_ALWAYS  (1ull << 32) /* of chance */

/* Sets: one bit for each. */
enum { VB_FAULT_PACKET = 1, VB_FAULT_WR = 2, VB_FAULT_DEVICE = 4 };
enum { VB_FAULT_IN = 1, VB_FAULT_OUT = 2 };
enum { VB_FAULT_LOCAL = 1, VB_FAULT_WIRE = 2 };

struct vb_fault_opcodes {
	uint64_t word[4]; /* a bit per BTH opcode, or per enum ibv_wr_opcode */
};

struct vb_fault_rule {
	/* Constant once the rule is read. */
	enum vb_fault_action action;
	unsigned target; /* one of VB_FAULT_PACKET, ... */
	struct vb_fault_opcodes opcodes;
	uint8_t transports; /* set, by the upper three bits of the BTH opcode */
	uint8_t directions, paths;
	uint32_t qpn, peer_qpn;
	uint64_t first, last; /* numbers among the packets seen, from 1, both included */
	uint64_t every;
	uint64_t times;  /* hits at most */
	uint64_t chance; /* out of VB_FAULT_ALWAYS */
	uint64_t seed;
	uint64_t by_ns;
	uint32_t bit;
	bool bit_given;
	enum ibv_wc_status status;
	char text[VB_FAULT_TEXT_MAX];
	/* Written by every thread that asks. */
	_Atomic uint64_t seen, hits;
};

struct vb_fault_rules {
	unsigned count;
	struct vb_fault_rule rule[VB_FAULT_RULES_MAX];
};

static inline void vb_fault_opcode_add(struct vb_fault_opcodes *set, unsigned opcode)
{
	set->word[opcode >> 6 & 3] |= 1ull << (opcode & 63);
}

static inline bool vb_fault_opcode_in(const struct vb_fault_opcodes *set, unsigned opcode)
{
	return set->word[opcode >> 6 & 3] >> (opcode & 63) & 1;
}

/* Adds the rules of a text, separated by ";" or line ends. -EINVAL, and a sentence says why. */
int vb_fault_parse(const char *text, struct vb_fault_rules *rules, char why[VB_FAULT_WHY_MAX]);

/* The verdict of the rules: the first one that applies decides, each one counts what it sees. */
void vb_fault_judge_packet(struct vb_fault_rules *rules, bool out, uint32_t qpn, uint32_t peer_qpn,
			   uint8_t bth_opcode, struct vb_fault_verdict *verdict);
void vb_fault_judge_wr(struct vb_fault_rules *rules, uint32_t qpn, uint32_t peer_qpn,
		       enum ibv_wr_opcode opcode, bool wire, struct vb_fault_verdict *verdict);

/* Adds the opcodes that a name means, one or a family; false: there is no such name. */
bool vb_fault_packet_opcode(const char *name, struct vb_fault_opcodes *set);
bool vb_fault_wr_opcode(const char *name, struct vb_fault_opcodes *set);
bool vb_fault_status(const char *name, enum ibv_wc_status *status);

extern struct vb_fault_rules vb_fault_rules; /* vb_fault_load writes them before in_force */

#endif
