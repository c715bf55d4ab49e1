/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of a capture as frames: Ethernet, IP, UDP, and the packet from the BTH on. A packet of
 * the wire is the one that was sent. A work request of the local path becomes the packets that it
 * would be on a wire.
 */
#ifndef VB_CAPTURE_FRAME_H
#define VB_CAPTURE_FRAME_H

#include <stdbool.h>

#include "capture/record.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum {
	VB_CAPTURE_FRAME_HEADERS = 14 + 40 + 8, /* Ethernet, IPv6, UDP; IPv4 is shorter */
	VB_CAPTURE_FRAME_MAX = VB_CAPTURE_FRAME_HEADERS + 65536,
};

struct vb_capture_frame {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: not known */
	const uint8_t *bytes;
	uint32_t kept;   /* bytes there are */
	uint32_t length; /* of the whole frame */
	bool out;        /* it left the process whose record it is */
	bool answer;     /* of a work request: from the other side */
	bool local;      /* of the local path: nobody sent it */
	/* The work request; opcode -1: it is not known. */
	int opcode; /* enum ibv_wr_opcode */
	uint8_t status;
	uint64_t wr_id;
	uint32_t src_qpn, dest_qpn; /* src_qpn 0: not known */
	uint32_t psn;
	uint8_t by;       /* enum vb_capture_by, unless local */
	const char *text; /* a sentence, of text_length bytes */
	uint32_t text_length;
};

/* Buffers, and what the frame before has left; zero it at first. */
struct vb_capture_framer {
	struct vb_icrc_flow flow;
	bool flow_known;
	uint32_t mad_psn;
	uint8_t bytes[VB_CAPTURE_FRAME_MAX];
};

typedef void vb_capture_frame_each(void *arg, const struct vb_capture_frame *frame);

/* Hands out the frames of a record, which is a reader's. Notes have none. */
void vb_capture_frames(struct vb_capture_framer *framer, const struct vb_capture_head *record,
		       vb_capture_frame_each *each, void *arg);

/* --- headers.c: the headers in front of a packet --- */

/* The addresses, ports and fields that a record has. */
struct vb_capture_route {
	struct vb_icrc_flow flow; /* without its seed */
	uint8_t traffic_class, hop_limit;
	uint16_t id;
};

/* Addresses that are GIDs: IPv4 if both stand for IPv4 addresses. */
void vb_capture_route(struct vb_capture_route *route, const uint8_t src[16], const uint8_t dst[16]);
/* The length of the headers of such a frame. */
uint32_t vb_capture_headers(const struct vb_capture_route *route);
/* Writes them, for a packet of length bytes that stands behind them. */
void vb_capture_headers_put(const struct vb_capture_route *route, uint8_t *frame, uint32_t length);

#endif
