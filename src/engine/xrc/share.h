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

/* --- handle.c --- */

/* For a QP of this process or of another one. -EINVAL: the domain has no such QP. */
int vb_xrc_handle_open(struct vb_xrcd *xrcd, uint32_t qpn, void *qp_context,
		       struct vb_xrc_handle **handle);
int vb_xrc_handle_modify(struct vb_xrc_handle *handle, const struct ibv_qp_attr *attr, int mask);
int vb_xrc_handle_query(struct vb_xrc_handle *handle, struct ibv_qp_attr *attr,
			struct ibv_qp_init_attr *init);
/* The QP of this process that has the number, if it is one of the domain. Under nic->lock. */
struct vb_qp *vb_xrc_receiver_find(struct vb_nic *nic, uint32_t qpn, const struct vb_xrcd_id *xrcd);
/* A new XRC_RECV QP, which its creator and all that open it share. */
int vb_xrc_receiver_make(struct vb_xrcd *xrcd, void *qp_context, struct vb_qp **out);
/* The application lets go of an XRC_RECV QP that it created, or of a handle. */
int vb_xrc_receiver_destroy(struct vb_qp *qp);
/* One of those that have it lets go; with the last one the QP ends. */
int vb_xrc_release(struct vb_qp *real);

/* --- serve.c --- */

/* By the service thread: a request has arrived on a new connection. True: the connection stays
 * with the handle, and is no longer the caller's. */
bool vb_xrc_serve(struct vb_nic *nic, int socket);

/* --- ask.c --- */

/* Opens a QP of another process: handle->session is the connection. 0 or -errno. */
int vb_xrc_ask_open(struct vb_xrc_handle *handle);
/* Modify and query: *answer, if it is not NULL, is what the other process says. */
int vb_xrc_ask(struct vb_xrc_handle *handle, enum vb_xrc_ask ask, const struct ibv_qp_attr *attr,
	       int mask, struct vb_xrc_answer *answer);
/* No event comes any more. */
void vb_xrc_ask_close(struct vb_xrc_handle *handle);

#endif
