/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "path/roce/roce.h"

int vb_tx_init(struct vb_tx *tx, struct vb_roce *roce)
{
	*tx = (struct vb_tx){ .roce = roce, .bytes = malloc(VB_TX_BYTES) };
	return tx->bytes ? 0 : -ENOMEM;
}

void vb_tx_fini(struct vb_tx *tx)
{
	free(tx->bytes);
	tx->bytes = NULL;
}

void vb_tx_flush(struct vb_tx *tx)
{
	if (tx->count)
		tx->roce->sink.send(tx->roce->sink.arg, tx->bursts, tx->count);
	tx->flushes++;
	tx->count = 0;
	tx->used = 0;
	tx->closed = true;
}

/* True: a packet of this length continues the last burst. */
static bool burst_continues(const struct vb_tx *tx, const struct vb_way *way, size_t length)
{
	const struct vb_burst *last;

	if (!tx->count || tx->closed || tx->packets >= tx->packets_max)
		return false;
	last = &tx->bursts[tx->count - 1];
	return last->way == way && last->qpn == tx->qpn && length <= last->segment &&
	       last->length + length <= VB_BURST_BYTES;
}

static void burst_begin(struct vb_tx *tx, const struct vb_way *way, size_t length)
{
	if (tx->count == VB_TX_BURSTS)
		vb_tx_flush(tx);
	tx->bursts[tx->count++] = (struct vb_burst){
		.way = way,
		.bytes = tx->bytes + tx->used,
		.segment = (uint32_t)length,
		.qpn = tx->qpn,
	};
	tx->packets = 0;
	tx->closed = false;
	tx->packets_max = tx->roce->sink.burst_max(tx->roce->sink.arg, way);
}

/* Writes the headers, and computes the part of the ICRC that they share with the next packet. */
static void headers_put(struct vb_tx *tx, const struct vb_packet *packet, size_t length)
{
	const uint8_t *before = tx->at;
	const bool may_share =
		tx->bare && tx->packets && tx->payload_length == packet->payload_length;

	tx->at = tx->bytes + tx->used;
	tx->headers_length = (uint32_t)vb_packet_emit(packet, tx->at);
	tx->payload_length = packet->payload_length;
	tx->bare = tx->headers_length == VB_BTH_LENGTH;
	if (!may_share || !tx->bare || memcmp(before, tx->at, VB_ICRC_HEAD) != 0)
		tx->icrc_head = vb_icrc_head(&tx->bursts[tx->count - 1].way->flow, tx->at,
					     length - VB_ICRC_LENGTH);
}

uint8_t *vb_tx_begin(struct vb_tx *tx, const struct vb_way *way, const struct vb_packet *packet)
{
	size_t length = vb_packet_length(packet);

	if (tx->used + length > VB_TX_BYTES)
		vb_tx_flush(tx);
	if (!burst_continues(tx, way, length))
		burst_begin(tx, way, length);
	headers_put(tx, packet, length);
	return tx->at + tx->headers_length;
}

uint8_t *vb_tx_next(struct vb_tx *tx, uint32_t psn)
{
	const uint32_t length = VB_BTH_LENGTH + tx->payload_length + VB_ICRC_LENGTH;
	uint8_t *at = tx->bytes + tx->used;
	const struct vb_burst *last;

	if (!tx->bare || !tx->count || tx->closed || tx->packets >= tx->packets_max)
		return NULL;
	last = &tx->bursts[tx->count - 1];
	if (length != last->segment || tx->used + length > VB_TX_BYTES ||
	    last->length + length > VB_BURST_BYTES)
		return NULL;
	vb_packet_emit_next(tx->at, psn, at);
	tx->at = at;
	return at + VB_BTH_LENGTH;
}

void vb_tx_end(struct vb_tx *tx)
{
	struct vb_burst *burst = &tx->bursts[tx->count - 1];
	uint32_t length = tx->headers_length + tx->payload_length;

	while (length & 3)
		tx->at[length++] = 0;
	vb_icrc_put_behind(&burst->way->flow, tx->icrc_head, vb_port_id(tx->packets), tx->at,
			   length);
	length += VB_ICRC_LENGTH;
	burst->length += length;
	tx->used += length;
	tx->packets++;
	/* Only the last packet of a burst may be shorter. */
	tx->closed = length < burst->segment;
}

void vb_tx_advance_last(struct vb_tx *tx, unsigned to)
{
	struct vb_burst last = tx->bursts[tx->count - 1];

	memmove(&tx->bursts[to + 1], &tx->bursts[to], (tx->count - 1 - to) * sizeof(last));
	tx->bursts[to] = last;
	tx->closed = true;
}

void vb_tx_cancel(struct vb_tx *tx)
{
	tx->bare = false;
	if (tx->count && !tx->bursts[tx->count - 1].length) {
		tx->count--;
		tx->closed = true;
	}
}
