/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_S = 20 };

struct address {
	union ibv_gid gid;
	uint32_t qpn[2], rkey;
	uint64_t at;
};

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(3);
}

void broken(const struct end *end, const char *format, ...)
{
	va_list args;

	printf("%s: ", end->server ? "server" : "client");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

/* --- calls of the programs --- */

void tell(struct end *end)
{
	if (write(end->fd, "x", 1) != 1)
		broken(end, "the peer is gone");
}

void await(struct end *end)
{
	char byte;

	if (read(end->fd, &byte, 1) != 1)
		broken(end, "the peer is gone");
}

bool is_told(struct end *end)
{
	char byte;

	return recv(end->fd, &byte, 1, MSG_DONTWAIT) == 1;
}

void receive(struct end *end, unsigned qp, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer, HALF, end->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	must(!ibv_post_recv(end->qp[qp], &wr, &bad), "ibv_post_recv");
}

struct ibv_send_wr work(struct end *end, enum ibv_wr_opcode opcode, uint32_t length,
			struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ (uintptr_t)end->buffer + HALF, length, end->mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = 1000u + opcode,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = end->peer_address, .rkey = end->peer_rkey },
	};
}

void post(struct end *end, unsigned qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (ibv_post_send(end->qp[qp], wr, &bad))
		broken(end, "ibv_post_send refused %u bytes%s", wr->sg_list->length,
		       wr->send_flags & IBV_SEND_INLINE ? " inline" : "");
}

void simple(struct end *end, unsigned qp, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = work(end, opcode, length, &sge);

	post(end, qp, &wr);
}

struct ibv_wc poll_one(struct end *end)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(end->cq, 1, &wc))
		;
	if (wc.status)
		broken(end, "wr_id %u: %s", (unsigned)wc.wr_id, ibv_wc_status_str(wc.status));
	return wc;
}

void rest(unsigned us)
{
	const struct timespec time = { 0, us * 1000l };

	nanosleep(&time, NULL);
}

/* --- connecting --- */

static void open_objects(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = { DEPTH, DEPTH, 1, 1, INLINE_BYTES },
		.qp_type = IBV_QPT_RC,
	};

	must(list && list[0], "ibv_get_device_list");
	end->context = ibv_open_device(list[0]);
	must(end->context, "ibv_open_device");
	ibv_free_device_list(list);
	end->pd = ibv_alloc_pd(end->context);
	end->channel = ibv_create_comp_channel(end->context);
	end->cq = ibv_create_cq(end->context, 4 * DEPTH, NULL, end->channel, 0);
	must(end->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = end->cq;
	for (unsigned i = 0; i < 2; i++) {
		end->qp[i] = ibv_create_qp(end->pd, &init);
		must(end->qp[i], "ibv_create_qp");
	}
	end->inline_max = init.cap.max_inline_data;
	end->buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	memset(end->buffer, 0, BUFFER_BYTES);
	end->mr = ibv_reg_mr(end->pd, end->buffer, BUFFER_BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	must(end->mr, "ibv_reg_mr");
}

static void connect_one(struct end *end, unsigned i, const struct address *peer, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	must(!ibv_modify_qp(end->qp[i], &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn[i],
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid, .hop_limit = 64 } },
	};
	must(!ibv_modify_qp(end->qp[i], &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14, /* that of perftest */
		.retry_cnt = 7,
		.rnr_retry = rnr_retry,
		.max_rd_atomic = 4,
	};
	must(!ibv_modify_qp(end->qp[i], &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void connect_end(struct end *end, const struct program *program)
{
	struct address own = { .rkey = end->mr->rkey,
			       .at = (uintptr_t)end->buffer,
			       .qpn = { end->qp[0]->qp_num, end->qp[1]->qp_num } },
		       peer;

	must(!ibv_query_gid(end->context, 1, 0, &own.gid), "ibv_query_gid");
	must(write(end->fd, &own, sizeof(own)) == sizeof(own), "write");
	must(recv(end->fd, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer), "recv");
	for (unsigned i = 0; i < 2; i++)
		connect_one(end, i, &peer, end->right ? 7 : program->rnr_retry);
	end->peer_address = peer.at;
	end->peer_rkey = peer.rkey;
	tell(end);
	await(end);
	/* The first message of a connection may wait for more than later ones. */
	for (unsigned i = 0; i < 2; i++) {
		simple(end, i, IBV_WR_RDMA_WRITE, 0);
		poll_one(end);
	}
	tell(end);
	await(end);
}

static void close_end(struct end *end)
{
	tell(end);
	await(end);
	for (unsigned i = 0; i < 2; i++)
		ibv_destroy_qp(end->qp[i]);
	ibv_destroy_cq(end->cq);
	ibv_destroy_comp_channel(end->channel);
	ibv_dereg_mr(end->mr);
	ibv_dealloc_pd(end->pd);
	ibv_close_device(end->context);
	munmap(end->buffer, BUFFER_BYTES);
}

/* --- the two ends --- */

static const struct program *chosen;

static void *run_end(void *arg)
{
	struct end *end = arg;

	open_objects(end);
	connect_end(end, chosen);
	(end->server ? chosen->server : chosen->client)(end);
	close_end(end);
	return NULL;
}

static int run_threads(struct end ends[2])
{
	pthread_t server;

	must(!pthread_create(&server, NULL, run_end, &ends[1]), "pthread_create");
	run_end(&ends[0]);
	pthread_join(server, NULL);
	return 0;
}

static int run_processes(struct end ends[2])
{
	const pid_t child = fork();
	int status;

	must(child >= 0, "fork");
	alarm(HANG_S);
	close(ends[!child ? 0 : 1].fd);
	run_end(&ends[!child]);
	if (!child)
		exit(0);
	must(waitpid(child, &status, 0) == child, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

static int usage(void)
{
	fprintf(stderr, "usage: pair NAME wrong|right [ROUNDS [threads]]\n");
	for (unsigned i = 0; i < program_count; i++)
		printf("%s\t%d\t%s\n", programs[i].name, programs[i].one_process,
		       programs[i].mistake);
	return 2;
}

int main(int argc, char **argv)
{
	struct end ends[2] = { { .server = false }, { .server = true } };
	int fds[2];

	if (argc < 3)
		return usage();
	for (unsigned i = 0; i < program_count; i++)
		if (!strcmp(programs[i].name, argv[1]))
			chosen = &programs[i];
	if (!chosen)
		return usage();
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	for (unsigned i = 0; i < 2; i++) {
		ends[i].fd = fds[i];
		ends[i].right = !strcmp(argv[2], "right");
		ends[i].rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 20;
	}
	alarm(HANG_S);
	return argc > 4 ? run_threads(ends) : run_processes(ends);
}
