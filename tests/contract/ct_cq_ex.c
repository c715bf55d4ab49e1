/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended completion queues: times, flags, and several threads that poll. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "ct.h"

int ct_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	int ret = ibv_start_poll(cq, attr);

	for (int ms = 0; ret == ENOENT && ms < 20; ms++) {
		usleep(1000);
		ret = ibv_start_poll(cq, attr);
	}
	return ret;
}

static const uint64_t TARGET = 4 << 20;

static struct ibv_cq_ex *make(struct ct *t, struct ibv_cq_init_attr_ex *init)
{
	struct ibv_cq_ex *cq;

	init->cqe = init->cqe ? init->cqe : 64;
	cq = ibv_create_cq_ex(ct_context(t->near), init);
	CT_TRUE(cq != NULL);
	return cq;
}

/* A link whose near end completes in both directions at `cq`. */
static void open_link(struct ct *t, struct ibv_cq_ex *cq, struct ct_link *l)
{
	struct ct_opts o = ct_defaults(t);

	o.scq_a = o.rcq_a = ct_adopt_cq(t->near, ibv_cq_ex_to_cq(cq));
	ct_link_open(t, l, &o);
}

/* The batch is at the first completion then. */
static void start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr none = { 0 };
	double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	int ret;

	while ((ret = ibv_start_poll(cq, &none)) == ENOENT && ct_now_s() < deadline_s)
		;
	CT_EQ(ret, 0);
	CT_EQ(cq->status, IBV_WC_SUCCESS);
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t device_clock(struct ct *t)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CT_EQ(ibv_query_rt_values_ex(ct_context(t->near), &values), 0);
	CT_EQ(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return values.raw_clock.tv_sec * 1000000000ull + values.raw_clock.tv_nsec;
}

static uint64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void the_clock(struct ct *t)
{
	struct ibv_values_ex nothing = { .raw_clock = { 7, 7 } },
			     unknown = { .comp_mask = 1 << 20 };
	struct ibv_device_attr_ex attr;
	uint64_t ticks, before;
	double outer_s, inner_s;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &attr), 0);
	CT_TRUE(attr.completion_timestamp_mask && attr.hca_core_clock);
	/* Each reading may be interrupted for long: the ticks lie between two spans of time. */
	outer_s = ct_now_s();
	before = device_clock(t);
	inner_s = ct_now_s();
	while (ct_now_s() < inner_s + 0.05)
		;
	inner_s = ct_now_s() - inner_s;
	ticks = (device_clock(t) - before) & attr.completion_timestamp_mask;
	outer_s = ct_now_s() - outer_s;
	CT_TRUE(ticks > inner_s * attr.hca_core_clock * 1e3 * 0.5); /* kHz */
	CT_TRUE(ticks < outer_s * attr.hca_core_clock * 1e3 * 2);
	CT_EQ(ibv_query_rt_values_ex(ct_context(t->near), &nothing), 0);
	CT_EQ(nothing.comp_mask, 0);
	CT_EQ(nothing.raw_clock.tv_sec, 7);
	CT_EQ(ibv_query_rt_values_ex(ct_context(t->near), &unknown), EINVAL);
}

static void times_of_receives(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags =
						    IBV_WC_STANDARD_FLAGS |
						    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
						    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
	static const uint32_t sizes[] = { 0, 8, 24, 25, 200, 1000 };
	struct ibv_cq_ex *cq = make(t, &init);
	uint64_t last = 0;
	struct ct_link l, in;

	open_link(t, cq, &l);
	in = ct_reverse(&l);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		uint32_t head = ct_headroom(&in);
		uint64_t before = device_clock(t), wall = wall_clock(), ts, wall_ts;

		ct_fill(t->far, 0, 1000, i);
		ct_recv(&in.b, i, TARGET, 2048);
		ct_send(&in, i, 0, sizes[i]);
		start(cq);
		CT_EQ(cq->wr_id, i);
		CT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		CT_EQ(ibv_wc_read_byte_len(cq), sizes[i] + head);
		ts = ibv_wc_read_completion_ts(cq);
		wall_ts = ibv_wc_read_completion_wallclock_ns(cq);
		CT_TRUE(ts >= before && ts <= device_clock(t));
		CT_TRUE(ts > last);
		/* The two clocks are read one after the other: a little slack. */
		CT_TRUE(wall_ts + 1000000 >= wall && wall_ts <= wall_clock() + 1000000);
		ct_same(t->near, TARGET + head, sizes[i], i);
		ibv_end_poll(cq);
		ct_sent(&in, i, IBV_WC_SUCCESS);
		last = ts;
	}
}

/* What lay around for a while says when it came, not when it was looked at. */
static void time_of_arrival(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *cq = make(t, &init);
	uint64_t arrived;
	struct ct_link l, in;

	open_link(t, cq, &l);
	in = ct_reverse(&l);
	ct_recv(&in.b, 1, TARGET, 64);
	ct_recv(&in.b, 2, TARGET, 64);
	ct_send(&in, 1, 0, 8);
	ct_sent(&in, 1, IBV_WC_SUCCESS);
	arrived = device_clock(t);
	ct_send(&in, 2, 0, 8);
	ct_sent(&in, 2, IBV_WC_SUCCESS);
	start(cq);
	CT_EQ(cq->wr_id, 1);
	CT_TRUE(ibv_wc_read_completion_ts(cq) <= arrived);
	CT_EQ(ibv_next_poll(cq), 0);
	CT_EQ(cq->wr_id, 2);
	CT_TRUE(ibv_wc_read_completion_ts(cq) >= arrived);
	ibv_end_poll(cq);
}

static void times_of_sends(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *cq = make(t, &init);
	uint64_t last = device_clock(t);
	struct ct_link l;

	open_link(t, cq, &l);
	for (int i = 0; i < 20; i++) { /* more than the queue is deep, in the end */
		uint64_t ts;

		ct_recv(&l.b, i, TARGET, 2048);
		ct_send(&l, i, 0, i % 2 ? 8 : 1000);
		start(cq);
		CT_EQ(cq->wr_id, i);
		CT_EQ(ibv_wc_read_opcode(cq), IBV_WC_SEND);
		ts = ibv_wc_read_completion_ts(cq);
		CT_TRUE(ts > last && ts <= device_clock(t));
		ibv_end_poll(cq);
		ct_got(&l, i, IBV_WC_SUCCESS);
		last = ts;
	}
}

/* Two CQs on one SRQ: the poll of one comes upon the completions of the other. */
static void times_through_an_srq(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *cq = make(t, &init);
	struct ct_opts o = ct_defaults(t);
	struct ibv_wc wc;
	struct ct_link stamped, plain;
	uint64_t before, after;

	o.srq_a = ct_create_srq(t->near, t->near->pd, 16, 1);
	CT_TRUE(o.srq_a > 0);
	o.rcq_a = ct_adopt_cq(t->near, ibv_cq_ex_to_cq(cq));
	ct_link_open(t, &stamped, &o);
	o.rcq_a = 0;
	ct_link_open(t, &plain, &o);
	stamped = ct_reverse(&stamped);
	plain = ct_reverse(&plain);
	before = device_clock(t);
	ct_recv(&stamped.b, 1, TARGET, 64);
	ct_send(&stamped, 1, 0, 8);
	ct_sent(&stamped, 1, IBV_WC_SUCCESS);
	after = device_clock(t);
	CT_EQ(ct_poll_cq(t->near, plain.b.rcq, 1, 0, &wc), 0);
	start(cq);
	CT_TRUE(ibv_wc_read_completion_ts(cq) >= before && ibv_wc_read_completion_ts(cq) <= after);
	ibv_end_poll(cq);
}

static void flushed_have_times(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *cq = make(t, &init);
	uint64_t before = device_clock(t);
	double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	struct ct_link l;
	int ret;

	open_link(t, cq, &l);
	ct_recv(&l.a, 5, TARGET, 64);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_ERR), 0);
	ct_send(&l, 6, 0, 8);
	for (int i = 0; i < 2; i++) {
		while ((ret = ibv_start_poll(cq, &none)) == ENOENT && ct_now_s() < deadline_s)
			;
		CT_EQ(ret, 0);
		CT_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
		CT_TRUE(ibv_wc_read_completion_ts(cq) >= before);
		ibv_end_poll(cq);
	}
}

/* ---- flags ----------------------------------------------------------------------------------- */

static int refusal(struct ct *t, struct ibv_cq_init_attr_ex init)
{
	struct ibv_cq_ex *cq;

	init.cqe = init.cqe ? init.cqe : 16;
	errno = 0;
	cq = ibv_create_cq_ex(ct_context(t->near), &init);
	if (!cq)
		return errno;
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	return 0;
}

static void flags_that_are_refused(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	const struct ibv_cq_init_attr_ex flags = { .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS };

	for (int bit = 0; bit < 64; bit++) {
		uint64_t wc_flags = 1ull << bit;
		int err = refusal(t, (struct ibv_cq_init_attr_ex){ .wc_flags = wc_flags });

		CT_EQ(err, wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS ? EINVAL : 0);
	}
	for (int bit = 0; bit < 32; bit++) {
		struct ibv_cq_init_attr_ex init = flags;

		init.flags = 1u << bit;
		CT_EQ(refusal(t, init), bit < 2 ? 0 : EINVAL);
		init.comp_mask = 0; /* then nobody looks */
		CT_EQ(refusal(t, init), 0);
		if (bit >= 2)
			CT_EQ(refusal(t, (struct ibv_cq_init_attr_ex){ .comp_mask = 1u << bit }),
			      EINVAL);
	}
	/* A CQ belongs to a parent domain or to none. */
	CT_EQ(refusal(t, (struct ibv_cq_init_attr_ex){ .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD }),
	      EINVAL);
	CT_EQ(refusal(t, (struct ibv_cq_init_attr_ex){ .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
						       .parent_domain = pd }),
	      EINVAL);
	CT_EQ(refusal(t, (struct ibv_cq_init_attr_ex){ .cqe = UINT32_MAX }), EINVAL);
	CT_EQ(refusal(t, (struct ibv_cq_init_attr_ex){ .comp_vector = UINT32_MAX }), EINVAL);
}

static void single_threaded(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_cq_ex *cq = make(t, &init);
	struct ct_link l, in;

	open_link(t, cq, &l);
	in = ct_reverse(&l);
	for (int i = 0; i < 3; i++) {
		ct_recv(&in.b, i, TARGET, 64);
		ct_send(&in, i, 0, 8);
		start(cq);
		CT_EQ(cq->wr_id, i);
		ibv_end_poll(cq);
		ct_sent(&in, i, IBV_WC_SUCCESS);
	}
}

static void ignore_overrun(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 1,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN };
	struct ibv_cq_ex *cq = make(t, &init);
	struct ct_link l;
	int more = ibv_cq_ex_to_cq(cq)->cqe + 4;

	open_link(t, cq, &l);
	CT_TRUE((uint32_t)more < l.a.cap.max_send_wr);
	for (int i = 0; i < more; i++)
		ct_do(&l, IBV_WR_RDMA_WRITE, i, TARGET, 8);
	for (int i = 0; i < more; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	ct_no_event(t->near);
}

/* ---- two ways, two threads ------------------------------------------------------------------- */

static void both_ways(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .wc_flags = IBV_WC_STANDARD_FLAGS |
							IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *cq = make(t, &init);
	struct ct_link l, in;

	open_link(t, cq, &l);
	in = ct_reverse(&l);
	for (int i = 0; i < 6; i++) {
		ct_recv(&in.b, i, TARGET, 64);
		ct_send(&in, i, 0, 8);
		ct_sent(&in, i, IBV_WC_SUCCESS);
	}
	ct_got(&in, 0, IBV_WC_SUCCESS);
	start(cq);
	for (int i = 1; i < 5; i += 2) {
		CT_EQ(cq->wr_id, i);
		/* In between somebody polls the plain way: the batch goes on behind. */
		ct_got(&in, i + 1, IBV_WC_SUCCESS);
		CT_EQ(cq->wr_id, i);
		CT_EQ(ibv_wc_read_byte_len(cq), 8);
		CT_EQ(ibv_next_poll(cq), 0);
	}
	CT_EQ(cq->wr_id, 5);
	CT_EQ(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
}

enum { THREADS = 4, MESSAGES = 400 };

struct poller {
	pthread_t thread;
	struct ibv_cq_ex *cq;
	_Atomic int *left;
	int seen[MESSAGES];
	bool mixed_up;
};

static void *poll_thread(void *arg)
{
	struct poller *p = arg;
	struct ibv_poll_cq_attr none = { 0 };

	while (*p->left > 0) {
		if (ibv_start_poll(p->cq, &none))
			continue;
		do {
			uint64_t id = p->cq->wr_id;

			/* Another batch in the same CQ would show here. */
			for (int i = 0; i < 50; i++)
				p->mixed_up |= p->cq->wr_id != id ||
					       ibv_wc_read_byte_len(p->cq) != 8 + id % 100;
			p->seen[id]++;
			(*p->left)--;
		} while (!ibv_next_poll(p->cq));
		ibv_end_poll(p->cq);
	}
	return NULL;
}

static void many_threads(struct ct *t)
{
	struct ibv_cq_init_attr_ex init = { .cqe = MESSAGES + 64,
					    .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	static struct poller pollers[THREADS];
	struct ibv_cq_ex *cq = make(t, &init);
	struct ct_opts o = ct_defaults(t);
	_Atomic int left = MESSAGES;
	struct ct_link l, in;

	o.rcq_a = ct_adopt_cq(t->near, ibv_cq_ex_to_cq(cq));
	o.cap.max_recv_wr = o.cap.max_send_wr = MESSAGES;
	ct_link_open(t, &l, &o);
	in = ct_reverse(&l);
	for (int i = 0; i < MESSAGES; i++)
		ct_recv(&in.b, i, TARGET, 256);
	for (int i = 0; i < THREADS; i++) {
		pollers[i] = (struct poller){ .cq = cq, .left = &left };
		CT_EQ(pthread_create(&pollers[i].thread, NULL, poll_thread, &pollers[i]), 0);
	}
	for (int i = 0; i < MESSAGES; i++)
		ct_send(&in, i, 0, 8 + i % 100);
	for (int i = 0; i < THREADS; i++)
		CT_EQ(pthread_join(pollers[i].thread, NULL), 0);
	for (int id = 0; id < MESSAGES; id++) {
		int seen = 0;

		for (int i = 0; i < THREADS; i++)
			seen += pollers[i].seen[id];
		CT_EQ(seen, 1);
	}
	for (int i = 0; i < THREADS; i++)
		CT_TRUE(!pollers[i].mixed_up);
}

const struct ct_case ct_cq_ex_cases[] = {
	{ "the device has a clock that runs as it says", the_clock, CT_SOLO },
	{ "create_cq_ex refuses what it does not know, and what the device has not",
	  flags_that_are_refused, CT_SOLO },
	{ "a receive says when it completed, by the device and by the wall", times_of_receives,
	  CT_RC | CT_UC | CT_UD },
	{ "a receive says when it came, not when it was polled", time_of_arrival, CT_RC },
	{ "a send says when it completed", times_of_sends, CT_RC | CT_UC | CT_UD },
	{ "a receive of an SRQ keeps its time on the way to its CQ", times_through_an_srq, CT_RC },
	{ "flushed work requests have a time, too", flushed_have_times, CT_RC },
	{ "a single-threaded CQ is polled without a lock", single_threaded, CT_RC },
	{ "a CQ that ignores overrun does not fail", ignore_overrun, CT_RC },
	{ "both ways of polling can be mixed", both_ways, CT_RC },
	{ "a batch belongs to one thread", many_threads, CT_RC },
	{ 0 },
};
