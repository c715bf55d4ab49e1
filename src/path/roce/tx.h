/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that leave, gathered into bursts: packets to one destination and of one size leave in one
 * system call. The ICRC covers the IPv4 identification, which is the packet's place in the burst.
 */
#ifndef VB_PATH_ROCE_TX_H
#define VB_PATH_ROCE_TX_H

#include "port/port.h"
#include "wire/packet.h"

enum {
	VB_TX_BYTES = 4 * VB_BURST_BYTES,
	VB_TX_BURSTS = 64,
};

struct vb_roce;

struct vb_tx {
	struct vb_roce *roce;
	uint8_t *bytes; /* VB_TX_BYTES */
	uint32_t qpn;   /* the sending QP; set by the caller */
	uint32_t used;
	struct vb_burst bursts[VB_TX_BURSTS];
	unsigned count;       /* number of bursts */
	uint32_t flushes;     /* times that bursts were handed to the sink */
	unsigned packets;     /* packets in the last burst */
	unsigned packets_max; /* limit of that number */
	bool closed;          /* the last burst takes no more packets */
	/* the packet that is being built, or was built last */
	uint8_t *at;
	uint32_t headers_length, payload_length;
	uint32_t icrc_head; /* of its ICRC (wire/icrc.h) */
	bool bare;          /* its headers are a BTH alone: the next one may differ but a little */
};

int vb_tx_init(struct vb_tx *tx, struct vb_roce *roce);
void vb_tx_fini(struct vb_tx *tx);

/* Writes the headers; returns the place for payload_length bytes of payload. */
uint8_t *vb_tx_begin(struct vb_tx *tx, const struct vb_way *way, const struct vb_packet *packet);
/* Adds pad and ICRC: the packet is complete. */
void vb_tx_end(struct vb_tx *tx);
/*
 * The same for a packet that follows the last one of this QP, and differs from it in PSN and
 * payload alone: both are in the middle of a message, and this one asks for no ACK. NULL: it would
 * not continue the burst.
 */
uint8_t *vb_tx_next(struct vb_tx *tx, uint32_t psn);
/* Instead of vb_tx_end: the packet is not sent. */
void vb_tx_cancel(struct vb_tx *tx);
/* A packet without payload. */
static inline void vb_tx_packet(struct vb_tx *tx, const struct vb_way *way,
				const struct vb_packet *packet)
{
	vb_tx_begin(tx, way, packet);
	vb_tx_end(tx);
}
/* Moves the last burst in front of the bursts from `to` on. */
void vb_tx_advance_last(struct vb_tx *tx, unsigned to);
/* Hands all bursts to the sink. Their ways must live until then. */
void vb_tx_flush(struct vb_tx *tx);

#endif
