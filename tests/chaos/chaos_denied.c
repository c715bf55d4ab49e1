/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes that share memory, until one of them becomes another user, or lets nobody touch it
 * any more. Their connections go on, as packets: every message arrives, whole and in order, in both
 * directions, before and after; so do those of connections that are made then.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scribble.h"

enum {
	NOBODY = 65534,
	DEADLINE_S = 120, /* for one case, on a machine that is busy */
	AGAIN_US = 2000000,
	TRIES = 20, /* of messages that may get lost */
	ROOM = 24 << 20,
	LONG = 12 << 20,
	HEADER = 40, /* before a datagram */
	CUTS = 6,
};

static const uint32_t sizes[] = { 8, 200, 900, 4096, 3 << 20 };

struct end {
	struct rig rig;
	struct duo *duo;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *in_mr, *out_mr;
	struct ibv_ah *ah;
	uint8_t *in, *out;
	struct card peer;
	enum ibv_qp_type type;
	bool near;
	unsigned messages;
};

/* --- memory --- */

static uint8_t byte_at(unsigned message, uint32_t at)
{
	return (uint8_t)(message * 37 + at * 11 + (at >> 12));
}

static void fill(struct end *end, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		end->out[i] = byte_at(end->messages, i);
}

static void check(const struct end *end, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		CHECK(bytes[i] == byte_at(end->messages, i), "message %u differs at %u of %u",
		      end->messages, i, length);
}

static struct ibv_mr *region(struct end *end, uint8_t **memory)
{
	struct ibv_mr *mr;

	*memory = aligned_alloc(4096, ROOM);
	CHECK(*memory, "no memory");
	memset(*memory, 0, ROOM);
	mr = ibv_reg_mr(end->rig.pd, *memory, ROOM,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

/* --- connections --- */

static void end_open(struct end *end)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = RIG_PORT };

	rig_open(&end->rig);
	to.grh.dgid = end->rig.gid;
	to.grh.sgid_index = RIG_GID_INDEX;
	to.grh.hop_limit = 4;
	end->in_mr = region(end, &end->in);
	end->out_mr = region(end, &end->out);
	end->ah = ibv_create_ah(end->rig.pd, &to);
	end->cq = ibv_create_cq(end->rig.ctx, 4 * SCRIBBLE_DEPTH, NULL, NULL, 0);
	CHECK(end->ah && end->cq, "no CQ or address handle");
}

static void meet(struct end *end, bool shared)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = SCRIBBLE_DEPTH, .max_sge = 1 } };
	struct card card = { 0 };

	end->srq = shared ? ibv_create_srq(end->rig.pd, &srq) : NULL;
	end->qp = end_make(&end->rig, end->cq, end->srq, end->type);
	CHECK(end->qp && !end->srq == !shared, "no QP");
	card.qpn = end->qp->qp_num;
	card.rkey = end->in_mr->rkey;
	card.addr = (uintptr_t)end->in;
	CHECK(send(end->duo->socket, &card, sizeof(card), MSG_NOSIGNAL) == sizeof(card) &&
		      recv(end->duo->socket, &end->peer, sizeof(card), 0) == sizeof(card) &&
		      end_connect(&end->rig, end->qp, end->peer.qpn, true),
	      "no connection");
}

static void part(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp), "ibv_destroy_qp");
	CHECK(!end->srq || !ibv_destroy_srq(end->srq), "ibv_destroy_srq");
}

/* --- messages --- */

static void post_receive(struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)end->in, ROOM, end->in_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 };
	int err = end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad)
			   : ibv_post_recv(end->qp, &wr, &bad);

	CHECK(!err, "post_recv: %s", strerror(err));
}

static void post(struct end *end, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)end->out, length, end->out_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
	};
	int err;

	if (end->type == IBV_QPT_UD) {
		wr.wr.ud.ah = end->ah;
		wr.wr.ud.remote_qpn = end->peer.qpn;
		wr.wr.ud.remote_qkey = RIG_QKEY;
	} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = end->peer.addr;
		wr.wr.atomic.rkey = end->peer.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = end->peer.addr;
		wr.wr.rdma.rkey = end->peer.rkey;
	}
	err = ibv_post_send(end->qp, &wr, &bad);
	CHECK(!err, "post_send: %s", strerror(err));
}

/* One completion; false: none came for so long. */
static bool completed(struct end *end, uint64_t wr_id, uint64_t for_us, struct ibv_wc *wc)
{
	uint64_t start = clock_us();

	while (!ibv_poll_cq(end->cq, 1, wc))
		if (clock_us() - start > for_us)
			return false;
	CHECK(wc->wr_id == wr_id && wc->status == IBV_WC_SUCCESS, "wr_id %llu: %s",
	      (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	return true;
}

static void complete(struct end *end, uint64_t wr_id)
{
	struct ibv_wc wc;

	CHECK(completed(end, wr_id, DEADLINE_S * 1000000ull, &wc), "no completion");
}

static bool reliable(const struct end *end)
{
	return end->type == IBV_QPT_RC;
}

/* Until the receiver has it: only RC promises that it comes. */
static void say(struct end *end, uint32_t length)
{
	char heard = 'a';

	fill(end, length);
	CHECK(duo_told(end->duo, 'r'), "the peer ended");
	for (unsigned i = 0; i < TRIES && heard == 'a'; i++) {
		post(end, IBV_WR_SEND, length);
		complete(end, 1);
		CHECK(recv(end->duo->socket, &heard, 1, 0) == 1, "the peer ended");
	}
	CHECK(heard == 'h', "the message does not arrive");
}

static void hear(struct end *end, uint32_t length)
{
	uint32_t header = end->type == IBV_QPT_UD ? HEADER : 0;
	struct ibv_wc wc;

	post_receive(end);
	duo_tell(end->duo, 'r');
	while (!completed(end, 2, reliable(end) ? DEADLINE_S * 1000000ull : AGAIN_US, &wc))
		duo_tell(end->duo, 'a');
	CHECK(wc.byte_len == length + header, "%u bytes instead of %u", wc.byte_len,
	      length + header);
	check(end, end->in + header, length);
	duo_tell(end->duo, 'h');
}

static void turn(struct end *end, bool speaks, uint32_t length)
{
	end->messages++;
	if (speaks)
		say(end, length);
	else
		hear(end, length);
}

/* What needs no receive, or tells of itself by one. The other end only waits. */
static void touch(struct end *end, bool acts)
{
	uint64_t word;

	end->messages++;
	if (!acts) {
		memset(end->in, 0, 8);
		duo_tell(end->duo, 'r');
		CHECK(duo_told(end->duo, 'h'), "the peer ended");
		memcpy(&word, end->in, sizeof(word));
		word--; /* the atomic, executed once */
		memcpy(end->in, &word, sizeof(word));
		check(end, end->in, 100000);
		return;
	}
	CHECK(duo_told(end->duo, 'r'), "the peer ended");
	fill(end, 100000);
	post(end, IBV_WR_RDMA_WRITE, 100000);
	complete(end, 1);
	memset(end->out, 0, 100000);
	post(end, IBV_WR_RDMA_READ, 100000);
	complete(end, 1);
	check(end, end->out, 100000);
	post(end, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	complete(end, 1);
	duo_tell(end->duo, 'h');
}

static void talk(struct end *end)
{
	unsigned count = end->type == IBV_QPT_UD ? 3 : sizeof(sizes) / sizeof(*sizes);

	for (unsigned i = 0; i < count; i++) {
		turn(end, end->near, sizes[i]);
		turn(end, !end->near, sizes[i]);
	}
	for (unsigned i = 0; i < 2 && reliable(end); i++)
		touch(end, end->near == i);
}

/* --- cases --- */

static void become_nobody(void)
{
	CHECK(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY),
	      "setresuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the user */
}

static void hide(void)
{
	CHECK(!prctl(PR_SET_DUMPABLE, 0), "PR_SET_DUMPABLE");
}

struct kind {
	const char *name;
	enum ibv_qp_type type;
	bool shared;
};

static const struct kind kinds[] = {
	{ "RC", IBV_QPT_RC, false },
	{ "RC with an SRQ", IBV_QPT_RC, true },
	{ "UC", IBV_QPT_UC, false },
	{ "UD", IBV_QPT_UD, false },
};

static void case_run(struct end *end, const struct kind *kind, void (*drop)(void))
{
	end_open(end);
	end->type = kind->type;
	meet(end, kind->shared);
	talk(end);
	if (!end->near)
		drop();
	talk(end);
	part(end);
	meet(end, kind->shared);
	talk(end);
	part(end);
}

/*
 * The receiver hides while a long message is on its way, and shows itself again for the next one.
 */
static void case_cut(struct end *end, const struct kind *kind, void (*drop)(void))
{
	end_open(end);
	end->type = kind->type;
	for (unsigned i = 0; i < CUTS; i++) {
		CHECK(end->near || !prctl(PR_SET_DUMPABLE, 1), "PR_SET_DUMPABLE");
		meet(end, kind->shared);
		turn(end, end->near, 8);
		end->messages++;
		if (end->near) {
			fill(end, LONG);
			CHECK(duo_told(end->duo, 'r'), "the peer ended");
			duo_tell(end->duo, 'g');
			post(end, IBV_WR_SEND, LONG);
			complete(end, 1);
			CHECK(duo_told(end->duo, 'h'), "the peer ended");
		} else {
			post_receive(end);
			duo_tell(end->duo, 'r');
			CHECK(duo_told(end->duo, 'g'), "the peer ended");
			usleep(i * 300); /* so that it meets different parts of the message */
			drop();
			complete(end, 2);
			check(end, end->in, LONG);
			duo_tell(end->duo, 'h');
		}
		turn(end, !end->near, 5000);
		part(end);
	}
}

typedef void (*case_fn)(struct end *end, const struct kind *kind, void (*drop)(void));

/* In processes of its own: nobody becomes root again. */
static bool passes(case_fn run, const struct kind *kind, void (*drop)(void), bool as_nobody)
{
	static struct end end;
	struct duo outer, inner;

	if (!duo_split(&outer))
		return !duo_status(&outer);
	if (as_nobody && !geteuid()) {
		become_nobody();
		CHECK(!prctl(PR_SET_DUMPABLE, 1), "PR_SET_DUMPABLE");
	}
	alarm(DEADLINE_S);
	end.near = !duo_split(&inner);
	end.duo = &inner;
	alarm(DEADLINE_S);
	rig_name(end.near ? "near" : "far", kind->name);
	run(&end, kind, drop);
	_exit(end.near ? duo_status(&inner) : 0);
}

int main(void)
{
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const struct kind *kind = &kinds[i];

		if (geteuid())
			printf("# only root becomes another user\n");
		else
			tap(passes(case_run, kind, become_nobody, false),
			    "%s goes on when one end becomes another user", kind->name);
		tap(passes(case_run, kind, hide, true),
		    "%s goes on when one end is not dumpable any more", kind->name);
	}
	for (unsigned i = 0; i < 2; i++)
		tap(passes(case_cut, &kinds[i], hide, true),
		    "%s: a message that is cut in the middle arrives whole", kinds[i].name);
	return tap_end();
}
