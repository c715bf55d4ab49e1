/* SPDX-License-Identifier: BSD-2-Clause */
/* What an end is asked to do: one message out, the same message with the answer back. */
#ifndef CT_MSG_H
#define CT_MSG_H

#include "ct.h"

enum ct_op {
	CT_OP_OPEN,
	CT_OP_CLOSE,
	CT_OP_ALLOC_PD,
	CT_OP_REG_MR,
	CT_OP_REREG_MR,
	CT_OP_CREATE_CHANNEL,
	CT_OP_CREATE_CQ,
	CT_OP_CREATE_SRQ,
	CT_OP_CREATE_QP,
	CT_OP_CREATE_AH,
	CT_OP_ATTACH_MCAST,
	CT_OP_DETACH_MCAST,
	CT_OP_DESTROY,
	CT_OP_MODIFY_QP,
	CT_OP_QUERY_QP,
	CT_OP_MODIFY_SRQ,
	CT_OP_QUERY_SRQ,
	CT_OP_RESIZE_CQ,
	CT_OP_REQ_NOTIFY,
	CT_OP_POST_SEND,
	CT_OP_POST_RECV,
	CT_OP_POLL_CQ,
	CT_OP_CQ_EVENT,
	CT_OP_ASYNC_EVENT,
	CT_OP_FILL,
	CT_OP_COMPARE,
	CT_OP_PEEK,
	CT_OP_POKE,
	CT_OP_HAMMER_START,
	CT_OP_HAMMER_JOIN,
	CT_OP_SLEEPER_START,
	CT_OP_SLEEPER_JOIN,
	CT_OP_WATCH_START,
	CT_OP_WATCH_JOIN,
	CT_OP_XRC,
	CT_OP_DIE,
	CT_OP_LEAVE,
	CT_OP_COUNT,
};

/* A list of WRs, flat: `count` WRs, then all their SGEs. */
struct ct_post {
	int count, sge_count;
	int bad;            /* answer: index of the bad WR, or -1 */
	int repeat, cq;     /* of a hammer or a sleeper */
	int depth, channel; /* of a hammer; of a sleeper */
	_Alignas(8) uint8_t bytes[];
};

struct ct_msg {
	enum ct_op op;
	int handle; /* of the object that is acted upon */
	int ret;    /* what the verb returned; makers: the handle or -errno */
	uint32_t body_bytes;
	union {
		struct {
			bool infiniband;
			struct ibv_device_attr attr;
			struct ibv_port_attr port;
			union ibv_gid gid;
			int gid_index;
			uint64_t base;
		} open;
		struct {
			int pd, access, flags;
			bool with_iova;
			uint64_t offset, length, iova;
			uint64_t addr;
			uint32_t lkey, rkey;
		} mr;
		struct {
			int cqe, channel;
		} cq;
		struct {
			int pd, scq, rcq, srq;
			struct ibv_qp_init_attr init;
			uint32_t qpn;
		} qp;
		struct {
			int mask;
			struct ibv_qp_attr attr;
			struct ibv_qp_init_attr init;
		} modify;
		struct {
			int pd, mask;
			struct ibv_srq_attr attr;
		} srq;
		struct {
			int pd;
			struct ibv_ah_attr attr;
		} ah;
		struct {
			enum ct_xrc_op { CT_XRCD, CT_XRC_SRQ, CT_XRC_RECV, CT_XRC_OPEN } op;
			int xrcd, pd, cq, oflags;
			struct ibv_srq_attr attr;
			uint32_t number; /* of an SRQ or QP */
			char path[64];   /* of the file; empty: none */
		} xrc;
		struct {
			union ibv_gid gid;
			uint16_t lid;
		} mcast;
		struct {
			int count, deadline_ms;
			struct ibv_wc wc[CT_WC_MAX];
		} poll;
		struct {
			int deadline_ms;
			enum ibv_event_type type;
			int handle;
		} event;
		struct {
			uint64_t offset, length, value;
			unsigned seed;
			int rounds;
			uint8_t bytes[256];
		} memory;
		struct ct_post post;
		bool flag;
		uint8_t body[96 << 10];
	};
};

#define CT_MSG_HEAD offsetof(struct ct_msg, body)

struct ct_agent *ct_agent_create(void);
void ct_agent_execute(struct ct_agent *g, struct ct_msg *m);
/* Executes what arrives until the other side closes; never returns. */
_Noreturn void ct_agent_serve(int sock);
struct ibv_context *ct_agent_context(struct ct_agent *g);
void *ct_agent_object(struct ct_agent *g, int handle);
int ct_agent_adopt_cq(struct ct_agent *g, struct ibv_cq *cq);
void ct_agent_forget(struct ct_agent *g, int handle);
int ct_agent_adopt_pd(struct ct_agent *g, struct ibv_pd *pd);

#endif
