/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC_RECV QP that processes of one domain share. It lives in the process that created it; the
 * others open it through its slot socket:
 *
 *   open     the connection stays: events of the QP come down it, and its end is the end of the
 *            handle, however the process that has it ends
 *   modify   a connection for each, as for
 *   query
 *
 * engine/xrc/serve.c answers, in the service thread; engine/xrc/ask.c asks.
 */
#ifndef VB_ENGINE_XRC_SHARE_H
#define VB_ENGINE_XRC_SHARE_H

#include "engine/engine.h"
#include "nic/xrcd.h"

#define VB_XRC_SHARE_MAGIC 0x3163727862726576ull /* "verbxrc1" */

enum vb_xrc_ask { VB_XRC_ASK_OPEN = 1, VB_XRC_ASK_MODIFY, VB_XRC_ASK_QUERY };

struct vb_xrc_request {
	uint64_t magic;
	uint32_t layout_version;
	uint32_t ask; /* enum vb_xrc_ask */
	struct vb_xrcd_id xrcd;
	uint32_t qpn;
	int32_t mask;            /* modify */
	struct ibv_qp_attr attr; /* likewise */
};

struct vb_xrc_answer {
	int32_t error;           /* 0 or an errno value */
	uint32_t state;          /* enum ibv_qp_state */
	struct ibv_qp_attr attr; /* query */
};

/* What only the folder above knows how to do; set before there can be a QP to share. */
struct vb_xrc_calls {
	int (*modify)(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
	int (*release)(struct vb_qp *qp); /* lets go of it, and destroys it if nobody else has it */
};
void vb_xrc_share_init(const struct vb_xrc_calls *calls);

/* By the service thread: a request has arrived on a new connection. True: the connection stays
 * with the handle, and is no longer the caller's. */
bool vb_xrc_serve(struct vb_nic *nic, int socket);

/* Opens a QP of another process: handle->session is the connection. 0 or -errno. */
int vb_xrc_ask_open(struct vb_qp *handle);
/* Modify and query: *answer, if it is not NULL, is what the other process says. */
int vb_xrc_ask(struct vb_qp *handle, enum vb_xrc_ask ask, const struct ibv_qp_attr *attr, int mask,
	       struct vb_xrc_answer *answer);
/* No event comes any more. */
void vb_xrc_ask_close(struct vb_qp *handle);

#endif
