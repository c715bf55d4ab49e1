/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of an end: polled by ibv_poll_cq or the extended calls, or waited for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "end.h"

static bool timestamps_there(struct pp_end *end)
{
	struct ibv_device_attr_ex attr;

	if (!ibv_query_device_ex(end->context, NULL, &attr) && attr.completion_timestamp_mask)
		return true;
	fprintf(stderr, "The device isn't completion timestamp capable\n");
	return false;
}

static bool create_ex(struct pp_end *end, unsigned cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = end->channel,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_QP_NUM,
	};

	if (!timestamps_there(end))
		return false;
	end->cq_ex = ibv_create_cq_ex(end->context, &attr);
	if (end->cq_ex)
		end->cq = ibv_cq_ex_to_cq(end->cq_ex);
	return end->cq;
}

bool pp_end_create_cq(struct pp_end *end, unsigned cqe)
{
	if (end->options.events && !(end->channel = ibv_create_comp_channel(end->context))) {
		fprintf(stderr, "Couldn't create completion channel\n");
		return false;
	}
	if (end->options.timestamps)
		create_ex(end, cqe);
	else
		end->cq = ibv_create_cq(end->context, (int)cqe, NULL, end->channel, 0);
	if (!end->cq) {
		fprintf(stderr, "Couldn't create CQ\n");
		return false;
	}
	return !end->options.events || pp_cq_arm(end);
}

static int next_ex(struct pp_end *end, struct pp_completion *completion)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int err = ibv_start_poll(end->cq_ex, &attr);

	if (err == ENOENT)
		return 0;
	if (err) {
		fprintf(stderr, "poll CQ failed %d\n", err);
		return -1;
	}
	*completion = (struct pp_completion){
		.wr_id = end->cq_ex->wr_id,
		.status = end->cq_ex->status,
		.qpn = ibv_wc_read_qp_num(end->cq_ex),
		.timestamp = ibv_wc_read_completion_ts(end->cq_ex),
	};
	ibv_end_poll(end->cq_ex);
	return 1;
}

int pp_cq_next(struct pp_end *end, struct pp_completion *completion)
{
	const struct ibv_wc *wc;

	if (end->cq_ex)
		return next_ex(end, completion);
	if (end->batch_at == end->batch_count) {
		end->batch_at = 0;
		end->batch_count = ibv_poll_cq(end->cq, PP_BATCH, end->batch);
		if (end->batch_count < 0) {
			fprintf(stderr, "poll CQ failed %d\n", end->batch_count);
			end->batch_count = 0;
			return -1;
		}
		if (!end->batch_count)
			return 0;
	}
	wc = &end->batch[end->batch_at++];
	*completion = (struct pp_completion){ .wr_id = wc->wr_id,
					      .status = wc->status,
					      .qpn = wc->qp_num };
	return 1;
}

bool pp_cq_arm(struct pp_end *end)
{
	int err = ibv_req_notify_cq(end->cq, 0);

	if (err)
		fprintf(stderr, "Couldn't request CQ notification: %s\n", strerror(err));
	return !err;
}

bool pp_cq_wait(struct pp_end *end)
{
	struct ibv_cq *cq;
	void *unused;

	if (ibv_get_cq_event(end->channel, &cq, &unused)) {
		fprintf(stderr, "Failed to get cq_event\n");
		return false;
	}
	if (cq != end->cq) {
		fprintf(stderr, "CQ event for unknown CQ %p\n", (void *)cq);
		return false;
	}
	end->events++;
	return pp_cq_arm(end);
}
