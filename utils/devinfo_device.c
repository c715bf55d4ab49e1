/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "devinfo.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* clang-format off */
#define CAP(name) { IBV_DEVICE_##name, #name }
/* clang-format on */
static const struct devinfo_bit cap_bits[] = {
	CAP(RESIZE_MAX_WR),      CAP(BAD_PKEY_CNTR),      CAP(BAD_QKEY_CNTR),
	CAP(RAW_MULTI),          CAP(AUTO_PATH_MIG),      CAP(CHANGE_PHY_PORT),
	CAP(UD_AV_PORT_ENFORCE), CAP(CURR_QP_STATE_MOD),  CAP(SHUTDOWN_PORT),
	CAP(INIT_TYPE),          CAP(PORT_ACTIVE_EVENT),  CAP(SYS_IMAGE_GUID),
	CAP(RC_RNR_NAK_GEN),     CAP(SRQ_RESIZE),         CAP(N_NOTIFY_CQ),
	CAP(MEM_WINDOW),         CAP(UD_IP_CSUM),         CAP(XRC),
	CAP(MEM_MGT_EXTENSIONS), CAP(MEM_WINDOW_TYPE_2A), CAP(MEM_WINDOW_TYPE_2B),
	CAP(RC_IP_CSUM),         CAP(RAW_IP_CSUM),        CAP(MANAGED_FLOW_STEERING),
};
static const struct devinfo_bit cap_bits_ex[] = {
	CAP(RAW_SCATTER_FCS),
	CAP(PCI_WRITE_END_PADDING),
};
static const struct devinfo_bit odp_general_bits[] = {
	{ IBV_ODP_SUPPORT, "ODP_SUPPORT" },
	{ IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT" },
};
static const struct devinfo_bit odp_bits[] = {
	{ IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND" },
	{ IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV" },
	{ IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE" },
	{ IBV_ODP_SUPPORT_READ, "SUPPORT_READ" },
	{ IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC" },
	{ IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ" },
#if VB_HEADER_HAS_DMAH
	{ IBV_ODP_SUPPORT_FLUSH, "SUPPORT_FLUSH" },
	{ IBV_ODP_SUPPORT_ATOMIC_WRITE, "SUPPORT_ATOMIC_WRITE" },
#endif
};
static const struct devinfo_bit raw_bits[] = {
	{ IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "C-VLAN stripping offload" },
	{ IBV_RAW_PACKET_CAP_SCATTER_FCS, "Scatter FCS offload" },
	{ IBV_RAW_PACKET_CAP_IP_CSUM, "IP csum offload" },
	{ IBV_RAW_PACKET_CAP_DELAY_DROP, "Delay drop" },
};
static const struct devinfo_bit qp_bits[] = {
	{ 1 << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET" },
	{ 1 << IBV_QPT_UD, "SUPPORT_UD" },
};
static const struct devinfo_bit pacing_bits[] = {
	{ 1 << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET" },
	{ 1 << IBV_QPT_UD, "SUPPORT_UD" },
#if VB_HEADER_HAS_DM_EXPORT
	{ 1 << IBV_QPT_RC, "SUPPORT_RC" },
#endif
};
#if VB_HEADER_HAS_COMP_CNTR
/* clang-format off */
#define ATTACH(name) { IBV_QP_ATTACH_COMP_CNTR_OP_##name, "QP_ATTACH_" #name }
/* clang-format on */
static const struct devinfo_bit attach_bits[] = {
	ATTACH(SEND),       ATTACH(RECV),
	ATTACH(RDMA_READ),  ATTACH(REMOTE_RDMA_READ),
	ATTACH(RDMA_WRITE), ATTACH(REMOTE_RDMA_WRITE),
};
#endif
static const struct devinfo_bit tag_bits[] = { { IBV_TM_CAP_RC, "IBV_TM_CAP_RC" } };

static const char *atomics(enum ibv_atomic_cap cap)
{
	static const char *const texts[] = { "ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB" };

	return devinfo_text(texts, COUNT(texts), (unsigned)cap, "invalid atomic capability");
}

static void number(const char *name, long value)
{
	devinfo_line(1, 40, name, "%ld", value);
}

static void print_comp_cntrs(struct ibv_context *context)
{
#if VB_HEADER_HAS_COMP_CNTR
	struct ibv_comp_cntr_caps caps = { 0 };

	if (ibv_query_comp_cntr_caps(context, &caps))
		return;
	number("max_comp_cntr", (long)caps.max_counters);
	printf("\tcomp_cntr_caps:\n");
	devinfo_bits(attach_bits, COUNT(attach_bits), caps.supported_qp_attach_ops);
#else
	(void)context;
#endif
}

static void print_limits(struct ibv_context *context, const struct ibv_device_attr *attr)
{
	number("max_sge", attr->max_sge);
	number("max_sge_rd", attr->max_sge_rd);
	number("max_cq", attr->max_cq);
	number("max_cqe", attr->max_cqe);
	number("max_mr", attr->max_mr);
	number("max_pd", attr->max_pd);
	number("max_qp_rd_atom", attr->max_qp_rd_atom);
	number("max_ee_rd_atom", attr->max_ee_rd_atom);
	number("max_res_rd_atom", attr->max_res_rd_atom);
	number("max_qp_init_rd_atom", attr->max_qp_init_rd_atom);
	number("max_ee_init_rd_atom", attr->max_ee_init_rd_atom);
	devinfo_line(1, 40, "atomic_cap", "%s (%d)", atomics(attr->atomic_cap), attr->atomic_cap);
	number("max_ee", attr->max_ee);
	number("max_rdd", attr->max_rdd);
	number("max_mw", attr->max_mw);
	number("max_raw_ipv6_qp", attr->max_raw_ipv6_qp);
	number("max_raw_ethy_qp", attr->max_raw_ethy_qp);
	number("max_mcast_grp", attr->max_mcast_grp);
	number("max_mcast_qp_attach", attr->max_mcast_qp_attach);
	number("max_total_mcast_qp_attach", attr->max_total_mcast_qp_attach);
	number("max_ah", attr->max_ah);
	number("max_fmr", attr->max_fmr);
	if (attr->max_fmr)
		number("max_map_per_fmr", attr->max_map_per_fmr);
	number("max_srq", attr->max_srq);
	if (attr->max_srq) {
		number("max_srq_wr", attr->max_srq_wr);
		number("max_srq_sge", attr->max_srq_sge);
	}
	number("max_pkeys", attr->max_pkeys);
	print_comp_cntrs(context);
	number("local_ca_ack_delay", attr->local_ca_ack_delay);
}

static void print_odp_transport(const char *name, uint32_t caps)
{
	printf("\t%s:\n", name);
	if (!caps)
		printf("\t\t\t\t\tNO SUPPORT\n");
	devinfo_bits(odp_bits, COUNT(odp_bits), caps);
}

static void print_odp(const struct ibv_device_attr_ex *attr)
{
	printf("\tgeneral_odp_caps:\n");
	devinfo_bits(odp_general_bits, COUNT(odp_general_bits), attr->odp_caps.general_caps);
	print_odp_transport("rc_odp_caps", attr->odp_caps.per_transport_caps.rc_odp_caps);
	print_odp_transport("uc_odp_caps", attr->odp_caps.per_transport_caps.uc_odp_caps);
	print_odp_transport("ud_odp_caps", attr->odp_caps.per_transport_caps.ud_odp_caps);
	print_odp_transport("xrc_odp_caps", attr->xrc_odp_caps);
}

static void print_clock(const struct ibv_device_attr_ex *attr)
{
	if (attr->completion_timestamp_mask)
		devinfo_line(1, 56, "completion timestamp_mask", "0x%016" PRIx64,
			     attr->completion_timestamp_mask);
	else
		printf("\tcompletion_timestamp_mask not supported\n");
	if (attr->hca_core_clock)
		devinfo_line(1, 40, "hca_core_clock", "%" PRIu64 "kHZ", attr->hca_core_clock);
	else
		printf("\tcore clock not supported\n");
}

static void print_supported_qps(const struct devinfo_bit *bits, size_t count, uint32_t types)
{
	if (!types)
		return;
	printf("\t\tsupported_qp:\n");
	devinfo_bits(bits, count, types);
}

static void print_packets(const struct ibv_device_attr_ex *attr)
{
	const struct ibv_rss_caps *rss = &attr->rss_caps;

	printf("\ttso_caps:\n");
	devinfo_line(2, 48, "max_tso", "%u", attr->tso_caps.max_tso);
	if (attr->tso_caps.max_tso)
		print_supported_qps(qp_bits, COUNT(qp_bits), attr->tso_caps.supported_qpts);
	printf("\trss_caps:\n");
	devinfo_line(2, 64, "max_rwq_indirection_tables", "%u", rss->max_rwq_indirection_tables);
	devinfo_line(2, 64, "max_rwq_indirection_table_size", "%u",
		     rss->max_rwq_indirection_table_size);
	devinfo_line(2, 64, "rx_hash_function", "0x%x", rss->rx_hash_function);
	devinfo_line(2, 64, "rx_hash_fields_mask", "0x%" PRIX64, rss->rx_hash_fields_mask);
	print_supported_qps(qp_bits, COUNT(qp_bits), rss->supported_qpts);
	devinfo_line(1, 40, "max_wq_type_rq", "%u", attr->max_wq_type_rq);
	printf("\tpacket_pacing_caps:\n");
	devinfo_line(2, 40, "qp_rate_limit_min", "%ukbps",
		     attr->packet_pacing_caps.qp_rate_limit_min);
	devinfo_line(2, 40, "qp_rate_limit_max", "%ukbps",
		     attr->packet_pacing_caps.qp_rate_limit_max);
	print_supported_qps(pacing_bits, COUNT(pacing_bits),
			    attr->packet_pacing_caps.supported_qpts);
}

static void print_tags(const struct ibv_tm_caps *caps)
{
	if (!caps->max_num_tags) {
		printf("\ttag matching not supported\n");
		return;
	}
	devinfo_line(1, 40, "max_rndv_hdr_size", "%u", caps->max_rndv_hdr_size);
	devinfo_line(1, 40, "max_num_tags", "%u", caps->max_num_tags);
	devinfo_line(1, 40, "max_ops", "%u", caps->max_ops);
	devinfo_line(1, 40, "max_sge", "%u", caps->max_sge);
	printf("\tflags:\n");
	devinfo_bits(tag_bits, COUNT(tag_bits), caps->flags);
}

static void print_flags_ex(const struct ibv_device_attr_ex *attr)
{
	if (attr->raw_packet_caps) {
		printf("\traw packet caps:\n");
		devinfo_bits(raw_bits, COUNT(raw_bits), attr->raw_packet_caps);
	}
	devinfo_line(1, 40, "device_cap_flags_ex", "0x%" PRIX64, attr->device_cap_flags_ex);
	devinfo_bits(cap_bits_ex, COUNT(cap_bits_ex),
		     attr->device_cap_flags_ex & ~(uint64_t)attr->orig_attr.device_cap_flags);
}

void devinfo_device(struct ibv_context *context, const struct ibv_device_attr_ex *attr)
{
	const struct ibv_device_attr *base = &attr->orig_attr;

	devinfo_line(1, 40, "max_mr_size", "0x%" PRIx64, base->max_mr_size);
	devinfo_line(1, 40, "page_size_cap", "0x%" PRIx64, base->page_size_cap);
	number("max_qp", base->max_qp);
	number("max_qp_wr", base->max_qp_wr);
	devinfo_line(1, 40, "device_cap_flags", "0x%08x", base->device_cap_flags);
	devinfo_bits(cap_bits, COUNT(cap_bits), base->device_cap_flags);
	print_limits(context, base);
	print_odp(attr);
	print_clock(attr);
	print_flags_ex(attr);
	print_packets(attr);
	print_tags(&attr->tm_caps);
	if (attr->cq_mod_caps.max_cq_count) {
		printf("\n\tcq moderation caps:\n");
		devinfo_line(2, 32, "max_cq_count", "%u", attr->cq_mod_caps.max_cq_count);
		devinfo_line(2, 32, "max_cq_period", "%u us", attr->cq_mod_caps.max_cq_period);
		putchar('\n');
	}
	if (attr->max_dm_size)
		devinfo_line(1, 48, "maximum available device memory", "%" PRIu64 "Bytes\n",
			     attr->max_dm_size);
	number("num_comp_vectors", context->num_comp_vectors);
}
