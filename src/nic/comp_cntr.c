/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/comp_cntr.h"

#include <errno.h>

#include "base/log.h"

static const uint32_t op_bits[VB_COMP_OPS] = {
	[VB_COMP_SEND] = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
	[VB_COMP_RECV] = IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
	[VB_COMP_READ] = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
	[VB_COMP_WRITE] = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
	[VB_COMP_REMOTE + VB_SERVED_READ] = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ,
	[VB_COMP_REMOTE + VB_SERVED_WRITE] = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
};

static void add(struct vb_comp_cntr *cntr, bool good, uint32_t bytes)
{
	if (!good)
		atomic_fetch_add(&cntr->errors, 1);
	else
		atomic_fetch_add(&cntr->done, cntr->bytes ? bytes : 1);
}

/* --- attaching --- */

static int check_attach(const struct vb_qp *qp, uint32_t ops)
{
	enum ibv_qp_state state = vb_qp_state(qp);
	const char *why = NULL;

	if (!ops || (state != IBV_QPS_RESET && state != IBV_QPS_INIT)) {
		vb_explain("ibv_qp_attach_comp_cntr: %s",
			   ops ? "the QP is not in RESET or INIT" : "op_mask is empty");
		return -EINVAL;
	}
	if (ops & ~(uint32_t)(VB_COMP_CNTR_LOCAL | VB_COMP_CNTR_REMOTE))
		why = "op_mask has operations that are not known";
	else if (!qp->entry || qp->type == IBV_QPT_XRC_RECV)
		why = "an XRC_RECV QP has no work requests";
	else if (ops & IBV_QP_ATTACH_COMP_CNTR_OP_RECV && qp->srq && qp->srq->tm)
		why = "receives of an SRQ that matches tags are not counted";
	if (!why)
		return 0;
	vb_explain("ibv_qp_attach_comp_cntr: %s", why);
	return -EOPNOTSUPP;
}

static bool is_taken(const struct vb_qp *qp, uint32_t ops)
{
	for (int i = 0; i < VB_COMP_OPS; i++)
		if (ops & op_bits[i] && qp->comp_cntrs[i])
			return true;
	return false;
}

/* Senders add to the lent words from now on. */
static void attach_served(struct vb_comp_cntr *cntr, struct vb_qp *qp, enum vb_served op)
{
	struct vb_comp_served *served = &qp->comp_served[op];
	int counts = (cntr->bytes ? VB_COUNTS_BYTES : VB_COUNTS_NUMBER) << op;

	served->qp = qp;
	served->done = atomic_load(&qp->lent->served[op]);
	served->errors = atomic_load(&qp->lent->served_errors[op]);
	vb_list_append(&cntr->served, &served->node);
	atomic_fetch_or(&qp->entry->counts, (uint8_t)counts);
}

static void attach(struct vb_comp_cntr *cntr, struct vb_qp *qp, uint32_t ops)
{
	for (int i = 0; i < VB_COMP_OPS; i++) {
		if (!(ops & op_bits[i]))
			continue;
		qp->comp_cntrs[i] = cntr;
		atomic_fetch_add(&cntr->users, 1);
		if (i >= VB_COMP_REMOTE)
			attach_served(cntr, qp, (enum vb_served)(i - VB_COMP_REMOTE));
	}
	if (ops & VB_COMP_CNTR_LOCAL & ~IBV_QP_ATTACH_COMP_CNTR_OP_RECV)
		qp->slow_sends |= VB_SENDS_COUNTED;
	if (ops & IBV_QP_ATTACH_COMP_CNTR_OP_RECV) {
		vb_list_append(&cntr->receivers, &qp->comp_node);
		vb_rq_count(qp->rq, qp->srq ? NULL : cntr);
	}
}

/* In RESET and INIT no sender uses the receives, and no work request runs. */
int vb_comp_cntr_attach(struct vb_comp_cntr *cntr, struct vb_qp *qp, uint32_t ops)
{
	int err = check_attach(qp, ops);

	if (err)
		return err;
	pthread_mutex_lock(&qp->nic->lock);
	if (is_taken(qp, ops))
		err = -EBUSY;
	else
		attach(cntr, qp, ops);
	pthread_mutex_unlock(&qp->nic->lock);
	if (err)
		vb_explain("ibv_qp_attach_comp_cntr: a counter counts one of the operations");
	return err;
}

/* Adds what senders have counted since the last look. */
static void take_served(struct vb_comp_cntr *cntr, struct vb_comp_served *served)
{
	struct vb_qp *qp = served->qp;
	const size_t op = (size_t)(served - qp->comp_served);
	const uint64_t done = atomic_load(&qp->lent->served[op]);
	const uint32_t errors = atomic_load(&qp->lent->served_errors[op]);

	atomic_fetch_add(&cntr->done, done - served->done);
	atomic_fetch_add(&cntr->errors, (uint32_t)(errors - served->errors));
	served->done = done;
	served->errors = errors;
}

/* No reader of a counter looks at the QP any more. In a forked child nothing else is done. */
static void leave_lists(struct vb_qp *qp)
{
	if (qp->comp_cntrs[VB_COMP_RECV]) {
		vb_list_remove(&qp->comp_node);
		vb_list_init(&qp->comp_node);
	}
	for (int i = 0; i < VB_SERVED_OPS; i++) {
		if (!qp->comp_cntrs[VB_COMP_REMOTE + i])
			continue;
		vb_list_remove(&qp->comp_served[i].node);
		vb_list_init(&qp->comp_served[i].node);
	}
}

/* Its queues and its lent words are about to belong to other QPs. */
void vb_comp_cntr_withdraw(struct vb_qp *qp)
{
	vb_spin_lock(&qp->recv_cq->poll_lock);
	vb_comp_cntr_waiting(qp);
	vb_spin_unlock(&qp->recv_cq->poll_lock);
	for (int i = 0; i < VB_SERVED_OPS; i++)
		if (qp->comp_cntrs[VB_COMP_REMOTE + i])
			take_served(qp->comp_cntrs[VB_COMP_REMOTE + i], &qp->comp_served[i]);
	leave_lists(qp);
}

static bool has_counter(const struct vb_qp *qp)
{
	for (int i = 0; i < VB_COMP_OPS; i++)
		if (qp->comp_cntrs[i])
			return true;
	return false;
}

void vb_comp_cntr_detach(struct vb_qp *qp)
{
	bool own = qp->nic == vb_nic_current();

	if (!has_counter(qp))
		return;
	if (own)
		pthread_mutex_lock(&qp->nic->lock);
	leave_lists(qp);
	for (int i = 0; i < VB_COMP_OPS; i++)
		if (qp->comp_cntrs[i])
			atomic_fetch_sub(&qp->comp_cntrs[i]->users, 1);
	if (own)
		pthread_mutex_unlock(&qp->nic->lock);
}

/* --- counting --- */

static int op_of(const struct vb_wqe *wqe)
{
	switch (vb_wr_row(wqe->opcode)->wc_opcode) {
	case IBV_WC_SEND:
	case IBV_WC_TSO:
		return VB_COMP_SEND;
	case IBV_WC_RDMA_READ:
		return VB_COMP_READ;
	case IBV_WC_RDMA_WRITE:
		return VB_COMP_WRITE;
	default:
		return VB_COMP_OPS;
	}
}

void vb_comp_cntr_send(struct vb_qp *qp, const struct vb_wqe *wqe)
{
	int op = wqe->internal ? VB_COMP_OPS : op_of(wqe);

	if (op != VB_COMP_OPS && qp->comp_cntrs[op])
		add(qp->comp_cntrs[op], wqe->status == IBV_WC_SUCCESS, wqe->length);
}

void vb_comp_cntr_receive(struct vb_rq *rq, uint32_t index, const struct ibv_wc *wc)
{
	if (!vb_rq_twin(rq, index)->counted)
		add(rq->comp_cntr, wc->status == IBV_WC_SUCCESS, wc->byte_len);
}

void vb_comp_cntr_shared(const struct vb_qp *qp, uint32_t index, const struct ibv_wc *wc)
{
	struct vb_comp_cntr *cntr = qp->comp_cntrs[VB_COMP_RECV];

	if (cntr && !vb_rq_twin(qp->rq, index)->counted)
		add(cntr, wc->status == IBV_WC_SUCCESS, wc->byte_len);
}

/* Has the receive completed, for this QP, and was it not counted? */
static bool waits(const struct vb_qp *qp, const struct vb_recv_wqe *twin)
{
	const struct vb_cell *cell = vb_rq_cell(qp->rq, twin->index);

	return !twin->counted && vb_cell_state(atomic_load(&cell->word)) == VB_CELL_DONE &&
	       (!qp->srq || VB_READ_ONCE(cell->qpn) == qp->ibv.qp_num);
}

void vb_comp_cntr_waiting(struct vb_qp *qp)
{
	struct vb_comp_cntr *cntr = qp->comp_cntrs[VB_COMP_RECV];

	if (!cntr)
		return;
	if (qp->srq)
		vb_spin_lock(&qp->rq->drain_lock);
	vb_rq_for_open(twin, qp->rq)
	{
		const struct vb_cell *cell = vb_rq_cell(qp->rq, twin->index);

		if (!waits(qp, twin))
			continue;
		twin->counted = true;
		add(cntr, VB_READ_ONCE(cell->status) == IBV_WC_SUCCESS,
		    VB_READ_ONCE(cell->byte_length));
	}
	if (qp->srq)
		vb_spin_unlock(&qp->rq->drain_lock);
}

/* In a forked child the QPs are the parent's, and their queues are not in this process. */
void vb_comp_cntr_catch_up(struct vb_comp_cntr *cntr)
{
	struct vb_nic *nic = vb_nic_current();

	if (!nic || !atomic_load(&cntr->users))
		return;
	pthread_mutex_lock(&nic->lock);
	vb_list_for(qp, &cntr->receivers, struct vb_qp, comp_node) {
		if (qp->nic != nic)
			continue;
		vb_spin_lock(&qp->recv_cq->poll_lock);
		vb_comp_cntr_waiting(qp);
		vb_spin_unlock(&qp->recv_cq->poll_lock);
	}
	vb_list_for(served, &cntr->served, struct vb_comp_served, node)
		if (served->qp->nic == nic)
			take_served(cntr, served);
	pthread_mutex_unlock(&nic->lock);
}
