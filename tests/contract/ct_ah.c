/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. */
#include "ct.h"

static struct ibv_pd *pd_of(struct ct *t)
{
	return ct_object(t->near, t->near->pd);
}

static void create_and_destroy(struct ct *t)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	ct_address(t->near, t->near, &attr);
	ah = ibv_create_ah(pd_of(t), &attr);
	CT_TRUE(ah != NULL);
	CT_TRUE(ah->pd == pd_of(t) && ah->context == ct_context(t->near));
	CT_EQ(ibv_destroy_ah(ah), 0);
}

static void bad_addresses(struct ct *t)
{
	struct ibv_ah_attr attr;

	ct_address(t->near, t->near, &attr);
	attr.is_global = 0;
	CT_NULL(ibv_create_ah(pd_of(t), &attr), EINVAL); /* RoCE needs a GRH */
	ct_address(t->near, t->near, &attr);
	attr.grh.sgid_index = (uint8_t)t->near->port.gid_tbl_len;
	CT_NULL(ibv_create_ah(pd_of(t), &attr), EINVAL);
	ct_address(t->near, t->near, &attr);
	attr.port_num = 0;
	CT_NULL(ibv_create_ah(pd_of(t), &attr), EINVAL);
	attr.port_num = t->near->attr.phys_port_cnt + 1;
	CT_NULL(ibv_create_ah(pd_of(t), &attr), EINVAL);
}

const struct ct_case ct_ah_cases[] = {
	{ "an AH is created and destroyed", create_and_destroy, CT_SOLO },
	{ "an AH without GRH, with a bad port or a bad source GID is EINVAL", bad_addresses,
	  CT_SOLO },
	{ 0 },
};
