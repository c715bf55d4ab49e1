/* SPDX-License-Identifier: BSD-2-Clause */
/* InfiniBand ports: from addresses to LIDs and GIDs and back; which groups leave the host. */
#include <errno.h>
#include <net/if_arp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../netns.h"
#include "net/gid.h"
#include "nic/group.h"
#include "nic/ib_path.h"

/* One neighbour with two addresses: its LID is made from one of them. */
static const uint8_t neighbour_mac[6] = { 2, 0, 0, 0, 0, 0x99 };
static const uint8_t another_mac[6] = { 2, 0, 0, 0, 0, 5 };

static union ibv_gid gid(const char *text)
{
	union ibv_gid out;
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		return vb_gid_ipv4(ipv4);
	CHECK(inet_pton(AF_INET6, text, out.raw) == 1);
	return out;
}

static void add_neighbour(const char *address, const uint8_t mac[6])
{
	struct arpreq request = { .arp_flags = ATF_PERM | ATF_COM, .arp_dev = "vb0" };
	struct sockaddr_in *in = (void *)&request.arp_pa;

	in->sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, address, &in->sin_addr) == 1);
	memcpy(request.arp_ha.sa_data, mac, 6);
	netns_ioctl(SIOCSARP, &request);
}

static struct vb_device *port_in_namespace(void)
{
	netns_up("lo", true);
	netns_veth();
	setenv("VERBENA_DEVICES", "vb0,ib", 1);
	netns_default_route("192.0.2.1");
	add_neighbour("192.0.2.9", neighbour_mac);
	add_neighbour("192.0.2.77", neighbour_mac);
	add_neighbour("192.0.2.5", another_mac);
	return vb_ib_device((int)if_nametoindex("vb0"));
}

static void paths_in_namespace(void)
{
	const struct vb_device *dev = port_in_namespace();
	const union ibv_gid own = gid("192.0.2.7"), nine = gid("192.0.2.9");
	const union ibv_gid loopback = gid("127.0.0.1"), far = gid("198.51.100.1");
	const union ibv_gid port_gid = vb_gid_from_guid(dev->guid);
	const union ibv_gid other_gid = vb_gid_from_guid(vb_guid_infiniband(neighbour_mac));
	struct vb_ib_path path = vb_ib_path_to(dev, &own, &nine, 0);

	CHECK(dev->infiniband && vb_ib_device(0) == dev && !vb_ib_device(12345));
	CHECK(path.slid == 7 && path.dlid == 9);
	CHECK(vb_gid_equal(&path.sgid, &port_gid) && vb_gid_equal(&path.dgid, &other_gid));
	path = vb_ib_path_to(dev, &own, &loopback, 0);
	CHECK(path.dlid == 7 && vb_gid_equal(&path.dgid, &port_gid));
	path = vb_ib_path_to(dev, &own, &far, 0); /* behind a router: of another subnet */
	CHECK(!path.dlid && vb_gid_is_zero(&path.dgid));
}

static void addresses_in_namespace(void)
{
	const struct vb_device *dev = port_in_namespace();
	const union ibv_gid port_gid = vb_gid_from_guid(dev->guid);
	const union ibv_gid other_gid = vb_gid_from_guid(vb_guid_infiniband(neighbour_mac));
	const union ibv_gid own = gid("192.0.2.7"), one = gid("192.0.2.9"), two = gid("192.0.2.77");
	const union ibv_gid unknown = gid("fe80::200:76:6200:1234"), elsewhere = gid("fec0::1");
	union ibv_gid address;

	CHECK(!vb_ib_address(dev, &port_gid, &address) && vb_gid_equal(&address, &own));
	CHECK(!vb_ib_address(dev, &other_gid, &address));
	CHECK(vb_gid_equal(&address, &one) || vb_gid_equal(&address, &two));
	CHECK(vb_ib_address(dev, &unknown, &address) == -EHOSTUNREACH);
	CHECK(vb_ib_address(dev, &elsewhere, &address) == -ENODEV);
}

static void lids_in_namespace(void)
{
	const struct vb_device *dev = port_in_namespace();
	const union ibv_gid own = gid("192.0.2.7"), one = gid("192.0.2.9"), two = gid("192.0.2.77");

	CHECK(vb_ib_lid_is(dev, 9, &own, &one, 0));
	CHECK(vb_ib_lid_is(dev, 9, &own, &two, 0));  /* another address of that port */
	CHECK(!vb_ib_lid_is(dev, 5, &own, &one, 0)); /* another host's */
	CHECK(!vb_ib_lid_is(dev, 0, &own, &one, 0));
	CHECK(vb_ib_lid_is(dev, 7, &own, &own, 0) && !vb_ib_lid_is(dev, 9, &own, &own, 0));
}

static void groups_in_namespace(void)
{
	const struct vb_device *dev = port_in_namespace();
	const union ibv_gid ipv4 = gid("ff12:4001:ffff::f01:203"), mapped = gid("239.1.2.3");
	const union ibv_gid other = gid("ff12:601b:ffff::1");
	struct vb_group group = vb_group_of(dev, &ipv4);

	CHECK(!group.within_host && group.ifindex == (int)if_nametoindex("vb0"));
	CHECK(group.fabric == VB_FABRIC_INFINIBAND && vb_gid_equal(&group.gid, &mapped));
	group = vb_group_on(&group, 42);
	CHECK(group.ifindex == 42 && group.fabric == VB_FABRIC_INFINIBAND);
	group = vb_group_of(dev, &other);
	CHECK(group.within_host && group.fabric == VB_FABRIC_INFINIBAND);
	CHECK(vb_gid_equal(&group.gid, &other));
}

#define CASE(name, body)                      \
	static void name(void **state)        \
	{                                     \
		int result = netns_run(body); \
                                              \
		if (result == NETNS_SKIPPED)  \
			skip();               \
		assert_int_equal(result, 0);  \
		(void)state;                  \
	}

CASE(an_address_leads_to_a_port, paths_in_namespace)
CASE(a_gid_leads_to_an_address, addresses_in_namespace)
CASE(a_port_has_one_lid_and_several_addresses, lids_in_namespace)
CASE(groups_of_ipv4_leave_the_host, groups_in_namespace)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_leads_to_a_port),
		cmocka_unit_test(a_gid_leads_to_an_address),
		cmocka_unit_test(a_port_has_one_lid_and_several_addresses),
		cmocka_unit_test(groups_of_ipv4_leave_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
