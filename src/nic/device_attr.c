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
#include "nic/lid.h"
#include "nic/pkey.h"
#include "nic/wq.h"

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
enum { SUBNET_TIMEOUT = 18, SUBNET_MANAGER_LID = 1 };

/* Bits of device_cap_flags_ex without names in older headers. */
#define CAP_FLUSH_GLOBAL (1ull << 38)
#define CAP_ATOMIC_WRITE (1ull << 40)

/* IBV_ODP_SUPPORT_FLUSH and IBV_ODP_SUPPORT_ATOMIC_WRITE, in headers from rdma-core 58 on. */
enum { ODP_FLUSH = 1 << 6, ODP_ATOMIC_WRITE = 1 << 7 };

/* --- device --- */

/*
 * Missing here: RESIZE_MAX_WR, CHANGE_PHY_PORT, SHUTDOWN_PORT, INIT_TYPE (verbs have no call for
 * such changes), N_NOTIFY_CQ, RAW_MULTI, checksums of UD and RC, MEM_MGT_EXTENSIONS (fast
 * registration).
 */
static const unsigned capabilities =
	IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_UD_AV_PORT_ENFORCE |
	IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
	IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
	IBV_DEVICE_MEM_WINDOW_TYPE_2B;

/* RoCE has no path migration. */
static unsigned migration_of(const struct vb_device *dev)
{
	return dev->infiniband ? IBV_DEVICE_AUTO_PATH_MIG : 0;
}

static void fill_limits(struct ibv_device_attr *attr)
{
	attr->max_mr_size = VB_MR_SIZE_MAX;
	attr->page_size_cap = ~UINT64_C(4095); /* any page from 4 KB on */
	attr->max_qp = VB_QP_MAX;
	attr->max_qp_wr = VB_WR_MAX;
	attr->max_sge = VB_SGE_MAX;
	attr->max_sge_rd = VB_SGE_MAX;
	attr->max_cq = VB_CQ_MAX;
	attr->max_cqe = VB_CQE_MAX;
	attr->max_mr = VB_MR_MAX;
	attr->max_mw = VB_MW_MAX;
	attr->max_pd = VB_PD_MAX;
	attr->max_ah = VB_AH_MAX;
	attr->max_srq = VB_SRQ_MAX;
	attr->max_srq_wr = VB_SRQ_WR_MAX;
	attr->max_srq_sge = VB_SGE_MAX;
	attr->max_qp_rd_atom = VB_RD_ATOMIC_MAX;
	attr->max_qp_init_rd_atom = VB_RD_ATOMIC_MAX;
	attr->max_res_rd_atom = VB_RD_ATOMIC_MAX * VB_QP_MAX;
	attr->max_mcast_grp = VB_MCAST_GRP_MAX;
	attr->max_mcast_qp_attach = VB_MCAST_QP_MAX;
	attr->max_total_mcast_qp_attach = VB_MCAST_GRP_MAX;
	attr->max_pkeys = (uint16_t)vb_pkey_table_length();
}

/* Every operation that names memory may name memory on demand. */
static void fill_odp(struct ibv_device_attr_ex *attr)
{
	unsigned two_sided = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	unsigned reliable = two_sided | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			    IBV_ODP_SUPPORT_ATOMIC | ODP_FLUSH | ODP_ATOMIC_WRITE;

	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = reliable;
	attr->odp_caps.per_transport_caps.uc_odp_caps = two_sided | IBV_ODP_SUPPORT_WRITE;
	attr->odp_caps.per_transport_caps.ud_odp_caps = two_sided;
	if (capabilities & IBV_DEVICE_XRC)
		attr->xrc_odp_caps = reliable & ~(unsigned)IBV_ODP_SUPPORT_RECV;
}

/* Raw packets: rules, checksums, and spreading over receive work queues. */
static void fill_raw(struct ibv_device_attr_ex *attr)
{
	const unsigned flags = IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING;

	attr->orig_attr.device_cap_flags |= flags;
	attr->device_cap_flags_ex |= flags | IBV_DEVICE_RAW_SCATTER_FCS;
	attr->raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM | IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
				IBV_RAW_PACKET_CAP_SCATTER_FCS;
	attr->max_wq_type_rq = VB_WQ_MAX;
	attr->packet_pacing_caps.supported_qpts |= 1 << IBV_QPT_RAW_PACKET;
	attr->tso_caps = (struct ibv_tso_caps){
		.max_tso = VB_TSO_MAX,
		.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
	};
	attr->rss_caps = (struct ibv_rss_caps){
		.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = VB_IND_TABLE_MAX,
		.max_rwq_indirection_table_size = 1 << VB_IND_TABLE_LOG_SIZE_MAX,
		.rx_hash_fields_mask = VB_RX_HASH_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
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
	orig->device_cap_flags = capabilities | migration_of(dev);
	orig->atomic_cap = IBV_ATOMIC_HCA;
	orig->local_ca_ack_delay = ACK_DELAY;
	orig->phys_port_cnt = 1;
	fill_limits(orig);
	attr->device_cap_flags_ex = CAP_ATOMIC_WRITE | CAP_FLUSH_GLOBAL | orig->device_cap_flags;
	attr->completion_timestamp_mask = UINT64_MAX;
	attr->hca_core_clock = VB_DEVICE_CLOCK_KHZ;
	attr->packet_pacing_caps = (struct ibv_packet_pacing_caps){
		.qp_rate_limit_min = 1,
		.qp_rate_limit_max = VB_RATE_MAX_KBPS,
		.supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD,
	};
	if (!dev->infiniband)
		fill_raw(attr);
	attr->max_dm_size = VB_DM_BYTES_MAX;
	fill_odp(attr);
	attr->cq_mod_caps.max_cq_count = UINT16_MAX;
	attr->cq_mod_caps.max_cq_period = UINT16_MAX;
	attr->tm_caps = (struct ibv_tm_caps){
		.max_rndv_hdr_size = VB_TM_RNDV_HEADER_MAX,
		.max_num_tags = VB_TM_TAGS_MAX,
		.flags = IBV_TM_CAP_RC,
		.max_ops = VB_TM_OPS_MAX,
		.max_sge = VB_TM_SGE_MAX,
	};
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
	attr->active_mtu = netif ? vb_mtu_within(netif->mtu) : IBV_MTU_256;
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
	attr->active_mtu = IBV_MTU_4096;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	attr->port_cap_flags = IBV_PORT_AUTO_MIGR_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP |
			       IBV_PORT_EXTENDED_SPEEDS_SUP | IBV_PORT_CAP_MASK2_SUP |
			       IBV_PORT_CM_SUP | IBV_PORT_CLIENT_REG_SUP;
	attr->port_cap_flags2 = IBV_PORT_LINK_WIDTH_2X_SUP | IBV_PORT_LINK_SPEED_HDR_SUP |
				IBV_PORT_LINK_SPEED_NDR_SUP;
	attr->lid = vb_device_lid(dev);
	attr->sm_lid = SUBNET_MANAGER_LID;
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
	attr->max_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = VB_GIDS;
	attr->pkey_tbl_len = (uint16_t)vb_pkey_table_length();
	attr->max_msg_sz = (uint32_t)VB_MSG_MAX;
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
