/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that has lost its privileges keeps the owner's segment and writes random bytes over it,
 * while the owner sends to itself, is sent to by another process, posts, polls, registers,
 * deregisters and destroys. Messages and connections may be lost; the owner and the sender may not
 * touch memory that no work request names. (Sanitizer builds see more of that than this program
 * does.)
 *
 *   chaos_scribble [-n ROUNDS] [-s SEED]
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scribble.h"

enum {
	ROUNDS = 600,
	STEPS = 150,
	POLLS = 200,
	RECEIVE = 2048,
	RECEIVES = 64,
	SCRATCH = 64 << 10,
	GUARD = 8192,
	GUARD_BYTE = 0xa5,
	RECEIVE_ID = 0x5ec000,
	SEND_ID = 0,
	DEADLINE_S = 120, /* for one round, on a machine that is busy */
};

/* Nothing of it but bytes is registered. */
struct room {
	uint8_t before[GUARD];
	uint8_t bytes[RECEIVES * RECEIVE];
	uint8_t after[GUARD];
};

struct owner {
	struct rig rig;
	struct rng rng;
	struct room *room;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_qp *qp[3]; /* two that are connected to each other, one to the sender's */
	uint8_t *scratch;     /* comes and goes */
	struct ibv_mr *scratch_mr;
	uint64_t good, bad; /* completions */
};

static struct ibv_ah *ah_to_host(struct rig *rig)
{
	struct ibv_ah_attr to = {
		.is_global = 1,
		.port_num = RIG_PORT,
		.grh = { .dgid = rig->gid, .sgid_index = RIG_GID_INDEX, .hop_limit = 4 },
	};

	return ibv_create_ah(rig->pd, &to);
}

static void owner_open(struct owner *owner, uint64_t seed)
{
	rig_open(&owner->rig);
	owner->rng = rng_fork(seed, 1);
	owner->room = aligned_alloc(4096, sizeof(*owner->room));
	CHECK(owner->room, "no memory");
	memset(owner->room, GUARD_BYTE, sizeof(*owner->room));
	owner->mr = ibv_reg_mr(owner->rig.pd, owner->room->bytes, sizeof(owner->room->bytes),
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	owner->ah = ah_to_host(&owner->rig);
	CHECK(owner->mr && owner->ah, "no region or address handle");
}

static void check_guards(const struct owner *owner)
{
	for (unsigned i = 0; i < GUARD; i++)
		CHECK(owner->room->before[i] == GUARD_BYTE && owner->room->after[i] == GUARD_BYTE,
		      "memory that nobody may write was written, %u bytes from its start", i);
}

/* --- receives --- */

static void post_receive(struct owner *owner, struct ibv_qp *qp)
{
	unsigned number = (unsigned)rng_below(&owner->rng, RECEIVES);
	bool scratch = owner->scratch_mr && rng_chance(&owner->rng, 2);
	uint8_t *base = scratch ? owner->scratch : owner->room->bytes;
	unsigned places = scratch ? SCRATCH / RECEIVE : RECEIVES;
	struct ibv_sge sge = { (uintptr_t)base + number % places * RECEIVE, RECEIVE,
			       scratch ? owner->scratch_mr->lkey : owner->mr->lkey };
	struct ibv_recv_wr *bad,
		wr = { .wr_id = RECEIVE_ID + number, .sg_list = &sge, .num_sge = 1 };

	if (owner->srq)
		(void)ibv_post_srq_recv(owner->srq, &wr, &bad);
	else
		(void)ibv_post_recv(qp, &wr, &bad);
}

/* --- completions --- */

static bool is_ours(const struct owner *owner, uint32_t qpn)
{
	for (unsigned i = 0; i < 3; i++)
		if (owner->qp[i]->qp_num == qpn)
			return true;
	return false;
}

/* Whatever was scribbled: it is the completion of something that was posted here. */
static void check_completion(struct owner *owner, const struct ibv_wc *wc)
{
	const bool receive = wc->wr_id >= RECEIVE_ID && wc->wr_id < RECEIVE_ID + RECEIVES;

	CHECK(receive || wc->wr_id == SEND_ID, "wr_id 0x%llx was never posted",
	      (unsigned long long)wc->wr_id);
	CHECK(wc->status <= IBV_WC_TM_RNDV_INCOMPLETE, "status %d", wc->status);
	CHECK(is_ours(owner, wc->qp_num), "QP 0x%x is none of ours", wc->qp_num);
	if (wc->status != IBV_WC_SUCCESS) {
		owner->bad++;
		return;
	}
	owner->good++;
	CHECK(receive == !!(wc->opcode & IBV_WC_RECV), "opcode %d of wr_id 0x%llx", wc->opcode,
	      (unsigned long long)wc->wr_id);
	CHECK(wc->opcode != IBV_WC_RECV || wc->byte_len <= RECEIVE, "%u bytes in a receive of %d",
	      wc->byte_len, RECEIVE);
	CHECK(wc->opcode != IBV_WC_RECV || owner->qp[0]->qp_type != IBV_QPT_UD ||
		      wc->byte_len >= 40,
	      "a datagram without a GRH: %u bytes", wc->byte_len);
}

static void poll_some(struct owner *owner)
{
	struct ibv_wc wc[8];
	int got = ibv_poll_cq(owner->cq, (int)(1 + rng_below(&owner->rng, 8)), wc);

	for (int i = 0; i < got; i++)
		check_completion(owner, &wc[i]);
}

/* --- rounds --- */

static void scratch_open(struct owner *owner)
{
	owner->scratch = mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(owner->scratch != MAP_FAILED, "no memory");
	owner->scratch_mr =
		ibv_reg_mr(owner->rig.pd, owner->scratch, SCRATCH, IBV_ACCESS_LOCAL_WRITE);
	CHECK(owner->scratch_mr, "ibv_reg_mr: %s", strerror(errno));
}

/* Receives still name it. From here on a byte that is written there ends the process. */
static void scratch_close(struct owner *owner)
{
	int err = ibv_dereg_mr(owner->scratch_mr);

	CHECK(!err, "ibv_dereg_mr: %s", strerror(err));
	owner->scratch_mr = NULL;
	munmap(owner->scratch, SCRATCH);
}

static void round_open(struct owner *owner, enum ibv_qp_type type)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = SCRIBBLE_DEPTH, .max_sge = 1 } };

	owner->cq = ibv_create_cq(owner->rig.ctx, 6 * SCRIBBLE_DEPTH, NULL, NULL, 0);
	owner->srq = type != IBV_QPT_UC && rng_chance(&owner->rng, 2)
			     ? ibv_create_srq(owner->rig.pd, &srq)
			     : NULL;
	CHECK(owner->cq, "ibv_create_cq: %s", strerror(errno));
	for (unsigned i = 0; i < 3; i++) {
		owner->qp[i] = end_make(&owner->rig, owner->cq, owner->srq, type);
		CHECK(owner->qp[i], "ibv_create_qp: %s", strerror(errno));
	}
	scratch_open(owner);
}

static void round_close(struct owner *owner)
{
	for (unsigned i = 0; i < 3; i++)
		CHECK(!ibv_destroy_qp(owner->qp[i]), "ibv_destroy_qp");
	CHECK(!owner->srq || !ibv_destroy_srq(owner->srq), "ibv_destroy_srq");
	CHECK(!ibv_destroy_cq(owner->cq), "ibv_destroy_cq");
}

static struct card card_of(const struct owner *owner, unsigned which, unsigned round)
{
	return (struct card){
		.qpn = owner->qp[which]->qp_num,
		.rkey = owner->mr->rkey,
		.addr = (uintptr_t)owner->room->bytes,
		.length = sizeof(owner->room->bytes),
		.type = owner->qp[which]->qp_type,
		.round = round,
	};
}

static void traffic(struct owner *owner)
{
	struct ibv_sge from = { (uintptr_t)owner->room->bytes, 0, owner->mr->lkey };

	for (unsigned step = 0; step < STEPS; step++) {
		unsigned which = (unsigned)rng_below(&owner->rng, 2);
		struct card to = card_of(owner, !which, 1);

		end_post(&owner->rng, owner->qp[which], owner->ah, &to, &from);
		for (unsigned i = 0; i < 3; i++)
			post_receive(owner, owner->qp[i]);
		poll_some(owner);
	}
}

static void exchange(struct duo *sender, struct card *card)
{
	CHECK(send(sender->socket, card, sizeof(*card), MSG_NOSIGNAL) == sizeof(*card) &&
		      recv(sender->socket, card, sizeof(*card), 0) == sizeof(*card),
	      "the sender ended");
}

static void round_run(struct owner *owner, struct duo *sender, unsigned round)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct card card;

	alarm(DEADLINE_S);
	rig_round(round);
	round_open(owner, types[rng_below(&owner->rng, 3)]);
	card = card_of(owner, 2, round);
	exchange(sender, &card);
	(void)end_connect(&owner->rig, owner->qp[2], card.qpn, false);
	for (unsigned i = 0; i < 2; i++)
		(void)end_connect(&owner->rig, owner->qp[i], owner->qp[!i]->qp_num, false);
	for (unsigned i = 0; i < 3 * SCRIBBLE_DEPTH; i++)
		post_receive(owner, owner->qp[i % 3]);
	duo_tell(sender, 'g');
	traffic(owner);
	scratch_close(owner);
	for (unsigned i = 0; i < POLLS; i++)
		poll_some(owner);
	CHECK(duo_told(sender, 'd'), "the sender ended");
	round_close(owner);
	check_guards(owner);
}

/* --- the sender --- */

static void sender_round(struct rig *rig, struct duo *duo, struct rng *rng, struct ibv_mr *mr,
			 struct ibv_ah *ah, const struct card *owner)
{
	struct ibv_cq *cq = ibv_create_cq(rig->ctx, 4 * SCRIBBLE_DEPTH, NULL, NULL, 0);
	struct ibv_qp *qp = cq ? end_make(rig, cq, NULL, (enum ibv_qp_type)owner->type) : NULL;
	struct ibv_sge from = { (uintptr_t)mr->addr, 0, mr->lkey };
	struct card card = { .qpn = qp ? qp->qp_num : 0 };
	struct ibv_wc wc[8];

	CHECK(qp, "no QP");
	CHECK(send(duo->socket, &card, sizeof(card), MSG_NOSIGNAL) == sizeof(card),
	      "the owner ended");
	CHECK(duo_told(duo, 'g'), "the owner ended");
	CHECK(end_connect(rig, qp, owner->qpn, false), "no connection");
	for (unsigned step = 0; step < STEPS; step++) {
		end_post(rng, qp, ah, owner, &from);
		(void)ibv_poll_cq(cq, 8, wc);
	}
	duo_tell(duo, 'd');
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
}

_Noreturn static void sender_run(struct duo *duo, uint64_t seed)
{
	static uint8_t bytes[8192];
	struct rng rng = rng_fork(seed, 2);
	struct card card;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct rig rig;

	rig_name("sender", "");
	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	ah = ah_to_host(&rig);
	CHECK(mr && ah, "no region or address handle");
	while (recv(duo->socket, &card, sizeof(card), 0) == sizeof(card) && card.round) {
		rig_round(card.round);
		sender_round(&rig, duo, &rng, mr, ah, &card);
	}
	_exit(0);
}

/* --- all of them --- */

static void campaign(struct duo *sender, struct duo *scribble, unsigned rounds, uint64_t seed)
{
	static struct owner owner;
	struct card over = { 0 };
	struct ibv_qp *door;

	rig_name("owner", "");
	owner_open(&owner, seed);
	/* A QP of its own, that the scribbler finds the owner by. */
	owner.cq = ibv_create_cq(owner.rig.ctx, 64, NULL, NULL, 0);
	door = owner.cq ? end_make(&owner.rig, owner.cq, NULL, IBV_QPT_RC) : NULL;
	CHECK(door, "no QP");
	over.qpn = door->qp_num;
	CHECK(send(scribble->socket, &over, sizeof(over), MSG_NOSIGNAL) == sizeof(over) &&
		      duo_told(scribble, 'a'),
	      "the scribbler ended");
	for (unsigned round = 1; round <= rounds; round++)
		round_run(&owner, sender, round);
	CHECK(send(sender->socket, &over, sizeof(over), MSG_NOSIGNAL) == sizeof(over),
	      "the sender ended");
	printf("# %llu completions were good, %llu were not\n", (unsigned long long)owner.good,
	       (unsigned long long)owner.bad);
	tap(owner.good, "messages arrive under it");
}

int main(int argc, char **argv)
{
	unsigned rounds = ROUNDS;
	uint64_t seed = 20261116;
	struct duo sender, scribble;
	int option, status;

	while ((option = getopt(argc, argv, "n:s:")) != -1) {
		if (option == 'n')
			rounds = (unsigned)strtoul(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (duo_split(&scribble)) {
		unsetenv("VERBENA_PATH"); /* it attaches, whichever way the others send */
		scribbler(&scribble, seed);
	}
	if (duo_split(&sender))
		sender_run(&sender, seed);
	campaign(&sender, &scribble, rounds, seed);
	tap(duo_status(&sender) == 0, "the sender lives");
	kill(scribble.child, SIGKILL);
	status = duo_status(&scribble);
	tap(status == -SIGKILL, "the scribbler wrote to the end (%d)", status);
	tap(true, "%u rounds, seed %llu: no memory was touched that nobody named", rounds,
	    (unsigned long long)seed);
	return tap_end();
}
