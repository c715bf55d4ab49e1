/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of this host that knows the names of the connection managers and says what it likes:
 *
 *   clients of the library --REQ--> the port that it has claimed
 *   a listener of the library <--REQ-- its slot, where the answers come
 *
 * It answers whatever it hears with messages that know ids and transactions, and are out of place,
 * come twice, or late. The library's users connect, accept and destroy meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fetch.h"
#include "gsi/cm_name.h"
#include "shm/slot.h"
#include "wire/cm.h"
#include "wire/gsi_datagram.h"

enum { ROUNDS = 300, KEPT = 16, LIVE_MAX = 64 };

struct stranger {
	int claim, own, claimed_slot; /* sockets: of its port, of its slot, and what holds that */
	uint32_t slot;
	uint16_t port;    /* that it has claimed */
	uint16_t victims; /* port of the library's listener */
	uint64_t seed;
	uint32_t own_ids; /* begin there */
	struct vb_cm_message heard[KEPT];
	unsigned heard_count;
	pthread_t thread;
};

static uint64_t draw(struct stranger *stranger)
{
	stranger->seed = stranger->seed * 6364136223846793005ull + 1442695040888963407ull;
	return stranger->seed >> 24;
}

static unsigned below(struct stranger *stranger, unsigned limit)
{
	return (unsigned)(draw(stranger) % limit);
}

static union ibv_gid loopback(void)
{
	return (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 127, [15] = 1 } };
}

/* --- what it says --- */

static void send_to(struct stranger *stranger, const struct vb_cm_target *target,
		    const struct vb_cm_message *message)
{
	struct vb_gsi_datagram datagram = {
		.magic = VB_GSI_MAGIC,
		.src = loopback(),
		.dst = loopback(),
	};

	vb_cm_emit(message, datagram.mad);
	sendto(stranger->own, &datagram, sizeof(datagram), MSG_DONTWAIT,
	       (const struct sockaddr *)&target->address, target->length);
}

static void fill_at_random(struct stranger *stranger, struct vb_cm_message *message)
{
	size_t size = 0;
	uint8_t *data = vb_cm_private_data(message, &size);

	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)draw(stranger);
	if (message->attribute == VB_CM_MRA)
		message->mra.answers = (uint8_t)below(stranger, 3);
	if (message->attribute == VB_CM_MRA)
		message->mra.service_timeout = (uint8_t)below(stranger, 32);
	if (message->attribute == VB_CM_REJ)
		message->rej.reason = (uint16_t)below(stranger, 34);
	if (message->attribute != VB_CM_REP)
		return;
	message->rep.qpn = (uint32_t)draw(stranger) & 0xffffff;
	message->rep.responder_resources = (uint8_t)draw(stranger);
	message->rep.initiator_depth = (uint8_t)draw(stranger);
	message->rep.rnr_retry_count = (uint8_t)below(stranger, 8);
	message->rep.vendor_id = below(stranger, 4) ? 0 : (uint32_t)draw(stranger) & 0xffffff;
}

/* About something that was heard; often what would be right. */
static void answer(struct stranger *stranger, const struct vb_cm_message *heard)
{
	static const enum vb_cm_attribute all[] = { VB_CM_MRA,  VB_CM_REJ,  VB_CM_REP, VB_CM_RTU,
						    VB_CM_DREQ, VB_CM_DREP, VB_CM_LAP, VB_CM_APR };
	const uint32_t theirs = vb_cm_sender_id(heard), mine = vb_cm_receiver_id(heard);
	struct vb_cm_target target;
	struct vb_cm_message message = { .attribute = all[below(stranger, 8)],
					 .transaction_id = heard->transaction_id };

	if (vb_cm_target_slot(theirs >> VB_COMM_ID_SLOT_SHIFT, &target))
		return;
	if (heard->attribute == VB_CM_REQ && below(stranger, 2))
		message.attribute = below(stranger, 3) ? VB_CM_REP : VB_CM_REJ;
	if (heard->attribute == VB_CM_REP && below(stranger, 2))
		message.attribute = VB_CM_RTU;
	message.rtu.local_comm_id =
		mine ? mine : stranger->slot << VB_COMM_ID_SLOT_SHIFT | (theirs & 0xffff);
	message.rtu.remote_comm_id = theirs;
	fill_at_random(stranger, &message);
	if (message.attribute == VB_CM_DREQ)
		message.dreq.remote_qpn =
			heard->attribute == VB_CM_REQ ? heard->req.qpn : heard->rep.qpn;
	send_to(stranger, &target, &message);
	if (!below(stranger, 3))
		send_to(stranger, &target, &message);
}

static void ask(struct stranger *stranger)
{
	const union ibv_gid here = loopback();
	const struct vb_cm_ip ip = { .src_port = 4000, .src = here, .dst = here };
	struct vb_cm_target targets[VB_CM_TARGETS_MAX];
	struct vb_cm_message message = { .attribute = VB_CM_REQ, .transaction_id = draw(stranger) };

	fill_at_random(stranger, &message);
	message.req.local_comm_id =
		stranger->slot << VB_COMM_ID_SLOT_SHIFT | stranger->own_ids | below(stranger, 64);
	message.req.service_id = vb_cm_service_id(RDMA_PS_TCP, stranger->victims);
	message.req.qpn = (uint32_t)draw(stranger) & 0xffffff;
	message.req.transport = VB_CM_TRANSPORT_RC;
	message.req.mtu = (uint8_t)(1 + below(stranger, 5));
	message.req.pkey = 0xffff;
	message.req.local_cm_timeout = (uint8_t)below(stranger, 32);
	message.req.max_cm_retries = (uint8_t)below(stranger, 16);
	message.req.responder_resources = (uint8_t)draw(stranger);
	message.req.initiator_depth = (uint8_t)draw(stranger);
	message.req.primary.local_gid = message.req.primary.remote_gid = here;
	message.req.primary.ack_timeout = (uint8_t)below(stranger, 32);
	vb_cm_ip_emit(&ip, message.req.private_data);
	vb_cm_targets(RDMA_PS_TCP, stranger->victims, &here, 0, targets);
	send_to(stranger, &targets[0], &message);
}

static void hear(struct stranger *stranger, int fd)
{
	struct vb_gsi_datagram datagram;
	struct vb_cm_message message;

	while (recv(fd, &datagram, sizeof(datagram), MSG_DONTWAIT) == sizeof(datagram)) {
		if (vb_cm_parse(datagram.mad, sizeof(datagram.mad), &message) != VB_CM_OK)
			continue;
		/* The others are answers to strays, and would bring more of them. */
		if (message.attribute != VB_CM_REQ && message.attribute != VB_CM_REP)
			continue;
		stranger->heard[stranger->heard_count++ % KEPT] = message;
		for (unsigned i = below(stranger, 4); i < 4; i++) {
			answer(stranger, &message);
			spin(below(stranger, 3) ? 0 : below(stranger, 50) * 1000L);
		}
	}
}

static void *talk(void *arg)
{
	struct stranger *stranger = arg;
	struct pollfd ready[] = { { .fd = stranger->claim, .events = POLLIN },
				  { .fd = stranger->own, .events = POLLIN } };

	while (!stop) {
		poll(ready, 2, 1);
		hear(stranger, stranger->claim);
		hear(stranger, stranger->own);
		ask(stranger);
		if (stranger->heard_count >= KEPT)
			answer(stranger, &stranger->heard[below(stranger, KEPT)]);
	}
	return NULL;
}

static void stranger_start(struct stranger *stranger, uint16_t victims)
{
	struct vb_cm_claim claim = {
		.port_space = RDMA_PS_TCP,
		.family = VB_CM_IPV4,
		.address = loopback(),
		.replaces = -1,
	};
	struct vb_slot_claim own;

	*stranger = (struct stranger){ .seed = 1, .victims = victims };
	stranger->claim = vb_cm_claim(&claim);
	assert_true(stranger->claim >= 0);
	stranger->port = claim.port;
	assert_int_equal(vb_slot_claim(&own, true), 0);
	assert_int_equal(vb_slot_open_cm(own.cm), 0);
	close(own.life);
	stranger->slot = own.slot;
	stranger->claimed_slot = own.listener;
	stranger->own = own.cm;
	pthread_create(&stranger->thread, NULL, talk, stranger);
}

static void stranger_stop(struct stranger *stranger)
{
	stop = true;
	pthread_join(stranger->thread, NULL);
	close(stranger->claim);
	close(stranger->own);
	close(stranger->claimed_slot);
}

/* --- those it talks to --- */

struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *live[LIVE_MAX];
	int count;
	pthread_t thread;
};

static void end(struct server *server, int index)
{
	struct rdma_cm_id *id = server->live[index];

	server->live[index] = server->live[--server->count];
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void take(struct server *server, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 1, .max_recv_wr = 1 },
					 .qp_type = IBV_QPT_RC };

	if (server->count == LIVE_MAX)
		end(server, 0);
	server->live[server->count++] = id;
	/* Some of them are answered, some are not. */
	if (server->count % 4 == 0)
		rdma_reject(id, NULL, 0);
	else if (server->count % 4 != 1 && !rdma_create_qp(id, NULL, &attr))
		rdma_accept(id, NULL);
}

static void *serve(void *arg)
{
	struct server *server = arg;
	struct rdma_cm_event *event;

	while (!stop) {
		struct rdma_cm_id *id;
		enum rdma_cm_event_type type;

		if (!fetch_next(server->channel, &event))
			continue;
		id = event->id;
		type = event->event;
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			take(server, id);
		for (int i = 0; type == RDMA_CM_EVENT_DISCONNECTED && i < server->count; i++)
			if (server->live[i] == id)
				end(server, i);
	}
	while (server->count)
		end(server, 0);
	return NULL;
}

static void connect_by_id(struct party *party, struct fetchers *fetchers, int round)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id = fetchers_resolve(fetchers, party);

	party_create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	spin(round % 40 * 20000L);
	if (round % 3 == 0)
		rdma_disconnect(id);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void connect_by_rsocket(struct party *party, int round)
{
	struct sockaddr_in addr;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	address4(&addr, "127.0.0.1", party->port);
	assert_true(fd >= 0);
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, EINPROGRESS);
	spin(round % 40 * 20000L);
	assert_int_equal(rclose(fd), 0);
}

static void a_stranger_says_anything(void **state)
{
	struct server server = { 0 };
	struct stranger stranger;
	struct fetchers fetchers;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	server.channel = party.server_channel;
	fetchers_start(&fetchers, party.client_channel);
	pthread_create(&server.thread, NULL, serve, &server);
	stranger_start(&stranger, party.port);
	party.port = stranger.port;
	for (int i = 0; i < ROUNDS; i++) {
		connect_by_id(&party, &fetchers, i);
		connect_by_rsocket(&party, i);
	}
	stranger_stop(&stranger);
	fetchers_stop(&fetchers);
	pthread_join(server.thread, NULL);
	party_end(&party);
	(void)state;
}

/* --- one process that is many --- */

enum { MANY = 100, DESCRIPTORS = 512, LINES_MAX = DESCRIPTORS / 8, OTHERS = 24 };

/* In a child: it has the slots until it is killed. */
static void be_many(int out)
{
	uint32_t slots[MANY];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < MANY; i++) {
		struct vb_slot_claim claim;

		if (vb_slot_claim(&claim, true) || vb_slot_open_cm(claim.cm) ||
		    listen(claim.life, 1))
			_exit(1);
		slots[i] = claim.slot;
	}
	if (write(out, slots, sizeof(slots)) != sizeof(slots))
		_exit(1);
	for (;;)
		pause();
}

static pid_t many_start(uint32_t slots[MANY])
{
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		be_many(ends[1]);
	close(ends[1]);
	assert_int_equal(read(ends[0], slots, MANY * sizeof(*slots)), MANY * sizeof(*slots));
	close(ends[0]);
	return child;
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 8192; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Each of them asks for a connection; only the last one is kept. */
static struct rdma_cm_id *accept_from_all(struct party *party, const uint32_t slots[MANY])
{
	struct rdma_conn_param param = { .qp_num = 1, .rnr_retry_count = 7 };
	/* Other ids than those of the test before: its slot may be one of these. */
	struct stranger stranger = { .seed = 1, .own_ids = 0x10000, .victims = party->port };
	struct rdma_cm_id *id = NULL;

	stranger.own = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < MANY; i++) {
		struct rdma_cm_event *event;

		stranger.slot = slots[i];
		ask(&stranger);
		event = next_event(party->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		if (id)
			assert_int_equal(rdma_destroy_id(id), 0);
		id = event->id;
		rdma_ack_cm_event(event);
		assert_int_equal(rdma_accept(id, &param), 0);
	}
	close(stranger.own);
	return id;
}

/* The lives of peers are followed by descriptors: not by all that there are. */
static void a_peer_in_many_slots_takes_few_descriptors(void **state)
{
	struct rlimit before, few;
	uint32_t slots[MANY];
	struct party party;
	pid_t child;
	int count;

	SKIP_WITHOUT_FORK();
	child = many_start(slots);
	party_begin(&party, RDMA_PS_TCP);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = DESCRIPTORS;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	count = open_descriptors();
	party.server = accept_from_all(&party, slots);
	assert_true(open_descriptors() <= count + LINES_MAX + OTHERS);
	/* The last one is followed, too. */
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	expect_event(party.server_channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stranger_says_anything),
		cmocka_unit_test(a_peer_in_many_slots_takes_few_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
