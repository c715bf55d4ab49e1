/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program sees when its link goes down under traffic: port events, RETRY_EXC_ERR in the
 * configured time, and new QPs that work when the link is back. The caller moves the link:
 *
 *   link_down -p PORT [-g GID]                 the passive side, as long as its client lives
 *   link_down -p PORT [-g GID] [-T TIMEOUT] [-R RETRY] HOST
 *       says "traffic" when bytes flow; then the link goes down
 *       says "failed" after the error; then the link comes up
 *       says "recovered" after as many transfers over new QPs; exit status 0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../clients/transfer/channel.h"
#include "../clients/transfer/lane.h"

enum { SIZE = 65536, DEPTH = 8, TRANSFERS = 200, DEADLINE_S = 90 };

static struct {
	struct home home;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
	int channel;
	struct lane_info self, peer;
	uint8_t timeout, retry_cnt;
	uint64_t posted, completed, success_us;
	bool port_err, port_active; /* seen */
	bool is_client;
} side = { .timeout = 14, .retry_cnt = 7 };

static void deadline_passed(int signal_number)
{
	fprintf(stderr, "# FAIL link_down: no end after %d s; %llu posted, %llu completed\n",
		DEADLINE_S, (unsigned long long)side.posted, (unsigned long long)side.completed);
	_exit(1);
}

static void say(const char *text)
{
	printf("%.6f %s\n", clock_us() / 1e6, text);
	fflush(stdout);
}

/* ---- a QP ------------------------------------------------------------------------------------ */

static void qp_open(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };

	side.cq = ibv_create_cq(side.home.ctx, 2 * DEPTH, NULL, NULL, 0);
	CHECK(side.cq, "ibv_create_cq: %s", strerror(errno));
	attr.send_cq = attr.recv_cq = side.cq;
	side.qp = ibv_create_qp(side.home.pd, &attr);
	CHECK(side.qp, "ibv_create_qp: %s", strerror(errno));
	side.self = (struct lane_info){ .gid = side.home.gid,
					.addr = (uintptr_t)side.memory,
					.qpn = side.qp->qp_num,
					.psn = (uint32_t)clock_us() & 0xffffff,
					.rkey = side.mr->rkey };
}

static void modify(struct ibv_qp_attr *attr, int mask)
{
	int err = ibv_modify_qp(side.qp, attr, mask | IBV_QP_STATE);

	CHECK(!err, "QP to state %d: %s", attr->qp_state, strerror(err));
}

static void qp_connect(void)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = side.peer.qpn,
				   .rq_psn = side.peer.psn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1,
						.port_num = 1,
						.grh = { .dgid = side.peer.gid,
							 .hop_limit = 64,
							 .sgid_index = side.home.gid_index } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .sq_psn = side.self.psn,
				   .timeout = side.timeout,
				   .retry_cnt = side.retry_cnt,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };

	modify(&init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(&rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(&rts, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC);
}

static void qp_close(void)
{
	int err = ibv_destroy_qp(side.qp);

	CHECK(!err, "ibv_destroy_qp: %s", strerror(err));
	CHECK(!(err = ibv_destroy_cq(side.cq)), "ibv_destroy_cq: %s", strerror(err));
}

/* A new QP on both sides. */
static void meet(void)
{
	char word = 'r';

	qp_open();
	channel_send(side.channel, &side.self, sizeof(side.self));
	channel_receive(side.channel, &side.peer, sizeof(side.peer));
	qp_connect();
	channel_send(side.channel, &word, 1);
	channel_receive(side.channel, &word, 1);
}

/* ---- the active side ------------------------------------------------------------------------- */

static void events_look(void)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(side.home.ctx, &event)) {
		if (event.event_type == IBV_EVENT_PORT_ERR)
			side.port_err = true;
		if (event.event_type == IBV_EVENT_PORT_ACTIVE)
			side.port_active = true;
		say(ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

static void post(void)
{
	struct ibv_sge sge = { (uintptr_t)side.memory, SIZE, side.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = side.posted,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int err;

	wr.wr.rdma.remote_addr = side.peer.addr;
	wr.wr.rdma.rkey = side.peer.rkey;
	err = ibv_post_send(side.qp, &wr, &bad);
	CHECK(!err, "ibv_post_send: %s", strerror(err));
	side.posted++;
}

/* The status of a completion that is no success, else SUCCESS. */
static enum ibv_wc_status poll_one(void)
{
	struct ibv_wc wc;

	events_look();
	if (!ibv_poll_cq(side.cq, 1, &wc))
		return IBV_WC_SUCCESS;
	if (wc.status == IBV_WC_SUCCESS) {
		CHECK(wc.wr_id == side.completed, "completions are out of order");
		side.completed++;
		side.success_us = clock_us();
	}
	return wc.status;
}

/* The same, and keeps the queue full. */
static enum ibv_wc_status step(void)
{
	while (side.posted - side.completed < DEPTH)
		post();
	return poll_one();
}

static void transfer_some(void)
{
	uint64_t until = side.completed + TRANSFERS;
	enum ibv_wc_status status;

	while (side.completed < until) {
		status = step();
		CHECK(status == IBV_WC_SUCCESS, "%s with the link up", ibv_wc_status_str(status));
	}
}

/* What was posted behind the failed one is flushed, each once. */
static void flushed_check(void)
{
	struct ibv_wc wc;

	for (side.completed++; side.completed < side.posted; side.completed++) {
		while (!ibv_poll_cq(side.cq, 1, &wc))
			;
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == side.completed,
		      "work request %llu: %s", (unsigned long long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
	}
}

/*
 * From the last success on. The time that retries take may be longer, and so may a busy machine's.
 */
static void fail_in_time(void)
{
	double configured_s = (side.retry_cnt + 1) * 4.096e-6 * (1u << side.timeout), took_s;
	enum ibv_wc_status status;

	while ((status = step()) == IBV_WC_SUCCESS)
		;
	took_s = (clock_us() - side.success_us) / 1e6;
	printf("# %s after %.3f s, configured are %.3f s\n", ibv_wc_status_str(status), took_s,
	       configured_s);
	CHECK(status == IBV_WC_RETRY_EXC_ERR, "%s, not RETRY_EXC_ERR", ibv_wc_status_str(status));
	CHECK(took_s > configured_s * 0.8 && took_s < configured_s * 2.5 + 10,
	      "the error came after %.3f s, configured are %.3f s", took_s, configured_s);
	flushed_check();
}

static void active(void)
{
	meet();
	transfer_some();
	say("traffic");
	fail_in_time();
	while (!side.port_err)
		events_look();
	say("failed");
	while (!side.port_active)
		events_look();
	qp_close();
	side.posted = side.completed = 0;
	meet();
	transfer_some();
	while (side.completed < side.posted)
		CHECK(poll_one() == IBV_WC_SUCCESS, "an error at the end");
	say("recovered");
}

static void passive(void)
{
	char word;

	meet();
	/* The next word is the beginning of a second meeting. */
	struct lane_info first = side.peer;

	qp_open();
	channel_receive(side.channel, &side.peer, sizeof(side.peer));
	CHECK(side.peer.qpn != first.qpn, "the client did not make a new QP");
	channel_send(side.channel, &side.self, sizeof(side.self));
	qp_connect();
	word = 'r';
	channel_send(side.channel, &word, 1);
	channel_receive(side.channel, &word, 1);
	/* Ends with the client. */
	while (read(side.channel, &word, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *port = "18700";
	int code, gid_index = 1, access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	while ((code = getopt(argc, argv, "p:g:T:R:")) != -1)
		if (code == 'p')
			port = optarg;
		else if (code == 'g')
			gid_index = atoi(optarg);
		else if (code == 'T')
			side.timeout = (uint8_t)atoi(optarg);
		else if (code == 'R')
			side.retry_cnt = (uint8_t)atoi(optarg);
		else
			return 2;
	side.is_client = optind < argc;
	rig_name(side.is_client ? "active" : "passive", "");
	signal(SIGALRM, deadline_passed);
	alarm(DEADLINE_S);
	home_open(&side.home, NULL, gid_index);
	fcntl(side.home.ctx->async_fd, F_SETFL, O_NONBLOCK);
	side.memory = aligned_alloc(4096, SIZE);
	side.mr = ibv_reg_mr(side.home.pd, side.memory, SIZE, access);
	CHECK(side.mr, "ibv_reg_mr: %s", strerror(errno));
	side.channel = side.is_client ? channel_connect(argv[optind], port) : channel_accept(port);
	if (side.is_client)
		active();
	else
		passive();
	return 0;
}
