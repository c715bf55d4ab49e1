/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames: their headers, checksums and hash. No state, no I/O. */
#ifndef VB_PATH_RAW_FRAME_H
#define VB_PATH_RAW_FRAME_H

#include "nic/flow.h"

enum {
	VB_FRAME_MIN = 14, /* an Ethernet header */
	VB_VLAN_TAG = 4,
	VB_VLAN_OFFSET = 12, /* of the outer tag */
	VB_FCS = 4,
	VB_FRAME_MAX = 65536 + VB_FRAME_MIN + VB_VLAN_TAG, /* the kernel merges frames (GRO) */
};

struct vb_frame {
	uint8_t *at;
	uint32_t length;
	bool from_here; /* a raw QP of this host sent the frame; set by the caller */
	uint32_t l3,
		l4; /* offsets of the IP header and of the next one, if the key has such a layer */
	uint32_t l3_end; /* offset behind the last byte that the IP header counts */
	union vb_flow_words headers;
};

/* False: too short to be a frame. */
bool vb_frame_parse(struct vb_frame *frame, uint8_t *at, uint32_t length);

static inline bool vb_frame_is_multicast(const struct vb_frame *frame)
{
	return frame->headers.key.dst_mac[0] & 1;
}

/* Fills in, or verifies, the checksums of the IPv4 header and of TCP or UDP, if they exist. */
void vb_frame_checksum_fill(struct vb_frame *frame);
bool vb_frame_checksum_good(const struct vb_frame *frame);
/* Fills in the checksum of TCP or UDP alone, which a sending host leaves to its NIC. */
void vb_frame_checksum_fill_l4(struct vb_frame *frame);

/* The frame check sequence that an interface appends, in the byte order of the wire. */
void vb_frame_fcs(const struct vb_frame *frame, uint8_t out[4]);

/* The Toeplitz hash over the fields (enum ibv_rx_hash_fields) that the frame has; 0: none. */
uint32_t vb_frame_hash(const struct vb_frame *frame, uint64_t fields, const uint8_t key[40]);

#endif
