/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended completion queue: the same poll, one completion at a time, field by field. From
 * start_poll to end_poll one thread owns the batch. The current completion lies in the CQ.
 */
#include <limits.h>

#include "base/adversary.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/engine.h"
#include "nic/cq.h"
#include "nic/fact.h"
#include "nic/given.h"
#include "verbs/adversary.h"
#include "verbs/ops.h"
#include "verbs/stale.h"

enum {
	WITH_TIME =
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	MASK_KNOWN = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
	FLAGS_KNOWN = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
};

static struct vb_cq *cq_of(struct ibv_cq_ex *ex)
{
	return vb_container(ex, struct vb_cq, ex);
}

/* --- the iterator --- */

/* ENOENT is an answer, not a failure: an empty CQ leaves errno alone. */
static int next_poll(struct ibv_cq_ex *ex)
{
	struct vb_cq *cq = cq_of(ex);
	int got = vb_cq_poll_one(cq, &cq->wc, &cq->wc_stamp);

	if (got <= 0)
		return got ? vb_return_errno_of("ibv_next_poll", got) : ENOENT;
	ex->wr_id = cq->wc.wr_id;
	ex->status = cq->wc.status;
	vb_engine_found(cq, got);
	return 0;
}

/* The offset of the wall clock from the device's clock; one value for a whole batch. */
static uint64_t wall_offset(void)
{
	uint64_t before = vb_device_clock(), wall_ns, after;
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	after = vb_device_clock();
	wall_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	return wall_ns - (before + (after - before) / 2);
}

static int poll_first(struct vb_cq *cq)
{
	int err = next_poll(&cq->ex);

	if (err == ENOENT && vb_cq_lend_a_hand(cq))
		err = next_poll(&cq->ex);
	if (!err && cq->ex.read_completion_wallclock_ns)
		cq->wall_offset = wall_offset();
	return err;
}

static int start_poll_alone(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	if (attr->comp_mask)
		vb_explain("ibv_start_poll: comp_mask 0x%x names nothing that exists",
			   attr->comp_mask);
	if (attr->comp_mask || vb_stale(cq_of(ex)->nic, "ibv_start_poll"))
		return vb_return_errno_of("ibv_start_poll", -EINVAL);
	return poll_first(cq_of(ex));
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vb_cq *cq = cq_of(ex);
	int err;

	vb_spin_lock(&cq->batch_lock);
	err = start_poll_alone(ex, attr);
	if (err)
		vb_spin_unlock(&cq->batch_lock);
	return err;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	vb_spin_unlock(&cq_of(ex)->batch_lock);
}

static void end_poll_alone(struct ibv_cq_ex *ex)
{
	(void)ex;
}

/* --- fields --- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc_stamp;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc_stamp + cq_of(ex)->wall_offset;
}

/* Frames have no immediate data: its place holds the tag of the flow that took the frame. */
static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	const struct ibv_wc *wc = &cq_of(ex)->wc;

	return wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) ? 0 : wc->imm_data;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *tm_info)
{
	*tm_info = cq_of(ex)->wc_tm;
}

/* Ethernet has no LIDs: the place of one holds a VLAN tag that was cut out of the frame. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return vb_context(cq_of(ex)->ibv.context)->dev->infiniband ? 0 : cq_of(ex)->wc.slid;
}

static void fill_iterator(struct vb_cq *cq)
{
	cq->ex.start_poll = cq->single_threaded ? start_poll_alone : start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = cq->single_threaded ? end_poll_alone : end_poll;
}

static void fill_fields(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_TM_INFO)
		ex->read_tm_info = read_tm_info;
	if (wc_flags & IBV_WC_EX_WITH_CVLAN)
		ex->read_cvlan = read_cvlan;
	if (wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
		ex->read_flow_tag = read_flow_tag;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

/* --- creating --- */

static int check_attr(const struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;

	if (attr->comp_mask & ~(uint32_t)MASK_KNOWN || flags & ~(uint32_t)FLAGS_KNOWN ||
	    attr->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS) {
		vb_explain("ibv_create_cq_ex: comp_mask 0x%x, flags 0x%x or wc_flags 0x%llx have "
			   "bits without a meaning",
			   attr->comp_mask, flags, (unsigned long long)attr->wc_flags);
		return -EINVAL;
	}
	if (attr->wc_flags & ~vb_fact(VB_FACT_WC_FLAGS)) {
		vb_explain("ibv_create_cq_ex: wc_flags 0x%llx are not all supported",
			   (unsigned long long)attr->wc_flags);
		return -EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    vb_given_check(VB_GIVEN_PD, attr->parent_domain, "ibv_create_cq_ex"))
		return -EINVAL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && !vb_pd(attr->parent_domain)->base) {
		vb_explain("ibv_create_cq_ex: a CQ belongs to a parent domain or to none, not to "
			   "a PD");
		return -EINVAL;
	}
	if (attr->cqe <= vb_fact(VB_FACT_MAX_CQE) && attr->comp_vector <= INT_MAX)
		return 0;
	vb_explain("ibv_create_cq_ex: cqe %u must be 1 to %u, and comp_vector %u below "
		   "num_comp_vectors",
		   attr->cqe, vb_fact_u32(VB_FACT_MAX_CQE), attr->comp_vector);
	return -EINVAL;
}

static int make_cq(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
		   struct vb_cq **cq)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct vb_pd *pd =
		attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? vb_pd(attr->parent_domain) : NULL;
	const struct vb_cq_spec spec = {
		.cqe = (int)attr->cqe,
		.cq_context = attr->cq_context,
		.channel = attr->channel ? vb_channel(attr->channel) : NULL,
		.pd = pd,
		.stamped = attr->wc_flags & WITH_TIME,
		.single_threaded =
			flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED || vb_pd_single_threaded(pd),
		.ignore_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};

	return vb_verbs_make_cq(context, &spec, (int)attr->comp_vector, cq);
}

struct ibv_cq_ex *vb_ops_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	VB_NO_CANCEL;
	struct vb_cq *cq;
	int err = check_attr(attr);

	if (!err)
		err = make_cq(context, attr, &cq);
	if (err)
		return vb_return_null(err);
	fill_iterator(cq);
	fill_fields(&cq->ex, attr->wc_flags);
	if (vb_adversary_on())
		vb_adversary_take_cq(cq, true);
	return &cq->ex;
}
