/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/flow.h"

#include <errno.h>
#include <string.h>

void vb_rs_tx_init(struct vb_rs_tx *tx, const struct vb_rs_conn *peer)
{
	*tx = (struct vb_rs_tx){
		.window[0] = peer->data,
		.next_slot = 1 % VB_RS_SGL_COUNT,
		.limit = peer->credits,
		.credits = peer->credits,
	};
}

bool vb_rs_tx_has_credit(const struct vb_rs_tx *tx)
{
	return tx->sent != tx->limit;
}

uint32_t vb_rs_tx_room(const struct vb_rs_tx *tx)
{
	const uint32_t length = tx->window[tx->current].length;

	if (!vb_rs_tx_has_credit(tx))
		return 0;
	return length < VB_RS_MESSAGE_MAX ? length : VB_RS_MESSAGE_MAX;
}

void vb_rs_tx_take_credit(struct vb_rs_tx *tx)
{
	tx->sent++;
}

struct vb_rs_sge vb_rs_tx_take(struct vb_rs_tx *tx, uint32_t size)
{
	struct vb_rs_sge *window = &tx->window[tx->current];
	struct vb_rs_sge target = *window;

	target.length = size;
	tx->sent++;
	window->addr += size;
	window->length -= size;
	if (!window->length)
		tx->current = (tx->current + 1) % VB_RS_SGL_COUNT;
	return target;
}

/* Credits only grow, and a peer cannot acknowledge a message that was never sent. */
static int grant_credits(struct vb_rs_tx *tx, uint16_t limit)
{
	const uint16_t more = (uint16_t)(limit - tx->limit);
	const uint16_t acknowledged = (uint16_t)(limit - tx->credits);

	if (more > tx->credits || (uint16_t)(tx->sent - acknowledged) > tx->credits)
		return -EPROTO;
	tx->limit = limit;
	return 0;
}

int vb_rs_tx_grant(struct vb_rs_tx *tx, uint32_t operand, uint8_t *sgl, bool big_endian)
{
	uint8_t *slot = sgl + tx->next_slot * VB_RS_SGE_SIZE;
	struct vb_rs_sge *window = &tx->window[tx->next_slot];
	struct vb_rs_sge sge;
	int err = grant_credits(tx, (uint16_t)operand);

	if (err)
		return err;
	vb_rs_sge_parse(slot, big_endian, &sge);
	if (!sge.length)
		return 0;
	/* A peer publishes a buffer only after the one before in this slot was filled. */
	if (window->length || sge.addr + sge.length < sge.addr)
		return -EPROTO;
	*window = sge;
	/* Zero marks the slot as read. The peer writes it again when this window is full. */
	memset(slot, 0, VB_RS_SGE_SIZE);
	tx->next_slot = (tx->next_slot + 1) % VB_RS_SGL_COUNT;
	return 0;
}

void vb_rs_rx_init(struct vb_rs_rx *rx, uint32_t size, uint16_t credits)
{
	/* The private data grant the first half. */
	*rx = (struct vb_rs_rx){
		.half = size / 2,
		.granted = size / 2,
		.idle = size / 2,
		.grant_offset = size / 2,
		.credits = credits,
	};
}

int vb_rs_rx_message(struct vb_rs_rx *rx)
{
	if ((uint16_t)(rx->received - rx->announced) >= rx->credits)
		return -EPROTO;
	rx->received++;
	return 0;
}

int vb_rs_rx_data(struct vb_rs_rx *rx, uint32_t size)
{
	if (size > rx->granted)
		return -EPROTO;
	rx->granted -= size;
	rx->available += size;
	return vb_rs_rx_message(rx);
}

uint32_t vb_rs_rx_piece(const struct vb_rs_rx *rx)
{
	const uint32_t to_end = 2 * rx->half - rx->read_offset;

	return rx->available < to_end ? rx->available : to_end;
}

void vb_rs_rx_consume(struct vb_rs_rx *rx, uint32_t size)
{
	rx->available -= size;
	rx->idle += size;
	rx->read_offset += size;
	if (rx->read_offset >= 2 * rx->half)
		rx->read_offset -= 2 * rx->half;
}

bool vb_rs_rx_grant_due(const struct vb_rs_rx *rx)
{
	const uint16_t unannounced = (uint16_t)(rx->received - rx->announced);

	return rx->idle >= rx->half || unannounced >= (rx->credits + 1) / 2;
}

struct vb_rs_grant vb_rs_rx_grant(struct vb_rs_rx *rx)
{
	struct vb_rs_grant grant = {
		.operand = (uint16_t)(rx->received + rx->credits),
		.has_window = rx->idle >= rx->half,
		.offset = rx->grant_offset,
	};

	rx->announced = rx->received;
	if (grant.has_window) {
		rx->idle -= rx->half;
		rx->granted += rx->half;
		rx->grant_offset = rx->grant_offset ? 0 : rx->half;
	}
	return grant;
}
