/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large sends: a work request with a TCP header and more payload than a frame holds leaves as
 * several frames. The headers of WQEs are kept beside the send queue.
 */
#ifndef VB_PATH_RAW_TSO_H
#define VB_PATH_RAW_TSO_H

#include "path/raw/raw.h"

struct vb_tso {
	uint16_t header_length, mss;
	uint8_t header[];
};

/* The QP may post headers of up to header_max bytes from now on; -EINVAL, -ENOMEM. */
int vb_tso_enable(struct vb_qp *qp, uint32_t header_max);
/* Copies the header of wr for the WQE at the tail; 0 or -EINVAL. Under the queue's lock. */
int vb_tso_take(struct vb_qp *qp, const struct ibv_send_wr *wr);
struct vb_tso *vb_tso_at(const struct vb_qp *qp, uint32_t index);

/*
 * Makes the frame whose payload begins at offset, of total bytes, at out; false: the header is not
 * that of TCP over IP.
 */
bool vb_tso_segment(const struct vb_tso *tso, const uint8_t *payload, uint32_t total,
		    uint32_t offset, uint8_t *out, struct vb_frame *frame);

#endif
