/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/flow.h"

#include <stdlib.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/sniffer.h"
#include "nic/given.h"
#include "path/raw/raw.h"
#include "verbs/counters.h"
#include "verbs/ops.h"
#include "verbs/stale.h"

static void count_packets(struct ibv_counters *counters, uint64_t packets, uint64_t bytes)
{
	vb_counters_add(vb_counters(counters), packets, bytes);
}

static int check_qp(const struct vb_qp *qp)
{
	int err = vb_given_check(VB_GIVEN_QP, &qp->ibv, "ibv_create_flow");

	if (!err)
		err = vb_stale(qp->nic, "ibv_create_flow");
	if (!err && !qp->raw) {
		vb_explain("ibv_create_flow: QP 0x%06x is no raw packet QP", qp->ibv.qp_num);
		err = qp->type == IBV_QPT_UD ? -EOPNOTSUPP : -EINVAL;
	}
	return err;
}

static void bind_counters(struct vb_flow *flow)
{
	if (!flow->counters)
		return;
	atomic_fetch_add(&vb_counters(flow->counters)->flows, 1);
	flow->count = count_packets;
}

static int add_flow(struct vb_qp *qp, const struct ibv_flow_attr *attr, struct vb_flow *flow)
{
	int err = vb_flow_compile(attr, flow);

	if (!err && flow->counters)
		err = vb_given_check_in(qp->ibv.context, VB_GIVEN_COUNTERS, flow->counters,
					"ibv_create_flow");
	if (err)
		return err;
	flow->qp = qp;
	flow->ibv.context = qp->ibv.context;
	bind_counters(flow);
	err = vb_raw_flow_add(qp->raw->port, flow);
	if (!err && flow->sniffs)
		vb_sniffer_begin(qp->nic);
	if (err && flow->counters)
		atomic_fetch_sub(&vb_counters(flow->counters)->flows, 1);
	return err;
}

/* In a forked child the list of flows and the QP are the parent's. */
static void remove_flow(struct vb_flow *flow)
{
	bool stale = flow->qp->nic != vb_nic_current();

	if (!stale && flow->sniffs)
		vb_sniffer_end();
	if (!stale)
		vb_raw_flow_remove(flow->qp->raw->port, flow);
	atomic_fetch_sub(&flow->qp->raw->flows, 1);
	if (flow->counters)
		atomic_fetch_sub(&vb_counters(flow->counters)->flows, 1);
	atomic_fetch_sub(&vb_context(flow->ibv.context)->objects, 1);
	free(flow);
}

struct ibv_flow *vb_ops_create_flow(struct ibv_qp *ibv, struct ibv_flow_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_qp *qp = vb_qp(ibv);
	int err = check_qp(qp);
	struct vb_flow *flow = err ? NULL : calloc(1, sizeof(*flow));

	if (!err)
		err = flow ? add_flow(qp, attr, flow) : -ENOMEM;
	if (err) {
		free(flow);
		return vb_return_null(err);
	}
	atomic_fetch_add(&qp->raw->flows, 1);
	atomic_fetch_add(&vb_context(ibv->context)->objects, 1);
	flow->ibv.handle = vb_given_number();
	err = vb_given_add(VB_GIVEN_FLOW, flow);
	if (err)
		remove_flow(flow);
	return err ? vb_return_null(err) : &flow->ibv;
}

int vb_ops_destroy_flow(struct ibv_flow *flow)
{
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_FLOW, flow, "ibv_destroy_flow");

	if (err)
		return vb_return_errno(err);
	remove_flow(vb_flow(flow));
	return vb_given_ended(VB_GIVEN_FLOW, flow, 0);
}
