/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs that spread frames over work queues. */
#include "verbs/raw.h"

#include <string.h>

#include "base/log.h"
#include "engine/qp_life.h"
#include "engine/raw_port.h"
#include "nic/fact.h"
#include "nic/given.h"
#include "verbs/stale.h"

static int refuse(int err, const char *why)
{
	vb_explain("ibv_create_qp_ex: %s", why);
	return err;
}

static int check_hash(const struct ibv_rx_hash_conf *hash)
{
	if (hash->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
		return refuse(-EOPNOTSUPP, "the only hash function is Toeplitz");
	if (hash->rx_hash_key_len != VB_RX_HASH_KEY_SIZE || !hash->rx_hash_key)
		return refuse(-EINVAL, "the key of the hash has 40 bytes");
	if (hash->rx_hash_fields_mask & ~vb_fact(VB_FACT_RX_HASH_FIELDS))
		return refuse(-EOPNOTSUPP, "hashes are over addresses and ports of TCP and UDP");
	return 0;
}

static int check_spread(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t all =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;

	if (attr->qp_type != IBV_QPT_RAW_PACKET)
		return refuse(-EOPNOTSUPP, "only raw packet QPs spread what they receive");
	if ((attr->comp_mask & all) != all || !attr->pd || !attr->rwq_ind_tbl)
		return refuse(-EINVAL, "PD, indirection table and hash belong together");
	if (vb_given_check_in(attr->pd->context, VB_GIVEN_IND_TABLE, attr->rwq_ind_tbl,
			      "ibv_create_qp_ex"))
		return -EINVAL;
	if (attr->send_cq || attr->recv_cq || attr->srq || attr->cap.max_send_wr ||
	    attr->cap.max_recv_wr)
		return refuse(-EINVAL, "a QP with an indirection table has no queues of its own");
	return check_hash(&attr->rx_hash_conf);
}

static void take_hash(struct vb_raw_qp *raw, struct vb_ind_table *table,
		      const struct ibv_rx_hash_conf *hash)
{
	raw->hash_fields = hash->rx_hash_fields_mask;
	memcpy(raw->hash_key, hash->rx_hash_key, sizeof(raw->hash_key));
	raw->table = table;
	atomic_fetch_add(&table->users, 1);
}

/* The queues of the QP are empty: any CQ will do, and that of a work queue outlives the table. */
int vb_raw_create_spread(struct ibv_qp_init_attr_ex *attr, struct vb_qp **qp)
{
	struct ibv_qp_init_attr basic = {
		.qp_context = attr->qp_context,
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	struct vb_ind_table *table;
	int err = check_spread(attr);

	if (err)
		return err;
	table = vb_ind_table(attr->rwq_ind_tbl);
	err = vb_stale(table->nic, "ibv_create_qp_ex");
	if (err)
		return err;
	basic.send_cq = basic.recv_cq = table->wqs[0]->ibv.cq;
	err = vb_qp_make(vb_pd(attr->pd), &basic, qp);
	if (err)
		return err;
	(*qp)->ibv.send_cq = (*qp)->ibv.recv_cq = NULL;
	err = vb_raw_enter(*qp);
	if (err)
		vb_qp_life_destroy(*qp);
	else
		take_hash((*qp)->raw, table, &attr->rx_hash_conf);
	return err;
}
