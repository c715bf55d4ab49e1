/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC between processes that share a domain: the QP that receives is in one, the SRQ in another.
 *
 *   near: XRC_SEND ──> far: XRC_RECV ··> near: SRQ     (and the other way round)
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct_msg.h"

enum { WRITES = 200000 };

struct shared {
	char path[64];   /* of the file that names the domain */
	int near, far;   /* handles of it */
	int scq;         /* of the sender; 0: that of the end */
	uint8_t timeout; /* likewise; 0: long, for the process of the SRQ is attached first */
};

static void domain_open(struct ct *t, struct shared *s)
{
	int fd;

	snprintf(s->path, sizeof(s->path), "/tmp/verbena-ct-xrc-XXXXXX");
	fd = mkstemp(s->path);
	CT_TRUE(fd >= 0);
	close(fd);
	s->near = ct_open_xrcd(t->near, s->path, O_CREAT | O_EXCL);
	CT_TRUE(s->near > 0);
	CT_EQ(ct_open_xrcd(t->far, s->path, O_CREAT | O_EXCL), -EINVAL); /* there it is */
	s->far = ct_open_xrcd(t->far, s->path, 0);
	CT_TRUE(s->far > 0);
	unlink(s->path);
}

/* From near to a QP of far that is in the shared domain. */
static void link_open(struct ct *t, struct shared *s, struct ct_link *l)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_qp qp;

	o.type = IBV_QPT_XRC_SEND;
	o.scq_a = s->scq;
	o.timeout = s->timeout ? s->timeout : 18;
	ct_link_create(t, l, &o);
	CT_TRUE(ct_create_xrc_recv(t->far, s->far, &qp) > 0);
	qp.access = l->b.access;
	l->b = qp;
	ct_link_connect(l);
}

/* With slot sockets nobody may touch anybody's memory. */
static void skip_where_untouchable(void)
{
	const char *path = getenv("VERBENA_PATH");

	if (path && !strcmp(path, "slot"))
		ct_skip("the process of the SRQ cannot be reached by that of the QP");
}

/* Messages go to near again, through a QP of far: to the process that owns the SRQ. */
static void messages_reach_the_process_of_the_srq(struct ct *t)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct shared s = { .scq = 0 };
	struct ct_link l;
	uint32_t srqn;
	int srq;

	skip_where_untouchable();
	domain_open(t, &s);
	link_open(t, &s, &l);
	srq = ct_create_xrc_srq(t->near, s.near, t->near->pd, t->near->rcq, 16, 1, &srqn);
	CT_TRUE(srq > 0);
	for (int i = 0; i < 6; i++) {
		uint32_t length = i % 2 ? 20000 + i : 30 * i + 1;
		struct ibv_sge room = ct_sge(t->near, 1 << 20, 32768);
		struct ibv_recv_wr recv = { .wr_id = i, .sg_list = &room, .num_sge = 1 }, *bad;
		struct ibv_wc wc;

		CT_EQ(ct_post_srq_recv(t->near, srq, &recv, &bad), 0);
		ct_fill(t->near, 0, length, i);
		sge = ct_sge(t->near, 0, length);
		wr = ct_wr(&l, IBV_WR_SEND, i, &sge, 1);
		wr.qp_type.xrc.remote_srqn = srqn;
		ct_post(&l.a, &wr);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		wc = ct_expect(t->near, t->near->rcq, i, IBV_WC_SUCCESS);
		CT_EQ(wc.qp_num, l.b.qpn);
		CT_EQ(wc.byte_len, length);
		ct_same(t->near, 1 << 20, length, i);
	}
}

/* So do WRITE, READ and atomics: its memory, its keys, and not those of the QP's process. */
static void memory_is_that_of_the_process_of_the_srq(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 9000);
	struct ibv_send_wr wr;
	struct shared s = { .scq = 0 };
	struct ct_link l;
	uint32_t srqn;

	skip_where_untouchable();
	domain_open(t, &s);
	link_open(t, &s, &l);
	CT_TRUE(ct_create_xrc_srq(t->near, s.near, t->near->pd, t->near->rcq, 16, 1, &srqn) > 0);
	ct_fill(t->near, 0, 9000, 1);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	wr.qp_type.xrc.remote_srqn = srqn;
	ct_aim(&wr, t->near->mr.addr + (1 << 20), t->near->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->near, 1 << 20, 9000, 1);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr_id = 2;
	sge = ct_sge(t->near, 2 << 20, 9000);
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_same(t->near, 2 << 20, 9000, 1);
	ct_poke(t->near, 3 << 20, 40);
	sge = ct_sge(t->near, 4096, 8);
	wr = ct_wr(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, &sge, 1);
	wr.qp_type.xrc.remote_srqn = srqn;
	wr.wr.atomic.compare_add = 2;
	ct_aim(&wr, t->near->mr.addr + (3 << 20), t->near->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->near, 4096), 40);
	CT_EQ(ct_peek(t->near, 3 << 20), 42);
}

/* Through the handle of near the QP of far is brought up; both are told what becomes of it. */
static void a_qp_of_another_process_is_opened(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_qp created, opened;
	struct ibv_qp_attr attr;
	struct shared s = { .scq = 0 };
	struct ct_link l;
	uint32_t srqn;
	int mask;

	domain_open(t, &s);
	o.type = IBV_QPT_XRC_SEND;
	ct_link_create(t, &l, &o);
	CT_TRUE(ct_create_xrc_recv(t->far, s.far, &created) > 0);
	CT_EQ(ct_open_qp(t->near, s.near, created.qpn ^ 0x800, &opened), -EINVAL);
	CT_TRUE(ct_open_qp(t->near, s.near, created.qpn, &opened) > 0);
	CT_EQ(opened.qpn, created.qpn);
	CT_EQ(ct_to_state(&opened, IBV_QPS_RTS),
	      EINVAL); /* what is refused there is refused here */
	opened.access = l.b.access;
	ct_init(&opened);
	CT_EQ(ct_qp_state(&created), IBV_QPS_INIT);
	opened.psn = created.psn;
	/* The address is that of the process that has it: where it was made. */
	opened.end = t->near;
	l.b = created;
	l.b.srq = ct_create_xrc_srq(t->far, s.far, t->far->pd, t->far->rcq, 16, 1, &srqn);
	l.b.srqn = srqn;
	l.b.rcq = t->far->rcq;
	mask = ct_attr_rtr(&l.b, &l.a, &o, &attr);
	CT_EQ(ct_modify_qp(&opened, &attr, mask), 0);
	CT_EQ(ct_qp_state(&opened), IBV_QPS_RTR);
	ct_init(&l.a);
	ct_rtr(&l.a, &l.b, &o);
	ct_rts(&l.a, &o);
	ct_recv(&l.b, 3, 65536, 64);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 3, IBV_WC_SUCCESS);
	ct_event(t->far, IBV_EVENT_COMM_EST, created.handle);
	ct_event(t->near, IBV_EVENT_COMM_EST, opened.handle);
	CT_EQ(ct_destroy(t->far, created.handle), 0); /* near still has it */
	ct_recv(&l.b, 4, 65536, 64);
	ct_send(&l, 2, 0, 8);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_got(&l, 4, IBV_WC_SUCCESS);
	CT_EQ(ct_to_state(&opened, IBV_QPS_ERR), 0);
	ct_event(t->near, IBV_EVENT_QP_LAST_WQE_REACHED, opened.handle);
	ct_no_event(t->far);
}

/* In every state of its QP: the handle is no place to post to, nor to a group or at a rate. */
static void refuse_all(struct ibv_qp *handle)
{
	const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1000 };
	struct ibv_send_wr send = { .wr_id = 1, .opcode = IBV_WR_SEND }, *bad_send = NULL;
	struct ibv_recv_wr recv = { .wr_id = 2 }, *bad_recv = NULL;

	CT_EQ(ibv_post_send(handle, &send, &bad_send), EINVAL);
	CT_TRUE(bad_send == &send);
	CT_EQ(ibv_post_recv(handle, &recv, &bad_recv), EINVAL);
	CT_TRUE(bad_recv == &recv);
	CT_EQ(ibv_modify_qp_rate_limit(handle, &rate), EINVAL);
	CT_EQ(ibv_attach_mcast(handle, &group, 0), EINVAL);
	CT_EQ(ibv_detach_mcast(handle, &group, 0), EINVAL);
	CT_NULL(ibv_qp_to_qp_ex(handle), EINVAL);
}

static void a_handle_takes_no_work(struct ct *t)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ct_context(t->near), &domain);
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = xrcd };
	struct ibv_qp *created = ibv_create_qp_ex(ct_context(t->near), &init), *handle;
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .xrcd = xrcd,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CT_TRUE(created != NULL);
	open.qp_num = created->qp_num;
	handle = ibv_open_qp(ct_context(t->near), &open);
	CT_TRUE(handle != NULL);
	refuse_all(handle);
	CT_EQ(ibv_modify_qp(handle, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      0);
	CT_EQ(created->state, IBV_QPS_INIT);
	refuse_all(handle);
	attr.qp_state = IBV_QPS_ERR;
	CT_EQ(ibv_modify_qp(handle, &attr, IBV_QP_STATE), 0);
	refuse_all(handle);
	CT_EQ(ibv_destroy_qp(created), 0);
	refuse_all(handle);
	CT_EQ(ibv_destroy_qp(handle), 0);
	CT_EQ(ibv_close_xrcd(xrcd), 0);
}

static void the_end_of_its_process_is_told(struct ct *t)
{
	struct ct_qp created, opened;
	struct shared s = { .scq = 0 };

	domain_open(t, &s);
	CT_TRUE(ct_create_xrc_recv(t->far, s.far, &created) > 0);
	CT_TRUE(ct_open_qp(t->near, s.near, created.qpn, &opened) > 0);
	ct_end_kill(t->far);
	ct_event(t->near, IBV_EVENT_QP_FATAL, opened.handle);
	/* And the domain has one user less: it can be made anew once it is closed here. */
	CT_EQ(ct_destroy(t->near, opened.handle), 0);
	CT_EQ(ct_destroy(t->near, s.near), 0);
}

/* A third process, with an agent of its own. */
static void third_start(struct ct *t, struct ct_end *third)
{
	static struct ct_msg msg;
	int pair[2];

	*third = (struct ct_end){ .name = "third", .msg = &msg };
	CT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	third->pid = fork();
	CT_TRUE(third->pid >= 0);
	if (!third->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		ct_agent_serve(pair[1]);
	}
	close(pair[1]);
	third->sock = pair[0];
	ct_end_open(third, t->infiniband);
}

static void to_third(struct ct_link *l, struct ct_end *third, enum ibv_wr_opcode opcode,
		     uint64_t wr_id, uint32_t srqn)
{
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = ct_sge(l->a.end, 0, atomic ? 8 : 5000);
	struct ibv_send_wr wr = ct_wr(l, opcode, wr_id, &sge, 1);

	wr.qp_type.xrc.remote_srqn = srqn;
	wr.wr.atomic.compare_add = 2;
	ct_aim(&wr, third->mr.addr + 65536, third->mr.rkey);
	ct_post(&l->a, &wr);
}

/* A domain that far and the third process have; the handle of the third. */
static int domain_of_far_and(struct ct *t, struct ct_end *third, struct shared *s)
{
	int fd, xrcd;

	snprintf(s->path, sizeof(s->path), "/tmp/verbena-ct-xrc-XXXXXX");
	fd = mkstemp(s->path);
	CT_TRUE(fd >= 0);
	close(fd);
	s->far = ct_open_xrcd(t->far, s->path, O_CREAT);
	xrcd = ct_open_xrcd(third, s->path, O_CREAT);
	unlink(s->path);
	CT_TRUE(s->far > 0 && xrcd > 0);
	return xrcd;
}

/* near: XRC_SEND ──> far: XRC_RECV ··> third: SRQ. Then the third dies. */
static void three_processes(struct ct *t)
{
	struct ct_end third;
	struct shared s = { .scq = 0 };
	struct ct_link l;
	uint32_t srqn;
	int xrcd, srq, fd;

	skip_where_untouchable();
	third_start(t, &third);
	domain_open(t, &s);
	fd = open(s.path, O_CREAT | O_RDWR, 0600); /* another file of that name: another domain */
	CT_TRUE(fd >= 0);
	CT_EQ(ct_open_xrcd(&third, s.path, 0), -EAGAIN);
	close(fd);
	unlink(s.path);
	CT_EQ(ct_destroy(t->near, s.near), 0);
	CT_EQ(ct_destroy(t->far, s.far), 0);
	xrcd = domain_of_far_and(t, &third, &s);
	link_open(t, &s, &l);
	srq = ct_create_xrc_srq(&third, xrcd, third.pd, third.rcq, 16, 1, &srqn);
	CT_TRUE(srq > 0);
	for (int i = 0; i < 4; i++) {
		struct ibv_sge room = ct_sge(&third, 1 << 20, 8192);
		struct ibv_recv_wr recv = { .wr_id = i, .sg_list = &room, .num_sge = 1 }, *bad;

		CT_EQ(ct_post_srq_recv(&third, srq, &recv, &bad), 0);
		ct_fill(t->near, 0, 5000, i);
		to_third(&l, &third, IBV_WR_SEND, i, srqn);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		CT_EQ(ct_expect(&third, third.rcq, i, IBV_WC_SUCCESS).qp_num, l.b.qpn);
		ct_same(&third, 1 << 20, 5000, i);
	}
	ct_fill(t->near, 0, 5000, 9);
	to_third(&l, &third, IBV_WR_RDMA_WRITE, 10, srqn);
	ct_sent(&l, 10, IBV_WC_SUCCESS);
	ct_same(&third, 65536, 5000, 9);
	ct_fill(t->near, 0, 5000, 8);
	to_third(&l, &third, IBV_WR_RDMA_READ, 11, srqn);
	ct_sent(&l, 11, IBV_WC_SUCCESS);
	ct_same(t->near, 0, 5000, 9);
	ct_poke(&third, 65536, 40);
	to_third(&l, &third, IBV_WR_ATOMIC_FETCH_AND_ADD, 12, srqn);
	ct_sent(&l, 12, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->near, 0), 40);
	CT_EQ(ct_peek(&third, 65536), 42);
	ct_end_kill(&third);
	to_third(&l, &third, IBV_WR_SEND, 13, srqn);
	ct_sent(&l, 13, IBV_WC_REM_INV_REQ_ERR); /* the SRQ is gone, the QP is not */
	ct_wait_state(&l.b, IBV_QPS_ERR);
}

/* Long WRITEs into the memory of the process that has the SRQ, more than there is time for. */
static int traffic(struct ct_link *l, struct ct_end *to, uint32_t srqn)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 1 << 20);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_RDMA_WRITE, 1, &sge, 1);

	wr.qp_type.xrc.remote_srqn = srqn;
	ct_aim(&wr, to->mr.addr, to->mr.rkey);
	return ct_hammer_start(&l->a, &wr, WRITES, 8);
}

/* Of those who receive one is killed in the middle; the other one and the sender go on. */
static void one_dies_under_traffic(struct ct *t, bool srq_dies)
{
	struct shared s = { .scq = ct_create_cq(t->near, 64, 0), .timeout = srq_dies ? 0 : 16 };
	struct ct_end third;
	struct ct_link l, usable;
	uint32_t srqn;
	int xrcd, hammer, good;

	skip_where_untouchable();
	third_start(t, &third);
	xrcd = domain_of_far_and(t, &third, &s);
	link_open(t, &s, &l);
	CT_TRUE(ct_create_xrc_srq(&third, xrcd, third.pd, third.rcq, 16, 1, &srqn) > 0);
	ct_poke(&third, (1 << 20) - 8, 0);
	ct_poke(t->near, (1 << 20) - 8, 1);
	hammer = traffic(&l, &third, srqn);
	while (!ct_peek(&third, (1 << 20) - 8))
		; /* the first has arrived */
	ct_end_kill(srq_dies ? &third : t->far);
	good = ct_hammer_join(t->near, hammer);
	CT_TRUE(good >= 0 && good < WRITES);
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_ERR);
	CT_EQ(ct_destroy(t->near, l.a.handle), 0);
	if (!srq_dies) {
		ct_peek(&third, 0);
		ct_end_kill(&third);
		return;
	}
	ct_wait_state(&l.b, IBV_QPS_ERR);
	ct_link_open(t, &usable, NULL);
	ct_usable(&usable);
}

static void the_process_of_the_srq_dies_under_traffic(struct ct *t)
{
	one_dies_under_traffic(t, true);
}

static void the_process_of_the_qp_dies_under_traffic(struct ct *t)
{
	one_dies_under_traffic(t, false);
}

const struct ct_case ct_xrc_share_cases[] = {
	{ "a message reaches the SRQ of a process that shares the XRC domain",
	  messages_reach_the_process_of_the_srq, CT_RC | CT_TWO },
	{ "WRITE, READ and atomics reach the process of the XRC SRQ",
	  memory_is_that_of_the_process_of_the_srq, CT_RC | CT_TWO },
	{ "a handle of an XRC_RECV QP takes no work", a_handle_takes_no_work, CT_SOLO },
	{ "XRC_SEND, XRC_RECV and SRQ in three processes", three_processes, CT_RC | CT_TWO },
	{ "the process of the XRC SRQ dies under traffic",
	  the_process_of_the_srq_dies_under_traffic, CT_RC | CT_TWO },
	{ "the process of the XRC_RECV QP dies under traffic",
	  the_process_of_the_qp_dies_under_traffic, CT_RC | CT_TWO },
	{ "an XRC_RECV QP of another process is opened, modified, and outlives its creator's "
	  "handle",
	  a_qp_of_another_process_is_opened, CT_RC | CT_TWO },
	{ "the end of the process that has an opened QP is an event",
	  the_end_of_its_process_is_told, CT_RC | CT_TWO },
	{ 0 },
};
