/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that do not answer, and receives that never come. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct.h"

static const uint64_t TARGET = 4 << 20;

enum { TIMEOUT = 12, RETRIES = 2 }; /* 16.8 ms, three times */

static double retry_s(void)
{
	return (RETRIES + 1) * 4.096e-6 * (1 << TIMEOUT);
}

static struct ct_opts impatient(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	o.timeout = TIMEOUT;
	o.retry_cnt = RETRIES;
	return o;
}

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND,
					      IBV_WR_SEND_WITH_IMM,
					      IBV_WR_RDMA_WRITE,
					      IBV_WR_RDMA_WRITE_WITH_IMM,
					      IBV_WR_RDMA_READ,
					      IBV_WR_ATOMIC_CMP_AND_SWP,
					      IBV_WR_ATOMIC_FETCH_AND_ADD };

static void post_two(struct ct_link *l, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, 8);
	struct ibv_send_wr wr[2];

	for (int i = 0; i < 2; i++) {
		wr[i] = ct_wr(l, opcode, i + 1, &sge, 1);
		ct_aim(&wr[i], l->b.end->mr.addr + TARGET, l->b.end->mr.rkey);
	}
	wr[0].send_flags = 0;
	wr[0].next = &wr[1];
	ct_post(&l->a, wr);
}

/* The WR fails when its retries are used up, not earlier; what follows is flushed. */
static void check_gives_up(struct ct_link *l, double start_s)
{
	ct_sent(l, 1, IBV_WC_RETRY_EXC_ERR);
	CT_TRUE(ct_now_s() - start_s >= retry_s());
	ct_sent(l, 2, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_qp_state(&l->a), IBV_QPS_ERR);
	ct_no_event(l->a.end);
}

/* The same for each opcode, all of them at once: `spoil` makes the links ones that do not work. */
static void check_each(struct ct *t, void (*spoil)(struct ct_link *l))
{
	struct ct_link other, l[CT_COUNT(opcodes)];
	struct ct_opts o = impatient(t);
	double start_s;

	ct_link_open(t, &other, NULL);
	ct_fill(t->far, TARGET, 64, 1);
	for (int i = 0; i < CT_COUNT(opcodes); i++) {
		o.scq_a = ct_create_cq(t->near, 16, 0);
		ct_link_create(t, &l[i], &o);
		spoil(&l[i]);
	}
	start_s = ct_now_s();
	for (int i = 0; i < CT_COUNT(opcodes); i++)
		post_two(&l[i], opcodes[i]);
	for (int i = 0; i < CT_COUNT(opcodes); i++)
		check_gives_up(&l[i], start_s);
	ct_same(t->far, TARGET, 64, 1);
	ct_no_event(t->far);
	ct_usable(&other);
}

static void near_ready(struct ct_link *l)
{
	ct_init(&l->a);
	ct_rtr(&l->a, &l->b, &l->o);
	ct_rts(&l->a, &l->o);
}

static void spoil_reset(struct ct_link *l)
{
	near_ready(l);
}

static void spoil_init(struct ct_link *l)
{
	near_ready(l);
	ct_init(&l->b);
	ct_recv(&l->b, 9, 0, 64);
}

static void spoil_err(struct ct_link *l)
{
	ct_link_connect(l);
	CT_EQ(ct_to_state(&l->b, IBV_QPS_ERR), 0);
}

static void spoil_reset_again(struct ct_link *l)
{
	ct_link_connect(l);
	CT_EQ(ct_to_state(&l->b, IBV_QPS_RESET), 0);
}

static void spoil_destroyed(struct ct_link *l)
{
	ct_link_connect(l);
	CT_EQ(ct_destroy(l->b.end, l->b.handle), 0);
}

static void spoil_psn(struct ct_link *l)
{
	struct ct_qp wrong;

	near_ready(l);
	ct_init(&l->b);
	ct_recv(&l->b, 9, 0, 64);
	wrong = l->a;
	wrong.psn = (wrong.psn - 100) & 0xffffff; /* the near end is ahead of what is expected */
	ct_rtr(&l->b, &wrong, &l->o);
}

static void spoil_pointing_back(struct ct_link *l)
{
	struct ct_qp wrong;

	near_ready(l);
	ct_init(&l->b);
	ct_recv(&l->b, 9, 0, 64);
	wrong = l->a;
	wrong.qpn ^= 5;
	ct_rtr(&l->b, &wrong, &l->o);
}

/* The near end sends from another address than the far end was told. */
static void spoil_gid(struct ct_link *l)
{
	struct ct_end elsewhere = *l->a.end;
	struct ct_qp wrong = l->a;

	near_ready(l);
	ct_init(&l->b);
	ct_recv(&l->b, 9, 0, 64);
	wrong.end = &elsewhere;
	if (l->a.end->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		elsewhere.port.lid ^= 2;
	else
		elsewhere.gid.raw[15] ^= 1; /* a neighbour in the same network */
	ct_rtr(&l->b, &wrong, &l->o);
}

static void spoil_number(struct ct_link *l)
{
	struct ct_qp wrong = l->b;

	wrong.qpn ^= 0x800; /* nobody has this number */
	ct_init(&l->a);
	ct_rtr(&l->a, &wrong, &l->o);
	ct_rts(&l->a, &l->o);
}

/* No process answers there: looks at the empty place do not make the wait longer. */
static void spoil_process(struct ct_link *l)
{
	struct ct_qp wrong = l->b;

	wrong.qpn ^= 0x100000;
	ct_init(&l->a);
	ct_rtr(&l->a, &wrong, &l->o);
	ct_rts(&l->a, &l->o);
}

static void peer_in_reset(struct ct *t)
{
	check_each(t, spoil_reset);
}

static void peer_in_init(struct ct *t)
{
	check_each(t, spoil_init);
}

static void peer_in_err(struct ct *t)
{
	check_each(t, spoil_err);
}

static void peer_back_in_reset(struct ct *t)
{
	check_each(t, spoil_reset_again);
}

static void peer_destroyed(struct ct *t)
{
	check_each(t, spoil_destroyed);
}

static void wrong_psn(struct ct *t)
{
	check_each(t, spoil_psn);
}

static void not_pointing_back(struct ct *t)
{
	if (ct_by_packets() && t->near->port.link_layer == IBV_LINK_LAYER_ETHERNET)
		ct_skip("a packet of RC does not name the QP that sent it");
	check_each(t, spoil_pointing_back);
}

static void other_address(struct ct *t)
{
	check_each(t, spoil_gid);
}

static void no_such_qp(struct ct *t)
{
	check_each(t, spoil_number);
}

static void no_such_process(struct ct *t)
{
	check_each(t, spoil_process);
}

/* timeout 0 means for ever: still waiting when the peer comes. */
static void timeout_zero_waits(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, other;

	o.timeout = 0;
	o.retry_cnt = 0;
	ct_link_create(t, &l, &o);
	near_ready(&l);
	ct_send(&l, 1, 0, 64);
	/* Let pass what would be several timeouts of another connection: its own failure shows it.
	 */
	o = impatient(t);
	ct_link_create(t, &other, &o);
	near_ready(&other);
	ct_send(&other, 2, 0, 64);
	ct_sent(&other, 2, IBV_WC_RETRY_EXC_ERR);
	ct_none(t->near, l.a.scq);
	ct_init(&l.b);
	ct_recv(&l.b, 3, TARGET, 64);
	ct_rtr(&l.b, &l.a, &l.o);
	ct_got(&l, 3, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
}

static void peer_dies(struct ct *t)
{
	struct ct_opts o = impatient(t);
	struct ct_link l[3];

	for (int i = 0; i < 3; i++)
		ct_link_open(t, &l[i], &o);
	ct_usable(&l[0]);
	ct_send(&l[1], 1, 0, 64); /* waits for a receive */
	ct_end_kill(t->far);
	ct_sent(&l[1], 1, IBV_WC_RETRY_EXC_ERR);
	ct_do(&l[0], IBV_WR_RDMA_WRITE, 2, 0, 64);
	ct_sent(&l[0], 2, IBV_WC_RETRY_EXC_ERR);
	ct_do(&l[2], IBV_WR_RDMA_READ, 3, 0, 64);
	ct_sent(&l[2], 3, IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; i < 3; i++)
		CT_EQ(ct_qp_state(&l[i].a), IBV_QPS_ERR);
	ct_no_event(t->near);
}

/* What a program has seen arrive has arrived, whatever it does then. */
static void peer_ends(struct ct *t)
{
	struct ct_opts o = impatient(t);
	struct ct_link l[16];

	for (int i = 0; i < CT_COUNT(l); i++) {
		o.scq_a = ct_create_cq(t->near, 16, 0);
		ct_link_open(t, &l[i], &o);
		ct_recv(&l[i].b, i, TARGET + 64 * i, 64);
	}
	ct_end_leave(t->far, t->far->rcq, CT_COUNT(l));
	for (int i = 0; i < CT_COUNT(l); i++)
		ct_send(&l[i], i, 0, 64);
	for (int i = 0; i < CT_COUNT(l); i++)
		ct_sent(&l[i], i, IBV_WC_SUCCESS);
	ct_end_has_left(t->far);
}

enum { LINKS = 100, AWAY_TIMEOUT = 16 }; /* 268 ms, twice */

/* Stops the near process when it is told to, lets the far one answer, and wakes the near one. */
static int start_sandman(struct ct_end *far, int *go)
{
	static struct ibv_wc wc[LINKS];
	int ends[2], child;
	char byte;

	CT_EQ(pipe(ends), 0);
	child = fork();
	CT_TRUE(child >= 0);
	if (!child) {
		if (read(ends[0], &byte, 1) == 1)
			kill(getppid(), SIGSTOP);
		kill(far->pid, SIGCONT);
		ct_poll_cq(far, far->rcq, LINKS, 5000, wc);
		usleep(600000); /* for longer than the near end waits: the tested thing */
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	close(ends[0]);
	*go = ends[1];
	return child;
}

/* Who was away itself for longer than it waits: the answers are there. */
static void away_for_long(struct ct *t)
{
	static struct ct_link l[LINKS];
	struct ct_opts o = ct_defaults(t);
	int go, sandman;

	o.timeout = AWAY_TIMEOUT;
	o.retry_cnt = 1;
	for (int i = 0; i < LINKS; i++) {
		ct_link_open(t, &l[i], &o);
		ct_recv(&l[i].b, i, TARGET, 8);
	}
	sandman = start_sandman(t->far, &go);
	kill(t->far->pid, SIGSTOP);
	for (int i = 0; i < LINKS; i++)
		ct_send(&l[i], i, 0, 8);
	CT_EQ(write(go, "", 1), 1);
	for (int i = 0; i < LINKS; i++)
		CT_EQ(ct_wait_at(t->near, t->near->scq).status, IBV_WC_SUCCESS);
	CT_EQ(waitpid(sandman, NULL, 0), sandman);
	close(go);
}

/* A process that got no CPU since its QPs were connected is no dead one. */
static void late_at_first(struct ct *t)
{
	struct ct_opts o = impatient(t);
	struct ct_link l;
	pid_t waker;

	if (ct_by_packets()) /* no attach: each packet is waited for */
		o.timeout = 18;
	ct_link_create(t, &l, &o);
	ct_init(&l.b);
	ct_rtr(&l.b, &l.a, &o);
	kill(t->far->pid, SIGSTOP); /* before this end reaches for it */
	ct_init(&l.a);
	ct_rtr(&l.a, &l.b, &o);
	ct_rts(&l.a, &o);
	waker = fork();
	if (!waker) {
		usleep(400000); /* for longer than the QP's patience: the tested thing */
		kill(t->far->pid, SIGCONT);
		_exit(0);
	}
	ct_do(&l, IBV_WR_RDMA_WRITE, 1, TARGET, 64);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(waitpid(waker, NULL, 0), waker);
}

/* Unreliable sends do not notice. */
static void peer_dies_unnoticed(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_usable(&l);
	ct_end_kill(t->far);
	for (int i = 0; i < 10; i++) {
		ct_send(&l, i, 0, 64);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_RTS);
}

/* ---- receiver not ready
 * -------------------------------------------------------------------------- */

static void check_rnr(struct ct *t, enum ibv_wr_opcode opcode, uint8_t tries, uint8_t timer,
		      double timer_s)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;
	double start_s;

	o.rnr_retry = tries;
	o.min_rnr_timer = timer;
	ct_link_open(t, &l, &o);
	start_s = ct_now_s();
	ct_do(&l, opcode, 1, TARGET, 64);
	ct_do(&l, opcode, 2, TARGET, 64);
	ct_sent(&l, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CT_TRUE(ct_now_s() - start_s >= tries * timer_s);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_ERR);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
	ct_none(t->far, l.b.rcq);
	ct_no_event(t->far);
}

static void no_receive(struct ct *t)
{
	check_rnr(t, IBV_WR_SEND, 0, 12, 640e-6);
	check_rnr(t, IBV_WR_SEND_WITH_IMM, 1, 20, 10.24e-3);
	check_rnr(t, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 20, 10.24e-3);
	check_rnr(t, IBV_WR_SEND, 6, 18, 5.12e-3);
}

/* 20 ms late, or as late as a busy machine makes it: how much. */
static double send_and_receive_late(struct ct *t, struct ct_link *l)
{
	struct ct_opts o = ct_defaults(t);
	double start_s;

	o.rnr_retry = 0;
	ct_link_open(t, l, &o);
	start_s = ct_now_s();
	ct_send(l, 1, 0, 64);
	usleep(20000); /* the tested thing: nothing is waited for */
	ct_recv(&l->b, 2, TARGET, 64);
	return ct_now_s() - start_s;
}

/* A receiver is no hardware: it posts when it is given a CPU. */
static void a_late_receive(struct ct *t)
{
	struct ct_link l;
	int tries = 0;

	while (send_and_receive_late(t, &l) > 0.15)
		CT_TRUE(++tries < 20);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
}

static void rnr_timer_zero_is_the_longest(struct ct *t)
{
	check_rnr(t, IBV_WR_SEND, 1, 0, 655.36e-3);
}

static void no_receive_in_the_srq(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.rnr_retry = 1;
	o.srq_b = ct_create_srq(t->far, t->far->pd, 16, 1);
	ct_link_open(t, &l, &o);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
}

const struct ct_case ct_err_retry_cases[] = {
	{ "a peer in RESET is RETRY_EXC_ERR after all retries", peer_in_reset, CT_RC | CT_IB },
	{ "a peer in INIT is RETRY_EXC_ERR after all retries", peer_in_init, CT_RC },
	{ "a peer in ERR is RETRY_EXC_ERR after all retries", peer_in_err, CT_RC },
	{ "a peer that went back to RESET is RETRY_EXC_ERR after all retries", peer_back_in_reset,
	  CT_RC },
	{ "a destroyed peer is RETRY_EXC_ERR after all retries", peer_destroyed, CT_RC },
	{ "a peer that expects another PSN is RETRY_EXC_ERR after all retries", wrong_psn, CT_RC },
	{ "a peer connected to somebody else is RETRY_EXC_ERR after all retries", not_pointing_back,
	  CT_RC },
	{ "a peer that expects another address is RETRY_EXC_ERR after all retries", other_address,
	  CT_RC },
	{ "a QP number that nobody has is RETRY_EXC_ERR after all retries", no_such_qp, CT_RC },
	{ "a number of no process is RETRY_EXC_ERR after all retries", no_such_process, CT_RC },
	{ "timeout 0 waits for ever", timeout_zero_waits, CT_RC },
	{ "a peer that dies is RETRY_EXC_ERR", peer_dies, CT_RC | CT_TWO },
	{ "a peer that ends has acknowledged what it has polled", peer_ends, CT_RC | CT_TWO },
	{ "answers that came while the requester was stopped count", away_for_long,
	  CT_RC | CT_TWO },
	{ "a peer without CPU since it was connected is waited for", late_at_first,
	  CT_RC | CT_TWO },
	{ "an unreliable peer that dies is not noticed", peer_dies_unnoticed,
	  CT_UC | CT_UD | CT_TWO },
	{ "no receive: RNR_RETRY_EXC_ERR after rnr_retry waits, the target stays RTS", no_receive,
	  CT_RC | CT_IB },
	{ "a receive that comes late is no error, however small rnr_retry is", a_late_receive,
	  CT_RC },
	{ "min_rnr_timer 0 is the longest wait", rnr_timer_zero_is_the_longest, CT_RC },
	{ "no receive in the SRQ: RNR_RETRY_EXC_ERR", no_receive_in_the_srq, CT_RC },
	{ 0 },
};
