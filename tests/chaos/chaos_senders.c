/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes send lists of small messages to one SRQ:
 *
 *   sender 0 .. SENDERS - 1 ----> SRQ of the owner, QPs with one of two CQs
 *
 * The owner posts, polls and resizes at random. One sender is stopped for a while, and one is
 * killed. Messages of each sender come whole and in order, and no receive gets lost: at the end all
 * that are posted can be used.
 *
 *   chaos_senders [MESSAGES]
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "duo.h"
#include "rig.h"

enum { SENDERS = 4, LIST = 16, RECEIVES = 160, SIZE = 256, DEADLINE_US = 60000000 };
enum { STOPPED = 1, KILLED = 2, LAST = 0 };

struct message {
	uint32_t sender, seq;
	uint8_t fill[SIZE - 8];
};

static uint32_t messages = 4000;
static struct rig rig;
static struct ibv_mr *mr;
static struct message memory[RECEIVES];
static struct rng rng;

static void say(struct duo *duo, uint32_t word)
{
	CHECK(write(duo->socket, &word, sizeof(word)) == sizeof(word), "write");
}

static uint32_t hear(struct duo *duo)
{
	uint32_t word;

	CHECK(read(duo->socket, &word, sizeof(word)) == sizeof(word), "the other process is gone");
	return word;
}

static void open_all(void)
{
	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
}

/* --- a sender --- */

struct list {
	struct ibv_send_wr wr[LIST];
	struct ibv_sge sge[LIST][2];
};

static uint32_t list_make(struct list *list, uint32_t sender, uint32_t seq, uint32_t left)
{
	uint32_t count = 1 + (uint32_t)rng_below(&rng, left < LIST ? left : LIST);

	count = count > left ? left : count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = 8 + (uint32_t)rng_below(&rng, SIZE - 8 + 1);
		uint32_t first = rng_chance(&rng, 2) ? length : (uint32_t)rng_below(&rng, length);
		struct message *message = &memory[i];

		message->sender = sender;
		message->seq = seq + i;
		memset(message->fill, (int)(seq + i), sizeof(message->fill));
		list->sge[i][0] = (struct ibv_sge){ (uintptr_t)message, first, mr->lkey };
		list->sge[i][1] =
			(struct ibv_sge){ (uintptr_t)message + first, length - first, mr->lkey };
		list->wr[i] =
			(struct ibv_send_wr){ .next = i + 1 < count ? &list->wr[i + 1] : NULL,
					      .sg_list = list->sge[i],
					      .num_sge = first < length ? 2 : 1,
					      .opcode = IBV_WR_SEND,
					      .send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED };
		if (rng_chance(&rng, 3))
			list->wr[i].send_flags |= IBV_SEND_INLINE;
	}
	return count;
}

static void send_all(struct ibv_qp *qp, struct ibv_cq *cq, uint32_t sender, uint32_t seq,
		     uint32_t end)
{
	struct ibv_send_wr *bad;
	struct list list;
	struct ibv_wc wc;
	int got;

	while (seq != end) {
		seq += list_make(&list, sender, seq, end - seq);
		CHECK(!ibv_post_send(qp, list.wr, &bad), "ibv_post_send");
		while (!(got = ibv_poll_cq(cq, 1, &wc)))
			;
		CHECK(got == 1 && !wc.status, "a send failed: %s", ibv_wc_status_str(wc.status));
	}
}

static _Noreturn void sender_run(struct duo *duo, uint32_t sender)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { LIST, 1, 2, 1, SIZE } };
	struct ibv_qp *qp;
	uint32_t more;

	rig_name("sender", "");
	open_all();
	rng = rng_fork(1, sender);
	init.send_cq = init.recv_cq = ibv_create_cq(rig.ctx, 2 * LIST, NULL, NULL, 0);
	qp = ibv_create_qp(rig.pd, &init);
	CHECK(qp, "ibv_create_qp: %s", strerror(errno));
	say(duo, qp->qp_num);
	rig_connect(&rig, qp, hear(duo));
	hear(duo);
	send_all(qp, init.send_cq, sender, 0, messages);
	more = hear(duo);
	send_all(qp, init.send_cq, sender, messages, messages + more);
	hear(duo);
	exit(0);
}

/* --- the owner --- */

static struct duo duos[SENDERS];
static struct ibv_srq *srq;
static struct ibv_cq *cqs[2];
static struct ibv_qp *qps[SENDERS];
static uint32_t next_seq[SENDERS], total;
static uint64_t held[RECEIVES]; /* receives that are not posted */
static uint32_t held_count;

static void post_held(void)
{
	uint64_t id = held[--held_count];
	struct ibv_sge sge = { (uintptr_t)&memory[id], SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	memset(&memory[id], 0xee, SIZE);
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

static void owner_open(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };

	open_all();
	srq = ibv_create_srq(rig.pd, &attr);
	CHECK(srq, "ibv_create_srq: %s", strerror(errno));
	for (int i = 0; i < 2; i++)
		cqs[i] = ibv_create_cq(rig.ctx, 4 * RECEIVES, NULL, NULL, 0);
	for (uint32_t i = 0; i < SENDERS; i++) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
						 .srq = srq,
						 .send_cq = cqs[0],
						 .recv_cq = cqs[i % 2],
						 .cap = { 1, 0, 1, 0, 0 } };

		qps[i] = ibv_create_qp(rig.pd, &init);
		CHECK(qps[i], "ibv_create_qp: %s", strerror(errno));
		rig_connect(&rig, qps[i], hear(&duos[i]));
		say(&duos[i], qps[i]->qp_num);
	}
	while (held_count < RECEIVES) {
		held[held_count] = held_count;
		held_count++;
	}
}

static void check_message(const struct ibv_wc *wc)
{
	const struct message *message = &memory[wc->wr_id];
	uint32_t sender = message->sender;

	CHECK(!wc->status, "a receive failed: %s", ibv_wc_status_str(wc->status));
	CHECK(sender < SENDERS && wc->qp_num == qps[sender]->qp_num, "of another QP");
	CHECK(message->seq == next_seq[sender], "sender %u: message %u, expected %u", sender,
	      message->seq, next_seq[sender]);
	for (uint32_t i = 8; i < wc->byte_len; i++)
		CHECK(message->fill[i - 8] == (uint8_t)message->seq, "byte %u is wrong", i);
	next_seq[sender]++;
	total++;
	held[held_count++] = wc->wr_id;
}

static int poll_some(void)
{
	struct ibv_wc wc[32];
	int got = ibv_poll_cq(cqs[rng_below(&rng, 2)], 1 + (int)rng_below(&rng, 32), wc);

	CHECK(got >= 0, "ibv_poll_cq");
	for (int i = 0; i < got; i++)
		check_message(&wc[i]);
	return got;
}

static void resize(void)
{
	struct ibv_srq_attr attr = { .max_wr = RECEIVES + total / 100 };

	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), "ibv_modify_srq");
}

/* Once each, when so many messages have come. */
static void disturb(void)
{
	static unsigned step;

	if (step == 0 && total > messages / 2) {
		kill(duos[STOPPED].child, SIGSTOP);
		step++;
	} else if (step == 1 && total > messages) {
		kill(duos[KILLED].child, SIGKILL);
		step++;
	} else if (step == 2 && total > messages + messages / 2) {
		kill(duos[STOPPED].child, SIGCONT);
		step++;
	}
}

static bool all_came(void)
{
	for (uint32_t i = 0; i < SENDERS; i++)
		if (i != KILLED && next_seq[i] < messages)
			return false;
	return true;
}

static void receive_all(void)
{
	const uint64_t deadline = clock_us() + DEADLINE_US;
	uint32_t resized = 0;

	while (!all_came()) {
		CHECK(clock_us() < deadline, "messages are missing: %u %u %u %u", next_seq[0],
		      next_seq[1], next_seq[2], next_seq[3]);
		if (!poll_some() && held_count)
			post_held();
		while (held_count && !rng_chance(&rng, 8))
			post_held();
		disturb();
		if (total / 1000 != resized) {
			resized = total / 1000;
			resize();
		}
	}
}

/* A receive that the killed sender had taken is posted again, later. */
static void use_up_all(void)
{
	const uint64_t deadline = clock_us() + DEADLINE_US;
	const uint32_t end = messages + RECEIVES;

	while (held_count)
		post_held();
	say(&duos[LAST], RECEIVES);
	while (next_seq[LAST] != end) {
		CHECK(clock_us() < deadline, "%u receives of %u got lost", end - next_seq[LAST],
		      RECEIVES);
		poll_some();
	}
}

int main(int argc, char **argv)
{
	if (argc > 1)
		messages = (uint32_t)atoi(argv[1]);
	for (uint32_t i = 0; i < SENDERS; i++)
		if (duo_split(&duos[i]))
			sender_run(&duos[i], i);
	rig_name("owner", "");
	owner_open();
	for (uint32_t i = 0; i < SENDERS; i++)
		say(&duos[i], 0);
	receive_all();
	tap(true, "messages of several senders to an SRQ come whole and in order");
	use_up_all();
	tap(true, "no receive of the SRQ got lost with a sender that was killed");
	for (uint32_t i = 1; i < SENDERS; i++)
		if (i != KILLED)
			say(&duos[i], 0);
	for (uint32_t i = 0; i < SENDERS; i++)
		if (i != KILLED)
			say(&duos[i], 0);
	for (uint32_t i = 0; i < SENDERS; i++)
		CHECK(duo_status(&duos[i]) == (i == KILLED ? -SIGKILL : 0), "sender %u failed", i);
	return tap_end();
}
