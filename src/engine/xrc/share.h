/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of one domain share an XRC_RECV QP. The QP lives in the process that created it. The
 * other processes open it through the slot socket of that process:
 *
 *   open     the connection stays: it carries events of the QP, and its end is the end of the
 *            handle, however the process with the handle ends
 *   modify   a connection for each call
 *   query    likewise
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
	int32_t mask;            /* modify only */
	struct ibv_qp_attr attr; /* modify only */
};

struct vb_xrc_answer {
	int32_t error;           /* 0 or an errno value */
	uint32_t state;          /* enum ibv_qp_state */
	struct ibv_qp_attr attr; /* query only */
};

/* --- handle.c --- */

/* Opens a QP of this process or of another one. -EINVAL: the domain has no such QP. */
int vb_xrc_handle_open(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context,
		       struct vb_xrc_handle **handle);
int vb_xrc_handle_modify(struct vb_xrc_handle *handle, const struct ibv_qp_attr *attr, int mask);
int vb_xrc_handle_query(struct vb_xrc_handle *handle, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init);
/* The QP of this process with the number, if it belongs to the domain. Under nic->lock. */
struct vb_qp *vb_xrc_receiver_find(struct vb_nic *nic, uint32_t qpn, const struct vb_xrcd_id *xrcd);
/* Makes an XRC_RECV QP, which its creator shares with all processes that open it. */
int vb_xrc_receiver_make(struct vb_xrcd *xrcd, void *qp_context, struct vb_qp **out);
/* The application lets go of an XRC_RECV QP that it created, or of a handle. */
int vb_xrc_receiver_destroy(struct vb_qp *qp);
/* A creator, a handle or a call lets go of the QP. The last one ends it. */
int vb_xrc_release(struct vb_qp *real);

/* --- serve.c --- */

/*
 * By the service thread: a request has arrived on a new connection. True: the connection stays with
 * the handle, and is no longer the caller's.
 */
bool vb_xrc_serve(struct vb_nic *nic, int socket);

/* --- ask.c --- */

/* Opens a QP of another process: handle->session is the connection. 0 or -errno. */
int vb_xrc_ask_open(struct vb_xrc_handle *handle);
/* Modify and query: *answer is the answer of the other process. */
int vb_xrc_ask(struct vb_xrc_handle *handle, enum vb_xrc_ask ask, const struct ibv_qp_attr *attr,
	       int mask, struct vb_xrc_answer *answer);
/* No event comes after this. */
void vb_xrc_ask_close(struct vb_xrc_handle *handle);

#endif
