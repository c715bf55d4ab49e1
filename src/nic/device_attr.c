/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of the device and its port: the limits that are enforced, the features that work. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "net/gid.h"
#include "net/link_speed.h"
#include "net/netif.h"
#include "nic/device.h"
#include "nic/fact.h"
#include "nic/lid.h"
#include "nic/pkey.h"

enum {
	VENDOR_ID = 0x7662, /* of no vendor: applications have no workarounds for it */
	VENDOR_PART_ID = 1,
	HW_VERSION = 1,
	ACK_DELAY = 12, /* 4.096 us x 2^12 = 17 ms: the service thread on a busy machine */
	/* Most bytes around a payload: IPv6, UDP, BTH, XRCETH, RETH, immediate, ICRC. */
	HEADERS_SIZE = 40 + 8 + 12 + 4 + 16 + 4 + 4,
};

/* Codes without names in <infiniband/verbs.h>: IBA volume 1, PortInfo. */
enum { PHYS_DISABLED = 3, PHYS_LINK_UP = 5, VL0_ONLY = 1 };
enum { SUBNET_TIMEOUT = 18 };

/* --- device --- */

/* RoCE has no path migration, InfiniBand no frames. */
static uint64_t capabilities_of(const struct vb_device *dev)
{
	const uint64_t frames = IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING |
				IBV_DEVICE_RAW_SCATTER_FCS;

	return vb_fact(VB_FACT_DEVICE_CAP_FLAGS) &
	       ~(dev->infiniband ? frames : (uint64_t)IBV_DEVICE_AUTO_PATH_MIG);
}

static void fill_limits(struct ibv_device_attr *attr)
{
	attr->max_mr_size = vb_fact(VB_FACT_MAX_MR_SIZE);
	attr->page_size_cap = vb_fact(VB_FACT_PAGE_SIZE_CAP);
	attr->max_qp = (int)vb_fact(VB_FACT_MAX_QP);
	attr->max_qp_wr = (int)vb_fact(VB_FACT_MAX_QP_WR);
	attr->max_sge = (int)vb_fact(VB_FACT_MAX_SGE);
	attr->max_sge_rd = (int)vb_fact(VB_FACT_MAX_SGE_RD);
	attr->max_cq = (int)vb_fact(VB_FACT_MAX_CQ);
	attr->max_cqe = (int)vb_fact(VB_FACT_MAX_CQE);
	attr->max_mr = (int)vb_fact(VB_FACT_MAX_MR);
	attr->max_mw = (int)vb_fact(VB_FACT_MAX_MW);
	attr->max_pd = (int)vb_fact(VB_FACT_MAX_PD);
	attr->max_ah = (int)vb_fact(VB_FACT_MAX_AH);
	attr->max_srq = (int)vb_fact(VB_FACT_MAX_SRQ);
	attr->max_srq_wr = (int)vb_fact(VB_FACT_MAX_SRQ_WR);
	attr->max_srq_sge = (int)vb_fact(VB_FACT_MAX_SRQ_SGE);
	attr->max_qp_rd_atom = (int)vb_fact(VB_FACT_MAX_QP_RD_ATOM);
	attr->max_qp_init_rd_atom = (int)vb_fact(VB_FACT_MAX_QP_INIT_RD_ATOM);
	attr->max_res_rd_atom = (int)vb_fact(VB_FACT_MAX_RES_RD_ATOM);
	attr->max_mcast_grp = (int)vb_fact(VB_FACT_MAX_MCAST_GRP);
	attr->max_mcast_qp_attach = (int)vb_fact(VB_FACT_MAX_MCAST_QP_ATTACH);
	attr->max_total_mcast_qp_attach = (int)vb_fact(VB_FACT_MAX_TOTAL_MCAST_QP_ATTACH);
	attr->max_pkeys = (uint16_t)vb_pkey_table_length();
}

static void fill_odp(struct ibv_device_attr_ex *attr)
{
	attr->odp_caps.general_caps = vb_fact(VB_FACT_ODP_GENERAL);
	attr->odp_caps.per_transport_caps.rc_odp_caps = vb_fact_u32(VB_FACT_ODP_RC);
	attr->odp_caps.per_transport_caps.uc_odp_caps = vb_fact_u32(VB_FACT_ODP_UC);
	attr->odp_caps.per_transport_caps.ud_odp_caps = vb_fact_u32(VB_FACT_ODP_UD);
	attr->xrc_odp_caps = vb_fact_u32(VB_FACT_ODP_XRC);
}

/* Raw packets: rules, checksums, and spreading over receive work queues. */
static void fill_raw(struct ibv_device_attr_ex *attr)
{
	const uint32_t raw = 1 << IBV_QPT_RAW_PACKET,
		       tables = vb_fact_u32(VB_FACT_MAX_RWQ_INDIRECTION_TABLES);

	attr->raw_packet_caps = vb_fact_u32(VB_FACT_RAW_PACKET_CAPS);
	attr->max_wq_type_rq = vb_fact_u32(VB_FACT_MAX_WQ_TYPE_RQ);
	attr->tso_caps.max_tso = vb_fact_u32(VB_FACT_MAX_TSO);
	attr->tso_caps.supported_qpts = attr->tso_caps.max_tso ? raw : 0;
	attr->rss_caps = (struct ibv_rss_caps){
		.supported_qpts = tables ? raw : 0,
		.max_rwq_indirection_tables = tables,
		.max_rwq_indirection_table_size =
			vb_fact_u32(VB_FACT_MAX_RWQ_INDIRECTION_TABLE_SIZE),
		.rx_hash_fields_mask = vb_fact(VB_FACT_RX_HASH_FIELDS),
		.rx_hash_function = vb_fact(VB_FACT_RX_HASH_FIELDS) ? IBV_RX_HASH_FUNC_TOEPLITZ : 0,
	};
}

static void fill_pacing(const struct vb_device *dev, struct ibv_packet_pacing_caps *pacing)
{
	const uint32_t types = vb_fact_u32(VB_FACT_RATE_LIMIT_QP_TYPES);

	pacing->supported_qpts = dev->infiniband ? types & ~(1u << IBV_QPT_RAW_PACKET) : types;
	pacing->qp_rate_limit_max = vb_fact_u32(VB_FACT_QP_RATE_LIMIT_MAX);
	pacing->qp_rate_limit_min = pacing->qp_rate_limit_max ? 1 : 0;
}

static void fill_tags(struct ibv_tm_caps *tags)
{
	tags->max_num_tags = vb_fact_u32(VB_FACT_TM_MAX_NUM_TAGS);
	if (!tags->max_num_tags)
		return;
	tags->max_rndv_hdr_size = vb_fact_u32(VB_FACT_TM_MAX_RNDV_HDR_SIZE);
	tags->flags = IBV_TM_CAP_RC;
	tags->max_ops = vb_fact_u32(VB_FACT_TM_MAX_OPS);
	tags->max_sge = vb_fact_u32(VB_FACT_TM_MAX_SGE);
}

void vb_device_attr(const struct vb_device *dev, struct ibv_device_attr_ex *attr)
{
	struct ibv_device_attr *orig = &attr->orig_attr;

	memset(attr, 0, sizeof(*attr));
	snprintf(orig->fw_ver, sizeof(orig->fw_ver), "%s", VERBENA_VERSION);
	orig->node_guid = dev->guid;
	orig->sys_image_guid = dev->system_image_guid;
	orig->vendor_id = VENDOR_ID;
	orig->vendor_part_id = VENDOR_PART_ID;
	orig->hw_ver = HW_VERSION;
	orig->device_cap_flags = (unsigned)capabilities_of(dev);
	orig->atomic_cap = (enum ibv_atomic_cap)vb_fact(VB_FACT_ATOMIC_CAP);
	orig->local_ca_ack_delay = ACK_DELAY;
	orig->phys_port_cnt = 1;
	fill_limits(orig);
	attr->device_cap_flags_ex = capabilities_of(dev);
	if (vb_fact_has(VB_FACT_WC_FLAGS, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) {
		attr->completion_timestamp_mask = UINT64_MAX;
		attr->hca_core_clock = VB_DEVICE_CLOCK_KHZ;
	}
	fill_pacing(dev, &attr->packet_pacing_caps);
	if (!dev->infiniband)
		fill_raw(attr);
	attr->max_dm_size = vb_fact(VB_FACT_MAX_DM_SIZE);
	fill_odp(attr);
	attr->cq_mod_caps.max_cq_count = (uint16_t)vb_fact(VB_FACT_MAX_CQ_COUNT);
	attr->cq_mod_caps.max_cq_period = (uint16_t)vb_fact(VB_FACT_MAX_CQ_PERIOD);
	fill_tags(&attr->tm_caps);
	attr->phys_port_cnt_ex = 1;
}

/* --- port --- */

enum ibv_mtu vb_mtu_within(unsigned bytes)
{
	int mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && (128u << mtu) + HEADERS_SIZE > bytes)
		mtu--;
	return (enum ibv_mtu)mtu;
}

static enum ibv_mtu mtu_in_force(unsigned bytes)
{
	const enum ibv_mtu mtu = vb_mtu_within(bytes), max = (enum ibv_mtu)vb_fact(VB_FACT_MAX_MTU);

	return mtu < max ? mtu : max;
}

static enum ibv_port_state state_of(const struct vb_netif *netif)
{
	return netif && vb_netif_is_up(netif) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
}

enum ibv_port_state vb_device_port_state(const struct vb_device *dev)
{
	const struct vb_netif_snapshot *all;
	enum ibv_port_state state;

	if (dev->infiniband) /* it reaches this host whatever becomes of the interface */
		return IBV_PORT_ACTIVE;
	all = vb_netif_snapshot_get();
	state = state_of(vb_device_netif(dev, all));
	vb_netif_snapshot_put(all);
	return state;
}

static void fill_ethernet(const struct vb_device *dev, struct ibv_port_attr *attr)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(dev, all);

	attr->state = state_of(netif);
	attr->phys_state = attr->state == IBV_PORT_ACTIVE ? PHYS_LINK_UP : PHYS_DISABLED;
	attr->active_mtu = netif ? mtu_in_force(netif->mtu) : IBV_MTU_256;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->flags = IBV_QPF_GRH_REQUIRED;
	attr->port_cap_flags =
		IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	vb_netif_snapshot_put(all);
}

/*
 * The MTU is that of packets within the host. Between hosts path/roce limits packets to the MTU of
 * the interface.
 */
static void fill_infiniband(const struct vb_device *dev, struct ibv_port_attr *attr)
{
	attr->state = vb_device_port_state(dev);
	attr->phys_state = PHYS_LINK_UP;
	attr->active_mtu = attr->max_mtu;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	attr->port_cap_flags = IBV_PORT_SM | IBV_PORT_AUTO_MIGR_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP |
			       IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CAP_MASK2_SUP |
			       IBV_PORT_CM_SUP | IBV_PORT_CLIENT_REG_SUP;
	attr->port_cap_flags2 = IBV_PORT_LINK_WIDTH_2X_SUP | IBV_PORT_LINK_SPEED_HDR_SUP |
				IBV_PORT_LINK_SPEED_NDR_SUP;
	attr->lid = vb_device_lid(dev);
	attr->sm_lid = attr->lid; /* the processes of this host answer for the subnet manager */
	attr->subnet_timeout = SUBNET_TIMEOUT;
}

struct vb_link_rate vb_device_link_rate(const struct vb_device *dev)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(dev, all);
	const unsigned mbps = netif ? vb_link_speed_mbps(netif) : 0;

	vb_netif_snapshot_put(all);
	return vb_link_rate(mbps);
}

unsigned vb_device_mbps(const struct vb_device *dev)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(dev, all);
	const unsigned mbps = netif ? vb_link_speed_mbps(netif) : 0;

	vb_netif_snapshot_put(all);
	return mbps ? mbps : VB_MBPS_UNKNOWN;
}

int vb_device_port_attr(const struct vb_device *dev, int port, struct ibv_port_attr *attr)
{
	struct vb_link_rate rate;

	if (port != 1)
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->max_mtu = (enum ibv_mtu)vb_fact(VB_FACT_MAX_MTU);
	attr->gid_tbl_len = (int)vb_fact(VB_FACT_GID_TBL_LEN);
	attr->pkey_tbl_len = (uint16_t)vb_pkey_table_length();
	attr->max_msg_sz = vb_fact_u32(VB_FACT_MAX_MSG_SZ);
	attr->max_vl_num = VL0_ONLY;
	rate = vb_device_link_rate(dev);
	attr->active_width = rate.width;
	attr->active_speed = rate.speed < VB_SPEED_NDR ? (uint8_t)rate.speed : VB_SPEED_NDR;
	if (dev->infiniband)
		fill_infiniband(dev, attr);
	else
		fill_ethernet(dev, attr);
	return 0;
}
