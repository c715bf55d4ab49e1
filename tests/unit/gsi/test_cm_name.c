/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of the connection manager: who may have one, and who is found behind it. */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../child.h"
#include "../netns.h"
#include "gsi/cm_name.h"
#include "net/gid.h"

enum { PORT = 7471 };

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid = { 0 };
	uint8_t ipv4[4];

	if (!*text)
		return gid;
	if (inet_pton(AF_INET, text, ipv4) == 1)
		return vb_gid_ipv4(ipv4);
	CHECK(inet_pton(AF_INET6, text, gid.raw) == 1);
	return gid;
}

static struct vb_cm_claim claim_of(enum vb_cm_family family, const char *address, uint16_t port)
{
	return (struct vb_cm_claim){ .port_space = RDMA_PS_TCP,
				     .port = port,
				     .family = family,
				     .address = gid_of(address),
				     .replaces = -1 };
}

static int claim(enum vb_cm_family family, const char *address)
{
	struct vb_cm_claim wanted = claim_of(family, address, PORT);

	return vb_cm_claim(&wanted);
}

static int claim_reuse(enum vb_cm_family family, const char *address)
{
	struct vb_cm_claim wanted = claim_of(family, address, PORT);

	wanted.reuse = true;
	return vb_cm_claim(&wanted);
}

/* --- conflicts --- */

struct pair {
	enum vb_cm_family family[2];
	const char *address[2];
	bool conflict;
};

static const struct pair pairs[] = {
	{ { VB_CM_IPV4, VB_CM_IPV4 }, { "192.0.2.7", "192.0.2.7" }, true },
	{ { VB_CM_IPV4, VB_CM_IPV4 }, { "192.0.2.7", "127.0.0.1" }, false },
	{ { VB_CM_IPV4, VB_CM_IPV4 }, { "127.0.0.1", "127.0.0.2" }, true },
	{ { VB_CM_IPV4, VB_CM_IPV4 }, { "192.0.2.7", "" }, true },
	{ { VB_CM_IPV4, VB_CM_IPV4 }, { "127.0.0.1", "" }, true },
	{ { VB_CM_IPV4, VB_CM_IPV4 }, { "", "" }, true },
	{ { VB_CM_IPV4, VB_CM_IPV6 }, { "", "" }, false },
	{ { VB_CM_IPV4, VB_CM_IPV6 }, { "192.0.2.7", "" }, false },
	{ { VB_CM_IPV4, VB_CM_IPV6 }, { "", "::1" }, false },
	{ { VB_CM_IPV6, VB_CM_IPV6 }, { "::1", "::1" }, true },
	{ { VB_CM_IPV6, VB_CM_IPV6 }, { "::1", "" }, true },
	{ { VB_CM_IPV6, VB_CM_IPV6 }, { "", "" }, true },
	{ { VB_CM_IPV4, VB_CM_DUAL }, { "", "" }, true },
	{ { VB_CM_IPV6, VB_CM_DUAL }, { "", "" }, true },
	{ { VB_CM_DUAL, VB_CM_DUAL }, { "", "" }, true },
	{ { VB_CM_IPV4, VB_CM_DUAL }, { "192.0.2.7", "" }, true },
	{ { VB_CM_IPV6, VB_CM_DUAL }, { "::1", "" }, true },
};

static void expect(const struct pair *pair, int first, int second)
{
	int one = claim(pair->family[first], pair->address[first]), two;

	CHECK(one >= 0);
	two = claim(pair->family[second], pair->address[second]);
	if (pair->conflict ? two != -EADDRINUSE : two < 0) {
		fprintf(stderr, "'%s' beside '%s': %d\n", pair->address[second],
			pair->address[first], two);
		_exit(1);
	}
	close(one);
	if (two >= 0)
		close(two);
}

static bool isolated; /* in a network namespace of our own, with an address beside lo */

static void a_port_is_taken_as_tcp_would_say(void **state)
{
	if (!isolated) {
		print_message("# SKIPPED: this needs a network namespace\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		expect(&pairs[i], 0, 1);
		expect(&pairs[i], 1, 0);
	}
}

static void port_spaces_have_ports_of_their_own(void **state)
{
	struct vb_cm_claim tcp = claim_of(VB_CM_DUAL, "", PORT), udp = tcp;
	int one = vb_cm_claim(&tcp), two;

	udp.port_space = RDMA_PS_UDP;
	two = vb_cm_claim(&udp);
	assert_true(one >= 0 && two >= 0);
	close(one);
	close(two);
}

static void a_refused_claim_leaves_nothing_behind(void **state)
{
	int one = claim(VB_CM_IPV4, "127.0.0.1"), two;

	assert_true(one >= 0);
	assert_int_equal(claim(VB_CM_DUAL, ""), -EADDRINUSE);
	close(one);
	two = claim(VB_CM_DUAL, "");
	assert_true(two >= 0);
	close(two);
}

static void an_address_of_the_other_family_is_refused(void **state)
{
	assert_int_equal(claim(VB_CM_IPV6, "127.0.0.1"), -EINVAL);
	assert_int_equal(claim(VB_CM_IPV4, "::1"), -EINVAL);
	assert_int_equal(claim(VB_CM_DUAL, "127.0.0.1"), -EINVAL);
}

/* --- sharing --- */

static void reuse_lets_others_with_reuse_have_the_port_too(void **state)
{
	int one = claim_reuse(VB_CM_IPV4, ""), two = claim_reuse(VB_CM_IPV4, "127.0.0.1");
	int three = claim_reuse(VB_CM_IPV4, "127.0.0.1");

	assert_true(one >= 0 && two >= 0 && three >= 0);
	assert_int_equal(claim(VB_CM_IPV4, "127.0.0.1"), -EADDRINUSE);
	assert_int_equal(claim(VB_CM_DUAL, ""), -EADDRINUSE);
	close(one);
	close(two);
	close(three);
	one = claim(VB_CM_DUAL, "");
	assert_true(one >= 0);
	assert_int_equal(claim_reuse(VB_CM_IPV4, "127.0.0.1"), -EADDRINUSE);
	close(one);
}

static void who_listens_takes_the_port_for_himself(void **state)
{
	struct vb_cm_claim wanted = claim_of(VB_CM_IPV4, "127.0.0.1", PORT);
	int one = claim_reuse(VB_CM_IPV4, "127.0.0.1"), two = claim_reuse(VB_CM_IPV4, "127.0.0.1");
	int listening;

	wanted.replaces = one;
	assert_int_equal(vb_cm_claim(&wanted), -EADDRINUSE);
	close(two);
	listening = vb_cm_claim(&wanted);
	assert_true(listening >= 0);
	close(one);
	close(listening);
}

/* --- ports of our choice --- */

static void port_zero_is_some_free_one(void **state)
{
	enum { MANY = 200 };
	uint16_t ports[MANY];
	int fds[MANY], distances = 0;

	for (int i = 0; i < MANY; i++) {
		struct vb_cm_claim any = claim_of(VB_CM_DUAL, "", 0);

		fds[i] = vb_cm_claim(&any);
		assert_true(fds[i] >= 0);
		assert_true(any.port >= 1024);
		ports[i] = any.port;
		for (int j = 0; j < i; j++)
			assert_int_not_equal(ports[i], ports[j]);
		distances += i && ports[i] != ports[i - 1] + 1;
	}
	assert_true(distances > MANY / 2); /* not one after the other */
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
}

/* --- life --- */

static int claims_and_is_killed(const void *arg)
{
	child_check(claim(VB_CM_DUAL, "") >= 0);
	child_check(claim(VB_CM_DUAL, "") == -EADDRINUSE);
	raise(SIGKILL);
	return 1;
}

static void a_port_is_free_once_its_process_is_killed(void **state)
{
	char said[256];
	int status = child_run(claims_and_is_killed, NULL, said, sizeof(said)), fd;

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	fd = claim(VB_CM_DUAL, "");
	assert_true(fd >= 0);
	close(fd);
}

static void claims_end_with_an_exec_and_never_block(void **state)
{
	int fd = claim(VB_CM_DUAL, "");

	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
}

/* --- finding --- */

static bool reaches(int fd, const char *address)
{
	const union ibv_gid gid = gid_of(address);
	struct vb_cm_target targets[VB_CM_TARGETS_MAX];
	unsigned count = vb_cm_targets(RDMA_PS_TCP, PORT, &gid, 0, targets);
	int out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char byte = 0;

	for (unsigned i = 0; i < count; i++)
		if (sendto(out, "x", 1, 0, (void *)&targets[i].address, targets[i].length) == 1)
			break;
	close(out);
	return recv(fd, &byte, 1, MSG_DONTWAIT) == 1;
}

static void a_request_finds_the_claim_of_its_address(void **state)
{
	int fd = claim(VB_CM_DUAL, "");

	assert_true(reaches(fd, "192.0.2.7") && reaches(fd, "127.0.0.1") && reaches(fd, "::1"));
	close(fd);
	fd = claim(VB_CM_IPV6, "");
	assert_true(!reaches(fd, "127.0.0.1") && reaches(fd, "::1"));
	close(fd);
	fd = claim(VB_CM_IPV4, "127.0.0.1");
	assert_true(reaches(fd, "127.0.0.1") && reaches(fd, "127.5.5.5") && !reaches(fd, "::1"));
	close(fd);
	fd = claim_reuse(VB_CM_IPV4, "127.0.0.1");
	assert_false(reaches(fd, "127.0.0.1"));
	close(fd);
}

enum { FIRST_PORT = 40000, PORTS = 4 };

static bool write_range(int first, int last)
{
	FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");

	if (!range)
		return false;
	fprintf(range, "%d %d", first, last);
	return !fclose(range);
}

static int takes_all_ports(const void *arg)
{
	struct vb_cm_claim any = { .port_space = RDMA_PS_TCP,
				   .family = VB_CM_DUAL,
				   .replaces = -1 };
	struct vb_cm_claim claim;
	int fd;

	(void)arg;
	/* In a network of its own: the range of the others stays. */
	child_check(!unshare(CLONE_NEWNET));
	child_check(write_range(FIRST_PORT, FIRST_PORT + PORTS - 1));
	for (int i = 0; i < PORTS; i++) {
		claim = any;
		child_check(vb_cm_claim(&claim) >= 0 && !claim.reuse);
	}
	claim = any;
	fd = vb_cm_claim(&claim);
	child_check(fd >= 0 && claim.reuse);
	child_check(claim.port >= FIRST_PORT && claim.port < FIRST_PORT + PORTS);
	/* To listen one needs it alone. */
	claim.reuse = false;
	claim.replaces = fd;
	child_check(vb_cm_claim(&claim) == -EADDRINUSE);
	return 0;
}

static void all_ports_taken_is_no_reason_not_to_connect(void **state)
{
	if (!isolated || access("/proc/sys/net/ipv4/ip_local_port_range", W_OK)) {
		print_message("# SKIPPED: the range of ports cannot be changed here\n");
		skip();
	}
	assert_child_passes(takes_all_ports, NULL);
}

static void a_name_is_held_as_long_as_its_socket_is(void **state)
{
	struct vb_cm_target names[VB_CM_TARGETS_MAX], name;
	const union ibv_gid localhost = { .raw = { [15] = 1 } };
	int fd;

	assert_true(vb_cm_targets(RDMA_PS_IB, 9, &localhost, 0, names) > 0);
	name = names[0];
	fd = vb_cm_bind(&name);

	assert_true(fd >= 0);
	assert_true(vb_cm_is_held(&name));
	assert_int_equal(vb_cm_bind(&name), -EADDRINUSE);
	close(fd);
	assert_false(vb_cm_is_held(&name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_is_taken_as_tcp_would_say),
		cmocka_unit_test(port_spaces_have_ports_of_their_own),
		cmocka_unit_test(all_ports_taken_is_no_reason_not_to_connect),
		cmocka_unit_test(a_refused_claim_leaves_nothing_behind),
		cmocka_unit_test(an_address_of_the_other_family_is_refused),
		cmocka_unit_test(reuse_lets_others_with_reuse_have_the_port_too),
		cmocka_unit_test(who_listens_takes_the_port_for_himself),
		cmocka_unit_test(port_zero_is_some_free_one),
		cmocka_unit_test(a_port_is_free_once_its_process_is_killed),
		cmocka_unit_test(claims_end_with_an_exec_and_never_block),
		cmocka_unit_test(a_request_finds_the_claim_of_its_address),
		cmocka_unit_test(a_name_is_held_as_long_as_its_socket_is),
	};

	/* Where that works nobody else's ports are in the way. */
	isolated = !unshare(CLONE_NEWUSER | CLONE_NEWNET) || !unshare(CLONE_NEWNET);
	if (isolated) {
		netns_up("lo", true);
		netns_veth();
	} else {
		perror("SKIPPED: a network namespace");
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
