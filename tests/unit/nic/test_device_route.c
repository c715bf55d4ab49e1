/* SPDX-License-Identifier: BSD-2-Clause */
/* Which device carries an address, and from where a destination is reached. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../netns.h"
#include "base/clock.h"
#include "net/gid.h"
#include "nic/device_route.h"

#define PATIENCE_NS 5000000000ull

static const struct sockaddr *address_of(const char *text, unsigned scope)
{
	static struct sockaddr_in6 ring[4];
	static unsigned next;
	struct sockaddr_in6 *in6 = &ring[next++ % 4];
	struct sockaddr_in *in = (void *)in6;

	if (!text)
		return NULL;
	memset(in6, 0, sizeof(*in6));
	in->sin_family = AF_INET;
	in->sin_port = htons(7471);
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		return (void *)in;
	memset(in6, 0, sizeof(*in6));
	in6->sin6_family = AF_INET6;
	in6->sin6_scope_id = scope;
	CHECK(inet_pton(AF_INET6, text, &in6->sin6_addr) == 1);
	return (void *)in6;
}

static bool is(const union ibv_gid *gid, const char *text)
{
	union ibv_gid want;
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		want = vb_gid_ipv4(ipv4);
	else
		CHECK(inet_pton(AF_INET6, text, want.raw) == 1);
	return vb_gid_equal(gid, &want);
}

static struct vb_device_route route(const char *src, const char *dst)
{
	struct vb_device_route found;
	int err = vb_device_route(address_of(src, 0), address_of(dst, 0), &found);

	if (err) {
		fprintf(stderr, "%s to %s: %s\n", src ? src : "any", dst ? dst : "nobody",
			strerror(-err));
		_exit(1);
	}
	return found;
}

static int refusal(const char *src, const char *dst)
{
	struct vb_device_route found;

	return vb_device_route(address_of(src, 0), address_of(dst, 0), &found);
}

static void host_in_namespace(const char *devices)
{
	netns_up("lo", true);
	netns_veth();
	setenv("VERBENA_DEVICES", devices, 1);
}

static bool is_on_vb0(const struct vb_device_route *found)
{
	return !strcmp(found->device->netdev, "vb0") &&
	       found->ifindex == (int)if_nametoindex("vb0");
}

/* --- own addresses --- */

/* The kernel gives the address to the interface a moment after it is up. */
static struct vb_device_route route_link_local(void)
{
	const struct sockaddr *own = address_of("fe80::ff:fe00:7", if_nametoindex("vb0"));
	const uint64_t end_ns = vb_now_ns() + PATIENCE_NS;
	struct vb_device_route found;
	int err;

	while ((err = vb_device_route(own, NULL, &found)) && vb_now_ns() < end_ns) {
		vb_netif_snapshot_expire();
		sched_yield();
	}
	CHECK(!err);
	return found;
}

static void own_in_namespace(void)
{
	struct vb_device_route found;

	host_in_namespace("vb0,ib");
	found = route("192.0.2.7", NULL);
	CHECK(is_on_vb0(&found) && !found.device->infiniband && found.local);
	CHECK(is(&found.src, "192.0.2.7") && vb_gid_is_zero(&found.dst));
	CHECK(found.sgid_index == VB_GID_IPV4);
	found = route("127.0.0.1", NULL); /* lo is no device: any stands for it */
	CHECK(is_on_vb0(&found) && is(&found.src, "127.0.0.1"));
	CHECK(found.sgid_index == VB_GID_IPV4);
	found = route("::1", NULL);
	CHECK(is_on_vb0(&found) && is(&found.src, "::1"));
	CHECK(refusal("198.51.100.1", NULL) == -EADDRNOTAVAIL);
	CHECK(refusal("0.0.0.0", NULL) == -EINVAL);
	CHECK(refusal(NULL, NULL) == -EINVAL);
	CHECK(refusal("fe80::ff:fe00:7", NULL) == -EINVAL); /* on which interface? */
	found = route_link_local();
	CHECK(is_on_vb0(&found) && found.scope == if_nametoindex("vb0"));
	CHECK(found.sgid_index == VB_GID_LINK_LOCAL);
}

static void no_device_in_namespace(void)
{
	struct vb_device_route found;

	host_in_namespace("lo");
	CHECK(refusal("192.0.2.7", NULL) == -ENODEV);
	CHECK(refusal(NULL, "192.0.2.99") == -ENODEV);
	found = route("127.0.0.1", NULL);
	CHECK(!strcmp(found.device->netdev, "lo") && found.sgid_index == VB_GID_IPV4);
	/* Nobody who listens there would find a device. */
	CHECK(refusal(NULL, "192.0.2.7") == -ENODEV);
	CHECK(refusal("127.0.0.1", "192.0.2.7") == -ENODEV);
}

/* --- destinations --- */

static void here_in_namespace(void)
{
	struct vb_device_route found;

	host_in_namespace("vb0");
	found = route(NULL, "127.0.0.1");
	CHECK(found.local && is_on_vb0(&found));
	CHECK(is(&found.src, "127.0.0.1") && is(&found.dst, "127.0.0.1"));
	found = route("0.0.0.0", "192.0.2.7");
	CHECK(found.local && is_on_vb0(&found) && is(&found.src, "192.0.2.7"));
	found = route("192.0.2.7", "127.0.0.1");
	CHECK(found.local && is(&found.src, "192.0.2.7"));
	found = route(NULL, "0.0.0.0"); /* as for TCP */
	CHECK(found.local && is(&found.dst, "127.0.0.1"));
	found = route(NULL, "::1");
	CHECK(found.local && is(&found.src, "::1"));
}

static void there_in_namespace(void)
{
	struct vb_device_route found;

	host_in_namespace("vb0");
	found = route(NULL, "192.0.2.99");
	CHECK(!found.local && is_on_vb0(&found) && !found.scope);
	CHECK(is(&found.src, "192.0.2.7") && is(&found.dst, "192.0.2.99"));
	CHECK(found.sgid_index == VB_GID_IPV4);
	found = route("192.0.2.7", "192.0.2.99");
	CHECK(!found.local && is(&found.src, "192.0.2.7"));
	CHECK(refusal(NULL, "198.51.100.1") == -ENETUNREACH);
	CHECK(refusal("198.51.100.1", "192.0.2.99") == -EADDRNOTAVAIL);
	CHECK(refusal("192.0.2.7", "::1") == -EINVAL);
	CHECK(refusal(NULL, "fe80::1") == -EINVAL);
	netns_default_route("192.0.2.1");
	found = route(NULL, "198.51.100.1");
	CHECK(is_on_vb0(&found) && is(&found.src, "192.0.2.7"));
	found = route(NULL, "224.1.2.3");
	CHECK(!found.local && is_on_vb0(&found));
}

static void other_families_in_namespace(void)
{
	const struct sockaddr local = { .sa_family = AF_UNIX };
	struct vb_device_route found;

	host_in_namespace("vb0");
	CHECK(vb_device_route(&local, NULL, &found) == -EAFNOSUPPORT);
	CHECK(vb_device_route(NULL, &local, &found) == -EAFNOSUPPORT);
}

#define CASE(name, body)                      \
	static void name(void **state)        \
	{                                     \
		int result = netns_run(body); \
                                              \
		if (result == NETNS_SKIPPED)  \
			skip();               \
		assert_int_equal(result, 0);  \
	}

CASE(own_addresses_have_a_device, own_in_namespace)
CASE(an_interface_without_device_carries_nothing, no_device_in_namespace)
CASE(this_host_is_reached_from_everywhere, here_in_namespace)
CASE(other_hosts_are_reached_as_the_kernel_says, there_in_namespace)
CASE(what_is_no_ip_address_is_refused, other_families_in_namespace)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_addresses_have_a_device),
		cmocka_unit_test(an_interface_without_device_carries_nothing),
		cmocka_unit_test(this_host_is_reached_from_everywhere),
		cmocka_unit_test(other_hosts_are_reached_as_the_kernel_says),
		cmocka_unit_test(what_is_no_ip_address_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
