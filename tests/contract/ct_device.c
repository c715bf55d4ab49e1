/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, ports and their tables. */
#include "ct.h"

static void list_is_terminated(struct ct *t)
{
	int count = -1, n = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CT_TRUE(list != NULL);
	while (list[n])
		n++;
	CT_EQ(n, count);
	CT_TRUE(count > 0);
	ibv_free_device_list(list);
}

static void open_device_outlives_the_list(struct ct *t)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr attr;
	struct ibv_context *ctx;

	CT_TRUE(list && list[0]);
	ctx = ibv_open_device(list[0]);
	CT_TRUE(ctx != NULL);
	ibv_free_device_list(list);
	CT_EQ(ibv_query_device(ctx, &attr), 0);
	CT_TRUE(strlen(ibv_get_device_name(ctx->device)) > 0);
	CT_EQ(ibv_close_device(ctx), 0);
}

static void names_and_guids_tell_devices_apart(struct ct *t)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CT_TRUE(list != NULL);
	for (int i = 0; list[i]; i++) {
		CT_TRUE(ibv_get_device_guid(list[i]) != 0);
		CT_EQ(list[i]->node_type, IBV_NODE_CA);
		CT_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
		for (int j = 0; j < i; j++)
			CT_TRUE(strcmp(ibv_get_device_name(list[i]), ibv_get_device_name(list[j])));
	}
	ibv_free_device_list(list);
}

static void opens_are_independent(struct ct *t)
{
	struct ibv_device *device = ct_context(t->near)->device;
	struct ibv_context *a = ibv_open_device(device), *b = ibv_open_device(device);
	struct ibv_pd *pd;

	CT_TRUE(a && b && a != b);
	CT_TRUE(a->async_fd != b->async_fd);
	CT_EQ(ibv_close_device(a), 0);
	pd = ibv_alloc_pd(b);
	CT_TRUE(pd != NULL);
	CT_EQ(ibv_dealloc_pd(pd), 0);
	CT_EQ(ibv_close_device(b), 0);
}

static void attributes_are_usable(struct ct *t)
{
	const struct ibv_device_attr *attr = &t->near->attr;

	CT_TRUE(attr->node_guid != 0 && attr->sys_image_guid != 0);
	CT_EQ(attr->node_guid, ibv_get_device_guid(ct_context(t->near)->device));
	CT_TRUE(attr->phys_port_cnt >= 1);
	CT_TRUE(attr->max_qp > 0 && attr->max_qp_wr > 0 && attr->max_sge > 0);
	CT_TRUE(attr->max_cq > 0 && attr->max_cqe > 0 && attr->max_mr > 0 && attr->max_pd > 0);
	CT_TRUE(attr->max_srq > 0 && attr->max_srq_wr > 0 && attr->max_srq_sge > 0);
	CT_TRUE(attr->max_ah > 0 && attr->max_pkeys > 0);
	CT_TRUE(attr->max_qp_rd_atom > 0 && attr->max_qp_init_rd_atom > 0);
	CT_TRUE(attr->max_mr_size >= 1u << 31);
	CT_TRUE(attr->page_size_cap & 4096);
	CT_TRUE(attr->atomic_cap != IBV_ATOMIC_NONE);
}

static void query_device_ex_agrees(struct ct *t)
{
	struct ibv_device_attr_ex ex = { 0 };

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &ex), 0);
	CT_EQ(memcmp(&ex.orig_attr, &t->near->attr, sizeof(t->near->attr)), 0);
	CT_EQ(ex.phys_port_cnt_ex, t->near->attr.phys_port_cnt);
}

static void ports_are_numbered_from_one(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_port_attr port;

	CT_EQ(ibv_query_port(ctx, 1, &port), 0);
	CT_EQ(port.state, IBV_PORT_ACTIVE);
	CT_TRUE(port.active_mtu >= IBV_MTU_256 && port.active_mtu <= port.max_mtu);
	CT_TRUE(port.max_msg_sz >= 1u << 30);
	CT_TRUE(port.gid_tbl_len > 1 && port.pkey_tbl_len >= 1);
	CT_EQ(ibv_query_port(ctx, 0, &port), EINVAL);
	CT_EQ(ibv_query_port(ctx, t->near->attr.phys_port_cnt + 1, &port), EINVAL);
}

/* A RoCE port says that it wants a GRH. */
static void ethernet_requires_a_grh(struct ct *t)
{
	CT_EQ(t->near->port.link_layer, IBV_LINK_LAYER_ETHERNET);
	CT_TRUE(t->near->port.flags & IBV_QPF_GRH_REQUIRED);
}

static bool gid_is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

static void gid_table_answers_everywhere(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	union ibv_gid gid;
	int filled = 0;

	for (int i = 0; i < t->near->port.gid_tbl_len; i++) {
		CT_EQ(ibv_query_gid(ctx, 1, i, &gid), 0);
		filled += !gid_is_zero(&gid);
	}
	CT_TRUE(filled > 0);
	CT_TRUE(!gid_is_zero(&t->near->gid));
	CT_TRUE(ibv_query_gid(ctx, 1, t->near->port.gid_tbl_len, &gid) != 0);
	CT_TRUE(ibv_query_gid(ctx, 1, -1, &gid) != 0);
	CT_TRUE(ibv_query_gid(ctx, 2, 0, &gid) != 0);
}

static void gid_entries_agree_with_the_table(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_gid_entry entry, table[64];
	union ibv_gid gid;
	int filled = 0;

	for (int i = 0; i < t->near->port.gid_tbl_len; i++) {
		int ret = ibv_query_gid_ex(ctx, 1, i, &entry, 0);

		CT_EQ(ibv_query_gid(ctx, 1, i, &gid), 0);
		CT_EQ(ret, gid_is_zero(&gid) ? ENODATA : 0);
		if (ret)
			continue;
		CT_EQ(memcmp(&entry.gid, &gid, sizeof(gid)), 0);
		CT_EQ(entry.gid_index, i);
		CT_EQ(entry.port_num, 1);
		filled++;
	}
	CT_EQ(ibv_query_gid_table(ctx, table, CT_COUNT(table), 0), filled);
	CT_EQ(ibv_query_gid_table(ctx, table, filled - 1, 0), -EINVAL);
	CT_EQ(ibv_query_gid_ex(ctx, 1, t->near->port.gid_tbl_len, &entry, 0), EINVAL);
}

static void default_pkey_is_at_index_zero(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	__be16 pkey = 0;

	CT_EQ(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	CT_EQ(pkey, 0xffff);
	CT_EQ(ibv_get_pkey_index(ctx, 1, pkey), 0);
	CT_TRUE(ibv_get_pkey_index(ctx, 1, 0x1234) < 0);
	CT_TRUE(ibv_query_pkey(ctx, 1, t->near->port.pkey_tbl_len, &pkey) != 0);
}

const struct ct_case ct_device_cases[] = {
	{ "the device list ends with NULL and its count is right", list_is_terminated, CT_SOLO },
	{ "an open device outlives the device list", open_device_outlives_the_list, CT_SOLO },
	{ "devices have different names and a GUID", names_and_guids_tell_devices_apart, CT_SOLO },
	{ "two opens of a device are independent", opens_are_independent, CT_SOLO },
	{ "device attributes are usable limits", attributes_are_usable, CT_SOLO },
	{ "query_device_ex contains what query_device says", query_device_ex_agrees, CT_SOLO },
	{ "ports are numbered from 1, other numbers are EINVAL", ports_are_numbered_from_one,
	  CT_SOLO },
	{ "an Ethernet port says that it requires a GRH", ethernet_requires_a_grh, CT_SOLO },
	{ "every index of the GID table answers, none beyond", gid_table_answers_everywhere,
	  CT_SOLO },
	{ "GID entries agree with the table, an empty one is ENODATA",
	  gid_entries_agree_with_the_table, CT_SOLO },
	{ "the default P_Key is at index 0", default_pkey_is_at_index_zero, CT_SOLO },
	{ 0 },
};
