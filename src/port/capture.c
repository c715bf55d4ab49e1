/* SPDX-License-Identifier: BSD-2-Clause */
/* While a program captures, each packet leaves a record (capture/record.h). */
#include <string.h>

#include "base/clock.h"
#include "capture/ring.h"
#include "port/impl.h"
#include "wire/mad.h"
#include "wire/packet.h"

static_assert((int)VB_BY_NOWHERE == (int)VB_WAY_NOWHERE && (int)VB_BY_GROUP == (int)VB_WAY_GROUP,
	      "two names of one list");

/* Headers are kept as well; a packet that is not cut keeps its ICRC. */
static uint32_t kept_of(const uint8_t *bytes, uint32_t length)
{
	const uint32_t headers =
		length ? vb_opcode_row(bytes[0])->headers_length + vb_capture_bytes() : 0;
	const uint32_t least = headers < VB_BTH_LENGTH ? VB_BTH_LENGTH : headers;

	/* Up to 3 bytes of pad and the ICRC do not count. MADs have one length. */
	if (length <= least + 3 + VB_ICRC_LENGTH || vb_packet_dest_qpn(bytes) == VB_GSI_QPN)
		return length;
	return least;
}

static void packet_record(enum vb_capture_kind kind, const struct vb_capture_packet *model,
			  const uint8_t *bytes, uint32_t length, uint64_t now_ns)
{
	const size_t head = sizeof(struct vb_capture_head);
	const uint32_t kept = kept_of(bytes, length);
	struct vb_capture_packet *record =
		vb_capture_begin(kind, sizeof(*record) + kept, 1, now_ns);

	if (!record)
		return;
	memcpy((uint8_t *)record + head, (const uint8_t *)model + head, sizeof(*record) - head);
	record->length = length;
	record->kept = kept;
	memcpy(record + 1, bytes, kept);
	vb_capture_end();
}

static void flow_put(struct vb_capture_packet *record, const struct vb_icrc_flow *flow)
{
	record->ipv6 = flow->ipv6;
	memcpy(record->src, flow->src, sizeof(record->src));
	memcpy(record->dst, flow->dst, sizeof(record->dst));
	record->src_port = flow->src_port;
	record->dst_port = flow->dst_port;
}

void vb_port_capture_out(const struct vb_burst *bursts, unsigned count)
{
	const uint64_t now_ns = vb_now_ns();

	if (!vb_captures(VB_WANT_PACKETS))
		return;
	for (unsigned i = 0; i < count; i++) {
		const struct vb_burst *burst = &bursts[i];
		struct vb_capture_packet record = { .qpn = burst->qpn,
						    .traffic_class = burst->way->traffic_class,
						    .hop_limit = burst->way->hop_limit,
						    .by = burst->way->kind };
		unsigned position = 0;

		flow_put(&record, &burst->way->flow);
		for (uint32_t at = 0; at < burst->length; at += burst->segment) {
			uint32_t left = burst->length - at;

			record.id = vb_port_id(position++);
			packet_record(VB_CAPTURE_OUT, &record, burst->bytes + at,
				      left < burst->segment ? left : burst->segment, now_ns);
		}
	}
}

void vb_port_capture_in(const struct vb_arrival *arrival)
{
	struct vb_capture_packet record = { .traffic_class = arrival->traffic_class,
					    .hop_limit = arrival->hop_limit,
					    .by = arrival->peer     ? VB_BY_SLOT
						  : arrival->fabric ? VB_BY_GROUP
								    : VB_BY_UDP };

	if (!vb_captures(VB_WANT_PACKETS))
		return;
	flow_put(&record, arrival->flow);
	packet_record(VB_CAPTURE_IN, &record, arrival->bytes, arrival->length, vb_now_ns());
}
