/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests built by calls: what makes them different from ibv_post_send. That they do the same
 * is told by the whole suite, run once more with VERBENA_TEST_BUILDERS.
 */
#include <pthread.h>

#include "abi/flush.h"
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

enum {
	SEND = IBV_QP_EX_WITH_SEND,
	WRITE = IBV_QP_EX_WITH_RDMA_WRITE,
	DEPTH = 16,
	INLINE = 64,
};

static struct ibv_qp_init_attr_ex init_of(struct ct *t, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = ct_object(t->near, t->near->scq),
		.recv_cq = ct_object(t->near, t->near->rcq),
		.qp_type = t->type,
		.cap = { DEPTH, DEPTH, 2, 1, INLINE },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = ct_object(t->near, t->near->pd),
		.send_ops_flags = ops,
	};
}

/* A near QP with builders for `ops`, connected to a far one. */
struct built {
	struct ibv_qp *qp;
	struct ibv_qp_ex *x;
	struct ct_link l;
};

static void open_built(struct ct *t, struct built *b, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = init_of(t, ops);
	struct ct_opts o = ct_defaults(t);
	struct ibv_qp_attr attr;
	int mask;

	b->qp = ibv_create_qp_ex(ct_context(t->near), &init);
	CT_TRUE(b->qp != NULL);
	b->x = ibv_qp_to_qp_ex(b->qp);
	CT_TRUE(b->x != NULL);
	CT_TRUE(&b->x->qp_base == b->qp);
	ct_link_create(t, &b->l, &o);
	b->l.a.qpn = b->qp->qp_num;
	b->l.a.psn = 77;
	mask = ct_attr_init(&b->l.a, &attr);
	CT_EQ(ibv_modify_qp(b->qp, &attr, mask), 0);
	mask = ct_attr_rtr(&b->l.a, &b->l.b, &o, &attr);
	CT_EQ(ibv_modify_qp(b->qp, &attr, mask), 0);
	mask = ct_attr_rts(&b->l.a, &o, &attr);
	CT_EQ(ibv_modify_qp(b->qp, &attr, mask), 0);
	ct_init(&b->l.b);
	ct_rtr(&b->l.b, &b->l.a, &o);
	ct_rts(&b->l.b, &o);
}

static void close_built(struct built *b)
{
	CT_EQ(ibv_destroy_qp(b->qp), 0);
}

static void write_one(struct built *b, uint64_t wr_id, uint32_t length)
{
	struct ct_end *near = b->l.a.end, *far = b->l.b.end;

	b->x->wr_id = wr_id;
	b->x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(b->x, far->mr.rkey, far->mr.addr + TARGET);
	ibv_wr_set_sge(b->x, near->mr.lkey, near->mr.addr, length);
}

/* Nothing went out: what is posted now is the first to complete. */
static void usable(struct built *b, uint64_t wr_id)
{
	ibv_wr_start(b->x);
	write_one(b, wr_id, 8);
	CT_EQ(ibv_wr_complete(b->x), 0);
	ct_sent(&b->l, wr_id, IBV_WC_SUCCESS);
	ct_none(b->l.a.end, b->l.a.scq);
}

/* ---- creating -------------------------------------------------------------------------------- */

static int refusal(struct ct *t, struct ibv_qp_init_attr_ex init)
{
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp_ex(ct_context(t->near), &init);
	if (!qp)
		return errno;
	CT_EQ(ibv_destroy_qp(qp), 0);
	return 0;
}

static void operations_of_a_transport(struct ct *t)
{
	const uint64_t ud = SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
			    IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH;
	const uint64_t mine = t->type == IBV_QPT_UD ? ud : t->type == IBV_QPT_UC ? uc : rc;

	for (int bit = 0; bit < 64; bit++) {
		uint64_t op = 1ull << bit;

		CT_EQ(refusal(t, init_of(t, op)), mine & op ? 0 : EOPNOTSUPP);
	}
	CT_EQ(refusal(t, init_of(t, mine)), 0);
	CT_EQ(refusal(t, init_of(t, 0)), 0);
}

static void what_create_refuses(struct ct *t)
{
	struct ibv_qp_init_attr_ex init = init_of(t, SEND);
	struct ibv_qp *qp;

	init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	CT_EQ(refusal(t, init), 0);
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	CT_EQ(refusal(t, init), EOPNOTSUPP);
	init.comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS; /* then nobody looks */
	CT_EQ(refusal(t, init), 0);
	init.comp_mask &= ~IBV_QP_INIT_ATTR_PD;
	CT_EQ(refusal(t, init), EINVAL);
	init = init_of(t, SEND);
	init.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE;
	CT_EQ(refusal(t, init), EOPNOTSUPP);
	init = init_of(t, SEND);
	init.comp_mask = IBV_QP_INIT_ATTR_PD;
	qp = ibv_create_qp_ex(ct_context(t->near), &init);
	CT_TRUE(qp != NULL);
	CT_TRUE(ibv_qp_to_qp_ex(qp) == NULL);
	CT_EQ(ibv_destroy_qp(qp), 0);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void abort_posts_nothing(struct ct *t)
{
	struct built b;

	open_built(t, &b, WRITE);
	ct_fill(t->near, 0, 64, 1);
	ct_fill(t->far, TARGET, 64, 2);
	for (int round = 0; round < 3 * DEPTH; round++) {
		ibv_wr_start(b.x);
		write_one(&b, 1, 64);
		write_one(&b, 2, 64);
		ibv_wr_abort(b.x);
	}
	ct_none(t->near, t->near->scq);
	ct_same(t->far, TARGET, 64, 2);
	ibv_wr_start(b.x); /* an empty batch is none */
	CT_EQ(ibv_wr_complete(b.x), 0);
	usable(&b, 3);
	close_built(&b);
}

enum mistake {
	FOREIGN_OP,
	NO_OP,
	MANY_SGES,
	MUCH_INLINE,
	MUCH_INLINE_LIST,
	BAD_FLAG,
	MISTAKES,
};

static void make_mistake(struct built *b, enum mistake mistake)
{
	struct ibv_sge list[3] = { ct_sge(b->l.a.end, 0, 8), ct_sge(b->l.a.end, 0, 8),
				   ct_sge(b->l.a.end, 0, 8) };
	char bytes[INLINE + 1] = { 0 };
	struct ibv_data_buf halves[2] = { { bytes, INLINE }, { bytes, 1 } };
	struct ct_end *far = b->l.b.end;

	b->x->wr_flags = mistake == BAD_FLAG ? IBV_SEND_IP_CSUM : IBV_SEND_SIGNALED;
	if (mistake == FOREIGN_OP) {
		ibv_wr_rdma_read(b->x, far->mr.rkey, far->mr.addr);
		ibv_wr_set_sge_list(b->x, 1, list);
		return;
	}
	if (mistake != NO_OP)
		ibv_wr_rdma_write(b->x, far->mr.rkey, far->mr.addr + TARGET);
	if (mistake == MUCH_INLINE)
		ibv_wr_set_inline_data(b->x, bytes, sizeof(bytes));
	else if (mistake == MUCH_INLINE_LIST)
		ibv_wr_set_inline_data_list(b->x, 2, halves);
	else
		ibv_wr_set_sge_list(b->x, mistake == MANY_SGES ? 3 : 1, list);
}

/* Wherever in the batch it is, complete tells it, and nothing at all is posted. */
static void a_mistake_spoils_the_batch(struct ct *t)
{
	struct built b;

	open_built(t, &b, WRITE);
	ct_fill(t->near, 0, 64, 1);
	ct_fill(t->far, TARGET, 64, 2);
	for (enum mistake mistake = 0; mistake < MISTAKES; mistake++) {
		for (int good = 0; good < 3; good++) {
			ibv_wr_start(b.x);
			if (mistake == NO_OP)
				make_mistake(&b, mistake);
			for (int i = 0; i < good; i++)
				write_one(&b, i, 64);
			if (mistake != NO_OP)
				make_mistake(&b, mistake);
			write_one(&b, 9, 64);
			CT_EQ(ibv_wr_complete(b.x), EINVAL);
		}
	}
	ct_none(t->near, t->near->scq);
	ct_same(t->far, TARGET, 64, 2);
	usable(&b, 3);
	close_built(&b);
}

static void more_than_fits(struct ct *t)
{
	struct built b;

	open_built(t, &b, WRITE);
	for (int round = 0; round < 3; round++) {
		ibv_wr_start(b.x);
		for (int i = 0; i < DEPTH + 1; i++)
			write_one(&b, i, 8);
		CT_EQ(ibv_wr_complete(b.x), ENOMEM);
		ct_none(t->near, t->near->scq);
		ibv_wr_start(b.x);
		for (int i = 0; i < DEPTH; i++)
			write_one(&b, i, 8);
		CT_EQ(ibv_wr_complete(b.x), 0);
		for (int i = 0; i < DEPTH; i++)
			ct_sent(&b.l, i, IBV_WC_SUCCESS);
	}
	close_built(&b);
}

static void not_ready(struct ct *t)
{
	struct ibv_qp_init_attr_ex init = init_of(t, WRITE);
	struct ibv_qp *qp = ibv_create_qp_ex(ct_context(t->near), &init);
	struct built b = { .qp = qp };

	CT_TRUE(qp != NULL);
	b.x = ibv_qp_to_qp_ex(qp);
	b.l.a.end = t->near;
	b.l.b.end = t->far;
	ibv_wr_start(b.x);
	write_one(&b, 1, 8);
	CT_EQ(ibv_wr_complete(b.x), EINVAL);
	close_built(&b);
}

/* An address handle that a failed batch named can go at once. */
static void address_is_given_back(struct ct *t)
{
	struct ibv_qp_init_attr_ex init = init_of(t, SEND);
	struct ibv_qp *qp = ibv_create_qp_ex(ct_context(t->near), &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = CT_QKEY };
	struct ibv_ah_attr ah_attr = { 0 };
	struct ibv_qp_ex *x;
	int ah;

	CT_TRUE(qp != NULL);
	CT_EQ(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	      0);
	attr.qp_state = IBV_QPS_RTR;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	x = ibv_qp_to_qp_ex(qp);
	for (int round = 0; round < 100; round++) {
		ct_address(t->near, t->near, &ah_attr);
		ah = ct_create_ah(t->near, t->near->pd, &ah_attr);
		CT_TRUE(ah > 0);
		ibv_wr_start(x);
		for (int i = 0; i < DEPTH + 1; i++) {
			ibv_wr_send(x);
			ibv_wr_set_ud_addr(x, ct_object(t->near, ah), qp->qp_num, CT_QKEY);
			ibv_wr_set_sge(x, t->near->mr.lkey, t->near->mr.addr, 8);
		}
		CT_EQ(ibv_wr_complete(x), ENOMEM);
		ibv_wr_start(x);
		ibv_wr_send(x); /* no address */
		ibv_wr_set_sge(x, t->near->mr.lkey, t->near->mr.addr, 8);
		CT_EQ(ibv_wr_complete(x), EINVAL);
		CT_EQ(ct_destroy(t->near, ah), 0);
	}
	CT_EQ(ibv_destroy_qp(qp), 0);
}

/* ---- data ------------------------------------------------------------------------------------ */

static void inline_is_copied_at_once(struct ct *t)
{
	char bytes[INLINE];
	struct ibv_data_buf parts[3] = { { bytes, 10 },
					 { bytes + 10, 0 },
					 { bytes + 10, INLINE - 10 } };
	char got[2 * INLINE];
	struct built b;

	open_built(t, &b, WRITE);
	ibv_wr_start(b.x);
	b.x->wr_flags = IBV_SEND_SIGNALED;
	for (int i = 0; i < 2; i++) {
		memset(bytes, 'a' + i, sizeof(bytes));
		b.x->wr_id = i;
		ibv_wr_rdma_write(b.x, t->far->mr.rkey, t->far->mr.addr + TARGET + i * INLINE);
		if (i)
			ibv_wr_set_inline_data(b.x, bytes, sizeof(bytes));
		else
			ibv_wr_set_inline_data_list(b.x, 3, parts);
		memset(bytes, 0, sizeof(bytes));
	}
	CT_EQ(ibv_wr_complete(b.x), 0);
	ct_sent(&b.l, 0, IBV_WC_SUCCESS);
	ct_sent(&b.l, 1, IBV_WC_SUCCESS);
	ct_peek_bytes(t->far, TARGET, sizeof(got), got);
	for (int i = 0; i < 2 * INLINE; i++)
		CT_EQ(got[i], i < INLINE ? 'a' : 'b');
	close_built(&b);
}

/* The flag alone inlines nothing: the setter does. wr_id and wr_flags hold until changed. */
static void flags_and_ids(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct built b;

	open_built(t, &b, WRITE);
	ct_fill(t->near, 0, 8, 3);
	ibv_wr_start(b.x);
	b.x->wr_flags = 0;
	b.x->wr_id = 1;
	ibv_wr_rdma_write(b.x, t->far->mr.rkey, t->far->mr.addr + TARGET);
	ibv_wr_set_sge_list(b.x, 1, &sge);
	b.x->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	b.x->wr_id = 2;
	for (int i = 0; i < 2; i++) {
		ibv_wr_rdma_write(b.x, t->far->mr.rkey, t->far->mr.addr + TARGET);
		ibv_wr_set_sge_list(b.x, 1, &sge);
	}
	CT_EQ(ibv_wr_complete(b.x), 0);
	ct_sent(&b.l, 2, IBV_WC_SUCCESS);
	ct_sent(&b.l, 2, IBV_WC_SUCCESS);
	ct_none(t->near, t->near->scq);
	ct_same(t->far, TARGET, 8, 3);
	close_built(&b);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, BATCHES = 200, PER_BATCH = 3 };

struct writer {
	pthread_t thread;
	struct built *b;
	int number;
	bool failed;
};

static void *write_thread(void *arg)
{
	struct writer *w = arg;

	for (int batch = 0; batch < BATCHES; batch++) {
		int err;

		do {
			ibv_wr_start(w->b->x);
			for (int i = 0; i < PER_BATCH; i++)
				write_one(w->b, (uint64_t)w->number << 32 | (batch * PER_BATCH + i),
					  8);
			err = ibv_wr_complete(w->b->x);
		} while (err == ENOMEM);
		w->failed |= err;
	}
	return NULL;
}

/* Between start and complete a thread is alone: batches of several threads do not mix. */
static void threads_do_not_mix(struct ct *t)
{
	struct writer writers[THREADS];
	uint32_t next[THREADS] = { 0 };
	struct built b;
	int last = 0;

	open_built(t, &b, WRITE);
	for (int i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ .b = &b, .number = i };
		CT_EQ(pthread_create(&writers[i].thread, NULL, write_thread, &writers[i]), 0);
	}
	for (int n = 0; n < THREADS * BATCHES * PER_BATCH; n++) {
		struct ibv_wc wc = ct_wait(t->near, t->near->scq);
		int number = wc.wr_id >> 32;

		CT_EQ(wc.status, IBV_WC_SUCCESS);
		CT_EQ((uint32_t)wc.wr_id, next[number]++);
		if (n % PER_BATCH)
			CT_EQ(number, last);
		last = number;
	}
	for (int i = 0; i < THREADS; i++) {
		CT_EQ(pthread_join(writers[i].thread, NULL), 0);
		CT_TRUE(!writers[i].failed);
	}
	close_built(&b);
}

/* The pointer's 8 bytes are taken at the call, whatever max_inline_data says. */
static void atomic_write_takes_its_value(struct ct *t)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ct_object(t->near, t->near->scq),
		.recv_cq = ct_object(t->near, t->near->rcq),
		.qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = ct_object(t->near, t->near->pd),
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ct_context(t->near), &init);
	struct ct_opts o = ct_defaults(t);
	struct ibv_qp_attr attr;
	struct ibv_qp_ex *x;
	struct ct_link l;
	uint64_t value = 0xfeedface12345678;
	int mask;

	CT_TRUE(qp != NULL);
	x = ibv_qp_to_qp_ex(qp);
	ct_link_create(t, &l, &o);
	l.a.qpn = qp->qp_num;
	ct_init(&l.b);
	ct_rtr(&l.b, &l.a, &o);
	ct_rts(&l.b, &o);
	mask = ct_attr_init(&l.a, &attr);
	CT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	mask = ct_attr_rtr(&l.a, &l.b, &o, &attr);
	CT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	mask = ct_attr_rts(&l.a, &o, &attr);
	CT_EQ(ibv_modify_qp(qp, &attr, mask), 0);

	ibv_wr_start(x);
	x->wr_id = 9;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(x, t->far->mr.rkey, t->far->mr.addr + 4096, &value);
	value = 0;
	CT_EQ(ibv_wr_complete(x), 0);
	CT_EQ(ct_expect(t->near, t->near->scq, 9, IBV_WC_SUCCESS).opcode, IBV_WC_ATOMIC_WRITE);
	CT_EQ(ct_peek(t->far, 4096), 0xfeedface12345678);
	CT_EQ(ibv_destroy_qp(qp), 0);
}

/* Nothing of a batch that does not fit is posted: its bind neither. */
static void window_keeps_its_key(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)t->near->base, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	const struct ibv_mw_bind_info info = { mr, t->near->base, 64, IBV_ACCESS_REMOTE_READ };
	struct built b;
	uint32_t before;

	CT_TRUE(mw != NULL && mr != NULL);
	open_built(t, &b, WRITE | IBV_QP_EX_WITH_BIND_MW);
	before = mw->rkey;
	ibv_wr_start(b.x);
	for (uint32_t i = 1; i <= 2; i++)
		ibv_wr_bind_mw(b.x, mw, before + i, &info);
	for (uint32_t i = 0; i <= DEPTH; i++)
		write_one(&b, i, 8);
	CT_EQ(ibv_wr_complete(b.x), ENOMEM);
	CT_EQ(mw->rkey, before);
	usable(&b, 50);
	close_built(&b);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ibv_dereg_mr(mr), 0);
}

const struct ct_case ct_qp_ex_cases[] = {
	{ "a QP is created for the operations of its transport and no others",
	  operations_of_a_transport, CT_RC | CT_UC | CT_UD },
	{ "create_qp_ex refuses what the device has not", what_create_refuses, CT_RC },
	{ "an aborted batch posts nothing", abort_posts_nothing, CT_RC | CT_UC },
	{ "a mistake in a batch is told at its end, and nothing of it is posted",
	  a_mistake_spoils_the_batch, CT_RC | CT_UC },
	{ "a batch that does not fit posts nothing", more_than_fits, CT_RC | CT_UC },
	{ "a batch on a QP that is not ready fails", not_ready, CT_RC },
	{ "a batch that failed holds no address handle", address_is_given_back, CT_UD },
	{ "a batch that failed leaves the rkey of a window", window_keeps_its_key, CT_RC },
	{ "inline data is copied by the setter", inline_is_copied_at_once, CT_RC },
	{ "wr_id and wr_flags count when the operation begins", flags_and_ids, CT_RC },
	{ "batches of several threads do not mix", threads_do_not_mix, CT_RC },
	{ "ibv_wr_atomic_write takes the value at the call", atomic_write_takes_its_value, CT_RC },
	{ 0 },
};
