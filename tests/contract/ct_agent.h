/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of an agent, shared by the files that execute commands. */
#ifndef CT_AGENT_H
#define CT_AGENT_H

#include <pthread.h>

#include "ct_msg.h"

enum { OBJECTS_MAX = 8192, HAMMERS_MAX = 8 };

/* In the order in which they can be destroyed: no object uses one of a kind above its own. */
enum kind {
	KIND_NONE,
	KIND_QP,
	KIND_SRQ,
	KIND_AH,
	KIND_MR,
	KIND_CQ,
	KIND_CHANNEL,
	KIND_PD,
	KIND_XRCD,
	KINDS
};

struct object {
	enum kind kind;
	void *ptr;
};

struct watch {
	pthread_t thread;
	volatile uint8_t *buffer;
	uint64_t length;
	volatile uint64_t *reply;
	int rounds, torn;
};

struct hammer {
	pthread_t thread;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	int count, depth, good, missing;
};

struct sleeper {
	pthread_t thread;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_recv_wr wr;
	struct ibv_sge sge;
	int count, good;
};

struct ct_agent {
	struct ibv_context *ctx;
	uint8_t *arena;
	struct object objects[OBJECTS_MAX]; /* a handle is an index; 0 stands for none */
	int object_count;
	struct watch watch;
	struct sleeper sleeper;
	struct hammer hammers[HAMMERS_MAX];
	int hammer_count, hammers_running;
};

/* ct_agent.c */
void *agent_object(struct ct_agent *g, int handle, enum kind kind);
int agent_keep(struct ct_agent *g, enum kind kind, void *ptr);
/* ct_xrc_link.c */
void agent_xrc(struct ct_agent *g, struct ct_msg *m);

/* ct_builder.c */
struct ibv_qp *agent_make_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int agent_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

void agent_post_send(struct ct_agent *g, struct ct_msg *m);
void agent_post_recv(struct ct_agent *g, struct ct_msg *m);
void agent_poll_cq(struct ct_agent *g, struct ct_msg *m);
void agent_cq_event(struct ct_agent *g, struct ct_msg *m);
void agent_async_event(struct ct_agent *g, struct ct_msg *m);
void agent_fill(struct ct_agent *g, struct ct_msg *m);
void agent_compare(struct ct_agent *g, struct ct_msg *m);
void agent_peek(struct ct_agent *g, struct ct_msg *m);
void agent_poke(struct ct_agent *g, struct ct_msg *m);
void agent_hammer_start(struct ct_agent *g, struct ct_msg *m);
void agent_hammer_join(struct ct_agent *g, struct ct_msg *m);
void agent_sleeper_start(struct ct_agent *g, struct ct_msg *m);
void agent_sleeper_join(struct ct_agent *g, struct ct_msg *m);
void agent_watch_start(struct ct_agent *g, struct ct_msg *m);
void agent_watch_join(struct ct_agent *g, struct ct_msg *m);

#endif
