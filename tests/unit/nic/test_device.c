/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, their attributes and address resolution, on this host and in made-up networks. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "../netns.h"
#include "base/limits.h"
#include "net/gid.h"
#include "net/netif.h"
#include "nic/device.h"
#include "nic/lid.h"

static union ibv_gid gid(const char *text)
{
	union ibv_gid value;

	if (inet_pton(AF_INET6, text, value.raw) != 1)
		abort();
	return value;
}

/* With VERBENA_DEVICES=lo,ib, as main sets it. */
static const struct vb_device *device(unsigned index)
{
	struct vb_device *const *table;

	if ((int)index >= vb_device_table(&table))
		abort();
	return table[index];
}

static int resolve(const struct vb_device *dev, int sgid_index, const char *dgid, struct vb_av *av)
{
	const struct ibv_ah_attr attr = {
		.port_num = 1,
		.is_global = 1,
		.dlid = 0xC000,
		.grh = { .dgid = gid(dgid),
			 .sgid_index = (uint8_t)sgid_index,
			 .hop_limit = 255,
			 .flow_label = 1 },
	};

	return vb_device_resolve(dev, &attr, av);
}

/* --- the list --- */

static void a_list_of_devices_is_read_as_documented(void **state)
{
	static const struct {
		const char *list;
		const char *devices; /* "!" is the InfiniBand device */
	} rows[] = {
		{ "", "" },
		{ ",,", "" },
		{ "eth0", "eth0" },
		{ "eth0,eth1,lo,ib", "eth0 eth1 lo !" },
		{ " eth0 , ib ", "eth0 !" },
		{ "eth0,eth0,ib,ib", "eth0 !" },
		{ "a-name-that-is-too-long,lo", "lo" },
		{ "ib0,ibx", "ib0 ibx" },
		{ "+system", "" },
		{ "lo,+system,ib,+more", "lo ! +more" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct vb_device_choice choices[VB_DEVICES_MAX];
		const unsigned count = vb_device_choices(rows[i].list, choices);
		char text[256] = "";

		for (unsigned k = 0; k < count; k++) {
			strcat(text, k ? " " : "");
			strcat(text, choices[k].infiniband ? "!" : choices[k].netdev);
		}
		assert_string_equal(text, rows[i].devices);
	}
}

static void the_list_has_a_limit(void **state)
{
	struct vb_device_choice choices[VB_DEVICES_MAX];
	char list[1024] = "";

	for (int i = 0; i < 100; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "e%d,", i);
	assert_int_equal(vb_device_choices(list, choices), VB_DEVICES_MAX);
}

static void devices_are_named_in_order_and_unlike_each_other(void **state)
{
	assert_string_equal(device(0)->ibv.name, "verbena0");
	assert_string_equal(device(1)->ibv.name, "verbena1");
	assert_string_equal(device(1)->ibv.dev_name, "uverbs1");
	assert_int_equal(device(1)->index, 1);
	assert_false(device(0)->infiniband);
	assert_true(device(1)->infiniband);
	assert_int_not_equal(device(0)->guid, device(1)->guid);
	assert_non_null(device(0)->ops);
}

/* --- attributes --- */

static void attributes_are_the_limits(void **state)
{
	struct ibv_device_attr_ex attr;

	memset(&attr, 0xee, sizeof(attr));
	vb_device_attr(device(0), &attr);
	assert_int_equal(attr.orig_attr.max_qp_wr, VB_WR_MAX);
	assert_int_equal(attr.orig_attr.max_cqe, VB_CQE_MAX);
	assert_int_equal(attr.orig_attr.max_res_rd_atom, VB_RD_ATOMIC_MAX * VB_QP_MAX);
	assert_int_equal(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
	assert_true(attr.orig_attr.node_guid == device(0)->guid);
	assert_true(attr.orig_attr.sys_image_guid != 0);
	assert_int_equal(attr.orig_attr.phys_port_cnt, attr.phys_port_cnt_ex);
	assert_int_equal(attr.orig_attr.max_mw, VB_MW_MAX);
	assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(attr.max_dm_size, VB_DM_BYTES_MAX);
	assert_string_equal(attr.orig_attr.fw_ver, VERBENA_VERSION);
}

static void ports_are_as_their_link_layer(void **state)
{
	struct ibv_port_attr ethernet, infiniband;

	assert_int_equal(vb_device_port_attr(device(0), 1, &ethernet), 0);
	assert_int_equal(ethernet.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(ethernet.flags, IBV_QPF_GRH_REQUIRED);
	assert_int_equal(ethernet.lid, 0);
	assert_int_equal(ethernet.active_mtu, IBV_MTU_4096);
	assert_int_equal(ethernet.state, IBV_PORT_ACTIVE);
	assert_int_equal(ethernet.active_width, VB_WIDTH_4X); /* lo has no speed */
	assert_int_equal(ethernet.active_speed, VB_SPEED_EDR);
	assert_int_equal(vb_device_port_attr(device(1), 1, &infiniband), 0);
	assert_int_equal(infiniband.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(infiniband.flags, 0);
	assert_in_range(infiniband.lid, 1, VB_LID_MAX);
	assert_int_equal(infiniband.state, IBV_PORT_ACTIVE);
	assert_true(infiniband.max_msg_sz == VB_MSG_MAX);
}

static void only_port_1_exists(void **state)
{
	struct ibv_port_attr attr;

	assert_int_equal(vb_device_port_attr(device(0), 0, &attr), -EINVAL);
	assert_int_equal(vb_device_port_attr(device(0), 2, &attr), -EINVAL);
}

/* --- GIDs --- */

static void entries_tell_empty_from_wrong(void **state)
{
	struct ibv_gid_entry entry;
	union ibv_gid value;

	assert_int_equal(vb_device_gid_entry(device(0), 1, &entry), 0);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(entry.gid_index, 1);
	assert_int_equal(entry.port_num, 1);
	assert_int_equal(entry.ndev_ifindex, if_nametoindex("lo"));
	assert_int_equal(vb_device_gid_entry(device(1), 0, &entry), 0);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(vb_device_gid_entry(device(0), VB_GIDS - 1, &entry), -ENODATA);
	assert_int_equal(vb_device_gid_entry(device(0), VB_GIDS, &entry), -EINVAL);
	assert_int_equal(vb_device_gid(device(0), VB_GIDS - 1, &value), 0);
	assert_true(vb_gid_is_zero(&value));
	assert_int_equal(vb_device_gid(device(0), VB_GIDS, &value), -EINVAL);
	assert_int_equal(vb_device_gid(device(0), -1, &value), -EINVAL);
}

/* --- Ethernet --- */

static void every_own_gid_reaches_this_host(void **state)
{
	for (int i = 0; i < VB_GIDS; i++) {
		char text[VB_GID_TEXT];
		union ibv_gid value;
		struct vb_av av;

		assert_int_equal(vb_device_gid(device(0), i, &value), 0);
		if (vb_gid_is_zero(&value))
			continue;
		assert_int_equal(resolve(device(0), i,
					 inet_ntop(AF_INET6, value.raw, text, sizeof(text)), &av),
				 0);
		assert_true(av.local && av.grh && !av.multicast);
		assert_true(vb_gid_equal(&av.sgid, &value) && vb_gid_equal(&av.dgid, &value));
		assert_int_equal(av.flow_label, 1);
		assert_int_equal(av.hop_limit, 255);
	}
}

static void ethernet_refuses_what_roce_refuses(void **state)
{
	const struct ibv_ah_attr no_grh = { .port_num = 1, .dlid = 1 };
	struct ibv_ah_attr port_2 = { .port_num = 2, .is_global = 1 };
	struct vb_av av;

	port_2.grh.dgid = gid("::1");
	assert_int_equal(vb_device_resolve(device(0), &no_grh, &av), -EINVAL);
	assert_int_equal(vb_device_resolve(device(0), &port_2, &av), -EINVAL);
	assert_int_equal(resolve(device(0), VB_GIDS - 1, "::1", &av), -EINVAL);
	assert_int_equal(resolve(device(0), VB_GIDS, "::1", &av), -EINVAL);
	assert_int_equal(resolve(device(0), 1, "2001:db8::1", &av), -EINVAL);
	assert_int_equal(resolve(device(0), 2, "::ffff:192.0.2.250", &av), -EINVAL);
	assert_int_equal(resolve(device(0), 0, "::", &av), -EINVAL);
}

static void loopback_and_groups_go_with_every_source(void **state)
{
	static const char *const destinations[] = { "::ffff:127.0.0.1", "::ffff:127.1.2.3", "::1" };
	static const char *const groups[] = { "ff0e::1", "::ffff:239.1.2.3" };
	struct vb_av av;

	for (int sgid_index = 0; sgid_index < 3; sgid_index++) {
		for (size_t i = 0; i < 3; i++) {
			assert_int_equal(resolve(device(0), sgid_index, destinations[i], &av), 0);
			assert_true(av.local && !av.multicast);
		}
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(resolve(device(0), sgid_index, groups[i], &av), 0);
			assert_true(av.local && av.multicast);
		}
	}
}

static void nothing_but_this_host_is_behind_the_loopback_interface(void **state)
{
	struct vb_av av;

	assert_int_equal(resolve(device(0), 1, "::ffff:203.0.113.9", &av), -ENETUNREACH);
	assert_int_equal(resolve(device(0), 2, "2001:db8::9", &av), -ENETUNREACH);
	assert_int_equal(resolve(device(0), 0, "fe80::9", &av), -ENETUNREACH);
}

/* --- InfiniBand --- */

static void the_own_lid_is_the_own_port(void **state)
{
	const struct ibv_ah_attr attr = { .port_num = 1,
					  .dlid = vb_device_lid(device(1)),
					  .sl = 3 };
	union ibv_gid port_gid;
	struct vb_av av;

	assert_int_equal(vb_device_gid(device(1), 0, &port_gid), 0);
	assert_int_equal(vb_device_resolve(device(1), &attr, &av), 0);
	assert_true(av.local && !av.grh);
	assert_true(vb_gid_equal(&av.sgid, &port_gid) && vb_gid_equal(&av.dgid, &port_gid));
	assert_int_equal(av.slid, attr.dlid);
	assert_int_equal(av.dlid, attr.dlid);
	assert_int_equal(av.sl, 3);
}

static void another_lid_is_somewhere_else(void **state)
{
	const struct ibv_ah_attr attr = { .port_num = 1, .dlid = 0xBFFE };
	const struct ibv_ah_attr reserved = { .port_num = 1, .dlid = 0 };
	const union ibv_gid other = gid("fe80::bffe");
	struct vb_av av;

	assert_int_equal(vb_device_resolve(device(1), &attr, &av), 0);
	assert_false(av.local);
	assert_true(vb_gid_equal(&av.dgid, &other));
	assert_int_equal(vb_device_resolve(device(1), &reserved, &av), -EINVAL);
}

static void with_a_grh_the_gid_counts_too(void **state)
{
	struct ibv_ah_attr attr = { .port_num = 1,
				    .dlid = vb_device_lid(device(1)),
				    .is_global = 1 };
	struct vb_av av;

	assert_int_equal(vb_device_gid(device(1), 0, &attr.grh.dgid), 0);
	assert_int_equal(vb_device_resolve(device(1), &attr, &av), 0);
	assert_true(av.local && av.grh);
	attr.grh.dgid = gid("fe80::1234");
	assert_int_equal(vb_device_resolve(device(1), &attr, &av), 0);
	assert_false(av.local);
	attr.grh.dgid = gid("ff12::1");
	assert_int_equal(vb_device_resolve(device(1), &attr, &av), 0);
	assert_true(av.local && av.multicast);
	attr.grh.sgid_index = 1;
	assert_int_equal(vb_device_resolve(device(1), &attr, &av), -EINVAL);
}

/* --- other networks --- */

/* The table of the process is made at the first call: in these children, in the namespace. */
static const struct vb_device *only_device(const char *list)
{
	struct vb_device *const *table;

	if (list)
		setenv("VERBENA_DEVICES", list, 1);
	else
		unsetenv("VERBENA_DEVICES");
	CHECK(vb_device_table(&table) >= 1);
	return table[0];
}

static void chosen_by_route(void)
{
	const union ibv_gid ipv4 = gid("::ffff:192.0.2.7");
	const struct vb_device *dev;
	struct ibv_port_attr port;
	union ibv_gid table[3];

	netns_veth();
	netns_default_route("192.0.2.1");
	dev = only_device(NULL);
	CHECK(!strcmp(dev->netdev, "vb0"));
	for (int i = 0; i < 3; i++)
		CHECK(!vb_device_gid(dev, i, &table[i]));
	CHECK(vb_gid_is_link_local(&table[0]));
	CHECK(vb_gid_equal(&table[1], &ipv4));
	CHECK(!vb_device_port_attr(dev, 1, &port));
	CHECK(port.state == IBV_PORT_ACTIVE && port.active_mtu == IBV_MTU_1024);
	/* A veth interface says 10 Gb/s. */
	CHECK(port.active_width == VB_WIDTH_1X && port.active_speed == VB_SPEED_FDR10);
	CHECK(vb_device_link_rate(dev).speed == VB_SPEED_FDR10);
}

static void lid_from_address(void)
{
	netns_veth();
	netns_default_route("192.0.2.1");
	CHECK(vb_device_lid(only_device("ib")) == 7);
}

static bool lid_leads_to(const struct vb_device *dev, uint16_t lid, const char *address)
{
	const union ibv_gid from = gid("::ffff:192.0.2.7"), to = gid(address);
	union ibv_gid own, other;

	return !vb_lid_addresses(dev, lid, &own, &other) && vb_gid_equal(&own, &from) &&
	       vb_gid_equal(&other, &to) && vb_lid_at(dev, &to) == lid;
}

static void lids_across_hosts(void)
{
	const union ibv_gid elsewhere = gid("::ffff:203.0.113.9"), own = gid("::ffff:192.0.2.7");
	const struct vb_device *dev;
	union ibv_gid from, to;
	struct ibv_port_attr port;

	netns_veth();
	netns_up("lo", true);
	netns_default_route("192.0.2.1");
	dev = only_device("ib");
	CHECK(lid_leads_to(dev, 1, "::ffff:192.0.2.1"));
	CHECK(lid_leads_to(dev, 254, "::ffff:192.0.2.254"));
	CHECK(vb_lid_addresses(dev, 255, &from, &to) == -ENETUNREACH); /* broadcast */
	CHECK(vb_lid_addresses(dev, 256, &from, &to) == -ENETUNREACH);
	CHECK(vb_lid_addresses(dev, 0, &from, &to) == -ENETUNREACH);
	CHECK(vb_lid_at(dev, &own) == 7);
	CHECK(vb_lid_at(dev, &elsewhere) == 0);
	/* Within the host; between hosts the wire sees to it. */
	CHECK(!vb_device_port_attr(dev, 1, &port) && port.active_mtu == IBV_MTU_4096);
}

/* Nobody else is on `lo`: whatever its netmask leaves is of this host only. */
static void lids_of_loopback(void)
{
	const struct vb_device *dev = only_device("ib");
	union ibv_gid from, to;
	struct ibv_port_attr port;

	netns_up("lo", true);
	CHECK(!strcmp(dev->netdev, "lo") && vb_device_lid(dev) == 1);
	CHECK(vb_lid_own_address(dev, &from) == -ENETUNREACH);
	CHECK(vb_lid_addresses(dev, 2, &from, &to) == -ENETUNREACH);
	CHECK(!vb_device_port_attr(dev, 1, &port) && port.active_mtu == IBV_MTU_4096);
}

static void routes_decide(void)
{
	const struct vb_device *dev;
	struct vb_av av;

	netns_veth();
	netns_up("lo", true);
	dev = only_device("vb0");
	CHECK(!resolve(dev, 1, "::ffff:192.0.2.7", &av) && av.local);
	CHECK(!resolve(dev, 1, "::ffff:127.0.0.1", &av) && av.local);
	CHECK(!resolve(dev, 1, "::ffff:192.0.2.9", &av) && !av.local);
	CHECK(resolve(dev, 1, "::ffff:203.0.113.9", &av) == -ENETUNREACH);
	CHECK(resolve(dev, 1, "::ffff:192.0.2.255", &av) == -ENETUNREACH);
	CHECK(resolve(dev, 0, "2001:db8::9", &av) == -ENETUNREACH);
	netns_default_route("192.0.2.1");
	CHECK(!resolve(dev, 1, "::ffff:203.0.113.9", &av) && !av.local);
}

static void only_loopback(void)
{
	const struct vb_device *dev = only_device(NULL);
	struct ibv_port_attr port;
	struct vb_av av;

	CHECK(!strcmp(dev->netdev, "lo"));
	CHECK(!vb_device_port_attr(dev, 1, &port) && port.state == IBV_PORT_ACTIVE);
	CHECK(!resolve(dev, 1, "::ffff:127.0.0.1", &av) && av.local);
}

static void unknown_names(void)
{
	struct vb_device *const *table;

	setenv("VERBENA_DEVICES", "nosuch0,nosuch1", 1);
	CHECK(vb_device_table(&table) == 0);
}

static bool sees_address(const struct vb_device *dev, const char *address)
{
	const union ibv_gid value = gid(address);
	const time_t deadline = time(NULL) + 10;

	while (!vb_gid_is_local(dev, &value))
		if (time(NULL) > deadline)
			return false;
	return true;
}

static void changes_are_seen(void)
{
	const union ibv_gid later = gid("::ffff:10.9.8.7");
	const struct vb_device *dev;
	struct ibv_port_attr port;
	int status;

	netns_veth();
	netns_up("lo", true);
	dev = only_device("vb0");
	CHECK(!vb_gid_is_local(dev, &later));
	netns_address("lo:1", "10.9.8.7", "255.255.255.255");
	CHECK(sees_address(dev, "::ffff:10.9.8.7"));
	/* And in a child that inherits the snapshot. */
	if (fork() == 0) {
		netns_address("lo:2", "10.9.8.8", "255.255.255.255");
		_exit(!sees_address(dev, "::ffff:10.9.8.8"));
	}
	CHECK(wait(&status) > 0 && WIFEXITED(status) && !WEXITSTATUS(status));
	netns_up("vb0", false);
	netns_address("lo:3", "10.9.8.9", "255.255.255.255");
	CHECK(sees_address(dev, "::ffff:10.9.8.9"));
	CHECK(!vb_device_port_attr(dev, 1, &port) && port.state == IBV_PORT_DOWN);
}

static void in_namespace(void (*body)(void))
{
	const int result = netns_run(body);

	if (result == NETNS_SKIPPED)
		skip();
	assert_int_equal(result, 0);
}

#define NAMESPACE_TEST(name, body)     \
	static void name(void **state) \
	{                              \
		in_namespace(body);    \
	}

NAMESPACE_TEST(the_default_route_chooses_the_device, chosen_by_route)
NAMESPACE_TEST(the_lid_comes_from_the_address, lid_from_address)
NAMESPACE_TEST(a_lid_of_the_subnet_is_an_address, lids_across_hosts)
NAMESPACE_TEST(loopback_has_no_other_lids, lids_of_loopback)
NAMESPACE_TEST(no_route_is_enetunreach, routes_decide)
NAMESPACE_TEST(a_host_without_network_has_a_device, only_loopback)
NAMESPACE_TEST(names_that_do_not_exist_leave_an_empty_list, unknown_names)
NAMESPACE_TEST(changes_of_addresses_are_seen_also_after_fork, changes_are_seen)

/* --- threads --- */

static void *hammer(void *argument)
{
	const union ibv_gid own = gid("::ffff:127.0.0.1");

	for (int i = 0; i < 20000; i++) {
		union ibv_gid value;

		if (vb_device_gid(device(0), 1, &value) || !vb_gid_equal(&value, &own))
			return argument;
	}
	return NULL;
}

static void threads_share_the_snapshot(void **state)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, "wrong GID"), 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

static void without_a_free_descriptor_the_last_snapshot_counts(void **state)
{
	struct rlimit before;
	const struct vb_netif_snapshot *first = vb_netif_snapshot_get(), *second;

	assert_false(getrlimit(RLIMIT_NOFILE, &before));
	assert_false(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, before.rlim_max }));
	vb_netif_snapshot_expire();
	second = vb_netif_snapshot_get();
	assert_ptr_equal(first, second);
	assert_false(setrlimit(RLIMIT_NOFILE, &before));
	vb_netif_snapshot_put(second);
	second = vb_netif_snapshot_get();
	assert_ptr_not_equal(first, second);
	vb_netif_snapshot_put(second);
	vb_netif_snapshot_put(first);
}

int main(void)
{
	/* The namespaces come first: after them this process makes its own table of devices. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_route_chooses_the_device),
		cmocka_unit_test(the_lid_comes_from_the_address),
		cmocka_unit_test(a_lid_of_the_subnet_is_an_address),
		cmocka_unit_test(loopback_has_no_other_lids),
		cmocka_unit_test(no_route_is_enetunreach),
		cmocka_unit_test(a_host_without_network_has_a_device),
		cmocka_unit_test(names_that_do_not_exist_leave_an_empty_list),
		cmocka_unit_test(changes_of_addresses_are_seen_also_after_fork),
		cmocka_unit_test(a_list_of_devices_is_read_as_documented),
		cmocka_unit_test(the_list_has_a_limit),
		cmocka_unit_test(devices_are_named_in_order_and_unlike_each_other),
		cmocka_unit_test(attributes_are_the_limits),
		cmocka_unit_test(ports_are_as_their_link_layer),
		cmocka_unit_test(only_port_1_exists),
		cmocka_unit_test(entries_tell_empty_from_wrong),
		cmocka_unit_test(every_own_gid_reaches_this_host),
		cmocka_unit_test(ethernet_refuses_what_roce_refuses),
		cmocka_unit_test(loopback_and_groups_go_with_every_source),
		cmocka_unit_test(nothing_but_this_host_is_behind_the_loopback_interface),
		cmocka_unit_test(the_own_lid_is_the_own_port),
		cmocka_unit_test(another_lid_is_somewhere_else),
		cmocka_unit_test(with_a_grh_the_gid_counts_too),
		cmocka_unit_test(threads_share_the_snapshot),
		cmocka_unit_test(without_a_free_descriptor_the_last_snapshot_counts),
	};

	setenv("VERBENA_DEVICES", "lo,ib", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
