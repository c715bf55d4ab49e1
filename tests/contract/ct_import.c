/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of one process in another: the descriptor of a device goes through a socket, the rest is
 * found by handle.
 *
 *	exporter: near end ──── cmd_fd, handles ───► importer: a child
 *	    its QP  ◄──────── whatever path ────────►  QP in the imported PD
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct.h"

enum { BYTES = 8192, DM_ACCESS = CT_ACCESS_ALL | IBV_ACCESS_ZERO_BASED };

/* ---- within the process ---------------------------------------------------------------------- */

static struct ibv_context *import_here(struct ct *t)
{
	struct ibv_context *ctx = ibv_import_device(dup(ct_context(t->near)->cmd_fd));

	CT_TRUE(ctx != NULL);
	return ctx;
}

/* What the verbs call the handle of a region. */
static uint32_t handle_of(struct ct_end *e, int mr)
{
	return ((struct ibv_mr *)ct_object(e, mr))->handle;
}

static void descriptors(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near), *again = import_here(t);
	int fds[2], fd;

	CT_TRUE(again != ctx && again->device == ctx->device && again->cmd_fd != ctx->cmd_fd);
	fd = again->cmd_fd;
	CT_EQ(ibv_close_device(again), 0);
	CT_EQ(close(fd), -1); /* it was the context's */
	CT_NULL(ibv_import_device(-1), EBADF);
	CT_EQ(pipe(fds), 0);
	CT_NULL(ibv_import_device(fds[0]), EINVAL);
	CT_EQ(close(fds[0]) | close(fds[1]), 0); /* those are still ours */
}

static void unknown_handles(struct ct *t)
{
	struct ibv_context *ctx = import_here(t), *other = ibv_open_device(ctx->device);
	struct ibv_pd *own = ct_object(t->near, t->near->pd), *pd, *more;

	CT_NULL(ibv_import_pd(ctx, own->handle + 1000), ENOENT);
	CT_NULL(ibv_import_pd(ctx, UINT32_MAX), ENOENT);
	CT_NULL(ibv_import_pd(other, own->handle), ENOENT); /* another device file */
	CT_NULL(ibv_import_dm(ctx, 5), ENOENT);
	CT_NULL(ibv_import_dm(ctx, UINT32_MAX), ENOENT);
	pd = ibv_import_pd(ctx, own->handle);
	CT_TRUE(pd != NULL && pd->handle == own->handle && pd->context == ctx);
	CT_NULL(ibv_import_mr(pd, UINT32_MAX), ENOENT);
	CT_NULL(ibv_import_mr(pd, 60000), ENOENT);
	more = ibv_alloc_pd(own->context);
	CT_NULL(ibv_import_mr(more, handle_of(t->near, t->near->mr.handle)), EINVAL); /* its PD */
	CT_EQ(ibv_dealloc_pd(more), 0);
	ibv_unimport_pd(pd);
	CT_EQ(ibv_close_device(other), 0);
	CT_EQ(ibv_close_device(ctx), 0);
}

/* Objects of an imported PD count for the original, and keep working when the import is undone. */
static void domains(struct ct *t)
{
	struct ibv_context *ctx = import_here(t);
	struct ibv_pd *own = ibv_alloc_pd(ct_context(t->near));
	struct ibv_pd *pd = ibv_import_pd(ctx, own->handle),
		      *second = ibv_import_pd(ctx, own->handle);
	static uint8_t bytes[64];
	struct ibv_mr *mr;

	CT_TRUE(pd && second);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), CT_ACCESS_ALL);
	CT_TRUE(mr != NULL);
	CT_ERROR(ibv_dealloc_pd(own), EBUSY);
	CT_ERROR(ibv_dealloc_pd(second), EBUSY);
	ibv_unimport_pd(pd); /* before what is in it, as pyverbs does */
	CT_ERROR(ibv_dealloc_pd(own), EBUSY);
	CT_EQ(ibv_dereg_mr(mr), 0);
	/* Destroyed through one of them, the others can only be unimported. */
	CT_EQ(ibv_dealloc_pd(second), 0);
	CT_ERROR(ibv_dealloc_pd(own), EINVAL);
	CT_NULL(ibv_import_pd(ctx, own->handle), ENOENT);
	ibv_unimport_pd(own);
	CT_EQ(ibv_close_device(ctx), 0);
}

static void regions(struct ct *t)
{
	struct ibv_context *ctx = import_here(t);
	struct ibv_pd *own = ct_object(t->near, t->near->pd), *pd = ibv_import_pd(ctx, own->handle);
	static uint8_t bytes[64];
	struct ibv_mr *mr = ibv_reg_mr(own, bytes, sizeof(bytes), CT_ACCESS_ALL);
	struct ibv_mr *first = ibv_import_mr(pd, mr->handle),
		      *second = ibv_import_mr(pd, mr->handle);

	CT_TRUE(first && second);
	CT_TRUE(first->lkey == mr->lkey && first->rkey == mr->rkey && first->handle == mr->handle);
	CT_TRUE(first->length == sizeof(bytes) && !first->addr && first->pd == pd);
	CT_EQ(ibv_rereg_mr(first, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
	      IBV_REREG_MR_ERR_INPUT);
	ibv_unimport_mr(first);
	CT_EQ(ibv_dereg_mr(second), 0); /* the region itself */
	CT_ERROR(ibv_dereg_mr(mr), EINVAL);
	CT_NULL(ibv_import_mr(pd, mr->handle), ENOENT);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	CT_EQ(ibv_close_device(ctx), 0);
}

static void device_memory(struct ct *t)
{
	struct ibv_context *ctx = import_here(t);
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(ct_context(t->near), &attr);
	struct ibv_dm *first = ibv_import_dm(ctx, dm->handle),
		      *second = ibv_import_dm(ctx, dm->handle);
	uint32_t value = 0x1234;

	CT_TRUE(first && second);
	CT_EQ(ibv_memcpy_to_dm(dm, 4092, &value, 4), 0);
	value = 0;
	CT_EQ(ibv_memcpy_from_dm(&value, first, 4092, 4), 0);
	CT_EQ(value, 0x1234);
	CT_ERROR(ibv_memcpy_from_dm(&value, first, 4096, 4), EINVAL);
	ibv_unimport_dm(first);
	CT_EQ(ibv_free_dm(second), 0);
	CT_ERROR(ibv_memcpy_to_dm(dm, 0, &value, 4), EINVAL); /* they may be somebody else's */
	CT_ERROR(ibv_free_dm(dm), EINVAL);
	ibv_unimport_dm(dm);
	CT_EQ(ibv_close_device(ctx), 0);
}

/* A QP of the imported PD uses regions of the original one, and the other way round. */
static void traffic_here(struct ct *t)
{
	struct ibv_context *ctx = import_here(t);
	struct ibv_pd *pd =
		ibv_import_pd(ctx, ((struct ibv_pd *)ct_object(t->near, t->near->pd))->handle);
	struct ibv_mr *mr = ibv_import_mr(pd, handle_of(t->near, t->near->mr.handle));
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	int original = t->near->pd;
	struct ibv_send_wr wr;
	struct ct_link l;

	CT_TRUE(pd && mr);
	t->near->pd = ct_adopt_pd(t->near, pd); /* what the link's QP is made in */
	ct_link_open(t, &l, NULL);
	sge.lkey = mr->lkey;
	ct_fill(t->near, 0, 64, 3);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->far, 0, 64, 3);
	l = ct_reverse(&l);
	sge = ct_sge(t->far, 0, 64);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 2, &sge, 1);
	ct_aim(&wr, t->near->mr.addr + 4096, mr->rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->near, 4096), ct_peek(t->far, 0));
	CT_EQ(ct_destroy(t->near, l.b.handle), 0);
	ibv_unimport_mr(mr);
	ct_forget(t->near, t->near->pd);
	ibv_unimport_pd(pd);
	t->near->pd = original;
	CT_EQ(ibv_close_device(ctx), 0);
}

/* ---- across processes ------------------------------------------------------------------------ */

struct order { /* what the exporter tells, with the descriptors of device and memory */
	uint32_t pd, dm, dm_mr, shared_mr, private_mr;
	uint32_t qpn, psn;
	uint64_t shared_addr; /* as the exporter sees it, and the keys */
	struct ct_opts o;
	struct ct_end end; /* of it the addresses count */
};

struct answer {
	int step; /* that failed, or 0 */
	int error;
	uint32_t qpn, psn;
};

static void send_order(int sock, const struct order *order, const int fds[2])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)order, sizeof(*order) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(&control.head), fds, 2 * sizeof(int));
	CT_EQ(sendmsg(sock, &msg, 0), sizeof(*order));
}

static bool receive_order(int sock, struct order *order, int fds[2])
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = { order, sizeof(*order) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	if (recvmsg(sock, &msg, 0) != (ssize_t)sizeof(*order) || !CMSG_FIRSTHDR(&msg))
		return false;
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), 2 * sizeof(int));
	return true;
}

/* What the importer has. */
struct importer {
	struct order order;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *dm_mr, *shared_mr;
	struct ibv_dm *dm;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

#define NEED(step, condition)        \
	do {                         \
		errno = 0;           \
		if (!(condition))    \
			return step; \
	} while (0)

static int import_all(struct importer *i, const int fds[2])
{
	const struct order *order = &i->order;

	NEED(1, i->ctx = ibv_import_device(fds[0]));
	NEED(2, i->pd = ibv_import_pd(i->ctx, order->pd));
	NEED(3, i->dm = ibv_import_dm(i->ctx, order->dm));
	NEED(4, i->dm_mr = ibv_import_mr(i->pd, order->dm_mr));
	/* Here it may be elsewhere than there. */
	NEED(5, mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0) != MAP_FAILED);
	NEED(9, i->shared_mr = ibv_import_mr(i->pd, order->shared_mr));
	/* Memory that only the exporter has cannot be used here. */
	NEED(6, !ibv_import_mr(i->pd, order->private_mr) && errno == EOPNOTSUPP);
	NEED(7, !ibv_import_pd(i->ctx, order->pd + 1) && errno == ENOENT);
	NEED(8, i->cq = ibv_create_cq(i->ctx, 16, NULL, NULL, 0));
	return 0;
}

static int connect_qp(struct importer *i, struct answer *answer)
{
	struct order *order = &i->order;
	struct ibv_qp_init_attr init = {
		.send_cq = i->cq, .recv_cq = i->cq, .qp_type = IBV_QPT_RC, .cap = { 8, 8, 2, 2, 0 }
	};
	struct ct_qp here = {
		.end = &order->end, .type = IBV_QPT_RC, .access = CT_ACCESS_ALL, .psn = 77
	};
	struct ct_qp there = {
		.end = &order->end, .type = IBV_QPT_RC, .qpn = order->qpn, .psn = order->psn
	};
	struct ibv_qp_attr attr;
	int mask;

	NEED(11, i->qp = ibv_create_qp(i->pd, &init));
	mask = ct_attr_init(&here, &attr);
	NEED(12, !ibv_modify_qp(i->qp, &attr, mask));
	mask = ct_attr_rtr(&here, &there, &order->o, &attr);
	NEED(13, !ibv_modify_qp(i->qp, &attr, mask));
	mask = ct_attr_rts(&here, &order->o, &attr);
	NEED(14, !ibv_modify_qp(i->qp, &attr, mask));
	answer->qpn = i->qp->qp_num;
	answer->psn = here.psn;
	return 0;
}

static int completion(struct importer *i)
{
	double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	struct ibv_wc wc;

	while (ct_now_s() < deadline_s) {
		if (ibv_poll_cq(i->cq, 1, &wc) == 1)
			return wc.status;
		usleep(100);
	}
	return -1;
}

static int give_back(struct importer *i)
{
	NEED(31, !ibv_destroy_qp(i->qp) && !ibv_destroy_cq(i->cq));
	ibv_unimport_mr(i->dm_mr);
	ibv_unimport_mr(i->shared_mr);
	ibv_unimport_dm(i->dm);
	ibv_unimport_pd(i->pd);
	NEED(32, !ibv_close_device(i->ctx));
	return 0;
}

/* From both regions, by the imported lkeys. */
static int send_from_both(struct importer *i)
{
	struct ibv_sge sge[2] = { { 128, 8, i->dm_mr->lkey },
				  { i->order.shared_addr + 64, 8, i->shared_mr->lkey } };
	struct ibv_send_wr *bad, wr = {
		.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};
	uint64_t value = 0xd00d;

	NEED(21, !ibv_memcpy_to_dm(i->dm, 128, &value, 8));
	NEED(22, !ibv_post_send(i->qp, &wr, &bad));
	NEED(23, completion(i) == IBV_WC_SUCCESS);
	return 0;
}

_Noreturn void ct_importer(int sock)
{
	struct importer i = { 0 };
	struct answer answer = { 0 };
	int fds[2];
	char word;

	alarm(2 * CT_DEADLINE_MS / 1000);
	answer.step = !receive_order(sock, &i.order, fds) ? 100 : import_all(&i, fds);
	if (!answer.step)
		answer.step = connect_qp(&i, &answer);
	answer.error = errno;
	if (write(sock, &answer, sizeof(answer)) < 0 || answer.step)
		_exit(1);
	/* The exporter writes, and says when it is this one's turn. */
	if (read(sock, &word, 1) != 1)
		_exit(2);
	answer.step = send_from_both(&i);
	answer.error = errno;
	if (write(sock, &answer, sizeof(answer)) < 0 || read(sock, &word, 1) != 1)
		_exit(3);
	answer.step = answer.step ? answer.step : give_back(&i);
	if (write(sock, &answer, sizeof(answer)) < 0)
		_exit(4);
	_exit(0);
}

static void take_answer(int sock, struct answer *answer)
{
	CT_EQ(read(sock, answer, sizeof(*answer)), sizeof(*answer));
	if (answer->step)
		ct_fail("the importer failed in step %d: %s", answer->step,
			strerror(answer->error));
}

static enum ibv_wc_status write_to(struct ct *t, const struct ct_qp *qp, uint64_t addr,
				   uint32_t rkey)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	ct_aim(&wr, addr, rkey);
	ct_post(qp, &wr);
	return ct_wait(t->near, t->near->scq).status;
}

/* A child that has everything, or one that has nothing but the socket. */
static pid_t start(int sock, bool anew)
{
	pid_t pid = fork();
	char number[12];

	CT_TRUE(pid >= 0);
	if (pid)
		return pid;
	if (!anew)
		ct_importer(sock);
	snprintf(number, sizeof(number), "%d", sock);
	execl("/proc/self/exe", "contract", "--importer", number, (char *)NULL);
	_exit(127);
}

/* What the exporter has: device memory, memory that both map, a QP, and the importer. */
struct exporter {
	struct ct *t;
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	struct ibv_mr *dm_mr, *shared_mr;
	int memory; /* behind shared */
	uint8_t *shared;
	struct ct_qp qp;
	int sock; /* to the importer */
	pid_t pid;
};

static void export(struct exporter *x, struct ct *t)
{
	struct ibv_alloc_dm_attr attr = { .length = BYTES };

	*x = (struct exporter){ .t = t, .pd = ct_object(t->near, t->near->pd) };
	x->dm = ibv_alloc_dm(x->pd->context, &attr);
	x->dm_mr = ibv_reg_dm_mr(x->pd, x->dm, 0, BYTES, DM_ACCESS);
	x->memory = memfd_create("shared", MFD_CLOEXEC);
	CT_EQ(ftruncate(x->memory, BYTES), 0);
	x->shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, x->memory, 0);
	CT_TRUE(x->dm && x->dm_mr && x->shared != MAP_FAILED);
	x->shared_mr = ibv_reg_mr(x->pd, x->shared, BYTES, CT_ACCESS_ALL);
	CT_TRUE(x->shared_mr != NULL);
}

static void start_importer(struct exporter *x, bool anew)
{
	int pair[2];

	CT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	x->pid = start(pair[1], anew);
	close(pair[1]);
	x->sock = pair[0];
}

static void make_qp(struct exporter *x)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 2, 2, 0 } };
	struct ct_end *near = x->t->near;

	CT_TRUE(ct_qp_create(near, &init, near->pd, near->scq, near->rcq, 0, &x->qp) > 0);
	x->qp.type = IBV_QPT_RC;
	x->qp.access = CT_ACCESS_ALL;
	x->qp.psn = 55;
}

/* The importer says the number of its QP; the two are connected. */
static void connect_importer(struct exporter *x)
{
	struct ct_end *near = x->t->near;
	struct ct_opts o = ct_defaults(x->t);
	struct order order = {
		.pd = x->pd->handle,
		.dm = x->dm->handle,
		.dm_mr = x->dm_mr->handle,
		.shared_mr = x->shared_mr->handle,
		.private_mr = handle_of(near, near->mr.handle),
		.qpn = x->qp.qpn,
		.psn = x->qp.psn,
		.shared_addr = (uintptr_t)x->shared,
		.o = o,
		.end = *near,
	};
	struct answer answer;
	struct ct_qp peer = { .end = near, .type = IBV_QPT_RC };

	send_order(x->sock, &order, (int[2]){ x->pd->context->cmd_fd, x->memory });
	take_answer(x->sock, &answer);
	peer.qpn = answer.qpn;
	peer.psn = answer.psn;
	ct_init(&x->qp);
	ct_rtr(&x->qp, &peer, &o);
	ct_rts(&x->qp, &o);
}

/* The exporter's keys are good at the importer's QP. */
static void write_by_keys(struct exporter *x)
{
	struct ct_end *near = x->t->near;
	uint64_t value;

	ct_fill(near, 0, 64, 6);
	CT_EQ(write_to(x->t, &x->qp, 256, x->dm_mr->rkey), IBV_WC_SUCCESS);
	CT_EQ(ibv_memcpy_from_dm(&value, x->dm, 256, 8), 0);
	CT_EQ(value, ct_peek(near, 0));
	CT_EQ(write_to(x->t, &x->qp, (uintptr_t)x->shared + 4096, x->shared_mr->rkey),
	      IBV_WC_SUCCESS);
	CT_EQ(memcmp(x->shared + 4096, (void *)(uintptr_t)near->base, 64), 0);
}

static void receive_from_importer(struct exporter *x)
{
	struct ct_end *near = x->t->near;
	struct answer answer;

	memcpy(x->shared + 64, &(uint64_t){ 0xcafe }, 8);
	ct_recv(&x->qp, 9, 1 << 20, 64);
	CT_EQ(write(x->sock, "x", 1), 1);
	take_answer(x->sock, &answer);
	ct_expect(near, near->rcq, 9, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(near, 1 << 20), 0xd00d);
	CT_EQ(ct_peek(near, (1 << 20) + 8), 0xcafe);
}

static void end_importer(struct exporter *x)
{
	struct answer answer;
	int status = -1;

	CT_EQ(write(x->sock, "x", 1), 1);
	take_answer(x->sock, &answer);
	CT_EQ(waitpid(x->pid, &status, 0), x->pid);
	CT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
	close(x->sock);
}

static void across(struct ct *t, bool anew)
{
	struct exporter x;

	export(&x, t);
	start_importer(&x, anew);
	make_qp(&x);
	connect_importer(&x);
	write_by_keys(&x);
	receive_from_importer(&x);
	end_importer(&x);
	/* All of it is still the exporter's. */
	CT_EQ(ct_destroy(t->near, x.qp.handle), 0);
	CT_EQ(ibv_dereg_mr(x.dm_mr) | ibv_dereg_mr(x.shared_mr), 0);
	CT_EQ(ibv_free_dm(x.dm), 0);
	munmap(x.shared, BYTES);
	close(x.memory);
}

static void to_a_child(struct ct *t)
{
	across(t, false);
}

static void to_a_stranger(struct ct *t)
{
	across(t, true);
}

const struct ct_case ct_import_cases[] = {
	{ "import_device takes the descriptor of a device, and no other", descriptors, CT_SOLO },
	{ "handles that nobody has are not imported", unknown_handles, CT_SOLO },
	{ "an imported PD is the PD, until it is unimported", domains, CT_SOLO },
	{ "an imported MR is the MR, until it is unimported", regions, CT_SOLO },
	{ "imported device memory is the same bytes", device_memory, CT_SOLO },
	{ "QPs of an imported PD use regions of the original", traffic_here, CT_RC },
	{ "a child imports PD, MRs and device memory, with their keys", to_a_child, CT_RC },
	{ "another process imports PD, MRs and device memory, with their keys", to_a_stranger,
	  CT_RC },
	{ 0 },
};
