/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of both directions of a stream, as arithmetic: no I/O, no locks. These functions
 * check what a peer claims; -EPROTO ends the connection.
 */
#ifndef VB_RSOCKET_FLOW_H
#define VB_RSOCKET_FLOW_H

#include "rsocket/proto.h"

/* Sending: the buffers and credits that the peer has granted. */
struct vb_rs_tx {
	struct vb_rs_sge window[VB_RS_SGL_COUNT]; /* buffers of the peer; length: bytes left */
	unsigned current;                         /* the window that is being filled */
	unsigned next_slot; /* the slot of the SGL that the peer writes next */
	uint16_t sent;      /* messages with a credit, modulo 2^16 */
	uint16_t limit;     /* of sent */
	uint16_t credits;   /* the number of the peer's receives */
};

void vb_rs_tx_init(struct vb_rs_tx *tx, const struct vb_rs_conn *peer);
bool vb_rs_tx_has_credit(const struct vb_rs_tx *tx);
/* The longest message that is possible now. */
uint32_t vb_rs_tx_room(const struct vb_rs_tx *tx);
/* Takes a credit and size bytes of the window, and returns their place. */
struct vb_rs_sge vb_rs_tx_take(struct vb_rs_tx *tx, uint32_t size);
void vb_rs_tx_take_credit(struct vb_rs_tx *tx);
/* An SGL message brings new credits, and a new window if the peer wrote one into sgl. */
int vb_rs_tx_grant(struct vb_rs_tx *tx, uint32_t operand, uint8_t *sgl, bool big_endian);

/* Receiving: a ring of two halves, granted to the peer in turn. */
struct vb_rs_rx {
	uint32_t half;         /* bytes */
	uint32_t granted;      /* bytes that the peer may still fill */
	uint32_t available;    /* bytes to read */
	uint32_t idle;         /* bytes that were read, and are not granted again yet */
	uint32_t read_offset;  /* of the next byte to read */
	uint32_t grant_offset; /* of the half that is granted next */
	uint16_t received;     /* messages with a credit, modulo 2^16 */
	uint16_t announced;    /* the value of received in the last grant */
	uint16_t credits;      /* the number of receives */
};

/* The contents of an SGL message to the peer. */
struct vb_rs_grant {
	uint32_t operand;
	bool has_window;
	uint32_t offset; /* of the half within the ring */
};

void vb_rs_rx_init(struct vb_rs_rx *rx, uint32_t size, uint16_t credits);
int vb_rs_rx_message(struct vb_rs_rx *rx);
int vb_rs_rx_data(struct vb_rs_rx *rx, uint32_t size);
/* The number of contiguous bytes at read_offset. */
uint32_t vb_rs_rx_piece(const struct vb_rs_rx *rx);
void vb_rs_rx_consume(struct vb_rs_rx *rx, uint32_t size);
bool vb_rs_rx_grant_due(const struct vb_rs_rx *rx);
struct vb_rs_grant vb_rs_rx_grant(struct vb_rs_rx *rx);

#endif
