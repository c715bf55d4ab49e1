/* SPDX-License-Identifier: BSD-2-Clause */
/* Indirection tables: the receive work queue for each hash. */
#include <stdlib.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "nic/fact.h"
#include "nic/given.h"
#include "nic/wq.h"
#include "verbs/ops.h"
#include "verbs/stale.h"

static _Atomic uint32_t table_count;

static int check_entry(const struct ibv_context *context, struct ibv_wq *wq)
{
	int err = vb_given_check_in(context, VB_GIVEN_WQ, wq, "ibv_create_rwq_ind_table");

	return err ? err : vb_stale(vb_wq(wq)->qp->nic, "ibv_create_rwq_ind_table");
}

static int check_table(const struct ibv_context *context,
		       const struct ibv_rwq_ind_table_init_attr *attr)
{
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_create_rwq_ind_table");

	if (err)
		return err;
	if (!vb_fact(VB_FACT_MAX_RWQ_INDIRECTION_TABLES)) {
		vb_explain("ibv_create_rwq_ind_table: the device has no such tables");
		return -EOPNOTSUPP;
	}
	if (attr->comp_mask || attr->log_ind_tbl_size > VB_IND_TABLE_LOG_SIZE_MAX ||
	    1u << attr->log_ind_tbl_size > vb_fact(VB_FACT_MAX_RWQ_INDIRECTION_TABLE_SIZE) ||
	    !attr->ind_tbl) {
		vb_explain("ibv_create_rwq_ind_table: log_ind_tbl_size %u of at most %u entries, "
			   "comp_mask 0x%x must be 0, ind_tbl %s",
			   attr->log_ind_tbl_size,
			   vb_fact_u32(VB_FACT_MAX_RWQ_INDIRECTION_TABLE_SIZE), attr->comp_mask,
			   attr->ind_tbl ? "is there" : "is NULL");
		return -EINVAL;
	}
	for (uint32_t i = 0; i < 1u << attr->log_ind_tbl_size && !err; i++)
		err = check_entry(context, attr->ind_tbl[i]);
	return err;
}

static struct vb_ind_table *table_make(const struct ibv_rwq_ind_table_init_attr *attr)
{
	uint32_t size = 1u << attr->log_ind_tbl_size;
	struct vb_ind_table *table = calloc(1, sizeof(*table) + size * sizeof(*table->wqs));

	if (!table)
		return NULL;
	table->size = size;
	for (uint32_t i = 0; i < size; i++) {
		table->wqs[i] = vb_wq(attr->ind_tbl[i]);
		atomic_fetch_add(&table->wqs[i]->users, 1);
	}
	table->nic = table->wqs[0]->qp->nic;
	return table;
}

static int destroy_table(struct vb_ind_table *table)
{
	uint32_t users = atomic_load(&table->users);

	if (users) {
		vb_explain("ibv_destroy_rwq_ind_table: %u QPs receive through table %d", users,
			   table->ibv.ind_tbl_num);
		return -EBUSY;
	}
	for (uint32_t i = 0; i < table->size; i++)
		atomic_fetch_sub(&table->wqs[i]->users, 1);
	atomic_fetch_sub(&vb_context(table->ibv.context)->objects, 1);
	atomic_fetch_sub(&table_count, 1);
	free(table);
	return 0;
}

struct ibv_rwq_ind_table *vb_ops_create_rwq_ind_table(struct ibv_context *context,
						      struct ibv_rwq_ind_table_init_attr *attr)
{
	VB_NO_CANCEL;
	static _Atomic int last_number;
	struct vb_ind_table *table;
	int err = check_table(context, attr);

	if (!err &&
	    atomic_fetch_add(&table_count, 1) >= vb_fact(VB_FACT_MAX_RWQ_INDIRECTION_TABLES)) {
		atomic_fetch_sub(&table_count, 1);
		err = -ENOMEM;
	}
	if (err)
		return vb_return_null(err);
	table = table_make(attr);
	if (!table) {
		atomic_fetch_sub(&table_count, 1);
		return vb_return_null(-ENOMEM);
	}
	table->ibv.context = context;
	table->ibv.ind_tbl_num = table->ibv.ind_tbl_handle = atomic_fetch_add(&last_number, 1) + 1;
	atomic_fetch_add(&vb_context(context)->objects, 1);
	err = vb_given_add(VB_GIVEN_IND_TABLE, table);
	if (err)
		destroy_table(table);
	return err ? vb_return_null(err) : &table->ibv;
}

int vb_ops_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_IND_TABLE, table, "ibv_destroy_rwq_ind_table");

	if (!err)
		err = vb_given_ended(VB_GIVEN_IND_TABLE, table, destroy_table(vb_ind_table(table)));
	return vb_return_errno(err);
}
