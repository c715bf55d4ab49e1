/* SPDX-License-Identifier: BSD-2-Clause */
/* Experimental verbs: devices, ports, clocks, resource domains. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "legacy.h"
#include "nic/qp_ext.h"

enum { ATOMIC_INLINE_LOG = 5 };

static void put_odp(const struct ibv_device_attr_ex *from, struct ibv_exp_device_attr *to)
{
	struct ibv_exp_odp_caps *odp = &to->odp_caps;

	odp->general_odp_caps = from->odp_caps.general_caps;
	odp->per_transport_caps.rc_odp_caps = from->odp_caps.per_transport_caps.rc_odp_caps;
	odp->per_transport_caps.uc_odp_caps = from->odp_caps.per_transport_caps.uc_odp_caps;
	odp->per_transport_caps.ud_odp_caps = from->odp_caps.per_transport_caps.ud_odp_caps;
	odp->per_transport_caps.xrc_odp_caps = from->xrc_odp_caps;
	if (from->odp_caps.general_caps & IBV_ODP_SUPPORT)
		to->exp_device_cap_flags |= IBV_EXP_DEVICE_ODP;
}

static void put_limits(const struct ibv_device_attr *from, struct ibv_exp_device_attr *to)
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

static void put_flags(const struct ibv_device_attr *from, struct ibv_exp_device_attr *to)
{
	to->exp_device_cap_flags = from->device_cap_flags;
	if (from->device_cap_flags & IBV_DEVICE_MEM_WINDOW)
		to->exp_device_cap_flags |= IBV_EXP_DEVICE_MEM_WINDOW;
	if (from->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B)
		to->exp_device_cap_flags |= IBV_EXP_DEVICE_MW_TYPE_2B;
}

static void put_atomics(struct ibv_exp_device_attr *to)
{
	to->exp_device_cap_flags |= IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS;
	to->ext_atom.log_atomic_arg_sizes = VB_MASKED_SIZES;
	to->ext_atom.max_fa_bit_boundary = 8 * VB_MASKED_BYTES_MAX;
	to->ext_atom.log_max_atomic_inline = ATOMIC_INLINE_LOG;
	to->masked_atomic.masked_log_atomic_arg_sizes = VB_MASKED_SIZES;
	to->masked_atomic.max_fa_bit_boundary = 8 * VB_MASKED_BYTES_MAX;
	to->masked_atomic.log_max_atomic_inline = ATOMIC_INLINE_LOG;
}

static void put_others(struct ibv_exp_device_attr *to)
{
	to->exp_device_cap_flags |=
		IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_NOP | IBV_EXP_DEVICE_CROSS_CHANNEL;
	to->umr_caps = (struct ibv_exp_umr_caps){
		.max_klm_list_size = VB_PATTERN_PARTS_MAX,
		.max_send_wqe_inline_klms = VB_UMR_INLINE_MAX,
		.max_umr_recursion_depth = 1,
		.max_umr_stride_dimension = 1,
	};
}

static bool is_ours(struct ibv_context *context)
{
	const struct vb_engine_table *engine = legacy_engine();

	return engine && engine->extended_device(context);
}

static uint32_t put_all(struct ibv_context *context, const struct ibv_device_attr_ex *from,
			struct ibv_exp_device_attr *to)
{
	uint32_t there = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ |
			 IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK |
			 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK | IBV_EXP_DEVICE_ATTR_ODP;

	put_limits(&from->orig_attr, to);
	put_flags(&from->orig_attr, to);
	put_odp(from, to);
	to->timestamp_mask = from->completion_timestamp_mask;
	to->hca_core_clock = from->hca_core_clock;
	if (!is_ours(context))
		return there;
	if (from->orig_attr.atomic_cap != IBV_ATOMIC_NONE)
		put_atomics(to);
	put_others(to);
	return there | IBV_EXP_DEVICE_ATTR_UMR | IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |
	       IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS;
}

EXPORT int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	uint32_t wanted = attr->comp_mask;
	struct ibv_device_attr_ex today;
	int err;

	if (wanted >= IBV_EXP_DEVICE_ATTR_RESERVED)
		return legacy_result(EINVAL);
	err = ibv_query_device_ex(context, NULL, &today);
	if (err)
		return legacy_result(err < 0 ? errno : err);
	memset(attr, 0, sizeof(*attr));
	attr->comp_mask = wanted & put_all(context, &today, attr);
	return 0;
}

EXPORT int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num,
			      struct ibv_exp_port_attr *attr)
{
	if (attr->comp_mask & ~(uint32_t)IBV_EXP_QUERY_PORT_ATTR_MASK1 ||
	    (attr->comp_mask && attr->mask1 & ~(uint32_t)IBV_EXP_QUERY_PORT_STD_MASK))
		return legacy_result(EINVAL);
	return legacy_result(ibv_query_port(context, port_num, &attr->port_attr));
}

EXPORT int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num, unsigned int index,
				  struct ibv_exp_gid_attr *attr)
{
	struct ibv_gid_entry entry;
	int err;

	if (attr->comp_mask >= IBV_EXP_QUERY_GID_ATTR_RESERVED)
		return legacy_result(EINVAL);
	err = ibv_query_gid_ex(context, port_num, index, &entry, 0);
	if (err)
		return legacy_result(err < 0 ? errno : err);
	attr->gid = entry.gid;
	attr->type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_EXP_ROCE_V2_GID_TYPE
							    : IBV_EXP_IB_ROCE_V1_GID_TYPE;
	return 0;
}

EXPORT int ibv_exp_query_values(struct ibv_context *context, int q_values,
				struct ibv_exp_values *values)
{
	struct ibv_values_ex today = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	int err;

	if (q_values & ~(IBV_EXP_VALUES_HW_CLOCK_NS | IBV_EXP_VALUES_HW_CLOCK))
		return legacy_result(EINVAL);
	err = ibv_query_rt_values_ex(context, &today);
	if (err)
		return legacy_result(err < 0 ? errno : err);
	values->hwclock = values->hwclock_ns =
		(uint64_t)today.raw_clock.tv_sec * 1000000000 + (uint64_t)today.raw_clock.tv_nsec;
	values->comp_mask = (uint32_t)q_values;
	return 0;
}

EXPORT struct ibv_exp_res_domain *
ibv_exp_create_res_domain(struct ibv_context *context, struct ibv_exp_res_domain_init_attr *attr)
{
	struct ibv_exp_res_domain *domain;

	if (attr->comp_mask >= IBV_EXP_RES_DOMAIN_RESERVED) {
		errno = EINVAL;
		return NULL;
	}
	domain = calloc(1, sizeof(*domain));
	if (domain)
		domain->context = context;
	return domain;
}

EXPORT int ibv_exp_destroy_res_domain(struct ibv_context *context,
				      struct ibv_exp_res_domain *domain,
				      struct ibv_exp_destroy_res_domain_attr *attr)
{
	if (domain->context != context || (attr && attr->comp_mask))
		return legacy_result(EINVAL);
	free(domain);
	return 0;
}
