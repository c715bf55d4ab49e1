/* SPDX-License-Identifier: BSD-2-Clause */
/* The choice of the rule that applies. */
#include "base/adversary.h"
#include "base/log.h"
#include "path/fault/rule.h"

enum { LOST_NS_MIN = 200000 }; /* wait before the first repetition */

/* The properties of a packet or a work request that rules can ask for. */
struct subject {
	unsigned targets; /* kinds of rules that the subject concerns */
	uint32_t qpn, peer_qpn;
	unsigned opcode;
	unsigned transport, direction, path; /* one bit each */
};

/* Random bits that depend on the two numbers alone (the finalizer of splitmix64). */
static uint64_t random_mix(uint64_t seed, uint64_t index)
{
	uint64_t x = seed + index * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool rule_concerns(const struct vb_fault_rule *rule, const struct subject *subject)
{
	return rule->target & subject->targets &&
	       (rule->qpn == VB_FAULT_QPN_ANY || rule->qpn == subject->qpn) &&
	       (rule->peer_qpn == VB_FAULT_QPN_ANY || rule->peer_qpn == subject->peer_qpn) &&
	       vb_fault_opcode_in(&rule->opcodes, subject->opcode) &&
	       rule->transports & subject->transport && rule->directions & subject->direction &&
	       rule->paths & subject->path;
}

/* index: the number of subjects that the rule has seen, this one included. */
static bool rule_is_due(const struct vb_fault_rule *rule, uint64_t index)
{
	return index >= rule->first && index <= rule->last &&
	       (index - rule->first + 1) % rule->every == 0 &&
	       random_mix(rule->seed, index) >> 32 < rule->chance;
}

/* Counts a hit; false: the rule has had all its hits. */
static bool rule_take_hit(struct vb_fault_rule *rule)
{
	uint64_t hits = atomic_load_explicit(&rule->hits, memory_order_relaxed);

	while (hits < rule->times) {
		if (atomic_compare_exchange_weak_explicit(&rule->hits, &hits, hits + 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

static void rule_decide(const struct vb_fault_rule *rule, unsigned number, uint64_t index,
			struct vb_fault_verdict *verdict)
{
	*verdict = (struct vb_fault_verdict){
		.action = rule->action,
		.rule = number,
		.delay_ns = rule->by_ns,
		.status = rule->status,
		.bit_drawn = !rule->bit_given,
		.corrupt_bit =
			rule->bit_given ? rule->bit : (uint32_t)random_mix(~rule->seed, index),
	};
}

/* Every rule counts, whichever decides: the numbers of a rule do not depend on other rules. */
static void rules_judge(struct vb_fault_rules *rules, const struct subject *subject,
			struct vb_fault_verdict *verdict)
{
	*verdict = (struct vb_fault_verdict){ .action = VB_FAULT_NONE };
	for (unsigned i = 0; i < rules->count; i++) {
		struct vb_fault_rule *rule = &rules->rule[i];
		uint64_t index;

		if (!rule_concerns(rule, subject))
			continue;
		index = atomic_fetch_add_explicit(&rule->seen, 1, memory_order_relaxed) + 1;
		if (verdict->action != VB_FAULT_NONE || !rule_is_due(rule, index) ||
		    !rule_take_hit(rule))
			continue;
		rule_decide(rule, i + 1, index, verdict);
		vb_explain_each("QP 0x%06x: fault rule %u \"%s\" applies to its %s number %llu",
				subject->qpn, i + 1, rule->text,
				rule->target == VB_FAULT_PACKET ? "packet" : "work request",
				(unsigned long long)index);
	}
}

void vb_fault_judge_packet(struct vb_fault_rules *rules, bool out, uint32_t qpn, uint32_t peer_qpn,
			   uint8_t bth_opcode, struct vb_fault_verdict *verdict)
{
	struct subject subject = {
		.targets = VB_FAULT_PACKET,
		.qpn = qpn,
		.peer_qpn = peer_qpn,
		.opcode = bth_opcode,
		.transport = 1u << (bth_opcode >> 5),
		.direction = out ? VB_FAULT_OUT : VB_FAULT_IN,
		.path = VB_FAULT_WIRE,
	};

	rules_judge(rules, &subject, verdict);
}

void vb_fault_judge_wr(struct vb_fault_rules *rules, uint32_t qpn, uint32_t peer_qpn,
		       enum ibv_wr_opcode opcode, bool wire, struct vb_fault_verdict *verdict)
{
	struct subject subject = {
		.targets = VB_FAULT_WR | VB_FAULT_DEVICE,
		.qpn = qpn,
		.peer_qpn = peer_qpn,
		.opcode = opcode,
		.transport = UINT8_MAX,
		.direction = VB_FAULT_OUT,
		.path = wire ? VB_FAULT_WIRE : VB_FAULT_LOCAL,
	};

	rules_judge(rules, &subject, verdict);
}

void vb_fault_packet(bool out, uint32_t qpn, uint32_t peer_qpn, uint8_t bth_opcode,
		     struct vb_fault_verdict *verdict)
{
	vb_fault_judge_packet(&vb_fault_rules, out, qpn, peer_qpn, bth_opcode, verdict);
	if (verdict->action == VB_FAULT_NONE && vb_adversary_on())
		vb_fault_adverse_packet(out, qpn, bth_opcode, verdict);
}

void vb_fault_wr(uint32_t qpn, uint32_t peer_qpn, enum ibv_wr_opcode opcode, bool wire,
		 struct vb_fault_verdict *verdict)
{
	vb_fault_judge_wr(&vb_fault_rules, qpn, peer_qpn, opcode, wire, verdict);
}

uint64_t vb_fault_lost_wait_ns(uint64_t waited_ns, uint64_t timeout_ns, uint64_t patience_ns)
{
	uint64_t wait_ns = waited_ns < timeout_ns ? waited_ns : timeout_ns;
	uint64_t left_ns = patience_ns > waited_ns ? patience_ns - waited_ns : 0;

	if (wait_ns < LOST_NS_MIN)
		wait_ns = LOST_NS_MIN;
	return wait_ns < left_ns ? wait_ns : left_ns;
}
