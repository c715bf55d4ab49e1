/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer over the polls. */
#include <errno.h>

#include "check/check.h"

int vb_check_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct vb_object *cq = vb_object_of(ibv);
	const struct vb_stack *stack = cq ? VB_HERE() : NULL;
	int got;

	if (!cq)
		return vb_check_ops.poll_cq(ibv, count, wc);
	if (!vb_use_begin(cq, "ibv_poll_cq", stack)) {
		errno = EINVAL;
		return -1;
	}
	got = vb_check_ops.poll_cq(ibv, count, wc);
	cq->polls++;
	if (got > 0) {
		vb_check_tell_rnr();
		vb_check_enter();
		for (int i = 0; i < got; i++)
			vb_work_completed(cq, &wc[i], stack);
		vb_check_leave();
	}
	vb_use_end(cq);
	return got;
}

/* --- extended CQs --- */

static void completed_ex(struct vb_object *cq, struct ibv_cq_ex *ex, const struct vb_stack *stack)
{
	const struct ibv_wc wc = { .wr_id = ex->wr_id,
				   .status = ex->status,
				   .opcode = ex->read_opcode(ex),
				   .qp_num = ex->read_qp_num(ex),
				   .byte_len = ex->read_byte_len(ex) };

	vb_check_tell_rnr();
	vb_check_enter();
	vb_work_completed(cq, &wc, stack);
	vb_check_leave();
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct vb_object *cq = vb_object_of(ex);

	if (atomic_load(&cq->gone) || !vb_section_end(cq, "ibv_end_poll", VB_HERE()))
		return;
	cq->end_poll(ex);
	vb_use_end(cq);
}

/* From here to end_poll the CQ belongs to this thread, as the man page has it. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vb_object *cq = vb_object_of(ex);
	const struct vb_stack *stack = VB_HERE();
	int err;

	if (vb_section_mine(cq)) {
		/* The batch before it was not ended. The program goes on. */
		vb_section_report(cq, "ibv_start_poll", stack);
		end_poll(ex);
	}
	if (!vb_use_begin(cq, "ibv_start_poll", stack))
		return errno = EINVAL;
	cq->polls++;
	err = cq->start_poll(ex, attr);
	if (err) {
		vb_use_end(cq);
		return err;
	}
	vb_section_begin(cq);
	completed_ex(cq, ex, stack);
	return 0;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct vb_object *cq = vb_object_of(ex);
	const struct vb_stack *stack = VB_HERE();
	int err;

	if (!atomic_load_explicit(&cq->holder, memory_order_relaxed)) {
		vb_section_end(cq, "ibv_next_poll", stack);
		return errno = EINVAL;
	}
	err = cq->next_poll(ex);
	if (!err)
		completed_ex(cq, ex, stack);
	return err;
}

void vb_check_wrap_cq(struct vb_object *object, struct ibv_cq_ex *ex)
{
	object->start_poll = ex->start_poll;
	object->next_poll = ex->next_poll;
	object->end_poll = ex->end_poll;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
}
