/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A UD QP whose memory senders cannot reach asks for packets in its entry, at any time.
 *
 *	parent: sender ── by its own copies, then by packets ── child: receiver
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic/qp.h"

enum { LENGTH = 1000, GRH = 40, QKEY = 0x11111111, HANG_S = 60 };

static _Atomic unsigned copies; /* into another process */

/* In the place of libc's. */
__attribute__((visibility("default"))) ssize_t
process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
		  const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	copies += pid != getpid();
	return syscall(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint8_t bytes[GRH + LENGTH];
};

static void open_end(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	end->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 16, NULL, NULL, 0);
	end->mr = ibv_reg_mr(end->pd, end->bytes, sizeof(end->bytes), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	if (!end->qp || ibv_modify_qp(end->qp, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		abort();
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE))
		abort();
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		abort();
}

static struct ibv_wc complete(struct end *end)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(end->cq, 1, &wc))
		;
	return wc;
}

static void post_receive(struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)end->bytes, sizeof(end->bytes), end->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	memset(end->bytes, 0, sizeof(end->bytes));
	if (ibv_post_recv(end->qp, &wr, &bad))
		abort();
}

static void tell(int pipe, uint32_t number)
{
	if (write(pipe, &number, sizeof(number)) != sizeof(number))
		abort();
}

static uint32_t hear(int pipe)
{
	uint32_t number;

	if (read(pipe, &number, sizeof(number)) != sizeof(number))
		abort();
	return number;
}

/* Takes two datagrams, the second one after its memory is out of reach. */
static int receive_two(int to_parent)
{
	struct end end;

	alarm(HANG_S);
	open_end(&end);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		if (i)
			atomic_fetch_or(&vb_qp(end.qp)->entry->by_packets, VB_BY_PACKETS_MEMORY);
		post_receive(&end);
		tell(to_parent, end.qp->qp_num);
		wc = complete(&end);
		if (wc.status != IBV_WC_SUCCESS || wc.byte_len != GRH + LENGTH ||
		    end.bytes[GRH] != i + 1 || end.bytes[GRH + LENGTH - 1] != i + 1)
			return 1;
	}
	return 0;
}

static struct ibv_ah *address_of_host(struct end *end)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	assert_int_equal(ibv_query_gid(end->context, 1, 1, &attr.grh.dgid), 0);
	attr.grh.sgid_index = 1;
	attr.grh.hop_limit = 1;
	return ibv_create_ah(end->pd, &attr);
}

static void send_datagram(struct end *end, struct ibv_ah *ah, uint32_t qpn, uint8_t value)
{
	struct ibv_sge sge = { (uintptr_t)end->bytes, LENGTH, end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { ah, qpn, QKEY } },
			   *bad;

	memset(end->bytes, value, LENGTH);
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
	assert_int_equal(complete(end).status, IBV_WC_SUCCESS);
}

static void test_datagrams(void **state)
{
	int to_parent[2], status;
	struct end end;
	struct ibv_ah *ah;
	unsigned before;
	uint32_t qpn;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(to_parent), 0);
	child = fork();
	if (!child)
		_exit(receive_two(to_parent[1]));
	open_end(&end);
	ah = address_of_host(&end);
	assert_non_null(ah);
	send_datagram(&end, ah, hear(to_parent[0]), 1);
	/* It may wait for the peer to answer: it has arrived when the child speaks again. */
	qpn = hear(to_parent[0]);
	before = copies;
	assert_int_not_equal(before, 0);
	send_datagram(&end, ah, qpn, 2);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(copies, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_datagrams) };

	alarm(HANG_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
