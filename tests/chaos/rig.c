/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *who = "chaos";
static const char *what = "";
static unsigned current_round;
static unsigned tap_count, tap_failed;

void rig_name(const char *role, const char *detail)
{
	who = role;
	what = detail;
}

void rig_round(unsigned round)
{
	current_round = round;
}

void rig_fail(const char *file, int line, const char *format, ...)
{
	va_list args;
	char text[512];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "# FAIL %s (pid %d) round %u %s: %s [%s:%d]\n", who, getpid(),
		current_round, what, text, file, line);
	if (getenv("CHAOS_PAUSE")) {
		fprintf(stderr, "# paused: gdb -p %d\n", getpid());
		for (;;)
			pause();
	}
	_exit(1);
}

static bool is_ethernet(struct ibv_context *ctx, struct ibv_port_attr *attr)
{
	return !ibv_query_port(ctx, RIG_PORT, attr) && attr->state == IBV_PORT_ACTIVE &&
	       attr->link_layer == IBV_LINK_LAYER_ETHERNET;
}

void rig_open(struct rig *rig)
{
	struct ibv_port_attr attr;
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count > 0, "no RDMA device (%s)", strerror(errno));
	rig->ctx = NULL;
	for (int i = 0; i < count && !rig->ctx; i++) {
		rig->ctx = ibv_open_device(list[i]);
		CHECK(rig->ctx, "ibv_open_device %s: %s", list[i]->name, strerror(errno));
		if (is_ethernet(rig->ctx, &attr))
			break;
		ibv_close_device(rig->ctx);
		rig->ctx = NULL;
	}
	ibv_free_device_list(list);
	CHECK(rig->ctx, "no Ethernet RDMA device");
	rig->mtu = attr.active_mtu;
	CHECK(!ibv_query_gid(rig->ctx, RIG_PORT, RIG_GID_INDEX, &rig->gid), "no GID %d",
	      RIG_GID_INDEX);
	rig->pd = ibv_alloc_pd(rig->ctx);
	CHECK(rig->pd, "ibv_alloc_pd: %s", strerror(errno));
}

void rig_close(struct rig *rig)
{
	int err = ibv_dealloc_pd(rig->pd);

	CHECK(!err, "ibv_dealloc_pd: %s", strerror(err));
	CHECK(!ibv_close_device(rig->ctx), "ibv_close_device: %s", strerror(errno));
}

uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
	return rng_next(rng) % bound;
}

bool rng_chance(struct rng *rng, unsigned one_in)
{
	return rng_below(rng, one_in) == 0;
}

struct rng rng_fork(uint64_t seed, uint64_t part)
{
	struct rng rng = { .state = seed ^ part * 0xd1342543de82ef95ull };

	rng_next(&rng);
	return rng;
}

void tap(bool ok, const char *format, ...)
{
	va_list args;

	tap_failed += !ok;
	printf("%sok %u - ", ok ? "" : "not ", ++tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

int tap_end(void)
{
	printf("1..%u\n", tap_count);
	return tap_failed || !tap_count;
}

void rig_connect(const struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = RIG_PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = dest_qpn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 1,
				   .ah_attr = { .is_global = 1,
						.port_num = RIG_PORT,
						.grh = { .dgid = rig->gid,
							 .sgid_index = RIG_GID_INDEX,
							 .hop_limit = 1 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 17,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };

	CHECK(!ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "INIT");
	CHECK(!ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	      "RTR");
	CHECK(!ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
}
