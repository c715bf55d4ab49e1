/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/counters.h"

#include <stddef.h>
#include <string.h>

#include "engine/wire/wire.h"
#include "path/raw/raw.h"

/* A number in struct vb_wire_counts. */
struct row {
	const char *name;
	size_t offset;
};

#define PORT(field) offsetof(struct vb_wire_counts, port.field)
#define QPS(field)  offsetof(struct vb_wire_counts, qps.field)
#define DROP(drop)  offsetof(struct vb_wire_counts, drops[drop])
#define FLAW(flaw)  offsetof(struct vb_wire_counts, flaws[flaw])

static const struct row rows[] = {
	{ "sent_pkts", PORT(packets_out) },
	{ "rcvd_pkts", PORT(packets_in) },
	{ "sent_bytes", PORT(bytes_out) },
	{ "rcvd_bytes", PORT(bytes_in) },
	{ "send_err", PORT(send_errors) },
	{ "send_too_big_err", PORT(too_big) },
	{ "forwarded_pkts", PORT(forwarded_out) },
	{ "forward_lost_err", PORT(forwarded_lost) },
	{ "rcvd_forwarded_pkts", PORT(forwarded_in) },
	{ "slot_refused_err", PORT(slot_refused) },
	{ "rcvd_oversized_err", PORT(oversized) },
	{ "rcvd_overrun_err", PORT(overrun) },
	{ "memory_full_err", PORT(memory_full) },
	{ "lane_handed_over_pkts", PORT(handed_over) },

	{ "duplicate_request", QPS(duplicates) },
	{ "out_of_seq_request", QPS(out_of_sequence) },
	{ "send_rnr_err", QPS(rnr_sent) },
	{ "np_cnp_sent", QPS(cnp_sent) },
	{ "rp_cnp_handled", QPS(cnp_handled) },
	{ "rcvd_rnr_err", QPS(rnr_naks) },
	{ "rcvd_seq_err", QPS(nak_sequence) },
	{ "doubted_naks", QPS(naks_doubted) },
	{ "implied_nak_seq_err", QPS(implied_nak) },
	{ "local_ack_timeout_err", QPS(timeouts) },
	{ "retransmitted_pkts", QPS(retransmits) },
	{ "late_response", QPS(late_answers) },
	{ "retry_exceeded_err", QPS(retry_exceeded) },
	{ "retry_rnr_exceeded_err", QPS(rnr_exceeded) },

	{ "dropped_malformed", DROP(VB_PACKET_DROP_MALFORMED) },
	{ "dropped_icrc", DROP(VB_PACKET_DROP_ICRC) },
	{ "dropped_unknown_qp", DROP(VB_PACKET_DROP_UNKNOWN_QP) },
	{ "dropped_wrong_transport", DROP(VB_PACKET_DROP_TRANSPORT) },
	{ "dropped_qp_state", DROP(VB_PACKET_DROP_STATE) },
	{ "dropped_pkey", DROP(VB_PACKET_DROP_PKEY) },
	{ "dropped_address", DROP(VB_PACKET_DROP_ADDRESS) },
	{ "dropped_qkey", DROP(VB_PACKET_DROP_QKEY) },
	{ "dropped_sequence", DROP(VB_PACKET_DROP_SEQUENCE) },
	{ "dropped_length", DROP(VB_PACKET_DROP_LENGTH) },
	{ "dropped_no_receive", DROP(VB_PACKET_DROP_RECEIVE) },
	{ "dropped_access", DROP(VB_PACKET_DROP_ACCESS) },
	{ "dropped_overflow", DROP(VB_PACKET_DROP_OVERFLOW) },

	{ "malformed_truncated", FLAW(VB_PACKET_TRUNCATED) },
	{ "malformed_oversized", FLAW(VB_PACKET_OVERSIZED) },
	{ "malformed_unknown", FLAW(VB_PACKET_UNKNOWN) },
	{ "malformed_version", FLAW(VB_PACKET_VERSION) },
	{ "malformed_syndrome", FLAW(VB_PACKET_SYNDROME) },
	{ "malformed_unaligned", FLAW(VB_PACKET_UNALIGNED) },
	{ "reserved_bits", offsetof(struct vb_wire_counts, reserved) },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };
/* A new counter needs a row. VB_PACKET_OK is no flaw, and has none. */
static_assert((ROWS + 1) * sizeof(uint64_t) == sizeof(struct vb_wire_counts), "a row is missing");

/* Messages that found no receive or no right at a QP of this process, by either path. */
static uint64_t dropped_messages(struct vb_nic *nic)
{
	uint64_t sum;

	pthread_mutex_lock(&nic->lock);
	sum = nic->dropped;
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		sum += atomic_load(&qp->lent->dropped);
	pthread_mutex_unlock(&nic->lock);
	return sum;
}

/* Messages with a wrong key at any device, by either path. */
static void violations_each(struct vb_nic *nic, vb_counters_each_fn each, void *arg)
{
	struct vb_device *const *devices;
	const int count = vb_device_table(&devices);
	struct vb_violations sum = { 0 };

	for (int i = 0; i < count; i++) {
		const struct vb_violations of = vb_qps_violations(nic, devices[i]);

		sum.pkey += of.pkey;
		sum.qkey += of.qkey;
	}
	each(arg, "pkey_violations", sum.pkey);
	each(arg, "qkey_violations", sum.qkey);
}

/* Frames of raw packet QPs. */
static void raw_each(vb_counters_each_fn each, void *arg)
{
	struct vb_raw_counts counts = { 0 };

	vb_raw_count(&counts);
	each(arg, "raw_sent_frames", counts.frames_out);
	each(arg, "raw_sent_bytes", counts.bytes_out);
	each(arg, "raw_send_err", counts.send_errors);
	each(arg, "raw_rcvd_frames", counts.frames_in);
	each(arg, "raw_rcvd_bytes", counts.bytes_in);
	each(arg, "raw_rcvd_oversized_err", counts.oversized);
	each(arg, "raw_rcvd_overrun_err", counts.overrun);
}

void vb_counters_each(struct vb_nic *nic, vb_counters_each_fn each, void *arg)
{
	struct vb_wire_counts counts;

	vb_wire_count(nic, &counts);
	for (unsigned i = 0; i < ROWS; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&counts + rows[i].offset, sizeof(value));
		each(arg, rows[i].name, value);
	}
	each(arg, "dropped_messages", dropped_messages(nic));
	violations_each(nic, each, arg);
	raw_each(each, arg);
}
