/* SPDX-License-Identifier: BSD-2-Clause */
/* The experimental verbs, on top of today's verbs. */
#include <errno.h>
#include <string.h>

#include "legacy.h"

enum { ATOMIC_SIZE = 8, ATOMIC_SIZE_LOG = 3, SLOTS_PER_MASKED = 16 };

static uint32_t odp_of(const struct ibv_device_attr_ex *from, struct ibv_exp_odp_caps *to)
{
	to->general_odp_caps = from->odp_caps.general_caps;
	to->per_transport_caps.rc_odp_caps = from->odp_caps.per_transport_caps.rc_odp_caps;
	to->per_transport_caps.uc_odp_caps = from->odp_caps.per_transport_caps.uc_odp_caps;
	to->per_transport_caps.ud_odp_caps = from->odp_caps.per_transport_caps.ud_odp_caps;
	to->per_transport_caps.xrc_odp_caps = from->xrc_odp_caps;
	return IBV_EXP_DEVICE_ATTR_ODP;
}

static void copy_limits(const struct ibv_device_attr *from, struct ibv_exp_device_attr *to)
{
	memcpy(to->fw_ver, from->fw_ver, sizeof(to->fw_ver));
#define COPY(field) to->field = from->field
	COPY(node_guid), COPY(sys_image_guid), COPY(max_mr_size), COPY(page_size_cap);
	COPY(vendor_id), COPY(vendor_part_id), COPY(hw_ver), COPY(max_qp), COPY(max_qp_wr);
	COPY(max_sge), COPY(max_sge_rd), COPY(max_cq), COPY(max_cqe), COPY(max_mr), COPY(max_pd);
	COPY(max_qp_rd_atom), COPY(max_ee_rd_atom), COPY(max_res_rd_atom);
	COPY(max_qp_init_rd_atom), COPY(max_ee_init_rd_atom), COPY(max_ee), COPY(max_rdd);
	COPY(max_mw), COPY(max_raw_ipv6_qp), COPY(max_raw_ethy_qp), COPY(max_mcast_grp);
	COPY(max_mcast_qp_attach), COPY(max_total_mcast_qp_attach), COPY(max_ah), COPY(max_fmr);
	COPY(max_map_per_fmr), COPY(max_srq), COPY(max_srq_wr), COPY(max_srq_sge);
	COPY(max_pkeys), COPY(local_ca_ack_delay), COPY(phys_port_cnt);
#undef COPY
	to->exp_atomic_cap = (enum ibv_exp_atomic_cap)from->atomic_cap;
}

EXPORT int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	uint32_t wanted = attr->comp_mask, there;
	struct ibv_device_attr_ex today;
	int err;

	if (wanted >= IBV_EXP_DEVICE_ATTR_RESERVED)
		return legacy_result(EINVAL);
	err = ibv_query_device_ex(context, NULL, &today);
	if (err)
		return legacy_result(err < 0 ? errno : err);
	memset(attr, 0, sizeof(*attr));
	copy_limits(&today.orig_attr, attr);
	attr->exp_device_cap_flags = today.orig_attr.device_cap_flags;
	there = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ |
		IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK | IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK |
		IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS;
	attr->timestamp_mask = today.completion_timestamp_mask;
	attr->hca_core_clock = today.hca_core_clock;
	if (today.orig_attr.atomic_cap != IBV_ATOMIC_NONE) {
		attr->exp_device_cap_flags |= IBV_EXP_DEVICE_EXT_ATOMICS;
		attr->ext_atom.log_atomic_arg_sizes = ATOMIC_SIZE;
		attr->ext_atom.max_fa_bit_boundary = 8 * ATOMIC_SIZE;
		attr->ext_atom.log_max_atomic_inline = ATOMIC_SIZE_LOG;
	}
	if (today.odp_caps.general_caps & IBV_ODP_SUPPORT)
		attr->exp_device_cap_flags |= IBV_EXP_DEVICE_ODP;
	there |= odp_of(&today, &attr->odp_caps);
	attr->comp_mask = wanted & there;
	return 0;
}

/* Makes the send queue deeper for masked atomics, up to the limit of the device. */
static int deepen(struct ibv_context *context, struct ibv_qp_cap *cap)
{
	struct ibv_device_attr attr;
	uint64_t depth = (uint64_t)cap->max_send_wr * SLOTS_PER_MASKED;
	int err = ibv_query_device(context, &attr);

	if (err || cap->max_send_wr > (uint32_t)attr.max_qp_wr)
		return err;
	cap->max_send_wr =
		depth < (uint64_t)attr.max_qp_wr ? (uint32_t)depth : (uint32_t)attr.max_qp_wr;
	return 0;
}

static int check_create(const struct ibv_exp_qp_init_attr *attr)
{
	const uint32_t known = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_XRCD |
			       IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_INL_RECV |
			       IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS && attr->exp_create_flags)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG &&
	    attr->max_atomic_arg > ATOMIC_SIZE)
		return EOPNOTSUPP;
	return 0;
}

/* The caller gets the depth that it asked for; the rest is for masked atomics. */
static struct ibv_qp *create_for_atomics(struct ibv_context *context,
					 struct ibv_qp_init_attr_ex *today)
{
	uint32_t wanted = today->cap.max_send_wr;
	struct ibv_qp *qp;

	if (legacy_result(deepen(context, &today->cap)))
		return NULL;
	qp = ibv_create_qp_ex(context, today);
	if (qp && legacy_result(masked_adopt(qp, today->cap.max_send_wr / (wanted ? wanted : 1)))) {
		ibv_destroy_qp(qp);
		return NULL;
	}
	today->cap.max_send_wr = wanted;
	return qp;
}

EXPORT struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex today = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	struct ibv_qp *qp;

	if (legacy_result(check_create(attr)))
		return NULL;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) {
		today.comp_mask |= IBV_QP_INIT_ATTR_PD;
		today.pd = attr->pd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD) {
		today.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		today.xrcd = attr->xrcd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG && attr->max_atomic_arg)
		qp = create_for_atomics(context, &today);
	else
		qp = ibv_create_qp_ex(context, &today);
	if (qp) {
		attr->cap = today.cap;
		attr->max_inl_recv = 0;
	}
	return qp;
}
