/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversions between the structs of the kernel's user interface and those of the application. The
 * two differ only in the widths of some fields, so fields are copied by name.
 */
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "base/symver.h"

/* Exported, but not in the installed headers. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

#define COPY(field) dst->field = src->field
#define COPY_BYTES(to, from)                                              \
	do {                                                              \
		_Static_assert(sizeof(to) == sizeof(from), "same bytes"); \
		memcpy(&(to), &(from), sizeof(to));                       \
	} while (0)

VB_PUBLIC void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src)
{
	COPY(is_global);
	COPY(port_num);
	COPY(dlid);
	COPY(sl);
	COPY(src_path_bits);
	COPY(static_rate);

	COPY_BYTES(dst->grh.dgid, src->grh.dgid);
	COPY(grh.sgid_index);
	COPY(grh.flow_label);
	COPY(grh.hop_limit);
	COPY(grh.traffic_class);
}

static void path_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src)
{
	ibv_copy_ah_attr_from_kern(&dst->ah_attr, &src->ah_attr);
	COPY(port_num);
	COPY(pkey_index);
	COPY(path_mtu);
	COPY(timeout);

	ibv_copy_ah_attr_from_kern(&dst->alt_ah_attr, &src->alt_ah_attr);
	COPY(alt_port_num);
	COPY(alt_pkey_index);
	COPY(alt_timeout);
	COPY(path_mig_state);
}

static void cap_from_kern(struct ibv_qp_cap *dst, struct ib_uverbs_qp_attr *src)
{
	COPY(max_send_wr);
	COPY(max_recv_wr);
	COPY(max_send_sge);
	COPY(max_recv_sge);
	COPY(max_inline_data);
}

/* qp_state is left out: the caller chooses the state that it asks for, and keeps it. */
VB_PUBLIC void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src)
{
	COPY(cur_qp_state);
	COPY(qp_access_flags);
	COPY(qkey);
	COPY(dest_qp_num);
	COPY(sq_psn);
	COPY(rq_psn);
	COPY(max_rd_atomic);
	COPY(max_dest_rd_atomic);
	COPY(min_rnr_timer);
	COPY(retry_cnt);
	COPY(rnr_retry);
	COPY(en_sqd_async_notify);
	COPY(sq_draining);
	path_attr_from_kern(dst, src);
	cap_from_kern(&dst->cap, src);
}

/* The fields have the same names in both structs. */
#define COPY_PATH_REC()                           \
	do {                                      \
		COPY_BYTES(dst->dgid, src->dgid); \
		COPY_BYTES(dst->sgid, src->sgid); \
		COPY(dlid);                       \
		COPY(slid);                       \
		COPY(pkey);                       \
		COPY(sl);                         \
		COPY(raw_traffic);                \
		COPY(flow_label);                 \
		COPY(hop_limit);                  \
		COPY(traffic_class);              \
		COPY(reversible);                 \
		COPY(numb_path);                  \
		COPY(preference);                 \
		COPY(mtu);                        \
		COPY(mtu_selector);               \
		COPY(rate);                       \
		COPY(rate_selector);              \
		COPY(packet_life_time);           \
		COPY(packet_life_time_selector);  \
	} while (0)

VB_PUBLIC void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst,
					   struct ib_user_path_rec *src)
{
	COPY_PATH_REC();
}

VB_PUBLIC void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src)
{
	COPY_PATH_REC();
}
