/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows. They are at the near end, which binds them through its QP; the far end uses
 * them, in whatever process it lives.
 */
#include "ct.h"

static const uint64_t HERE = 1 << 20;
enum {
	LENGTH = 8192,
	ALL = CT_ACCESS_REMOTE,
	WRITE = IBV_ACCESS_REMOTE_WRITE,
	READ = IBV_ACCESS_REMOTE_READ
};

struct stage {
	struct ct *t;
	struct ct_link l, in; /* in: from the far end to the windows */
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t addr;
};

static void set_up(struct ct *t, struct stage *s, int access)
{
	s->t = t;
	s->pd = ct_object(t->near, t->near->pd);
	s->addr = t->near->base + HERE;
	s->mr = ibv_reg_mr(s->pd, (void *)(uintptr_t)s->addr, LENGTH, access);
	CT_TRUE(s->mr != NULL);
	ct_link_open(t, &s->l, NULL);
	s->in = ct_reverse(&s->l);
	s->qp = ct_object(t->near, s->l.a.handle);
}

/* Both ends anew, after an error. */
static void mend(struct stage *s)
{
	CT_EQ(ct_to_state(&s->l.a, IBV_QPS_RESET), 0);
	CT_EQ(ct_to_state(&s->l.b, IBV_QPS_RESET), 0);
	ct_link_connect(&s->l);
	s->in = ct_reverse(&s->l);
}

static struct ibv_mw *make(struct stage *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->pd, type);

	CT_TRUE(mw != NULL);
	return mw;
}

/* Binds in the way of its type; the status of the completion. */
static enum ibv_wc_status bind_to(struct stage *s, struct ibv_mw *mw, struct ibv_mr *mr,
				  uint64_t addr, uint64_t length, unsigned access)
{
	struct ibv_mw_bind_info info = { mr, addr, length, access };
	struct ibv_mw_bind bind = { 11, IBV_SEND_SIGNALED, info };
	struct ibv_send_wr wr = { .wr_id = 11,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED,
				  .bind_mw = { mw, ibv_inc_rkey(mw->rkey), info } };
	struct ibv_wc wc;

	if (mw->type == IBV_MW_TYPE_1) {
		CT_EQ(ibv_bind_mw(s->qp, mw, &bind), 0);
	} else {
		ct_post(&s->l.a, &wr);
	}
	wc = ct_wait(s->t->near, s->l.a.scq);
	CT_EQ(wc.wr_id, 11);
	if (wc.status == IBV_WC_SUCCESS) {
		CT_EQ(wc.opcode, IBV_WC_BIND_MW);
		if (mw->type == IBV_MW_TYPE_2)
			CT_EQ(mw->rkey, wr.bind_mw.rkey);
	}
	return wc.status;
}

static enum ibv_wc_status bind_part(struct stage *s, struct ibv_mw *mw, uint64_t offset,
				    uint64_t length, unsigned access)
{
	return bind_to(s, mw, s->mr, s->addr + offset, length, access);
}

static enum ibv_wc_status local_inv(struct stage *s, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 12,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = rkey };
	struct ibv_wc wc;

	ct_post(&s->l.a, &wr);
	wc = ct_wait(s->t->near, s->l.a.scq);
	CT_EQ(wc.wr_id, 12);
	return wc.status;
}

/* The far end tries it; what was refused is mended. */
static enum ibv_wc_status try(struct stage *s, enum ibv_wr_opcode opcode, uint64_t addr,
			      uint32_t length, uint32_t rkey)
{
	struct ibv_sge sge = ct_sge(s->t->far, 0, length);
	struct ibv_send_wr wr = ct_wr(&s->in, opcode, 13, &sge, 1);
	enum ibv_wc_status status;

	ct_aim(&wr, addr, rkey);
	ct_post(&s->in.a, &wr);
	status = ct_wait(s->t->far, s->in.a.scq).status;
	if (status == IBV_WC_SUCCESS)
		return status;
	ct_wait_state(&s->l.a, IBV_QPS_ERR);
	ct_event(s->t->near, IBV_EVENT_QP_ACCESS_ERR, s->l.a.handle);
	mend(s);
	return status;
}

static void tear_down(struct stage *s, struct ibv_mw *mw)
{
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ibv_dereg_mr(s->mr), 0);
}

/* ---- what a window opens --------------------------------------------------------------------- */

static void opens(struct ct *t, enum ibv_mw_type type)
{
	struct stage s;
	struct ibv_mw *mw;
	uint32_t before, bound;

	/* The region itself is open to nobody. */
	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, type);
	CT_EQ(mw->type, type);
	before = mw->rkey;
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, before), IBV_WC_REM_ACCESS_ERR);
	CT_EQ(bind_part(&s, mw, 1000, 3000, ALL), IBV_WC_SUCCESS);
	bound = mw->rkey;
	CT_TRUE(bound != before && bound >> 8 == before >> 8);
	ct_fill(t->far, 0, 3000, 1);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 1000, 3000, bound), IBV_WC_SUCCESS);
	ct_fill(t->far, 0, 3000, 2);
	CT_EQ(try(&s, IBV_WR_RDMA_READ, s.addr + 1000, 3000, bound), IBV_WC_SUCCESS);
	ct_same(t->far, 0, 3000, 1);
	CT_EQ(try(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, s.addr + 1000, 8, bound), IBV_WC_SUCCESS);
	/* Nothing around it, nothing with the key of the region or with the old one. */
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 999, 8, bound), IBV_WC_REM_ACCESS_ERR);
	if (type == IBV_MW_TYPE_1) {
		CT_EQ(try(&s, IBV_WR_RDMA_READ, s.addr + 3996, 8, bound), IBV_WC_REM_ACCESS_ERR);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 1000, 8, before), IBV_WC_REM_ACCESS_ERR);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 1000, 8, s.mr->rkey),
		      IBV_WC_REM_ACCESS_ERR);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 1000, 8, bound), IBV_WC_SUCCESS);
	}
	tear_down(&s, mw);
}

static void type_1_opens(struct ct *t)
{
	opens(t, IBV_MW_TYPE_1);
}

static void type_2_opens(struct ct *t)
{
	opens(t, IBV_MW_TYPE_2);
}

/* A window has its own rights; those of its region for peers do not matter. */
static void rights(struct ct *t)
{
	static const struct {
		unsigned access;
		bool write, read, atomic;
	} rows[] = {
		{ WRITE, true, false, false },
		{ READ, false, true, false },
		{ IBV_ACCESS_REMOTE_ATOMIC, false, false, true },
		{ 0, false, false, false },
		{ ALL, true, true, true },
	};
	struct stage s;
	struct ibv_mw *mw;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_1);
	for (int i = 0; i < CT_COUNT(rows); i++) {
		enum ibv_wc_status no = IBV_WC_REM_ACCESS_ERR, yes = IBV_WC_SUCCESS;

		CT_EQ(bind_part(&s, mw, 0, 64, rows[i].access), IBV_WC_SUCCESS);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, mw->rkey), rows[i].write ? yes : no);
		CT_EQ(try(&s, IBV_WR_RDMA_READ, s.addr, 8, mw->rkey), rows[i].read ? yes : no);
		CT_EQ(try(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, s.addr, 8, mw->rkey),
		      rows[i].atomic ? yes : no);
	}
	tear_down(&s, mw);
}

static void zero_based(struct ct *t)
{
	static const enum ibv_mw_type types[] = { IBV_MW_TYPE_1, IBV_MW_TYPE_2 };
	struct stage s;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	for (int i = 0; i < CT_COUNT(types); i++) {
		struct ibv_mw *mw = make(&s, types[i]);

		CT_EQ(bind_part(&s, mw, 512, 256, ALL | IBV_ACCESS_ZERO_BASED), IBV_WC_SUCCESS);
		ct_poke(t->far, 0, 0xabcd + (uint64_t)i);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, 8, 8, mw->rkey), IBV_WC_SUCCESS);
		CT_EQ(ct_peek(t->near, HERE + 520), 0xabcd + i);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, 252, 8, mw->rkey), IBV_WC_REM_ACCESS_ERR);
		CT_EQ(ibv_dealloc_mw(mw), 0);
	}
	CT_EQ(ibv_dereg_mr(s.mr), 0);
}

/* ---- binding anew, taking back --------------------------------------------------------------- */

/* Type 1: to another place, to nothing; each time the old key ends. */
static void bound_anew(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;
	uint32_t first;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_1);
	CT_EQ(bind_part(&s, mw, 0, 64, ALL), IBV_WC_SUCCESS);
	first = mw->rkey;
	CT_EQ(bind_part(&s, mw, 4096, 64, ALL), IBV_WC_SUCCESS);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, first), IBV_WC_REM_ACCESS_ERR);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, mw->rkey), IBV_WC_REM_ACCESS_ERR);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 4096, 8, mw->rkey), IBV_WC_SUCCESS);
	CT_ERROR(ibv_dereg_mr(s.mr), EBUSY);
	CT_EQ(bind_part(&s, mw, 0, 0, 0), IBV_WC_SUCCESS);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 4096, 8, mw->rkey), IBV_WC_REM_ACCESS_ERR);
	CT_EQ(ibv_dereg_mr(s.mr), 0);
	/* And after that to another region. */
	s.mr = ibv_reg_mr(s.pd, (void *)(uintptr_t)s.addr, LENGTH,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CT_EQ(bind_part(&s, mw, 0, 64, ALL), IBV_WC_SUCCESS);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, mw->rkey), IBV_WC_SUCCESS);
	tear_down(&s, mw);
}

/* Type 2: taken back by its owner, then bound again. */
static void invalidated(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;
	uint32_t first;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_2);
	CT_EQ(bind_part(&s, mw, 0, 64, ALL), IBV_WC_SUCCESS);
	first = mw->rkey;
	CT_ERROR(ibv_dereg_mr(s.mr), EBUSY);
	CT_EQ(local_inv(&s, first), IBV_WC_SUCCESS);
	CT_EQ(bind_part(&s, mw, 128, 64, ALL), IBV_WC_SUCCESS);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr + 128, 8, mw->rkey), IBV_WC_SUCCESS);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, first), IBV_WC_REM_ACCESS_ERR);
	tear_down(&s, mw);
}

/* By its peer: the receive says which key it was, and it is gone before that is polled. */
static void invalidated_remotely(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;
	struct ibv_sge sge = ct_sge(t->far, 0, 16);
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_2);
	CT_EQ(bind_part(&s, mw, 0, 64, ALL), IBV_WC_SUCCESS);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, mw->rkey), IBV_WC_SUCCESS);
	ct_recv(&s.in.b, 21, 0, 64);
	wr = ct_wr(&s.in, IBV_WR_SEND_WITH_INV, 20, &sge, 1);
	wr.invalidate_rkey = mw->rkey;
	ct_post(&s.in.a, &wr);
	ct_sent(&s.in, 20, IBV_WC_SUCCESS);
	wc = ct_got(&s.in, 21, IBV_WC_SUCCESS);
	CT_EQ(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
	CT_EQ(wc.invalidated_rkey, mw->rkey);
	CT_EQ(ibv_dereg_mr(s.mr), 0); /* not bound any more */
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, mw->rkey), IBV_WC_REM_ACCESS_ERR);
	CT_EQ(ibv_dealloc_mw(mw), 0);
}

/* A key that is none, is a region's, or a type 1 window's, is refused: nothing is taken back. */
static void invalidated_in_vain(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;

	set_up(t, &s, CT_ACCESS_ALL | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_1);
	CT_EQ(bind_part(&s, mw, 0, 64, ALL), IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		uint32_t key = i == 0 ? mw->rkey : i == 1 ? s.mr->rkey : mw->rkey ^ 0x700;
		struct ibv_sge sge = ct_sge(t->far, 0, 16);
		struct ibv_send_wr wr = ct_wr(&s.in, IBV_WR_SEND_WITH_INV, 20, &sge, 1);

		CT_EQ(local_inv(&s, key), IBV_WC_MW_BIND_ERR);
		mend(&s);
		ct_recv(&s.in.b, 21, 0, 64);
		wr.invalidate_rkey = key;
		ct_post(&s.in.a, &wr);
		ct_sent(&s.in, 20, IBV_WC_SUCCESS);
		ct_got(&s.in, 21, IBV_WC_REM_INV_REQ_ERR);
		ct_wait_state(&s.l.a, IBV_QPS_ERR);
		mend(&s);
	}
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, mw->rkey), IBV_WC_SUCCESS);
	tear_down(&s, mw);
}

/* ---- who may use it -------------------------------------------------------------------------- */

static enum ibv_wc_status through(struct stage *s, struct ct_link *in, uint32_t rkey)
{
	struct ibv_sge sge = ct_sge(s->t->far, 0, 8);
	struct ibv_send_wr wr = ct_wr(in, IBV_WR_RDMA_WRITE, 30, &sge, 1);
	enum ibv_wc_status status;

	ct_aim(&wr, s->addr, rkey);
	ct_post(&in->a, &wr);
	status = ct_wait(in->a.end, in->a.scq).status;
	if (status != IBV_WC_SUCCESS)
		ct_event(s->t->near, IBV_EVENT_QP_ACCESS_ERR, in->b.handle);
	return status;
}

/* Type 1 belongs to the PD, type 2 to the QP that bound it. */
static void other_qps(struct ct *t)
{
	struct stage s;
	struct ct_link second, second_in;
	struct ibv_mw *one, *two;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ct_link_open(t, &second, NULL);
	second_in = ct_reverse(&second);
	one = make(&s, IBV_MW_TYPE_1);
	two = make(&s, IBV_MW_TYPE_2);
	CT_EQ(bind_part(&s, one, 0, 64, ALL), IBV_WC_SUCCESS);
	CT_EQ(bind_part(&s, two, 0, 64, ALL), IBV_WC_SUCCESS);
	CT_EQ(through(&s, &second_in, one->rkey), IBV_WC_SUCCESS);
	CT_EQ(through(&s, &s.in, two->rkey), IBV_WC_SUCCESS);
	CT_EQ(through(&s, &second_in, two->rkey), IBV_WC_REM_ACCESS_ERR);
	CT_EQ(ibv_dealloc_mw(one), 0);
	tear_down(&s, two);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void refused_bindings(struct ct *t)
{
	struct ibv_pd *other;
	struct ibv_mr *closed, *read_only, *strange;
	struct stage s;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	other = ibv_alloc_pd(s.pd->context);
	closed = ibv_reg_mr(s.pd, (void *)(uintptr_t)s.addr, LENGTH, CT_ACCESS_ALL);
	read_only = ibv_reg_mr(s.pd, (void *)(uintptr_t)s.addr, LENGTH, IBV_ACCESS_MW_BIND);
	strange = ibv_reg_mr(other, (void *)(uintptr_t)s.addr, LENGTH,
			     CT_ACCESS_ALL | IBV_ACCESS_MW_BIND);
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		const struct {
			struct ibv_mr *mr;
			uint64_t offset, length;
			unsigned access;
			enum ibv_wc_status wanted;
		} rows[] = {
			{ closed, 0, 64, ALL, IBV_WC_MW_BIND_ERR },
			{ read_only, 0, 64, WRITE, IBV_WC_MW_BIND_ERR },
			{ read_only, 0, 64, IBV_ACCESS_REMOTE_ATOMIC, IBV_WC_MW_BIND_ERR },
			{ strange, 0, 64, ALL, IBV_WC_MW_BIND_ERR },
			{ s.mr, LENGTH - 32, 64, ALL, IBV_WC_MW_BIND_ERR },
			{ s.mr, (uint64_t)-8, 64, ALL, IBV_WC_MW_BIND_ERR },
			{ s.mr, 0, UINT64_MAX, ALL, IBV_WC_MW_BIND_ERR },
			{ read_only, 0, 64, READ, IBV_WC_SUCCESS },
		};

		for (int i = 0; i < CT_COUNT(rows); i++) {
			struct ibv_mw *mw = make(&s, (enum ibv_mw_type)type);

			if (type == IBV_MW_TYPE_1 && rows[i].mr == strange) {
				CT_EQ(ibv_bind_mw(
					      s.qp, mw,
					      &(struct ibv_mw_bind){
						      .bind_info = { strange, s.addr, 64, ALL } }),
				      EPERM);
				CT_EQ(ibv_dealloc_mw(mw), 0);
				continue;
			}
			CT_EQ(bind_to(&s, mw, rows[i].mr, s.addr + rows[i].offset, rows[i].length,
				      rows[i].access),
			      rows[i].wanted);
			CT_EQ(ct_qp_state(&s.l.a),
			      rows[i].wanted == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR);
			if (rows[i].wanted != IBV_WC_SUCCESS)
				mend(&s);
			CT_EQ(ibv_dealloc_mw(mw), 0);
		}
	}
	CT_EQ(ibv_dereg_mr(closed) | ibv_dereg_mr(read_only) | ibv_dereg_mr(strange), 0);
	CT_EQ(ibv_dereg_mr(s.mr), 0);
	CT_EQ(ibv_dealloc_pd(other), 0);
}

/* Each type has its own way, and a bound type 2 window stays where it is. */
static void wrong_way(struct ct *t)
{
	struct stage s;
	struct ibv_mw *one, *two;
	struct ibv_mw_bind_info info;
	struct ibv_mw_bind bind;
	struct ibv_send_wr wr, *bad;
	uint32_t key;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	one = make(&s, IBV_MW_TYPE_1);
	two = make(&s, IBV_MW_TYPE_2);
	info = (struct ibv_mw_bind_info){ s.mr, s.addr, 64, ALL };
	bind = (struct ibv_mw_bind){ 1, IBV_SEND_SIGNALED, info };
	CT_EQ(ibv_bind_mw(s.qp, two, &bind), EINVAL);
	if (!ct_with_builders()) {
		wr = (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW,
					   .bind_mw = { one, ibv_inc_rkey(one->rkey), info } };
		CT_EQ(ct_post_send(&s.l.a, &wr, &bad), EINVAL);
	}
	CT_EQ(bind_part(&s, two, 0, 64, ALL), IBV_WC_SUCCESS);
	key = two->rkey;
	CT_EQ(bind_part(&s, two, 64, 64, ALL), IBV_WC_MW_BIND_ERR);
	mend(&s);
	CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, key), IBV_WC_SUCCESS);
	CT_NULL(ibv_alloc_mw(s.pd, (enum ibv_mw_type)3), EINVAL);
	CT_EQ(ibv_dealloc_mw(one), 0);
	tear_down(&s, two);
}

/* A SEND behind the bind tells the key: when it arrives the window is open. */
static void bound_before_what_follows(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;
	struct ibv_sge sge = ct_sge(t->near, 0, 4);
	struct ibv_send_wr tell, bind, *bad;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_2);
	for (unsigned i = 0; i < 20; i++) {
		uint32_t key = ibv_inc_rkey(mw->rkey);

		tell = ct_wr(&s.l, IBV_WR_SEND, 2, &sge, 1);
		bind = (struct ibv_send_wr){ .wr_id = 1,
					     .next = &tell,
					     .opcode = IBV_WR_BIND_MW,
					     .bind_mw = { mw, key, { s.mr, s.addr, 64, ALL } } };
		ct_recv(&s.l.b, 3, 0, 64);
		CT_EQ(ct_post_send(&s.l.a, &bind, &bad), 0);
		ct_got(&s.l, 3, IBV_WC_SUCCESS);
		CT_EQ(try(&s, IBV_WR_RDMA_WRITE, s.addr, 8, key), IBV_WC_SUCCESS);
		ct_sent(&s.l, 2, IBV_WC_SUCCESS);
		CT_EQ(mw->rkey, key);
		CT_EQ(local_inv(&s, key), IBV_WC_SUCCESS);
	}
	tear_down(&s, mw);
}

/* A window goes away with its key; windows of UC work as well. */
static void unreliable(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;
	struct ibv_sge sge = ct_sge(t->far, 0, 8);
	struct ibv_send_wr wr;

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_1);
	CT_EQ(bind_part(&s, mw, 0, 64, ALL), IBV_WC_SUCCESS);
	ct_poke(t->far, 0, 4711);
	ct_recv(&s.in.b, 41, 4096, 8);
	wr = ct_wr(&s.in, IBV_WR_RDMA_WRITE_WITH_IMM, 40, &sge, 1);
	ct_aim(&wr, s.addr, mw->rkey);
	ct_post(&s.in.a, &wr);
	ct_sent(&s.in, 40, IBV_WC_SUCCESS);
	ct_got(&s.in, 41, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->near, HERE), 4711);
	tear_down(&s, mw);
}

/* SQD holds the bind back; when it is executed there is no such window any more. */
static void a_queued_bind_of_a_window_that_is_gone_fails(struct ct *t)
{
	struct stage s;
	struct ibv_mw *mw;
	struct ibv_send_wr wr = { .wr_id = 11,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };

	set_up(t, &s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = make(&s, IBV_MW_TYPE_2);
	CT_EQ(ct_to_state(&s.l.a, IBV_QPS_SQD), 0);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ s.mr, s.addr, 100, ALL };
	ct_post(&s.l.a, &wr);
	CT_EQ(ibv_dealloc_mw(mw), 0);
	CT_EQ(ct_to_state(&s.l.a, IBV_QPS_RTS), 0);
	ct_expect(t->near, s.l.a.scq, 11, IBV_WC_MW_BIND_ERR);
	CT_EQ(ibv_dereg_mr(s.mr), 0);
}

const struct ct_case ct_mw_cases[] = {
	{ "a type 1 window opens its part of a region, and nothing else", type_1_opens,
	  CT_RC | CT_IB },
	{ "a type 2 window opens its part of a region, and nothing else", type_2_opens,
	  CT_RC | CT_IB },
	{ "a window has the rights that it was bound with", rights, CT_RC },
	{ "a zero-based window begins at 0", zero_based, CT_RC },
	{ "a type 1 window is bound anew and unbound; its region waits for that", bound_anew,
	  CT_RC },
	{ "LOCAL_INV takes a type 2 window back", invalidated, CT_RC },
	{ "SEND_WITH_INV takes a type 2 window back", invalidated_remotely, CT_RC },
	{ "only type 2 windows can be taken back", invalidated_in_vain, CT_RC },
	{ "type 1 windows are for the PD, type 2 windows for one QP", other_qps, CT_RC },
	{ "a window is not bound where it may not be: MW_BIND_ERR", refused_bindings, CT_RC },
	{ "each type is bound in its own way, type 2 once", wrong_way, CT_RC },
	{ "what follows a bind finds the window open", bound_before_what_follows, CT_RC },
	{ "windows of UC", unreliable, CT_UC },
	{ "a queued bind of a window that was deallocated is MW_BIND_ERR",
	  a_queued_bind_of_a_window_that_is_gone_fails, CT_RC },
	{ 0 },
};
