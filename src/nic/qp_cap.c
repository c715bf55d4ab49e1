/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/qp_cap.h"

#include <errno.h>

#include "base/adversary.h"
#include "base/log.h"
#include "nic/fact.h"

/* --- limits of each member --- */

/* Values beyond the enumeration have no bit. */
int vb_qp_cap_check_type(enum ibv_qp_type type)
{
	if ((unsigned)type < 32 && vb_fact_has(VB_FACT_QP_TYPES, 1u << type))
		return 0;
	vb_explain("ibv_create_qp: the device has no QPs of type %u", (unsigned)type);
	return -EOPNOTSUPP;
}

static void lower_inline(struct ibv_qp_cap *cap)
{
	const uint32_t max = vb_fact_u32(VB_FACT_MAX_INLINE_DATA);

	if (vb_fact(VB_FACT_INLINE_EXCESS) == VB_INLINE_EXCESS_LOWERS && cap->max_inline_data > max)
		cap->max_inline_data = max;
}

static void explain_caps(const struct ibv_qp_cap *cap)
{
	const struct {
		const char *name;
		uint32_t value;
		enum vb_fact limit;
	} rows[] = {
		{ "max_send_wr", cap->max_send_wr, VB_FACT_MAX_QP_WR },
		{ "max_recv_wr", cap->max_recv_wr, VB_FACT_MAX_QP_WR },
		{ "max_send_sge", cap->max_send_sge, VB_FACT_MAX_SGE },
		{ "max_recv_sge", cap->max_recv_sge, VB_FACT_MAX_SGE },
		{ "max_inline_data", cap->max_inline_data, VB_FACT_MAX_INLINE_DATA },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].value > vb_fact_u32(rows[i].limit))
			vb_explain("ibv_create_qp: %s %u is more than the device's %u",
				   rows[i].name, rows[i].value, vb_fact_u32(rows[i].limit));
}

int vb_qp_cap_check(struct ibv_qp_init_attr *attr)
{
	const uint32_t wr_max = vb_fact_u32(VB_FACT_MAX_QP_WR);
	const uint32_t sge_max = vb_fact_u32(VB_FACT_MAX_SGE);
	const uint32_t inline_max = vb_fact_u32(VB_FACT_MAX_INLINE_DATA);
	struct ibv_qp_cap *cap = &attr->cap;

	lower_inline(cap);
	if (cap->max_send_wr > wr_max || cap->max_send_sge > sge_max ||
	    cap->max_inline_data > inline_max ||
	    (!attr->srq && (cap->max_recv_wr > wr_max || cap->max_recv_sge > sge_max))) {
		explain_caps(cap);
		return -EINVAL;
	}
	return 0;
}

/* --- limits of the whole queue --- */

/* An element has 16 bytes, and so has a piece of inline data; a header of 4 bytes precedes them. */
enum { ELEMENT = 16, INLINE_HEADER = 4 };

enum {
	OPS_RDMA = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		   IBV_QP_EX_WITH_RDMA_READ,
	OPS_ATOMIC = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	OPS_BIND = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	OPS_DATAGRAM = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t align(uint64_t value, uint64_t to)
{
	return to ? (value + to - 1) / to * to : value;
}

static uint64_t power_of_two(uint64_t value)
{
	uint64_t power = 1;

	while (power < value)
		power *= 2;
	return power;
}

/* The bytes of a WQE before its elements. */
static uint64_t head_bytes(enum ibv_qp_type type, uint64_t ops)
{
	uint64_t bytes = vb_fact(VB_FACT_SQ_WQE_BYTES_SEND);

	if (!ops)
		ops = type == IBV_QPT_UD ? OPS_DATAGRAM : vb_fact(VB_FACT_SEND_OPS);
	if (ops & OPS_RDMA)
		bytes = larger(bytes, vb_fact(VB_FACT_SQ_WQE_BYTES_RDMA));
	if (ops & OPS_ATOMIC)
		bytes = larger(bytes, vb_fact(VB_FACT_SQ_WQE_BYTES_ATOMIC));
	if (ops & OPS_BIND)
		bytes = larger(bytes, vb_fact(VB_FACT_SQ_WQE_BYTES_BIND));
	if (type == IBV_QPT_UD)
		bytes += vb_fact(VB_FACT_SQ_WQE_BYTES_UD);
	if (type == IBV_QPT_XRC_SEND)
		bytes += vb_fact(VB_FACT_SQ_WQE_BYTES_XRC);
	return bytes;
}

static uint64_t wqe_bytes(const struct ibv_qp_cap *cap, uint64_t head)
{
	uint64_t bytes = head + (uint64_t)cap->max_send_sge * ELEMENT;

	if (cap->max_inline_data)
		bytes = larger(bytes, head + align((uint64_t)INLINE_HEADER + cap->max_inline_data,
						   ELEMENT));
	return bytes;
}

static int refuse(const struct ibv_qp_cap *cap, uint64_t wqe, uint64_t bytes)
{
	vb_explain("ibv_create_qp: %u WQEs of %llu bytes (%u SGEs, %u inline bytes) do not fit: a "
		   "WQE has up to %llu bytes, a queue, rounded up to a power of two, %llu",
		   cap->max_send_wr, (unsigned long long)wqe, cap->max_send_sge,
		   cap->max_inline_data, (unsigned long long)vb_fact(VB_FACT_SQ_WQE_BYTES_MAX),
		   (unsigned long long)bytes);
	return -EINVAL;
}

/* Values beyond a limit stay: vb_qp_cap_check refuses them. */
static void raise(uint32_t *value, uint64_t fits, enum vb_fact limit)
{
	if (fits > vb_fact(limit))
		fits = vb_fact(limit);
	if (*value < fits)
		*value = (uint32_t)fits;
}

static bool is_frames(enum ibv_qp_type type)
{
	return type == IBV_QPT_RAW_PACKET;
}

int vb_qp_cap_fit(struct ibv_qp_init_attr *attr, uint64_t ops)
{
	const uint64_t bytes_max = vb_fact(VB_FACT_SQ_BYTES_MAX);
	const uint64_t head = head_bytes(attr->qp_type, ops);
	struct ibv_qp_cap *cap = &attr->cap;
	uint64_t wqe = wqe_bytes(cap, head), bytes;

	if (!bytes_max || !cap->max_send_wr || is_frames(attr->qp_type))
		return 0;
	if (wqe > vb_fact(VB_FACT_SQ_WQE_BYTES_MAX))
		return refuse(cap, wqe, bytes_max);
	wqe = align(wqe, vb_fact(VB_FACT_SQ_WQE_BYTES_ALIGN));
	bytes = power_of_two(cap->max_send_wr * wqe);
	if (!wqe || bytes > bytes_max)
		return refuse(cap, wqe, bytes_max);
	if (vb_adversary_on()) /* no more than the program asks for */
		return 0;
	raise(&cap->max_send_wr, bytes / wqe, VB_FACT_MAX_QP_WR);
	if (wqe > head + INLINE_HEADER)
		raise(&cap->max_inline_data, wqe - head - INLINE_HEADER, VB_FACT_MAX_INLINE_DATA);
	return 0;
}
