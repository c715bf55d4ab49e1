/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stranger beside a connection says that nobody is at the other end:
 *
 *   A ------ B, a process of which sends forged ICMP messages to A
 *
 * A has so few ephemeral ports that each socket which asks whether B lives hears of them.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "forger.h"
#include "hosts.h"

enum { PORT = 7471, QUESTIONS = 3, LOOKS = 30000, LOOK_MS = 2 };

/* The addresses of a case. */
static const char *own, *peer, *stranger, *stranger_command;

/* --- A --- */

/* The inode of the socket that asks now; 0: none does. */
static unsigned long asking(void)
{
	FILE *table = fopen(strchr(own, ':') ? "/proc/net/udp6" : "/proc/net/udp", "re");
	unsigned long inode = 0, found;
	char line[512];
	unsigned port;

	CHECK(table);
	while (fgets(line, sizeof(line), table))
		if (sscanf(line, " %*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %lu", &port,
			   &found) == 2 &&
		    port >= FORGED_PORT && port < FORGED_PORT + FORGED_PORTS)
			inode = found;
	fclose(table);
	return inode;
}

/* Until so many questions were asked; true: an event came first. */
static bool event_while_asked(struct rdma_event_channel *channel, int questions)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	unsigned long last = 0, now;

	for (int i = 0; i < LOOKS; i++) {
		if (poll(&ready, 1, LOOK_MS))
			return true;
		now = asking();
		if (now && now != last && !questions--)
			return false;
		last = now ? now : last;
	}
	CHECK(!"nobody asks");
	return true;
}

static void few_ports(void)
{
	FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "we");

	CHECK(range && fprintf(range, "%d %d", FORGED_PORT, FORGED_PORT + FORGED_PORTS - 1) > 0);
	CHECK(!fclose(range));
}

static void write_one(struct rdma_cm_id *id)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_wc wc;
	int count;

	CHECK(!ibv_post_send(id->qp, &wr, &bad));
	do
		count = ibv_poll_cq(id->qp->send_cq, 1, &wc);
	while (!count);
	CHECK(count == 1 && wc.status == IBV_WC_SUCCESS);
}

/* It lives, whatever is said; and when it is gone its host is believed. */
static void be_told_lies(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = new_id(channel), *id, *ended;
	struct sockaddr_storage at;

	few_ports();
	set_address(&at, own, PORT);
	CHECK(!rdma_bind_addr(listener, (void *)&at) && !rdma_listen(listener, 0));
	tell(other);
	CHECK(!take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &id));
	new_qp(id);
	CHECK(!rdma_accept(id, NULL));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(!event_while_asked(channel, QUESTIONS));
	write_one(id);
	tell(other);
	CHECK(!take_event(channel, RDMA_CM_EVENT_DISCONNECTED, &ended) && ended == id);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* --- B --- */

static void stay_connected(int other)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	await(other);
	id = resolve_to(channel, own, PORT);
	CHECK(!rdma_connect(id, NULL));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ESTABLISHED, NULL));
	for (;;)
		pause();
}

static pid_t start(void (*run)(int other), int other)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(other);
	_exit(1);
}

/* From an address of the stranger's own, with as little quoted as a router may. */
static void forge_as_stranger(int other)
{
	const struct forgery forgery = { stranger, own, peer, 0 };

	(void)other;
	forge(&forgery);
}

/* From the peer's address, about a packet that has another transaction. */
static void forge_as_peer(int other)
{
	const struct forgery forgery = { peer, own, peer, 300 };

	(void)other;
	forge(&forgery);
}

static void end(pid_t child)
{
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
}

static void live_beside_a_forger(int other)
{
	int ends[2];
	pid_t connected, forgers[2];

	shell(stranger_command);
	CHECK(!pipe(ends));
	await(other);
	connected = start(stay_connected, ends[0]);
	CHECK(write(ends[1], "x", 1) == 1);
	forgers[0] = start(forge_as_stranger, other);
	forgers[1] = start(forge_as_peer, other);
	await(other);
	end(connected);
	await_end(other);
	end(forgers[0]);
	end(forgers[1]);
}

/* IPv4, or with an argument IPv6. */
int main(int argc, char **argv)
{
	(void)argv;
	own = HOST_A, peer = HOST_B, stranger = "192.0.2.66";
	stranger_command = "ip addr add 192.0.2.66/24 dev vb0";
	if (argc > 1) {
		own = HOST_A6, peer = HOST_B6, stranger = "2001:db8::66";
		stranger_command = "ip addr add 2001:db8::66/64 dev vb0 nodad";
	}
	run_hosts(argc > 1 ? "forged ICMPv6 ends no connection" : "forged ICMP ends no connection",
		  be_told_lies, live_beside_a_forger);
	return report_cases() != 0;
}
