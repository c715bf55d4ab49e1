/* SPDX-License-Identifier: BSD-2-Clause */
/* Our own sockets are in the tables, with what we know of them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/udp_table.h"

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* At a port of the kernel's choice. */
static int bind_socket(union address address, socklen_t length, uint16_t *port)
{
	int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, &address.any, length)) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		assert_int_equal(getsockname(fd, &address.any, &length), 0);
	*port = ntohs(address.any.sa_family == AF_INET ? address.in.sin_port
						       : address.in6.sin6_port);
	return fd;
}

static bool find(int fd, bool ipv6, struct vb_udp_socket *found)
{
	struct vb_udp_table table;
	struct stat stat;
	bool seen = false;

	assert_int_equal(fstat(fd, &stat), 0);
	assert_true(vb_udp_table_open(&table, ipv6));
	while (!seen && vb_udp_table_next(&table, found))
		seen = found->inode == stat.st_ino;
	vb_udp_table_close(&table);
	return seen;
}

static void an_ipv4_socket(void **state)
{
	union address address = { .in = { .sin_family = AF_INET } };
	struct vb_udp_socket found;
	uint16_t port;
	int fd;

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &address.in.sin_addr), 1);
	fd = bind_socket(address, sizeof(address.in), &port);
	assert_true(fd >= 0);
	assert_true(find(fd, false, &found));
	assert_int_equal(found.port, port);
	assert_int_equal(found.uid, geteuid());
	assert_memory_equal(found.address, &address.in.sin_addr, 4);
	assert_false(vb_udp_socket_is_everywhere(&found));
	close(fd);
}

static void an_ipv6_socket(void **state)
{
	union address address = { .in6 = { .sin6_family = AF_INET6,
					   .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	struct vb_udp_socket found;
	uint16_t port;
	int fd = bind_socket(address, sizeof(address.in6), &port);

	(void)state;
	if (fd < 0)
		skip();
	assert_true(find(fd, true, &found));
	assert_int_equal(found.port, port);
	assert_memory_equal(found.address, &address.in6.sin6_addr, 16);
	assert_false(vb_udp_socket_is_everywhere(&found));
	close(fd);
}

static void a_socket_at_all_addresses(void **state)
{
	union address address = { .in = { .sin_family = AF_INET } };
	struct vb_udp_socket found;
	uint16_t port;
	int fd = bind_socket(address, sizeof(address.in), &port);

	(void)state;
	assert_true(fd >= 0);
	assert_true(find(fd, false, &found));
	assert_true(vb_udp_socket_is_everywhere(&found));
	close(fd);
	assert_false(find(STDIN_FILENO, false, &found));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ipv4_socket),
		cmocka_unit_test(an_ipv6_socket),
		cmocka_unit_test(a_socket_at_all_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
