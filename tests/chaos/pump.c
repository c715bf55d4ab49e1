/* SPDX-License-Identifier: BSD-2-Clause */
/* The moving part of a flow: post, poll, and hold every completion against the record. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "flow.h"
#include "pattern.h"

enum { GRH_SIZE = 40, POLL_BATCH = 16 };

static struct lane *lane_of(struct flow *flow, uint32_t qpn)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		if (flow->lane[i].tx.qp->qp_num == qpn)
			return &flow->lane[i];
	}
	FAIL("a receive completed for QP %#x, which is none of ours", qpn);
}

/* RC loses nothing: every message is the next one. UD may lose, but not repeat or reorder. */
static void check_seq(struct flow *flow, struct lane *lane, uint32_t seq)
{
	if (flow->shape.ud)
		CHECK(seq >= lane->next_in, "datagram %u after %u", seq, lane->next_in - 1);
	else
		CHECK(seq == lane->next_in, "message %u arrived, %u was next", seq, lane->next_in);
	lane->next_in = seq + 1;
	flow->messages_in++;
}

static bool is_late(struct flow *flow, const uint8_t *message, uint32_t length)
{
	uint32_t seq;

	if (!flow->tag_late || message_fault(message, length, flow->tag_late, &seq))
		return false;
	flow->late_in++;
	rx_post(flow->rx);
	return true;
}

static void check_message(struct flow *flow, struct lane *lane, const struct ibv_wc *wc,
			  const uint8_t *message, uint32_t length)
{
	uint32_t seq = 0;
	uint32_t tag = flow->shape.tag_in + (uint32_t)(lane - flow->lane);
	const char *fault = message_fault(message, length, tag, &seq);

	if (fault && is_late(flow, message, length))
		return;
	CHECK(!fault, "message of %u bytes, %u expected: %s", length, lane->next_in, fault);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		CHECK(ntohl(wc->imm_data) == seq, "immediate %u with message %u",
		      ntohl(wc->imm_data), seq);
	CHECK(!!(wc->wc_flags & IBV_WC_WITH_IMM) ==
		      (seq % 2 || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM),
	      "message %u: IBV_WC_WITH_IMM is wrong", seq);
	check_seq(flow, lane, seq);
}

static void received(struct flow *flow, const struct ibv_wc *wc)
{
	uint8_t *buffer = rx_take(flow->rx, wc);

	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		CHECK(flow->may_fail && !flow->rx->srq, "a receive was flushed without a reason");
		flow->flushed_in++;
		flow->failed = true; /* the send that failed may come up later than this */
		return;
	}
	CHECK(!wc->status, "a receive completed with %s", ibv_wc_status_str(wc->status));
	CHECK(!flow->flushed_in, "a receive succeeded behind a flushed one");
	struct lane *lane = lane_of(flow, wc->qp_num);

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		size_t slot = ntohl(wc->imm_data) % (flow->shape.depth + 1);

		check_message(flow, lane, wc,
			      flow->region + flow->map.imm + slot * flow->map.stride, wc->byte_len);
	} else if (flow->shape.ud) {
		CHECK(wc->wc_flags & IBV_WC_GRH && wc->byte_len > GRH_SIZE, "datagram without GRH");
		check_message(flow, lane, wc, buffer + GRH_SIZE, wc->byte_len - GRH_SIZE);
	} else {
		check_message(flow, lane, wc, buffer, wc->byte_len);
	}
	if (flow->repost && flow->rx->busy < flow->rx->depth)
		rx_post(flow->rx);
}

static void sent(struct flow *flow, const struct ibv_wc *wc)
{
	unsigned lane = TX_LANE(wc->wr_id);

	CHECK(lane < flow->shape.lanes, "unknown wr_id %#llx", (unsigned long long)wc->wr_id);
	tx_complete(&flow->lane[lane].tx, wc);
	CHECK(!wc->status || flow->may_fail, "send: %s", ibv_wc_status_str(wc->status));
	flow->failed |= wc->status != IBV_WC_SUCCESS;
}

bool flow_poll(struct flow *flow)
{
	struct ibv_wc wc[POLL_BATCH];
	int count = ibv_poll_cq(flow->cq, POLL_BATCH, wc);

	CHECK(count >= 0, "ibv_poll_cq: %d", count);
	for (int i = 0; i < count; i++) {
		if (wc[i].wr_id & RX_FLAG)
			received(flow, &wc[i]);
		else
			sent(flow, &wc[i]);
	}
	return count > 0;
}

bool flow_pump(struct flow *flow)
{
	bool moved = false;

	for (unsigned i = 0; i < flow->shape.lanes; i++)
		moved |= tx_post(&flow->lane[i].tx);
	return flow_poll(flow) || moved;
}

bool flow_sent_all(const struct flow *flow)
{
	for (unsigned i = 0; i < flow->shape.lanes; i++) {
		const struct tx *tx = &flow->lane[i].tx;

		if (tx->done < tx->limit)
			return false;
	}
	return true;
}

static void take_event(struct flow *flow)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(!ibv_get_cq_event(flow->channel, &cq, &context), "ibv_get_cq_event: %s",
	      strerror(errno));
	CHECK(cq == flow->cq, "an event for another CQ");
	ibv_ack_cq_events(cq, 1);
}

void flow_idle(struct flow *flow, int other_fd, int timeout_ms)
{
	struct pollfd fds[2] = { { .fd = other_fd, .events = POLLIN }, { .events = POLLIN } };

	if (!flow->shape.events)
		return;
	CHECK(!ibv_req_notify_cq(flow->cq, 0), "ibv_req_notify_cq");
	/* A completion that came before the arming raises no event: look once more. */
	if (flow_poll(flow))
		return;
	fds[1].fd = flow->channel->fd;
	if (poll(fds, 2, timeout_ms) > 0 && fds[1].revents)
		take_event(flow);
}
