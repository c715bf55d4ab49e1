/* SPDX-License-Identifier: BSD-2-Clause */
#include "hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SKIPPED = 77, PATIENCE_MS = 60000, RESOLVE_MS = 10000 };

static int cases, failures;

/* --- namespaces --- */

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		perror(path);
	if (fd >= 0)
		close(fd);
}

/* Root of a user namespace, where it takes one: else `ip` may do nothing. */
static bool become_root(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "0 %u 1", getuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getgid());
	if (unshare(CLONE_NEWUSER))
		return false;
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", uid);
	put("/proc/self/gid_map", gid);
	return true;
}

static void make_network(void)
{
	if (!unshare(CLONE_NEWNET) || (become_root() && !unshare(CLONE_NEWNET)))
		return;
	fprintf(stderr, "# no network namespace: %s\n", strerror(errno));
	_exit(SKIPPED);
}

void shell(const char *command)
{
	int status = system(command);

	if (status)
		fprintf(stderr, "# %s: status %d\n", command, status);
	CHECK(!status);
}

static void name_host(const char *ipv4, const char *ipv6)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "ip link set lo up && ip addr add %s/24 dev vb0 && ip addr add %s/64 dev vb0 nodad"
		 " && ip link set vb0 up",
		 ipv4, ipv6);
	shell(command);
}

/* --- the two sides --- */

void tell(int other)
{
	CHECK(write(other, "x", 1) == 1);
}

void await(int other)
{
	struct pollfd ready = { .fd = other, .events = POLLIN };
	char byte;

	CHECK(poll(&ready, 1, PATIENCE_MS) == 1);
	CHECK(read(other, &byte, 1) == 1);
}

void await_end(int other)
{
	char byte;

	while (read(other, &byte, 1) == 1)
		continue;
}

static int wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A host outlives its processes: whoever made it stays. Some cases are about being killed. */
static void be_b(side b, int other)
{
	pid_t child;
	int status;

	make_network();
	tell(other);
	await(other);
	name_host(HOST_B, HOST_B6);
	tell(other);
	await(other);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		b(other);
		_exit(0);
	}
	status = wait_for(child);
	await_end(other);
	_exit(status == 128 + SIGKILL ? 0 : status);
}

static pid_t start_b(side b, const int ends[2])
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(ends[0]);
	be_b(b, ends[1]);
	_exit(1);
}

static void join(pid_t b, int other)
{
	char command[128];

	await(other);
	snprintf(command, sizeof(command), "ip link add vb0 type veth peer name vb0 netns %d",
		 (int)b);
	shell(command);
	tell(other);
	name_host(HOST_A, HOST_A6);
	await(other);
	tell(other);
}

static void on_two_hosts(side a, side b)
{
	int ends[2];
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	make_network();
	child = start_b(b, ends);
	close(ends[1]);
	join(child, ends[0]);
	a(ends[0]);
	close(ends[0]);
	CHECK(!wait_for(child));
}

static void conclude(const char *name, pid_t child)
{
	int status = wait_for(child);

	cases++;
	if (status == SKIPPED)
		printf("ok %d - %s # SKIP no network namespaces here\n", cases, name);
	else
		printf("%s %d - %s\n", status ? "not ok" : "ok", cases, name);
	fflush(stdout);
	failures += status && status != SKIPPED;
}

void run_hosts(const char *name, side a, side b)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		on_two_hosts(a, b);
		_exit(0);
	}
	conclude(name, child);
}

void run_here(const char *name, side a)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		a(-1);
		_exit(0);
	}
	conclude(name, child);
}

int report_cases(void)
{
	printf("1..%d\n", cases);
	return failures;
}

/* --- identifiers --- */

void set_address(struct sockaddr_storage *address, const char *text, uint16_t port)
{
	struct sockaddr_in *in = (void *)address;
	struct sockaddr_in6 *in6 = (void *)address;

	memset(address, 0, sizeof(*address));
	if (strchr(text, ':')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		CHECK(inet_pton(AF_INET6, text, &in6->sin6_addr) == 1);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		CHECK(inet_pton(AF_INET, text, &in->sin_addr) == 1);
	}
}

struct rdma_cm_id *new_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

void new_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	CHECK(!rdma_create_qp(id, NULL, &attr));
}

int take_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
	       struct rdma_cm_id **id)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int status;

	CHECK(poll(&ready, 1, PATIENCE_MS) == 1);
	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		fprintf(stderr, "# %s instead of %s\n", rdma_event_str(event->event),
			rdma_event_str(type));
	CHECK(event->event == type);
	status = event->status;
	if (id)
		*id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return status;
}

struct rdma_cm_id *resolve_to(struct rdma_event_channel *channel, const char *address,
			      uint16_t port)
{
	struct rdma_cm_id *id = new_id(channel);
	struct sockaddr_storage to;

	set_address(&to, address, port);
	CHECK(!rdma_resolve_addr(id, NULL, (void *)&to, RESOLVE_MS));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL));
	CHECK(!rdma_resolve_route(id, RESOLVE_MS));
	CHECK(!take_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL));
	new_qp(id);
	return id;
}
