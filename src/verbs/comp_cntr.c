/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/comp_cntr.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "system/forward.h"
#include "verbs/given.h"

static _Atomic uint32_t cntr_count; /* of this process; at most VB_COMP_CNTR_MAX */

VB_PUBLIC int _ibv_query_comp_cntr_caps(struct ibv_context *context,
					struct ibv_comp_cntr_caps *caps, size_t size)
{
	VB_SYSTEM_PASS_CONTEXT(context, _ibv_query_comp_cntr_caps, (context, caps, size));
	VB_NO_CANCEL;
	const struct ibv_comp_cntr_caps all = { .max_value = UINT64_MAX,
						.max_counters = VB_COMP_CNTR_MAX,
						.supported_qp_attach_ops =
							VB_COMP_CNTR_LOCAL | VB_COMP_CNTR_REMOTE };
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_query_comp_cntr_caps");

	if (!err) { /* the caller's struct may be shorter or longer */
		memset(caps, 0, size);
		memcpy(caps, &all, size < sizeof(all) ? size : sizeof(all));
	}
	return vb_return_errno(err);
}

static int check_attr(const struct ibv_comp_cntr_init_attr *attr)
{
	if (attr->comp_mask || attr->flags) {
		vb_explain("ibv_create_comp_cntr: comp_mask and flags must be 0");
		return -EINVAL;
	}
	if (attr->type == IBV_COMP_CNTR_TYPE_WRS || attr->type == IBV_COMP_CNTR_TYPE_BYTES)
		return 0;
	vb_explain("ibv_create_comp_cntr: there is no such type");
	return -EINVAL;
}

static int make_cntr(struct ibv_context *context, const struct ibv_comp_cntr_init_attr *attr,
		     struct vb_comp_cntr **out)
{
	struct vb_comp_cntr *cntr = calloc(1, sizeof(*cntr));
	int err;

	if (!cntr)
		return -ENOMEM;
	cntr->ibv.context = context;
	cntr->ibv.handle = vb_given_number();
	cntr->bytes = attr->type == IBV_COMP_CNTR_TYPE_BYTES;
	vb_list_init(&cntr->receivers);
	vb_list_init(&cntr->served);
	err = vb_given_add(VB_GIVEN_COMP_CNTR, cntr);
	if (err)
		free(cntr);
	else
		atomic_fetch_add(&vb_context(context)->objects, 1);
	*out = cntr;
	return err;
}

VB_PUBLIC struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
						     struct ibv_comp_cntr_init_attr *attr)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_create_comp_cntr, (context, attr));
	VB_NO_CANCEL;
	struct vb_comp_cntr *cntr;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_create_comp_cntr");

	if (!err)
		err = check_attr(attr);
	if (err)
		return vb_return_null(err);
	if (atomic_fetch_add(&cntr_count, 1) >= VB_COMP_CNTR_MAX) {
		vb_explain("ibv_create_comp_cntr: all %d counters are in use", VB_COMP_CNTR_MAX);
		err = -ENOMEM;
	} else {
		err = make_cntr(context, attr, &cntr);
	}
	if (!err)
		return &cntr->ibv;
	atomic_fetch_sub(&cntr_count, 1);
	return vb_return_null(err);
}

static int destroy_cntr(struct vb_comp_cntr *cntr)
{
	if (atomic_load(&cntr->users)) {
		vb_explain("ibv_destroy_comp_cntr: QPs still count there");
		return -EBUSY;
	}
	atomic_fetch_sub(&vb_context(cntr->ibv.context)->objects, 1);
	atomic_fetch_sub(&cntr_count, 1);
	free(cntr);
	return 0;
}

VB_PUBLIC int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr)
{
	VB_SYSTEM_PASS(cntr, ibv_destroy_comp_cntr, (cntr));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_COMP_CNTR, cntr, "ibv_destroy_comp_cntr");

	if (!err)
		err = vb_given_ended(VB_GIVEN_COMP_CNTR, cntr, destroy_cntr(vb_comp_cntr(cntr)));
	return vb_return_errno(err);
}

VB_PUBLIC int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
				      struct ibv_qp_attach_comp_cntr_attr *attr)
{
	VB_SYSTEM_PASS(qp, ibv_qp_attach_comp_cntr, (qp, cntr, attr));
	VB_NO_CANCEL;

	static const char call[] = "ibv_qp_attach_comp_cntr";
	int err = vb_given_check(VB_GIVEN_QP, qp, call);

	if (!err)
		err = vb_given_check_in(qp->context, VB_GIVEN_COMP_CNTR, cntr, call);
	if (!err && attr->comp_mask) {
		vb_explain("%s: comp_mask must be 0", call);
		err = -EINVAL;
	}
	if (!err)
		err = vb_comp_cntr_attach(vb_comp_cntr(cntr), vb_qp(qp), attr->op_mask);
	return vb_return_errno(err);
}

/* --- values --- */

enum value_call { SET, SET_ERRORS, INC, INC_ERRORS, READ, READ_ERRORS };

static const struct {
	const char *name;
	bool errors; /* the value that the call uses */
} value_calls[] = {
	[SET] = { "ibv_set_comp_cntr", false },
	[SET_ERRORS] = { "ibv_set_err_comp_cntr", true },
	[INC] = { "ibv_inc_comp_cntr", false },
	[INC_ERRORS] = { "ibv_inc_err_comp_cntr", true },
	[READ] = { "ibv_read_comp_cntr", false },
	[READ_ERRORS] = { "ibv_read_err_comp_cntr", true },
};

/* All completions so far are in the value that is set, increased or read. */
static int use_value(struct ibv_comp_cntr *ibv, enum value_call call, uint64_t *value)
{
	int err = vb_given_check(VB_GIVEN_COMP_CNTR, ibv, value_calls[call].name);
	_Atomic uint64_t *word;

	if (err)
		return vb_return_errno(err);
	vb_comp_cntr_catch_up(vb_comp_cntr(ibv));
	word = value_calls[call].errors ? &vb_comp_cntr(ibv)->errors : &vb_comp_cntr(ibv)->done;
	if (call == SET || call == SET_ERRORS)
		atomic_store(word, *value);
	else if (call == INC || call == INC_ERRORS)
		atomic_fetch_add(word, *value);
	else
		*value = atomic_load(word);
	return 0;
}

VB_PUBLIC int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value)
{
	VB_SYSTEM_PASS(cntr, ibv_set_comp_cntr, (cntr, value));
	VB_NO_CANCEL;
	return use_value(cntr, SET, &value);
}

VB_PUBLIC int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value)
{
	VB_SYSTEM_PASS(cntr, ibv_set_err_comp_cntr, (cntr, value));
	VB_NO_CANCEL;
	return use_value(cntr, SET_ERRORS, &value);
}

VB_PUBLIC int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount)
{
	VB_SYSTEM_PASS(cntr, ibv_inc_comp_cntr, (cntr, amount));
	VB_NO_CANCEL;
	return use_value(cntr, INC, &amount);
}

VB_PUBLIC int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount)
{
	VB_SYSTEM_PASS(cntr, ibv_inc_err_comp_cntr, (cntr, amount));
	VB_NO_CANCEL;
	return use_value(cntr, INC_ERRORS, &amount);
}

VB_PUBLIC int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value)
{
	VB_SYSTEM_PASS(cntr, ibv_read_comp_cntr, (cntr, value));
	VB_NO_CANCEL;
	return use_value(cntr, READ, value);
}

VB_PUBLIC int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value)
{
	VB_SYSTEM_PASS(cntr, ibv_read_err_comp_cntr, (cntr, value));
	VB_NO_CANCEL;
	return use_value(cntr, READ_ERRORS, value);
}
