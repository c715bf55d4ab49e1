/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Masked atomics, made of plain ones:
 *
 *   fetch the value (and add 0); while it must change: compare it and swap it with the new one.
 *
 * Unsignaled requests leave no completion, so the caller does not see them. A failed one has a
 * completion with the caller's wr_id. A QP executes requests in order, so the bell, a fetch into a
 * cell with a random number, shows that the requests before it are done. The caller waits for the
 * completion of a last atomic that changes nothing. A READ could fetch as well, but the rights may
 * allow atomics only.
 *
 * A masked atomic takes several slots of the send queue. ibv_exp_create_qp makes room for them, and
 * that room limits the number of tries. A caller that posts more than its depth can still fill the
 * queue, with memory changed and no slot for the last atomic. Then the library waits for another
 * thread to poll. If no thread does, the QP fails, because its state is unknown.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "legacy.h"

enum {
	OPERAND = 8,
	OPERAND_LOG = 3,
	LOOK_EVERY = 1024,
	FULL_S = 2,        /* the time to wait at a full queue */
	SLOTS_PER_TRY = 2, /* compare and swap, and the bell */
	SLOTS_BESIDE = 3,  /* the first fetch and its bell, and the last atomic */
};

struct masked_qp {
	struct masked_qp *next;
	struct ibv_qp *qp;
	unsigned tries;
	struct ibv_mr *mr;    /* of swapped and bell; made with the first masked atomic */
	pthread_mutex_t lock; /* one masked atomic at a time */
	_Alignas(64) _Atomic uint64_t swapped; /* the result of compare and swap */
	_Atomic uint64_t bell;                 /* the result of the fetch after it */
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct masked_qp *list;

static struct masked_qp **find_masked(struct ibv_qp *qp)
{
	struct masked_qp **link = &list;

	while (*link && (*link)->qp != qp)
		link = &(*link)->next;
	return link;
}

int masked_adopt(struct ibv_qp *qp, unsigned slots)
{
	struct masked_qp *m = aligned_alloc(64, sizeof(*m));

	if (!m)
		return ENOMEM;
	memset(m, 0, sizeof(*m));
	m->qp = qp;
	m->tries = slots > SLOTS_BESIDE ? (slots - SLOTS_BESIDE) / SLOTS_PER_TRY : 0;
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_lock(&list_lock);
	m->next = list;
	list = m;
	pthread_mutex_unlock(&list_lock);
	return 0;
}

static struct masked_qp *get_masked(struct ibv_qp *qp)
{
	struct masked_qp *m;

	pthread_mutex_lock(&list_lock);
	m = *find_masked(qp);
	pthread_mutex_unlock(&list_lock);
	return m;
}

void masked_forget(struct ibv_qp *qp)
{
	struct masked_qp **link, *m;

	pthread_mutex_lock(&list_lock);
	link = find_masked(qp);
	m = *link;
	if (m)
		*link = m->next;
	pthread_mutex_unlock(&list_lock);
	if (!m)
		return;
	if (m->mr)
		ibv_dereg_mr(m->mr);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* --- one operation --- */

struct operation {
	struct masked_qp *m;
	const struct ibv_exp_send_wr *wr;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t bell; /* the random number in the cell */
};

static const struct ibv_exp_cmp_swap *cmp_swap(const struct ibv_exp_send_wr *wr)
{
	return &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
}

static const struct ibv_exp_fetch_add *fetch_add(const struct ibv_exp_send_wr *wr)
{
	return &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
}

static bool is_cmp_swap(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
}

/* The new value. */
static uint64_t apply(const struct ibv_exp_send_wr *wr, uint64_t old)
{
	const struct ibv_exp_cmp_swap *c = cmp_swap(wr);
	const struct ibv_exp_fetch_add *f = fetch_add(wr);
	uint64_t top = f->field_boundary;

	if (is_cmp_swap(wr))
		return (old ^ c->compare_val) & c->compare_mask
			       ? old
			       : (old & ~c->swap_mask) | (c->swap_val & c->swap_mask);
	/* The highest bit of each field is added by XOR, so that no carry leaves the field. */
	return ((old & ~top) + (f->add_val & ~top)) ^ ((old ^ f->add_val) & top);
}

static int post_atomic(const struct operation *op, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
		       uint64_t compare_add, uint64_t swap, unsigned flags)
{
	struct ibv_send_wr wr = { .wr_id = op->wr->wr_id,
				  .sg_list = sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = flags },
			   *bad;

	wr.wr.atomic.remote_addr = op->remote_addr;
	wr.wr.atomic.rkey = op->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return ibv_post_send(op->m->qp, &wr, &bad);
}

static struct ibv_sge cell(const struct operation *op, _Atomic uint64_t *which)
{
	return (struct ibv_sge){ (uintptr_t)which, OPERAND, op->m->mr->lkey };
}

static bool qp_works(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) &&
	       (attr.qp_state == IBV_QPS_RTS || attr.qp_state == IBV_QPS_SQD);
}

/* Waits at a full queue, because memory may have changed already. */
static int post_atomic_surely(const struct operation *op, enum ibv_wr_opcode opcode,
			      struct ibv_sge *sge, unsigned flags)
{
	struct ibv_qp_attr failed = { .qp_state = IBV_QPS_ERR };
	struct timespec start, now;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while ((err = post_atomic(op, opcode, sge, 0, 0, flags)) == ENOMEM) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec > FULL_S) {
			ibv_modify_qp(op->m->qp, &failed, IBV_QP_STATE);
			break;
		}
		sched_yield();
	}
	return err;
}

static int post_bell(struct operation *op, bool surely)
{
	struct ibv_sge sge = cell(op, &op->m->bell);

	if (getrandom(&op->bell, sizeof(op->bell), 0) != (ssize_t)sizeof(op->bell))
		op->bell ^= (uintptr_t)op * 0x9e3779b97f4a7c15ull;
	atomic_store(&op->m->bell, op->bell);
	return surely ? post_atomic_surely(op, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0)
		      : post_atomic(op, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0, 0, 0);
}

/*
 * Waits until all requests before the bell are executed. False: the QP failed, with a completion.
 */
static bool wait_bell(const struct operation *op)
{
	for (unsigned turn = 1; atomic_load(&op->m->bell) == op->bell; turn++) {
		if (turn % LOOK_EVERY == 0 && !qp_works(op->m->qp))
			return atomic_load(&op->m->bell) != op->bell;
		sched_yield();
	}
	return true;
}

/* Fetches the first value into the caller's own element: a bad element fails here. */
static int fetch_first(struct operation *op)
{
	unsigned fence = op->wr->exp_send_flags & IBV_EXP_SEND_FENCE ? IBV_SEND_FENCE : 0;
	struct ibv_sge sge = op->wr->sg_list[0];
	int err;

	sge.length = OPERAND;
	err = post_atomic(op, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0, 0, fence);
	return err ? err : post_bell(op, false);
}

static int swap_once(struct operation *op, uint64_t old, uint64_t new)
{
	struct ibv_sge sge = cell(op, &op->m->swapped);
	int err = post_atomic(op, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, old, new, 0);

	return err ? err : post_bell(op, true);
}

/* The completion of this request is the one that the caller gets. */
static int post_last(const struct operation *op)
{
	unsigned flags = (unsigned)(op->wr->exp_send_flags &
				    (IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED));
	struct ibv_sge sge = cell(op, &op->m->swapped);
	enum ibv_wr_opcode opcode =
		is_cmp_swap(op->wr) ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;

	return post_atomic_surely(op, opcode, &sge, flags);
}

/* Under m->lock. Returns 0 after a failure of the QP: the request has a bad completion. */
static int execute_masked(struct operation *op)
{
	uint64_t old, new, found;
	void *result = (void *)(uintptr_t)op->wr->sg_list[0].addr;
	int err = fetch_first(op);

	if (err)
		return err;
	if (!wait_bell(op))
		return 0;
	memcpy(&old, result, sizeof(old));
	for (unsigned i = 0; (new = apply(op->wr, old)) != old; i++) {
		err = i < op->m->tries ? swap_once(op, old, new) : ENOMEM;
		if (err)
			return err;
		if (!wait_bell(op))
			return 0;
		found = atomic_load(&op->m->swapped);
		if (found == old)
			break;
		old = found;
	}
	memcpy(result, &old, sizeof(old));
	return post_last(op);
}

/* Masks that leave out no bit: a plain atomic does the same. */
static bool is_plain_atomic(const struct ibv_exp_send_wr *wr)
{
	if (is_cmp_swap(wr))
		return cmp_swap(wr)->compare_mask == UINT64_MAX &&
		       cmp_swap(wr)->swap_mask == UINT64_MAX;
	return !(fetch_add(wr)->field_boundary & ~(1ull << 63));
}

static int post_plain_atomic(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr plain = *wr, *bad;

	plain.next = NULL;
	plain.exp_send_flags &= ~IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	plain.wr.atomic.remote_addr = wr->ext_op.masked_atomics.remote_addr;
	plain.wr.atomic.rkey = wr->ext_op.masked_atomics.rkey;
	if (is_cmp_swap(wr)) {
		plain.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
		plain.wr.atomic.compare_add = cmp_swap(wr)->compare_val;
		plain.wr.atomic.swap = cmp_swap(wr)->swap_val;
	} else {
		plain.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
		plain.wr.atomic.compare_add = fetch_add(wr)->add_val;
	}
	return ibv_exp_post_send(qp, &plain, &bad);
}

static int check_masked(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	const struct ibv_exp_send_wr *w = wr;

	if (!(w->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE) ||
	    w->ext_op.masked_atomics.log_arg_sz != OPERAND_LOG)
		return EOPNOTSUPP;
	if (w->num_sge != 1 || w->sg_list[0].length < OPERAND || qp->qp_type != IBV_QPT_RC)
		return EINVAL;
	return 0;
}

static bool reports_all(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_CAP, &init) || init.sq_sig_all;
}

/* Under m->lock. */
static int register_cells(struct masked_qp *m)
{
	if (!m->mr)
		m->mr = ibv_reg_mr(m->qp->pd, (void *)&m->swapped, 2 * OPERAND,
				   IBV_ACCESS_LOCAL_WRITE);
	return m->mr ? 0 : errno;
}

int masked_post(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr)
{
	struct operation op = {
		.wr = wr,
		.remote_addr = wr->ext_op.masked_atomics.remote_addr,
		.rkey = wr->ext_op.masked_atomics.rkey,
	};
	int err = check_masked(qp, wr);

	if (err)
		return err;
	if (is_plain_atomic(wr))
		return post_plain_atomic(qp, wr);
	op.m = get_masked(qp);
	if (!op.m || !op.m->tries || reports_all(qp))
		return EOPNOTSUPP;
	if (!qp_works(qp))
		return EINVAL;
	pthread_mutex_lock(&op.m->lock);
	err = register_cells(op.m);
	if (!err)
		err = execute_masked(&op);
	pthread_mutex_unlock(&op.m->lock);
	return err;
}
