/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes on one UDP port, attached for real:
 *
 *	one network namespace
 *	+---------------------------------------------------------------+
 *	| member 0      member 1      member 2     127.0.0.1:4791       |
 *	| slot a        slot b        slot c       the test sends to it |
 *	+---------------------------------------------------------------+
 *
 * Members of one user share the port and are steered to; those of another user are forwarded to.
 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "port_rig.h"

enum { MEMBERS = 3, USER_FIRST = 54321 };

/* What a member shows to the test, in memory that both share. */
struct member {
	pid_t pid;
	_Atomic uint32_t slot;
	_Atomic int bound, watches;
	_Atomic uint64_t direct, forwarded_in, from_peer, forwarded_out;
	_Atomic uint32_t say_to; /* slot: send a packet there, through its slot socket */
	_Atomic uint32_t said;
};

static struct member *members;

static unsigned count_input(void *arg, const struct vb_arrival *arrival)
{
	struct member *me = arg;

	CHECK(arrival->bytes[12] == 77);
	if (arrival->forwarded)
		me->forwarded_in++;
	else if (arrival->peer)
		me->from_peer++;
	else
		me->direct++;
	return 1;
}

/* The test itself is the service thread of the port: the real one leaves it alone. */
static struct vb_port *port_of_member(struct vb_nic *nic)
{
	static const struct vb_port_calls calls = { .attach = vb_attach_start };
	struct epoll_event none = { .data.u64 = VB_PORT_EVENT };
	struct vb_port *port;

	CHECK(!vb_engine_start(nic));
	port = vb_port_new(nic, nic->engine->epoll, VB_LANE_FIRST);
	CHECK(port);
	CHECK(!epoll_ctl(nic->engine->epoll, EPOLL_CTL_MOD, port->inner, &none));
	vb_port_on_foreign(port, &calls);
	return port;
}

/* One packet over the slot socket, once the peer is attached. */
static void say(struct member *me, struct vb_nic *nic, struct vb_port *port)
{
	uint32_t slot = atomic_load(&me->say_to);
	struct vb_peer *peer = slot ? vb_nic_peer(nic, slot) : NULL;
	struct vb_av av = { .sgid = rig_gid("127.0.0.1"),
			    .dgid = rig_gid("127.0.0.1"),
			    .local = true };
	uint8_t packet[RIG_PACKET];
	struct vb_way way;

	if (slot && !peer)
		vb_attach_start(nic, slot);
	if (!peer)
		return;
	if (atomic_load(&peer->state) == VB_PEER_NO_PATH) {
		CHECK(!vb_port_resolve(port, &av, peer, 0, &way));
		CHECK(way.kind == VB_WAY_SLOT);
		rig_packet(packet, sizeof(packet), slot << VB_QP_INDEX_BITS, 77, &way, 0);
		vb_port_send(port,
			     &(struct vb_burst){ &way, packet, sizeof(packet), sizeof(packet) }, 1);
		vb_way_release(&way);
		me->say_to = 0;
		me->said++;
	}
	vb_peer_put(peer);
}

static void member_live(struct member *me, const char *path)
{
	const union ibv_gid localhost = rig_gid("127.0.0.1");
	struct vb_nic *nic;
	struct vb_port *port;

	if (path)
		setenv("VERBENA_PATH", path, 1);
	nic = vb_nic_get();
	CHECK(nic);
	port = port_of_member(nic);
	CHECK(!vb_port_listen(port, &localhost));
	me->bound = port->endpoints[0]->fd >= 0;
	me->watches = port->leavers >= 0;
	me->slot = nic->seg.head->slot;
	for (;;) {
		struct pollfd ready = { .fd = port->inner, .events = POLLIN };

		poll(&ready, 1, 10);
		vb_port_receive(port, false, 1024, count_input, me);
		me->bound = port->endpoints[0]->fd >= 0;
		me->forwarded_out = vb_port_counters(port)->forwarded_out;
		say(me, nic, port);
	}
}

/* user 0: the one of the test. */
static void member_fork(int index, int user, const char *path)
{
	struct member *member = &members[index];
	pid_t child;

	memset(member, 0, sizeof(*member));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
		if (user)
			CHECK(!setresgid((gid_t)user, (gid_t)user, (gid_t)user) &&
			      !setresuid((uid_t)user, (uid_t)user, (uid_t)user) &&
			      !prctl(PR_SET_PDEATHSIG, SIGKILL)); /* a change of user forgets it */
		member_live(member, path);
	}
	member->pid = child;
}

/* Until it listens. */
static void member_wait(int index)
{
	while (!atomic_load(&members[index].slot))
		CHECK(!usleep(1000) && waitpid(members[index].pid, NULL, WNOHANG) == 0);
}

static void member_start(int index, int user, const char *path)
{
	member_fork(index, user, path);
	member_wait(index);
}

static void member_end(int index)
{
	CHECK(members[index].pid > 0);
	kill(members[index].pid, SIGKILL);
	CHECK(waitpid(members[index].pid, NULL, 0) == members[index].pid);
	members[index].pid = 0;
}

static void share_memory(void)
{
	members = mmap(NULL, MEMBERS * sizeof(*members), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(members != MAP_FAILED);
}

static void send_through(int fd, uint32_t slot)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(4791),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct vb_way way = { 0 };
	uint8_t packet[RIG_PACKET];

	rig_packet(packet, sizeof(packet), slot << VB_QP_INDEX_BITS | 1, 77, &way, 0);
	CHECK(sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) > 0);
}

/* A plain socket: packets from anywhere. Each call has a new source port, for the kernel's hash. */
static void send_udp(uint32_t slot)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	send_through(fd, slot);
	close(fd);
}

/* Sends packets to a member until it got one directly, or by forwarding. */
static void send_until(int index, bool direct)
{
	struct member *member = &members[index];
	_Atomic uint64_t *counter = direct ? &member->direct : &member->forwarded_in;
	uint64_t end_ns = vb_now_ns() + RIG_PATIENCE_MS * 1000000ull, before = *counter;

	while (*counter == before && vb_now_ns() < end_ns) {
		send_udp(member->slot);
		usleep(1000);
	}
	CHECK(*counter > before);
}

static uint64_t all_forwarded(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < MEMBERS; i++)
		sum += members[i].forwarded_out + members[i].forwarded_in;
	return sum;
}

static uint64_t direct_now(void)
{
	return members[0].direct + members[1].direct + members[2].direct;
}

/* 100 packets to each member that lives, from 100 source ports: each reaches it directly. */
static bool is_steered_within(unsigned patience_ms)
{
	uint64_t forwarded = all_forwarded(), direct = direct_now(), end_ns, sent = 0;

	for (int i = 0; i < MEMBERS; i++)
		for (int n = 0; n < 100 && members[i].pid; n++, sent++)
			send_udp(members[i].slot);
	end_ns = vb_now_ns() + patience_ms * 1000000ull;
	while (direct_now() < direct + sent && all_forwarded() == forwarded && vb_now_ns() < end_ns)
		usleep(1000);
	return direct_now() == direct + sent;
}

static void wait_steered(void)
{
	uint64_t end_ns = vb_now_ns() + RIG_PATIENCE_MS * 1000000ull;

	while (!is_steered_within(1000)) /* a packet may be lost: once more */
		CHECK(vb_now_ns() < end_ns);
}

static void packets_find_their_process_in_namespace(void)
{
	netns_up("lo", true);
	share_memory();
	for (int i = 0; i < MEMBERS; i++)
		member_start(i, 0, "wire");
	for (int i = 0; i < MEMBERS; i++)
		CHECK(members[i].bound);
	wait_steered();
	/* The first leaves: the last moves to its position, which nobody is told. */
	member_end(0);
	wait_steered();
	member_start(0, 0, "wire");
	wait_steered();
	for (int i = 0; i < MEMBERS; i++)
		member_end(i);
}
RIG_TEST(packets_find_their_process)

/* Each may take the others for those who were there first. */
static void processes_that_come_at_once_find_an_order_in_namespace(void)
{
	netns_up("lo", true);
	share_memory();
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < MEMBERS; i++)
			member_fork(i, 0, "wire");
		for (int i = 0; i < MEMBERS; i++)
			member_wait(i);
		wait_steered();
		for (int i = 0; i < MEMBERS; i++)
			member_end(i);
	}
}
RIG_TEST(processes_that_come_at_once_find_an_order)

/* One that sends again what nobody answers, from the port that it has. */
static void send_to_gsi(int index)
{
	uint64_t end_ns = vb_now_ns() + RIG_PATIENCE_MS * 1000000ull,
		 before = members[index].direct;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	while (members[index].direct == before && vb_now_ns() < end_ns) {
		send_through(fd, 0);
		usleep(1000);
	}
	CHECK(members[index].direct > before);
	close(fd);
}

static void a_stopped_process_is_in_nobodys_way_in_namespace(void)
{
	pid_t stopped;

	netns_up("lo", true);
	share_memory();
	member_start(0, 0, "wire");
	stopped = members[0].pid;
	kill(stopped, SIGSTOP);
	member_start(1, 0, "wire");
	members[0].pid = 0; /* as if it were none */
	CHECK(is_steered_within(RIG_PATIENCE_MS));
	for (int i = 0; i < 8; i++)
		send_to_gsi(1);
	/* It goes on where it was. */
	members[0].pid = stopped;
	kill(stopped, SIGCONT);
	wait_steered();
	member_end(0);
	member_end(1);
}
RIG_TEST(a_stopped_process_is_in_nobodys_way)

static void wait_direct(int first, uint64_t count)
{
	uint64_t end_ns = vb_now_ns() + RIG_PATIENCE_MS * 1000000ull;

	while (vb_now_ns() < end_ns && members[first].direct + members[1].direct < count)
		usleep(1000);
	CHECK(members[first].direct + members[1].direct == count);
}

/* It takes long, for the first one does not answer. */
static void what_anybody_may_pass_on_is_not_lost_while_one_joins_in_namespace(void)
{
	uint64_t sent = 0;

	netns_up("lo", true);
	share_memory();
	member_start(0, 0, "wire");
	kill(members[0].pid, SIGSTOP);
	member_fork(1, 0, "wire");
	for (; !atomic_load(&members[1].slot); sent++) {
		send_udp(0);
		usleep(200);
	}
	kill(members[0].pid, SIGCONT);
	wait_direct(0, sent);
	member_end(0);
	member_end(1);
}
RIG_TEST(what_anybody_may_pass_on_is_not_lost_while_one_joins)

static void what_anybody_may_pass_on_goes_to_those_who_answered_in_namespace(void)
{
	enum { COUNT = 64 };

	netns_up("lo", true);
	share_memory();
	member_start(0, 0, "wire");
	kill(members[0].pid, SIGSTOP);
	member_start(1, 0, "wire");
	for (int i = 0; i < COUNT; i++)
		send_udp(0);
	wait_direct(2, COUNT);
	member_end(0);
	member_end(1);
}
RIG_TEST(what_anybody_may_pass_on_goes_to_those_who_answered)

/* The last one gets the place of the one that leaves, and some of its packets the stopped one. */
static void who_is_moved_beside_a_stopped_one_is_reached_in_namespace(void)
{
	pid_t stopped;

	netns_up("lo", true);
	share_memory();
	for (int i = 0; i < MEMBERS; i++)
		member_start(i, 0, "wire");
	wait_steered();
	stopped = members[0].pid;
	kill(stopped, SIGSTOP);
	members[0].pid = 0;
	member_end(1);
	if (members[2].watches)
		wait_steered();
	else
		fprintf(stderr, "SKIPPED: the kernel does not tell of sockets that are closed\n");
	members[0].pid = stopped;
	member_end(0);
	member_end(2);
}
RIG_TEST(who_is_moved_beside_a_stopped_one_is_reached)

/* --- two users: needs root to be them --- */

static void two_users(void)
{
	netns_up("lo", true);
	share_memory();
	member_start(0, USER_FIRST, NULL);
	member_start(1, USER_FIRST + 1, NULL);
	CHECK(!members[1].bound);
	send_until(0, true);
	send_until(1, false);
	/* The member tells its counts a little later than the packet arrives. */
	for (int i = 0; i < 5000 && !members[0].forwarded_out; i++)
		usleep(1000);
	CHECK(members[1].direct == 0 && members[0].forwarded_out > 0);
	/* They may not touch each other: packets over the slot socket, both directions. */
	members[0].say_to = members[1].slot;
	members[1].say_to = members[0].slot;
	for (int i = 0; i < 5000 && !(members[0].from_peer && members[1].from_peer); i++)
		usleep(1000);
	CHECK(members[0].from_peer == 1 && members[1].from_peer == 1);
	/* The holder goes: the other takes the port over. */
	member_end(0);
	send_until(1, true);
	CHECK(members[1].bound);
	/* A process of the first user comes back: now it is the one that is forwarded to. */
	member_start(2, USER_FIRST, NULL);
	CHECK(!members[2].bound);
	send_until(2, false);
	member_end(1);
	member_end(2);
}

static void another_user_is_forwarded_to_and_takes_over(void **state)
{
	pid_t child;
	int status;

	if (geteuid()) {
		print_message("# SKIPPED: only root can be two users\n");
		skip();
	}
	child = fork();
	if (!child) {
		if (unshare(CLONE_NEWNET))
			_exit(NETNS_SKIPPED);
		two_users();
		_exit(0);
	}
	assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WEXITSTATUS(status) == NETNS_SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_find_their_process),
		cmocka_unit_test(processes_that_come_at_once_find_an_order),
		cmocka_unit_test(a_stopped_process_is_in_nobodys_way),
		cmocka_unit_test(what_anybody_may_pass_on_is_not_lost_while_one_joins),
		cmocka_unit_test(what_anybody_may_pass_on_goes_to_those_who_answered),
		cmocka_unit_test(who_is_moved_beside_a_stopped_one_is_reached),
		cmocka_unit_test(another_user_is_forwarded_to_and_takes_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
