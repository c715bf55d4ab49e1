/* SPDX-License-Identifier: BSD-2-Clause */
/* How often peers on other hosts are asked whether they are there; the network is the test. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rdmacm/probe.h"

#define S 1000000000ull

enum { REFUSES = 1, SILENT = 2 }; /* last bytes of addresses */

static struct vb_list ids = VB_LIST_INIT(ids);
static unsigned died, open_knocks;
static uint8_t knocked_at[4096]; /* by descriptor: whom */
static uint64_t last_transaction;

static int knock(const struct vb_gsi_datagram *datagram)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_in_range(fd, 0, sizeof(knocked_at) - 1);
	knocked_at[fd] = datagram->dst.raw[15];
	open_knocks++;
	return fd;
}

static unsigned silent_rounds; /* so many knocks are not answered before one is */

static bool refused(int fd, const union ibv_gid *host, uint64_t transaction_id)
{
	static unsigned silences;

	assert_int_equal(host->raw[15], knocked_at[fd]);
	assert_true(transaction_id && transaction_id <= last_transaction);
	close(fd);
	open_knocks--;
	if (knocked_at[fd] != REFUSES)
		return false;
	silences = silences < silent_rounds ? silences + 1 : 0;
	return !silences;
}

static uint64_t heard_ns; /* when a packet came from everybody last */

static bool heard_since(const union ibv_gid *host, uint64_t since_ns)
{
	(void)host;
	return heard_ns >= since_ns;
}

static bool is_local(const union ibv_gid *gid)
{
	(void)gid;
	return false;
}

/* --- what the rest of the library would do --- */

const struct vb_engine_table *vb_cma_engine(void)
{
	static const struct vb_engine_table table = {
		.gsi_knock = knock,
		.gsi_refused = refused,
		.heard_since = heard_since,
		.gid_is_local = is_local,
	};

	return &table;
}

struct vb_cm *vb_cma_cm(void)
{
	return NULL;
}

struct vb_list *vb_cma_ids(void)
{
	return &ids;
}

void vb_cma_io_send(void *arg, const struct vb_cm_route *route, const struct vb_cm_message *message)
{
	(void)arg, (void)route, (void)message;
}

bool vb_cm_probe(struct vb_cm_endpoint *endpoint, struct vb_cm_message *probe)
{
	(void)endpoint;
	*probe = (struct vb_cm_message){ .attribute = VB_CM_DREQ,
					 .transaction_id = ++last_transaction };
	return true;
}

void vb_cm_host_died(struct vb_cm *cm, const union ibv_gid *gid, uint64_t now_ns)
{
	(void)cm, (void)now_ns;
	assert_int_equal(gid->raw[15], REFUSES);
	died++;
}

/* --- */

static void connect_with(struct vb_cma_id *id, uint8_t host, uint64_t now_ns)
{
	memset(id, 0, sizeof(*id));
	id->has_endpoint = true;
	id->endpoint.state = VB_CM_ESTABLISHED;
	id->endpoint.route.remote.raw[15] = host;
	vb_list_append(&ids, &id->node);
	vb_cma_probe_begin(now_ns);
}

static uint64_t round_after(uint64_t now_ns)
{
	assert_true(vb_cma_probe_next_ns() > now_ns);
	now_ns = vb_cma_probe_next_ns();
	vb_cma_probe_tick(now_ns);
	return now_ns;
}

static void asked_until_dead(enum vb_cm_state peer, uint64_t now_ns)
{
	struct vb_cma_id id;

	died = 0;
	connect_with(&id, REFUSES, now_ns);
	id.endpoint.state = peer;
	for (int i = 0; i < 3; i++) {
		now_ns = round_after(now_ns);
		assert_int_equal(died, 0);
	}
	now_ns = round_after(now_ns);
	assert_int_equal(died, 1);
	vb_list_remove(&id.node);
	round_after(now_ns);
	assert_true(vb_cma_probe_next_ns() == VB_NEVER_NS);
	assert_int_equal(open_knocks, 0);
}

static void a_host_is_dead_when_it_says_so_again_and_again(void **state)
{
	(void)state;
	asked_until_dead(VB_CM_ESTABLISHED, 100 * S);
}

/* Kernels send few ICMP messages a second, and others ask there, too. */
static void a_host_that_seldom_says_so_is_dead_later(void **state)
{
	uint64_t now_ns = 200 * S, begun_ns = now_ns;
	struct vb_cma_id id;

	(void)state;
	died = 0;
	silent_rounds = 5;
	connect_with(&id, REFUSES, now_ns);
	while (!died)
		now_ns = round_after(now_ns);
	assert_in_range(now_ns - begun_ns, 15 * S, 60 * S);
	/* But three in a long time are no more than one each. */
	died = 0;
	silent_rounds = 30;
	for (int i = 0; i < 200; i++)
		now_ns = round_after(now_ns);
	assert_int_equal(died, 0);
	silent_rounds = 0;
	vb_list_remove(&id.node);
	round_after(now_ns);
	assert_int_equal(open_knocks, 0);
}

/* Who waits for an answer hears of it as well. */
static void a_host_that_is_to_answer_may_be_dead(void **state)
{
	(void)state;
	asked_until_dead(VB_CM_REQ_SENT, 120 * S);
	asked_until_dead(VB_CM_REP_SENT, 140 * S);
	asked_until_dead(VB_CM_SIDR_REQ_SENT, 160 * S);
	asked_until_dead(VB_CM_DREQ_SENT, 180 * S);
}

/* Refusals, whosever they are, end nothing that goes on. */
static void a_host_that_sends_packets_is_not_dead(void **state)
{
	uint64_t now_ns = 300 * S;
	struct vb_cma_id id;

	(void)state;
	died = 0;
	connect_with(&id, REFUSES, now_ns);
	for (int i = 0; i < 20; i++) {
		heard_ns = now_ns;
		now_ns = round_after(now_ns);
	}
	assert_int_equal(died, 0);
	while (!died)
		now_ns = round_after(now_ns);
	assert_in_range(now_ns - heard_ns, 2 * S, 20 * S);
	vb_list_remove(&id.node);
	round_after(now_ns);
}

static void a_host_that_sends_messages_is_not_dead(void **state)
{
	uint64_t now_ns = 400 * S;
	struct vb_cma_id id;

	(void)state;
	died = 0;
	connect_with(&id, REFUSES, now_ns);
	for (int i = 0; i < 20; i++) {
		now_ns = round_after(now_ns);
		if (i % 2)
			vb_cma_probe_heard(&id.endpoint.route);
	}
	assert_int_equal(died, 0);
	vb_list_remove(&id.node);
	round_after(now_ns);
}

/* A host that nobody is connected with any more does not make the others be asked in haste. */
static void what_a_forgotten_host_said_is_forgotten(void **state)
{
	struct vb_cma_id leaves, stays;
	uint64_t now_ns = 200 * S, before_ns;

	(void)state;
	died = 0;
	connect_with(&leaves, REFUSES, now_ns);
	connect_with(&stays, SILENT, now_ns);
	for (int i = 0; i < 2; i++)
		now_ns = round_after(now_ns);
	vb_list_remove(&leaves.node);
	for (int i = 0; i < 5; i++) {
		before_ns = now_ns;
		now_ns = round_after(now_ns);
	}
	assert_int_equal(died, 0);
	assert_int_equal((now_ns - before_ns) / S, 5);
	vb_list_remove(&stays.node);
	round_after(now_ns);
	assert_true(vb_cma_probe_next_ns() == VB_NEVER_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_is_dead_when_it_says_so_again_and_again),
		cmocka_unit_test(a_host_that_seldom_says_so_is_dead_later),
		cmocka_unit_test(a_host_that_is_to_answer_may_be_dead),
		cmocka_unit_test(a_host_that_sends_packets_is_not_dead),
		cmocka_unit_test(a_host_that_sends_messages_is_not_dead),
		cmocka_unit_test(what_a_forgotten_host_said_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
