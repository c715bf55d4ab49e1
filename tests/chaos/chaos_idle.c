/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A UD QP sends one datagram to a process that then ends, and is idle from then on. Nothing of that
 * process stays open here: through memory as well as by packets.
 */
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "duo.h"

enum { DEADLINE_US = 10000000 };
#define SOCKET  "socket:"
#define SEGMENT "/memfd:verbena "

struct end {
	struct rig rig;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char room[256];
};

static void modify(struct ibv_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = RIG_PORT, .qkey = RIG_QKEY };

	CHECK(!ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), "modify_qp to %d", state);
}

static void end_open(struct end *end)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD };

	rig_open(&end->rig);
	end->cq = ibv_create_cq(end->rig.ctx, 16, NULL, NULL, 0);
	end->mr = ibv_reg_mr(end->rig.pd, end->room, sizeof(end->room), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->rig.pd, &init);
	CHECK(end->cq && end->mr && end->qp, "no QP");
	modify(end->qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(end->qp, IBV_QPS_RTR, 0);
	modify(end->qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

static void completed(struct end *end)
{
	uint64_t start = clock_us();
	struct ibv_wc wc = { 0 };

	while (!ibv_poll_cq(end->cq, 1, &wc))
		CHECK(clock_us() - start < DEADLINE_US, "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void target(struct duo *duo, struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)end->room, sizeof(end->room), end->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_recv(end->qp, &wr, &bad), "post_recv");
	CHECK(send(duo->socket, &end->qp->qp_num, 4, 0) == 4, "nobody listens");
	completed(end);
	duo_tell(duo, 'g');
	pause();
}

static void datagram(struct end *end, uint32_t qpn)
{
	struct ibv_ah_attr to = {
		.is_global = 1,
		.port_num = RIG_PORT,
		.grh = { .dgid = end->rig.gid, .sgid_index = RIG_GID_INDEX, .hop_limit = 64 },
	};
	struct ibv_ah *ah = ibv_create_ah(end->rig.pd, &to);
	struct ibv_sge sge = { (uintptr_t)end->room, 8, end->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ah, qpn, RIG_QKEY },
	};

	CHECK(ah && !ibv_post_send(end->qp, &wr, &bad), "post_send");
	completed(end);
	ibv_destroy_ah(ah);
}

/*
 * Descriptors whose link begins like that: sockets of peers, and segments where memory is shared.
 */
static unsigned open_like(const char *prefix)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;
	char to[64] = "";

	CHECK(folder, "no /proc");
	while ((entry = readdir(folder))) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, to, sizeof(to) - 1);

		to[length > 0 ? length : 0] = '\0';
		count += !strncmp(to, prefix, strlen(prefix));
	}
	closedir(folder);
	return count;
}

/* Not at once: the service thread has to hear of it. */
static bool is_left(unsigned sockets, unsigned segments)
{
	uint64_t start = clock_us();

	while ((open_like(SOCKET) > sockets || open_like(SEGMENT) > segments) &&
	       clock_us() - start < DEADLINE_US)
		usleep(1000);
	return open_like(SOCKET) <= sockets && open_like(SEGMENT) <= segments;
}

int main(void)
{
	static struct end end;
	struct duo duo;
	unsigned sockets, segments;
	uint32_t qpn;

	if (duo_split(&duo)) {
		end_open(&end);
		target(&duo, &end);
		return 0;
	}
	end_open(&end);
	segments = open_like(SEGMENT); /* the own one */
	CHECK(recv(duo.socket, &qpn, 4, 0) == 4, "the target ended");
	datagram(&end, qpn);
	CHECK(duo_told(&duo, 'g'), "the target ended");
	sockets = open_like(SOCKET);
	kill(duo.child, SIGKILL);
	duo_status(&duo);
	tap(is_left(sockets - 1, segments),
	    "an idle UD QP keeps nothing of a process that has ended");
	return tap_end();
}
