/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of opcodes, their families and completion statuses, as rules spell them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nic/wr_opcode.h"
#include "path/fault/rule.h"
#include "wire/opcode.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(n)       (1ull << (n))
#define BITS(a, b)   ((BIT((b) + 1) - 1) & ~(BIT(a) - 1)) /* a to b, both included */

struct name {
	const char *name;
	uint64_t bits; /* a set over the lower five bits of the BTH opcode */
};

static const struct name packet_names[] = {
	{ "send_first", BIT(VB_OP_SEND_FIRST) },
	{ "send_middle", BIT(VB_OP_SEND_MIDDLE) },
	{ "send_last", BIT(VB_OP_SEND_LAST) },
	{ "send_last_imm", BIT(VB_OP_SEND_LAST_IMM) },
	{ "send_only", BIT(VB_OP_SEND_ONLY) },
	{ "send_only_imm", BIT(VB_OP_SEND_ONLY_IMM) },
	{ "send_last_inv", BIT(VB_OP_SEND_LAST_INVALIDATE) },
	{ "send_only_inv", BIT(VB_OP_SEND_ONLY_INVALIDATE) },
	{ "write_first", BIT(VB_OP_WRITE_FIRST) },
	{ "write_middle", BIT(VB_OP_WRITE_MIDDLE) },
	{ "write_last", BIT(VB_OP_WRITE_LAST) },
	{ "write_last_imm", BIT(VB_OP_WRITE_LAST_IMM) },
	{ "write_only", BIT(VB_OP_WRITE_ONLY) },
	{ "write_only_imm", BIT(VB_OP_WRITE_ONLY_IMM) },
	{ "read_request", BIT(VB_OP_READ_REQUEST) },
	{ "read_response_first", BIT(VB_OP_READ_RESPONSE_FIRST) },
	{ "read_response_middle", BIT(VB_OP_READ_RESPONSE_MIDDLE) },
	{ "read_response_last", BIT(VB_OP_READ_RESPONSE_LAST) },
	{ "read_response_only", BIT(VB_OP_READ_RESPONSE_ONLY) },
	{ "cmp_and_swp", BIT(VB_OP_COMPARE_SWAP) },
	{ "fetch_and_add", BIT(VB_OP_FETCH_ADD) },
	/* families */
	{ "send", BITS(VB_OP_SEND_FIRST, VB_OP_SEND_ONLY_IMM) | BIT(VB_OP_SEND_LAST_INVALIDATE) |
			  BIT(VB_OP_SEND_ONLY_INVALIDATE) },
	{ "write", BITS(VB_OP_WRITE_FIRST, VB_OP_WRITE_ONLY_IMM) },
	{ "read", BITS(VB_OP_READ_REQUEST, VB_OP_READ_RESPONSE_ONLY) },
	{ "read_response", BITS(VB_OP_READ_RESPONSE_FIRST, VB_OP_READ_RESPONSE_ONLY) },
	{ "ack", BIT(VB_OP_ACKNOWLEDGE) },
	{ "atomic", BIT(VB_OP_COMPARE_SWAP) | BIT(VB_OP_FETCH_ADD) },
	{ "atomic_ack", BIT(VB_OP_ATOMIC_ACKNOWLEDGE) },
	{ "flush", BIT(VB_OP_FLUSH) },
	{ "atomic_write", BIT(VB_OP_ATOMIC_WRITE) },
	{ "response", BITS(VB_OP_READ_RESPONSE_FIRST, VB_OP_ATOMIC_ACKNOWLEDGE) },
};

static const struct {
	const char *name;
	enum vb_family family;
} wr_families[] = {
	{ "send", VB_FAMILY_SEND },
	{ "write", VB_FAMILY_WRITE },
	{ "read", VB_FAMILY_READ_REQUEST },
	{ "atomic", VB_FAMILY_ATOMIC },
};

static const char *const statuses[] = {
	[IBV_WC_LOC_LEN_ERR] = "loc_len_err",
	[IBV_WC_LOC_QP_OP_ERR] = "loc_qp_op_err",
	[IBV_WC_LOC_EEC_OP_ERR] = "loc_eec_op_err",
	[IBV_WC_LOC_PROT_ERR] = "loc_prot_err",
	[IBV_WC_WR_FLUSH_ERR] = "wr_flush_err",
	[IBV_WC_MW_BIND_ERR] = "mw_bind_err",
	[IBV_WC_BAD_RESP_ERR] = "bad_resp_err",
	[IBV_WC_LOC_ACCESS_ERR] = "loc_access_err",
	[IBV_WC_REM_INV_REQ_ERR] = "rem_inv_req_err",
	[IBV_WC_REM_ACCESS_ERR] = "rem_access_err",
	[IBV_WC_REM_OP_ERR] = "rem_op_err",
	[IBV_WC_RETRY_EXC_ERR] = "retry_exc_err",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "rnr_retry_exc_err",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "loc_rdd_viol_err",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "rem_inv_rd_req_err",
	[IBV_WC_REM_ABORT_ERR] = "rem_abort_err",
	[IBV_WC_INV_EECN_ERR] = "inv_eecn_err",
	[IBV_WC_INV_EEC_STATE_ERR] = "inv_eec_state_err",
	[IBV_WC_FATAL_ERR] = "fatal_err",
	[IBV_WC_RESP_TIMEOUT_ERR] = "resp_timeout_err",
	[IBV_WC_GENERAL_ERR] = "general_err",
	[IBV_WC_TM_ERR] = "tm_err",
	[IBV_WC_TM_RNDV_INCOMPLETE] = "tm_rndv_incomplete",
};

static uint64_t packet_bits(const char *name)
{
	for (size_t i = 0; i < COUNT(packet_names); i++) {
		if (!strcasecmp(packet_names[i].name, name))
			return packet_names[i].bits;
	}
	return 0;
}

static const char *prefix_strip(const char *prefix, const char *name)
{
	size_t length = strlen(prefix);

	return strncasecmp(name, prefix, length) ? name : name + length;
}

/* "0x64" is the opcode byte itself. */
static bool numeric_opcode(const char *name, struct vb_fault_opcodes *set)
{
	char *end;
	unsigned long opcode;

	if (strncasecmp(name, "0x", 2))
		return false;
	opcode = strtoul(name, &end, 16);
	if (*end || end == name + 2 || opcode > UINT8_MAX)
		return false;
	vb_fault_opcode_add(set, (unsigned)opcode);
	return true;
}

bool vb_fault_packet_opcode(const char *name, struct vb_fault_opcodes *set)
{
	static const uint8_t transports[] = { VB_TRANSPORT_RC, VB_TRANSPORT_UC, VB_TRANSPORT_UD,
					      VB_TRANSPORT_XRC };
	uint64_t bits = packet_bits(name);

	if (!strcasecmp(name, "cnp")) {
		vb_fault_opcode_add(set, VB_TRANSPORT_CNP | VB_OP_CNP);
		return true;
	}
	if (!strcasecmp(name, "gaps")) {
		vb_fault_opcode_add(set, VB_TRANSPORT_VENDOR | VB_OP_GAPS_ASK);
		vb_fault_opcode_add(set, VB_TRANSPORT_VENDOR | VB_OP_GAPS);
		return true;
	}
	if (!strcasecmp(name, "masked")) {
		vb_fault_opcode_add(set, VB_TRANSPORT_VENDOR | VB_OP_MASKED_COMPARE_SWAP);
		vb_fault_opcode_add(set, VB_TRANSPORT_VENDOR | VB_OP_MASKED_FETCH_ADD);
		return true;
	}
	if (!bits)
		return numeric_opcode(name, set);
	for (; bits; bits &= bits - 1) {
		for (size_t i = 0; i < COUNT(transports); i++)
			vb_fault_opcode_add(set, transports[i] | (unsigned)__builtin_ctzll(bits));
	}
	return true;
}

/* Rules do not concern raw packet QPs, so an opcode that only they have is unknown here. */
static uint64_t wr_bits(const char *name)
{
	for (unsigned i = 0; i < VB_WR_OPCODE_COUNT; i++) {
		if (vb_wr_rows[i].transports & ~BIT(IBV_QPT_RAW_PACKET) &&
		    !strcasecmp(vb_wr_rows[i].name, name))
			return BIT(i);
	}
	return 0;
}

static uint64_t wr_family_bits(const char *name)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < COUNT(wr_families); i++) {
		for (unsigned opcode = 0; opcode < VB_WR_OPCODE_COUNT; opcode++) {
			if (!strcasecmp(wr_families[i].name, name) &&
			    vb_wr_rows[opcode].family == wr_families[i].family)
				bits |= BIT(opcode);
		}
	}
	return bits;
}

/* "send" is the family, "ibv_wr_send" the opcode. */
bool vb_fault_wr_opcode(const char *name, struct vb_fault_opcodes *set)
{
	const char *plain = prefix_strip("ibv_wr_", name);
	uint64_t bits = plain == name ? wr_family_bits(name) : wr_bits(plain);

	if (!bits)
		bits = plain == name ? wr_bits(name) : wr_family_bits(plain);
	set->word[0] |= bits;
	return bits;
}

bool vb_fault_status(const char *name, enum ibv_wc_status *status)
{
	name = prefix_strip("ibv_wc_", name);
	for (size_t i = 0; i < COUNT(statuses); i++) {
		if (statuses[i] && !strcasecmp(statuses[i], name)) {
			*status = (enum ibv_wc_status)i;
			return true;
		}
	}
	return false;
}
