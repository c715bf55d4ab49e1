/* SPDX-License-Identifier: BSD-2-Clause */
/* The flows that take a frame: the first one that matches, and all flows with the same rule. */
#include "path/raw/raw.h"

bool vb_raw_is_at_home(const struct vb_raw_port *port, const struct vb_frame *frame)
{
	vb_list_for(flow, &port->flows, struct vb_flow, node) {
		if (flow->names_address && vb_flow_matches(flow, &frame->headers))
			return true;
	}
	return false;
}

/* A promiscuous flow does not take unicast frames that this host sends to others. */
static bool flow_may_take(const struct vb_flow *flow, const struct vb_frame *frame)
{
	return flow->sniffs || !flow->promiscuous || !frame->from_here ||
	       vb_frame_is_multicast(frame);
}

/* A QP that has the same rule twice gets the frame once. */
static bool flow_is_repeated(const struct vb_raw_port *port, const struct vb_flow *flow)
{
	vb_list_for(other, &port->flows, struct vb_flow, node) {
		if (other == flow)
			break;
		if (other->qp == flow->qp && vb_flow_same(other, flow))
			return true;
	}
	return false;
}

static void flow_take(struct vb_thread *thread, const struct vb_flow *flow,
		      const struct vb_frame *frame, uint8_t wc_flags)
{
	if (flow->count)
		flow->count(flow->counters, 1, frame->length);
	if (!flow->drops)
		vb_raw_place(thread, flow->qp, frame, flow->tag, wc_flags);
}

void vb_raw_steer(struct vb_raw_port *port, struct vb_thread *thread, const struct vb_frame *frame)
{
	const struct vb_flow *hit = NULL;
	bool looked = false;
	uint8_t wc_flags = 0;

	vb_list_for(flow, &port->flows, struct vb_flow, node) {
		if (hit && flow->rank != hit->rank)
			break;
		if ((hit && !vb_flow_same(flow, hit)) || !flow_may_take(flow, frame) ||
		    !vb_flow_matches(flow, &frame->headers) || flow_is_repeated(port, flow))
			continue;
		if (!looked && vb_frame_checksum_good(frame))
			wc_flags = IBV_WC_IP_CSUM_OK;
		looked = true;
		flow_take(thread, flow, frame, wc_flags);
		if (!flow->goes_on)
			hit = flow;
	}
}

void vb_raw_sniff(struct vb_raw_port *port, struct vb_thread *thread, const struct vb_frame *frame)
{
	vb_list_for(flow, &port->flows, struct vb_flow, node) {
		if (flow->sniffs && !flow_is_repeated(port, flow))
			flow_take(thread, flow, frame, IBV_WC_IP_CSUM_OK);
	}
}
