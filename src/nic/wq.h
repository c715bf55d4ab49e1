/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive work queues, the tables that spread frames over them, and the part of a raw packet QP
 * that other QPs do not have. A work queue is a raw packet QP that only receives. Both have the
 * same number, and share the code for posting, completing, flushing and counting.
 */
#ifndef VB_NIC_WQ_H
#define VB_NIC_WQ_H

#include "nic/qp.h"
#include "nic/rate.h"

enum {
	VB_RX_HASH_FIELDS = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 |
			    IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP |
			    IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP |
			    IBV_RX_HASH_DST_PORT_UDP,
	VB_WQ_MAX = VB_QP_MAX,
	VB_IND_TABLE_MAX = 65536,
	VB_IND_TABLE_LOG_SIZE_MAX = 10,
	VB_RX_HASH_KEY_SIZE = 40,
	VB_TSO_MAX = 65536, /* payload of a large send */
	VB_TSO_HEADER_MAX = 256,
};

/* Changes to a frame on its way into a receive. */
enum vb_raw_flags {
	VB_RAW_STRIP_VLAN = 1 << 0, /* the VLAN tag goes into the completion */
	VB_RAW_KEEP_FCS = 1 << 1,   /* four bytes more: the frame's checksum */
};

static inline uint32_t vb_raw_flags(uint32_t strip_vlan, uint32_t keep_fcs)
{
	return (strip_vlan ? VB_RAW_STRIP_VLAN : 0) | (keep_fcs ? VB_RAW_KEEP_FCS : 0);
}

struct vb_wq {
	struct ibv_wq ibv;      /* first */
	struct vb_qp *qp;       /* owned */
	_Atomic uint32_t users; /* count of entries in indirection tables */
};

struct vb_ind_table {
	struct ibv_rwq_ind_table ibv; /* first */
	struct vb_nic *nic;
	_Atomic uint32_t users; /* count of QPs */
	uint32_t size;          /* a power of two */
	struct vb_wq *wqs[];
};

static inline struct vb_wq *vb_wq(struct ibv_wq *ibv)
{
	return vb_container(ibv, struct vb_wq, ibv);
}

static inline struct vb_ind_table *vb_ind_table(struct ibv_rwq_ind_table *ibv)
{
	return vb_container(ibv, struct vb_ind_table, ibv);
}

struct vb_raw_port;

/* The part of a raw packet QP behind vb_qp.raw. */
struct vb_raw_qp {
	struct vb_raw_port *port;   /* path/raw */
	_Atomic uint32_t flows;     /* count of flows that end at this QP */
	struct vb_ind_table *table; /* frames go to its work queues; NULL: to the QP's own queue */
	uint64_t hash_fields;       /* enum ibv_rx_hash_fields */
	uint8_t hash_key[VB_RX_HASH_KEY_SIZE];
	uint8_t *tso; /* headers of large sends, one per entry of the send queue */
	uint32_t tso_stride, tso_header_max;
	struct vb_rate_paid paid; /* thread with the executor's token only */
};

#endif
