/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork in a process with threads, under traffic.
 *
 *   peer  <== two flows, never pausing ==>  parent (thread 1)
 *                                           parent (main)  <== a new flow ==>  child
 *
 * The child scribbles over its copies of the parent's buffers, finds the inherited queues closed to
 * it, makes its own objects on the inherited context and talks to the parent, destroys what it
 * inherited and ends. The parent's traffic takes no notice.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "duo.h"

enum { FLOWS = 2, MESSAGES = 40, DEADLINE_US = 20000000 };

static struct rig rig;
static struct duo peer;
static struct flow flows[FLOWS];
static _Atomic uint64_t progress; /* completions seen by the traffic thread */
static _Atomic bool stopping;

static struct flow_shape traffic_shape(unsigned i, bool is_peer)
{
	return (struct flow_shape){ .mix = i ? MIX_ONESIDED : MIX_SEND,
				    .lanes = 1,
				    .depth = 16,
				    .size_max = 16384,
				    .tag_out = (i + 1) << 8 | (is_peer ? 0x10 : 0x20),
				    .tag_in = (i + 1) << 8 | (is_peer ? 0x20 : 0x10),
				    .send_limit = UINT64_MAX,
				    .seed = i };
}

static void open_traffic(bool is_peer)
{
	for (unsigned i = 0; i < FLOWS; i++) {
		struct flow_shape shape = traffic_shape(i, is_peer);

		flow_open(&flows[i], &rig, &shape, NULL);
		rx_fill(flows[i].rx);
		flows[i].repost = true;
		duo_meet(&peer, &flows[i]);
	}
}

/* Stops sending: the marker is the last message of this side. */
static void close_sending(struct tx *tx)
{
	tx->limit = tx->posted;
	tx_post_marker(tx);
}

static bool all_sent(void)
{
	for (unsigned i = 0; i < FLOWS; i++) {
		if (flows[i].lane[0].tx.done < flows[i].lane[0].tx.posted)
			return false;
	}
	return true;
}

/* Both sides send their last message, say so, and receive until the other one has said so too. */
static void finish_traffic(void)
{
	bool said = false, heard = false;
	uint64_t start = clock_us();

	for (unsigned i = 0; i < FLOWS; i++)
		close_sending(&flows[i].lane[0].tx);
	while (!said || !heard) {
		for (unsigned i = 0; i < FLOWS; i++)
			flow_poll(&flows[i]);
		if (!said && all_sent()) {
			duo_tell(&peer, 'd');
			said = true;
		}
		heard = heard || duo_peek(&peer) == 'd';
		CHECK(clock_us() - start < DEADLINE_US, "the traffic does not end");
	}
	for (unsigned i = 0; i < FLOWS; i++) {
		while (flow_poll(&flows[i]))
			;
		flow_region_check(&flows[i]);
		flow_close(&flows[i]);
	}
}

static void peer_main(void)
{
	rig_name("peer", "");
	rig_open(&rig);
	open_traffic(true);
	while (duo_peek(&peer) != 'q') {
		for (unsigned i = 0; i < FLOWS; i++)
			flow_pump(&flows[i]);
	}
	finish_traffic();
	rig_close(&rig);
	exit(0);
}

static void *traffic_thread(void *unused)
{
	while (!atomic_load(&stopping)) {
		for (unsigned i = 0; i < FLOWS; i++)
			flow_pump(&flows[i]);
		atomic_store(&progress, flows[0].messages_in + flows[0].lane[0].tx.done +
						flows[1].messages_in + flows[1].lane[0].tx.done);
	}
	return unused;
}

static struct flow_shape child_shape(unsigned round, bool child)
{
	return (struct flow_shape){ .mix = round % 2 ? MIX_ONESIDED : MIX_SEND,
				    .lanes = 1,
				    .depth = 16,
				    .size_max = round % 3 ? 4096 : 65536,
				    .tag_out = (round + 8) << 8 | (child ? 0x10 : 0x20),
				    .tag_in = (round + 8) << 8 | (child ? 0x20 : 0x10),
				    .send_limit = MESSAGES,
				    .seed = round };
}

/* The parent and its child over new QPs: both finish their sends before either closes. */
static void talk(struct duo *duo, struct rig *with, unsigned round, bool child)
{
	static struct flow flow;
	struct flow_shape shape = child_shape(round, child);
	uint64_t start = clock_us();
	bool said = false, heard = false;

	flow_open(&flow, with, &shape, NULL);
	rx_fill(flow.rx);
	flow.repost = true;
	duo_meet(duo, &flow);
	while (!said || !heard) {
		flow_pump(&flow);
		if (!said && flow_sent_all(&flow)) {
			duo_tell(duo, 'd');
			said = true;
		}
		heard = heard || duo_peek(duo) == 'd';
		CHECK(clock_us() - start < DEADLINE_US,
		      "%s: %llu sends done, %llu messages received, said %d heard %d",
		      child ? "child" : "parent", (unsigned long long)flow.lane[0].tx.done,
		      (unsigned long long)flow.messages_in, said, heard);
	}
	while (flow_poll(&flow))
		;
	CHECK(flow.messages_in || shape.mix == MIX_ONESIDED, "nothing arrived");
	flow_close(&flow);
}

static void scribble(void)
{
	for (unsigned i = 0; i < FLOWS; i++) {
		memset(flows[i].ring, 0xee, flows[i].ring_size);
		memset(flows[i].rx->ring, 0xee, flows[i].rx->ring_size);
		if (flows[i].region)
			memset(flows[i].region, 0xee, flows[i].map.size);
	}
}

static void try_inherited(struct flow *flow)
{
	struct ibv_sge sge = { (uintptr_t)flow->ring, 16, flow->ring_mr->lkey };
	struct ibv_send_wr send = { .wr_id = 1,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr recv = { .wr_id = RX_FLAG, .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;
	struct ibv_wc wc;
	int err = ibv_post_send(flow->lane[0].tx.qp, &send, &bad_send);

	CHECK(err == EINVAL, "ibv_post_send on an inherited QP: %d", err);
	err = ibv_post_recv(flow->lane[0].tx.qp, &recv, &bad_recv);
	CHECK(err == EINVAL, "ibv_post_recv on an inherited QP: %d", err);
	err = ibv_poll_cq(flow->cq, 1, &wc);
	CHECK(err < 0, "ibv_poll_cq on an inherited CQ: %d", err);
}

static void destroy_inherited(struct flow *flow)
{
	int err = ibv_destroy_qp(flow->lane[0].tx.qp);

	CHECK(!err, "ibv_destroy_qp of an inherited QP: %d", err);
	err = ibv_dereg_mr(flow->ring_mr);
	CHECK(!err, "ibv_dereg_mr of an inherited MR: %d", err);
	err = ibv_dereg_mr(flow->rx->mr);
	CHECK(!err, "ibv_dereg_mr of an inherited MR: %d", err);
	if (flow->region_mr) {
		err = ibv_dereg_mr(flow->region_mr);
		CHECK(!err, "ibv_dereg_mr of an inherited MR: %d", err);
	}
	err = ibv_destroy_cq(flow->cq);
	CHECK(!err, "ibv_destroy_cq of an inherited CQ: %d", err);
}

static void destroy_all_inherited(void)
{
	for (unsigned i = 0; i < FLOWS; i++)
		destroy_inherited(&flows[i]);
	int err = ibv_dealloc_pd(rig.pd);
	CHECK(!err, "ibv_dealloc_pd of an inherited PD: %d", err);
}

static void child_main(struct duo *duo, unsigned round)
{
	struct rig own = rig;

	rig_name("child", "");
	scribble();
	for (unsigned i = 0; i < FLOWS; i++)
		try_inherited(&flows[i]);
	if (round % 4 == 1)
		destroy_all_inherited();
	own.pd = ibv_alloc_pd(rig.ctx);
	CHECK(own.pd, "ibv_alloc_pd on an inherited context: %s", strerror(errno));
	talk(duo, &own, round, true);
	int err = ibv_dealloc_pd(own.pd);
	CHECK(!err, "ibv_dealloc_pd of the child's own PD: %d", err);
	if (round % 4 == 2)
		destroy_all_inherited();
	if (round % 2)
		_exit(0);
	exit(0);
}

static void check_progress(void)
{
	uint64_t before = atomic_load(&progress), start = clock_us();

	while (atomic_load(&progress) < before + 100)
		CHECK(clock_us() - start < DEADLINE_US, "the parent's traffic stands still");
}

static unsigned run_children(unsigned rounds)
{
	unsigned good = 0;

	for (unsigned round = 0; round < rounds; round++) {
		struct duo duo;

		rig_round(round);
		check_progress();
		if (duo_split(&duo))
			child_main(&duo, round);
		talk(&duo, &rig, round, false);
		good += duo_status(&duo) == 0;
		close(duo.socket);
		check_progress();
	}
	return good;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc == 3 && !strcmp(argv[1], "-n") ? (unsigned)atoi(argv[2]) : 40;
	pthread_t thread;
	unsigned good;

	if (duo_split(&peer))
		peer_main();
	rig_name("parent", "");
	rig_open(&rig);
	open_traffic(false);
	CHECK(!pthread_create(&thread, NULL, traffic_thread, NULL), "pthread_create");
	good = run_children(rounds);
	tap(good == rounds, "%u of %u children used the inherited context and ended well", good,
	    rounds);
	atomic_store(&stopping, true);
	pthread_join(thread, NULL);
	duo_tell(&peer, 'q');
	finish_traffic();
	tap(true, "the parent's traffic went on with the right bytes (%llu completions)",
	    (unsigned long long)atomic_load(&progress));
	tap(duo_status(&peer) == 0, "so did its peer's");
	rig_close(&rig);
	return tap_end();
}
