/* SPDX-License-Identifier: BSD-2-Clause */
/* What the network says of a host that does not answer. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "port_rig.h"

static int answer_of(struct rig *rig, const struct vb_way *way)
{
	int err = 0;

	for (int i = 0; !err && i < 1000; i++) {
		err = vb_port_knock_error(rig->port, way);
		usleep(1000);
	}
	return err;
}

/* The kernel of a host without a process at the port answers at once; here it is the own host, but
 * the way does not know. */
static void a_host_without_the_port_is_known_in_namespace(void)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(VB_UDP_PORT_ROCE) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct vb_way way, other;
	struct rig *rig;

	netns_up("lo", true);
	rig = rig_open("wire");
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	inet_pton(AF_INET, "127.0.0.9", way.flow.dst);
	other = way;
	way.local = other.local = false;
	inet_pton(AF_INET, "127.0.0.10", other.flow.dst);
	CHECK(vb_port_knock_error(rig->port, &way) == 0);
	vb_port_knock(rig->port, &way);
	CHECK(answer_of(rig, &way) == ECONNREFUSED);
	vb_port_knock(rig->port, &way); /* in the same silence: the answer stays */
	CHECK(vb_port_knock_error(rig->port, &way) == ECONNREFUSED);
	CHECK(vb_port_knock_error(rig->port, &other) == 0);
	inet_pton(AF_INET, "127.0.0.10", &own.sin_addr);
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&own, sizeof(own)));
	vb_port_knock(rig->port, &other);
	CHECK(recv(fd, &(char){ 0 }, 1, 0) == 1); /* it has arrived */
	CHECK(vb_port_knock_error(rig->port, &other) == 0);
}
RIG_TEST(a_host_without_the_port_is_known)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_without_the_port_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
