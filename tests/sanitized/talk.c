/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The talk: each message crosses once in each direction, the client's first. A side looks at every
 * byte that it received, and at the note, which the other side wrote before it sent.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "side.h"

/* --- one message --- */

static uint8_t byte_at(unsigned turn, uint32_t i)
{
	return (uint8_t)(turn * 31 + i * 7 + 1);
}

void fill(struct side *side, uint32_t length)
{
	for (uint32_t i = 0; i < length && i < FILLED_MAX; i++)
		side->out[i] = byte_at(side->turn, i);
	if (side->note)
		side->note->turns[side->turn] = side->turn;
}

static _Atomic unsigned sum; /* so that the compiler keeps the look at the last byte */

static void look(const struct side *side, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < length && i < FILLED_MAX; i++)
		CHECK(bytes[i] == byte_at(side->turn, i));
	/* The other side never wrote the last byte of a long message. Here it has come. */
	if (length > FILLED_MAX)
		sum += bytes[length - 1] > 100 ? 2 : 1;
	CHECK(!side->note || side->note->turns[side->turn] == side->turn);
}

void receive_post(struct side *side, enum lane lane, uint32_t room)
{
	struct ibv_sge sge = { (uintptr_t)side->in, room, side->in_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECEIVED, .sg_list = &sge, .num_sge = 1 };

	if (lane == LANE_SHARED)
		CHECK(!ibv_post_srq_recv(side->srq, &wr, &bad));
	else
		CHECK(!ibv_post_recv(side->qp[lane], &wr, &bad));
}

void send_post(struct side *side, enum lane lane, struct ibv_send_wr *wr, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)side->out, length, side->out_mr->lkey };
	struct ibv_send_wr *bad;

	if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		sge = (struct ibv_sge){ (uintptr_t)side->in, length, side->in_mr->lkey };
	if (lane == LANE_UD) {
		wr->wr.ud.ah = side->ah;
		wr->wr.ud.remote_qpn = side->there.qpn[lane];
		wr->wr.ud.remote_qkey = UD_QKEY;
	}
	wr->sg_list = &sge;
	wr->num_sge = 1;
	CHECK(!ibv_post_send(side->qp[lane], wr, &bad));
}

struct ibv_wc completion(struct side *side)
{
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(side->cq, 1, &wc)))
		;
	CHECK(got == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* On packets a datagram may come before the acknowledgement of the message that asked for it. */
struct ibv_wc completion_of(struct side *side, uint64_t wr_id)
{
	struct ibv_wc wc = side->early;

	if (side->has_early && wc.wr_id == wr_id) {
		side->has_early = false;
		return wc;
	}
	wc = completion(side);
	if (wc.wr_id != wr_id) {
		CHECK(!side->has_early);
		side->early = wc;
		side->has_early = true;
		wc = completion(side);
	}
	CHECK(wc.wr_id == wr_id);
	return wc;
}

/* A receive completes; asleep until the event. */
static struct ibv_wc completion_by_event(struct side *side)
{
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;
	int got;

	CHECK(!ibv_req_notify_cq(side->cq, 0));
	while (!(got = ibv_poll_cq(side->cq, 1, &wc))) {
		CHECK(!ibv_get_cq_event(side->channel, &cq, &context));
		CHECK(cq == side->cq && context == side);
		ibv_ack_cq_events(cq, 1);
		CHECK(!ibv_req_notify_cq(cq, 0));
	}
	CHECK(got == 1 && wc.status == IBV_WC_SUCCESS);
	return wc;
}

/* --- both directions --- */

struct message {
	enum lane lane;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool by_event;
};

static void say(struct side *side, const struct message *message)
{
	struct ibv_send_wr wr = {
		.wr_id = SENT,
		.opcode = message->opcode,
		.imm_data = htobe32(side->turn),
		.wr.rdma = { side->there.open_address, side->there.open_rkey },
	};

	fill(side, message->length);
	send_post(side, message->lane, &wr, message->length);
	completion_of(side, SENT);
}

static void hear(struct side *side, const struct message *message)
{
	const bool immediate = message->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	const uint32_t front = message->lane == LANE_UD ? GRH_BYTES : 0;
	struct ibv_wc wc =
		message->by_event ? completion_by_event(side) : completion_of(side, RECEIVED);

	CHECK(wc.wr_id == RECEIVED && wc.byte_len == front + message->length);
	CHECK(wc.qp_num == side->qp[message->lane]->qp_num);
	if (immediate)
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == htobe32(side->turn));
	look(side, immediate ? side->open : side->in + front, message->length);
}

/* The receive is there before the other side can send. */
static void cross(struct side *side, const struct message *message)
{
	for (int way = 0; way < 2; way++) {
		side->turn++;
		if ((way == 0) != side->server) {
			say(side, message);
			continue;
		}
		if (message->lane != LANE_UD || way == 1)
			receive_post(side, message->lane, BUFFER_BYTES);
		hear(side, message);
	}
}

/* A datagram needs a receive that is there: one short message says so. */
static void datagrams(struct side *side)
{
	const struct message ready = { LANE_RC, IBV_WR_SEND, 1, false };
	const struct message datagram = { LANE_UD, IBV_WR_SEND, 100, false };

	for (int way = 0; way < 2; way++) {
		bool hears = (way == 0) == side->server;

		if (hears)
			receive_post(side, LANE_UD, BUFFER_BYTES);
		side->turn++;
		if (hears) {
			say(side, &ready);
			side->turn++;
			hear(side, &datagram);
		} else {
			receive_post(side, LANE_RC, BUFFER_BYTES);
			hear(side, &ready);
			side->turn++;
			say(side, &datagram);
		}
	}
}

/* --- one-sided operations: the client's, on memory that the server has written --- */

static void fetch(struct side *side)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { side->there.open_address, side->there.open_rkey },
	};

	send_post(side, LANE_RC, &wr, 5000);
	CHECK(completion(side).opcode == IBV_WC_RDMA_READ);
	look(side, side->in, 5000);
}

static void add(struct side *side)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = { .remote_addr = side->there.open_address + 8192,
			       .compare_add = 5,
			       .rkey = side->there.open_rkey },
	};
	uint64_t before;

	send_post(side, LANE_RC, &wr, 8);
	CHECK(completion(side).opcode == IBV_WC_FETCH_ADD);
	memcpy(&before, side->in, 8);
	CHECK(before == 37);
}

static void one_sided(struct side *side)
{
	const struct message word = { LANE_RC, IBV_WR_SEND, 8, false };
	const uint64_t value = 37;

	if (side->server) { /* the next message, in the other direction, says that it is there */
		side->turn++;
		fill(side, 5000);
		memcpy(side->open, side->out, 5000);
		memcpy(side->open + 8192, &value, 8);
		say(side, &word);
		receive_post(side, LANE_RC, 8);
		side->turn++;
		hear(side, &word);
	} else {
		receive_post(side, LANE_RC, 8);
		side->turn++;
		hear(side, &word);
		fetch(side);
		add(side);
		side->turn++;
		say(side, &word);
	}
}

/* --- a thread that posts, and one that polls --- */

struct errand {
	unsigned told;
};

/* The errand was written by the thread that posted; only the work request led here. */
static void *poller(void *arg)
{
	struct errand *errand = (void *)(uintptr_t)completion(arg).wr_id;

	CHECK(errand->told == 42);
	errand->told = 43;
	return NULL;
}

static void hand_over(struct side *side)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { side->there.open_address, side->there.open_rkey },
	};
	struct errand *errand = malloc(sizeof(*errand));
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, poller, side));
	errand->told = 42;
	wr.wr_id = (uintptr_t)errand;
	fill(&(struct side){ .out = side->out }, 64);
	send_post(side, LANE_RC, &wr, 64);
	CHECK(!pthread_join(thread, NULL));
	CHECK(errand->told == 43);
	free(errand);
}

void talk(struct side *side)
{
	static const struct message messages[] = {
		{ LANE_RC, IBV_WR_SEND, 8, false },
		{ LANE_RC, IBV_WR_SEND, 200, false },
		{ LANE_RC, IBV_WR_SEND, 9100, false },
		{ LANE_SHARED, IBV_WR_SEND, 8, false },
		{ LANE_SHARED, IBV_WR_SEND, 9100, false },
		{ LANE_RC, IBV_WR_SEND, 3000, true },
		{ LANE_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 4000, false },
		{ LANE_SHARED, IBV_WR_SEND, 100, true },
	};

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		cross(side, &messages[i]);
	datagrams(side);
	one_sided(side);
	if (!side->server)
		hand_over(side);
}
