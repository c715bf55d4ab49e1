/* SPDX-License-Identifier: BSD-2-Clause */
/* The process or host at the other end of a QP, in the words of a sentence. */
#ifndef VB_NIC_FAR_WORDS_H
#define VB_NIC_FAR_WORDS_H

#include "nic/qp.h"

enum { VB_FAR_WORDS = 96 };

/* The number of the QP at the other end. wqe: that of a datagram; NULL: none. */
uint32_t vb_far_qpn(const struct vb_qp *qp, const struct vb_wqe *wqe);
/* Writes " (pid 4711, rping)", or " (at 192.0.2.7)" of another host. wqe: only by the executor;
 * NULL: any thread. */
const char *vb_far_words(const struct vb_qp *qp, const struct vb_wqe *wqe, char text[VB_FAR_WORDS]);

#endif
