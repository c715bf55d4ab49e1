/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules that make GIDs, GUIDs and LIDs, on interfaces written down here. */
#include <arpa/inet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/if.h>

#include <cmocka.h>

#include "net/gid.h"
#include "net/netif.h"
#include "nic/device.h"

#define UP (IFF_UP | IFF_RUNNING)

enum { ETH0 = 2, ETH1, WG0, LO };

static struct vb_netif netifs[] = {
	{ .index = LO, .flags = UP | IFF_LOOPBACK, .mtu = 65536, .name = "lo" },
	{ .index = ETH0,
	  .flags = UP,
	  .mtu = 1500,
	  .has_mac = true,
	  .mac = { 0x02, 0xfc, 0x00, 0x12, 0x34, 0x56 },
	  .name = "eth0" },
	{ .index = ETH1,
	  .flags = IFF_UP,
	  .mtu = 9000,
	  .has_mac = true,
	  .mac = { 0x52, 0x54, 0x00, 0xaa, 0xbb, 0xcc },
	  .name = "eth1" },
	{ .index = WG0, .flags = UP, .mtu = 1420, .name = "wg0" },
};

static struct vb_netif_addr addrs[VB_GIDS + 32];
static struct vb_netif_snapshot all = { .netif_count = 4, .netifs = netifs, .addrs = addrs };

static union ibv_gid gid(const char *text)
{
	union ibv_gid value;

	assert_int_equal(inet_pton(AF_INET6, text, value.raw), 1);
	return value;
}

static void add(int ifindex, const char *address, uint8_t prefix_bits)
{
	assert_true(all.addr_count < sizeof(addrs) / sizeof(*addrs));
	addrs[all.addr_count++] = (struct vb_netif_addr){ .gid = gid(address),
							  .ifindex = ifindex,
							  .prefix_bits = prefix_bits };
}

static int no_addresses(void **state)
{
	all.addr_count = 0;
	memset(addrs, 0, sizeof(addrs));
	return 0;
}

static const struct vb_netif *netif(const char *name)
{
	return vb_netif_by_name(&all, name);
}

static void assert_table(const char *name, const char *const *expected, size_t expected_count)
{
	union ibv_gid table[VB_GIDS];
	char text[VB_GID_TEXT];

	memset(table, 0xee, sizeof(table));
	vb_gid_table_fill(&all, netif(name), table);
	for (size_t i = 0; i < VB_GIDS; i++) {
		const union ibv_gid want = gid(i < expected_count ? expected[i] : "::");

		if (!vb_gid_equal(&table[i], &want))
			fail_msg("%s, GID %zu is %s", name, i, vb_gid_print(&table[i], text));
	}
}

#define ASSERT_TABLE(name, ...)                             \
	assert_table(name, (const char *[]){ __VA_ARGS__ }, \
		     sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *))

/* --- tables --- */

static void link_local_comes_from_the_mac_when_the_kernel_has_none(void **state)
{
	add(ETH0, "::ffff:192.0.2.7", 24);
	ASSERT_TABLE("eth0", "fe80::fc:ff:fe12:3456", "::ffff:192.0.2.7");
}

static void link_local_is_the_kernels_own_when_there_is_one(void **state)
{
	add(ETH0, "2001:db8::7", 64);
	add(ETH0, "fe80::abcd:1:2:3", 64);
	add(ETH0, "::ffff:192.0.2.7", 24);
	add(ETH1, "fe80::1", 64);
	ASSERT_TABLE("eth0", "fe80::abcd:1:2:3", "::ffff:192.0.2.7", "2001:db8::7");
}

static void of_link_local_addresses_the_oldest_comes_first(void **state)
{
	add(ETH0, "fe80::99", 64); /* the kernel lists new ones first */
	add(ETH0, "fe80::77", 64);
	add(ETH0, "fe80::abcd:1:2:3", 64);
	add(ETH0, "2001:db8::7", 64);
	addrs[0].created = 300;
	addrs[1].created = addrs[2].created = 100;
	addrs[3].created = 200;
	ASSERT_TABLE("eth0", "fe80::abcd:1:2:3", "::", "fe80::77", "2001:db8::7", "fe80::99");
}

static void every_ipv4_address_is_a_gid_the_first_at_its_place(void **state)
{
	add(ETH1, "::ffff:198.51.100.1", 24);
	add(ETH0, "::ffff:192.0.2.7", 24);
	add(ETH0, "::ffff:192.0.2.8", 24);
	add(ETH0, "2001:db8::7", 64);
	addrs[2].created = 20;
	addrs[3].created = 10;
	ASSERT_TABLE("eth0", "fe80::fc:ff:fe12:3456", "::ffff:192.0.2.7", "2001:db8::7",
		     "::ffff:192.0.2.8");
}

/* The kernel lists the newest IPv6 address first. */
static void an_address_that_is_added_moves_no_other(void **state)
{
	add(ETH0, "2001:db8::9", 64);
	add(ETH0, "2001:db8::8", 64);
	add(ETH0, "2001:db8::7", 64);
	addrs[0].created = 30;
	addrs[1].created = 20;
	addrs[2].created = 10;
	ASSERT_TABLE("eth0", "fe80::fc:ff:fe12:3456", "::", "2001:db8::7", "2001:db8::8",
		     "2001:db8::9");
}

static void the_oldest_addresses_have_the_table(void **state)
{
	const union ibv_gid oldest = gid("2001:db8::7");
	union ibv_gid table[VB_GIDS];

	for (int i = 0; i < 20; i++) {
		add(ETH0, i == 19 ? "2001:db8::7" : "2001:db8::8", 64);
		addrs[i].created = 100 - (uint32_t)i;
	}
	vb_gid_table_fill(&all, netif("eth0"), table);
	assert_true(vb_gid_equal(&table[VB_GID_OTHERS], &oldest));
	assert_true(vb_gid_is_zero(&table[VB_GIDS - 1]));
}

static void without_ipv4_its_entry_stays_empty(void **state)
{
	add(ETH0, "2001:db8::7", 64);
	ASSERT_TABLE("eth0", "fe80::fc:ff:fe12:3456", "::", "2001:db8::7");
}

static void a_tentative_address_is_not_a_gid_yet(void **state)
{
	add(ETH0, "2001:db8::7", 64);
	addrs[0].tentative = true;
	add(ETH0, "2001:db8::8", 64);
	ASSERT_TABLE("eth0", "fe80::fc:ff:fe12:3456", "::", "2001:db8::8");
}

static void one_entry_stays_empty_however_many_addresses(void **state)
{
	union ibv_gid table[VB_GIDS];

	for (int i = 0; i < VB_GIDS + 4; i++)
		add(ETH0, "2001:db8::7", 64);
	vb_gid_table_fill(&all, netif("eth0"), table);
	assert_false(vb_gid_is_zero(&table[VB_GIDS - 2]));
	assert_true(vb_gid_is_zero(&table[VB_GIDS - 1]));
}

static void loopback_has_its_two_addresses_even_when_down(void **state)
{
	ASSERT_TABLE("lo", "fe80::200:5efe:7f00:1", "::ffff:127.0.0.1", "::1");
	add(LO, "::ffff:10.1.2.3", 32);
	add(LO, "::ffff:127.0.0.1", 8);
	add(LO, "::1", 128);
	ASSERT_TABLE("lo", "fe80::200:5efe:7f00:1", "::ffff:127.0.0.1", "::1");
}

static void an_interface_without_mac_is_known_by_its_address(void **state)
{
	add(WG0, "::ffff:10.8.0.2", 32);
	ASSERT_TABLE("wg0", "fe80::200:5efe:a08:2", "::ffff:10.8.0.2");
}

/* --- tables that change --- */

static void assert_kept(const char *const before[5], const char *const filled[5],
			const char *const expected[5])
{
	union ibv_gid old[VB_GIDS] = { 0 }, table[VB_GIDS] = { 0 };
	char text[VB_GID_TEXT];

	for (int i = 0; i < 5; i++) {
		old[i] = gid(before[i]);
		table[i] = gid(filled[i]);
	}
	vb_gid_table_keep(old, table);
	for (int i = 0; i < VB_GIDS; i++) {
		const union ibv_gid want = gid(i < 5 ? expected[i] : "::");

		if (!vb_gid_equal(&table[i], &want))
			fail_msg("GID %d is %s", i, vb_gid_print(&table[i], text));
	}
}

#define ROW(...) ((const char *const[5]){ __VA_ARGS__ })

static void an_address_keeps_its_index(void **state)
{
	/* none before */
	assert_kept(ROW("::", "::", "::", "::", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.7", "2001:db8::7", "2001:db8::8", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.7", "2001:db8::7", "2001:db8::8", "::"));
	/* one was removed */
	assert_kept(ROW("fe80::1", "::ffff:192.0.2.7", "2001:db8::7", "2001:db8::8", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.7", "2001:db8::8", "::", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.7", "::", "2001:db8::8", "::"));
	/* another one takes its place */
	assert_kept(ROW("fe80::1", "::ffff:192.0.2.7", "::", "2001:db8::8", "::"),
		    ROW("fe80::2", "::ffff:192.0.2.7", "2001:db8::8", "2001:db8::9", "::"),
		    ROW("fe80::2", "::ffff:192.0.2.7", "2001:db8::9", "2001:db8::8", "::"));
	/* the interface was away */
	assert_kept(ROW("::", "::", "::", "2001:db8::8", "::"), ROW("::", "::", "::", "::", "::"),
		    ROW("::", "::", "::", "::", "::"));
}

static void gid_1_is_an_ipv4_address_while_there_is_one(void **state)
{
	/* another order of the same two */
	assert_kept(ROW("fe80::1", "::ffff:192.0.2.7", "::ffff:192.0.2.8", "::", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.8", "::ffff:192.0.2.7", "::", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.7", "::ffff:192.0.2.8", "::", "::"));
	/* the first is gone */
	assert_kept(ROW("fe80::1", "::ffff:192.0.2.7", "2001:db8::7", "::ffff:192.0.2.8", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.8", "2001:db8::7", "::", "::"),
		    ROW("fe80::1", "::ffff:192.0.2.8", "2001:db8::7", "::", "::"));
}

static void gid_0_stays_while_it_is_an_address(void **state)
{
	/* the order of two changed */
	assert_kept(ROW("fe80::1", "::", "fe80::2", "::", "::"),
		    ROW("fe80::2", "::", "fe80::1", "::", "::"),
		    ROW("fe80::1", "::", "fe80::2", "::", "::"));
	/* a new one */
	assert_kept(ROW("fe80::1", "::", "2001:db8::7", "::", "::"),
		    ROW("fe80::2", "::", "fe80::1", "2001:db8::7", "::"),
		    ROW("fe80::1", "::", "2001:db8::7", "fe80::2", "::"));
	/* the first is gone */
	assert_kept(ROW("fe80::1", "::", "2001:db8::7", "fe80::2", "::"),
		    ROW("fe80::2", "::", "2001:db8::7", "::", "::"),
		    ROW("fe80::2", "::", "2001:db8::7", "::", "::"));
}

/* --- the interface of a device --- */

static struct vb_device device_on(const char *name)
{
	const struct vb_netif *its = netif(name);
	struct vb_device dev = { .ifindex = its->index,
				 .no_mac = !its->has_mac,
				 .system_image_guid = vb_netif_guid(&all, its) };

	strcpy(dev.netdev, name);
	return dev;
}

/* What becomes of one interface: another index, name, MAC. */
static void assert_found(const char *name, const struct vb_netif *becomes)
{
	struct vb_netif *its = (struct vb_netif *)netif(name), before = *its;
	const struct vb_device dev = device_on(name);

	*its = *becomes;
	if (vb_device_netif(&dev, &all) != its)
		fail_msg("%s is lost as number %d, %s", name, becomes->index, becomes->name);
	*its = before;
}

static void a_device_finds_its_interface_again(void **state)
{
	struct vb_netif eth0 = *netif("eth0"), wg0 = *netif("wg0");

	eth0.index = wg0.index = 70;
	assert_found("eth0", &eth0);
	assert_found("wg0", &wg0);
	eth0 = *netif("eth0");
	eth0.mac[5]++;
	assert_found("eth0", &eth0);
	eth0 = *netif("eth0");
	strcpy(eth0.name, "rdma0");
	assert_found("eth0", &eth0);
	wg0 = *netif("wg0");
	strcpy(wg0.name, "tunnel0");
	assert_found("wg0", &wg0);
}

static void another_interface_with_its_number_is_not_its_own(void **state)
{
	struct vb_device dev = device_on("eth0");

	strcpy(dev.netdev, "gone0");
	dev.ifindex = ETH1;
	assert_null(vb_device_netif(&dev, &all));
	dev.ifindex = WG0;
	assert_null(vb_device_netif(&dev, &all));
}

/* --- identity --- */

static void the_infiniband_port_has_a_guid_of_its_own(void **state)
{
	add(WG0, "::ffff:10.8.0.2", 32);
	for (size_t i = 0; i < all.netif_count; i++)
		assert_int_not_equal(vb_netif_guid(&all, &netifs[i]),
				     vb_netif_guid_infiniband(&all, &netifs[i]));
}

static void guids_of_interfaces_differ(void **state)
{
	for (size_t i = 0; i < all.netif_count; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(vb_netif_guid(&all, &netifs[i]),
					     vb_netif_guid(&all, &netifs[k]));
}

static void the_lid_is_the_host_part_of_the_address(void **state)
{
	static const struct {
		const char *address;
		uint8_t prefix_bits;
		uint16_t lid;
	} rows[] = {
		{ "::ffff:192.0.2.7", 24, 7 },
		{ "::ffff:10.1.2.3", 16, 0x0203 },
		{ "::ffff:10.1.191.255", 16, 0xBFFF },
		{ "::ffff:10.1.192.0", 16, 1 }, /* a multicast LID */
		{ "::ffff:10.1.2.3", 8, 1 },    /* too large */
		{ "::ffff:10.1.2.3", 32, 1 },   /* no host part */
		{ "::ffff:192.0.2.0", 24, 1 },  /* reserved */
		{ "::ffff:10.1.2.3", 0, 1 },
		{ "2001:db8::7", 64, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		all.addr_count = 0;
		add(ETH0, rows[i].address, rows[i].prefix_bits);
		assert_int_equal(vb_netif_lid(&all, netif("eth0")), rows[i].lid);
	}
}

/* --- locality --- */

static void what_belongs_to_this_host(void **state)
{
	static const struct {
		const char *gid;
		bool local;
	} rows[] = {
		{ "::ffff:192.0.2.7", true },
		{ "::ffff:192.0.2.9", false },
		{ "::ffff:127.0.0.1", true },
		{ "::ffff:127.9.9.9", true },
		{ "::1", true },
		{ "::2", false },
		{ "2001:db8::7", true },
		{ "2001:db8::8", false },
		{ "fe80::5054:ff:feaa:bbcc", true },
		{ "fe80::5054:ff:feaa:bbcd", false },
		{ "fe80::fc:ff:fe12:3456", true },
		{ "fe80:0:0:1:fc:ff:fe12:3456", false },
		{ "fe80::200:5efe:7f00:1", true },
		{ "::", false },
	};

	add(ETH0, "::ffff:192.0.2.7", 24);
	add(ETH1, "2001:db8::7", 64);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const union ibv_gid value = gid(rows[i].gid);

		if (vb_gid_is_of_host(&all, &value) != rows[i].local)
			fail_msg("%s", rows[i].gid);
	}
}

static void which_gids_are_groups(void **state)
{
	static const struct {
		const char *gid;
		bool multicast;
	} rows[] = {
		{ "ff02::1", true },           { "ff0e::ffff:e600:1", true },
		{ "::ffff:224.0.0.1", true },  { "::ffff:239.255.255.255", true },
		{ "::ffff:240.0.0.1", false }, { "::ffff:223.255.255.255", false },
		{ "fe80::1", false },          { "::e000:1", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const union ibv_gid value = gid(rows[i].gid);

		if (vb_gid_is_multicast(&value) != rows[i].multicast)
			fail_msg("%s", rows[i].gid);
	}
}

/* --- choice of the interface --- */

static void the_default_route_chooses_the_interface(void **state)
{
	static const struct {
		int ipv4, ipv6;
		const char *name;
	} rows[] = {
		{ ETH1, ETH0, "eth1" }, /* even without a carrier */
		{ 0, WG0, "wg0" },
		{ 0, 0, "eth0" }, /* the first that is up and not lo */
		{ 99, 0, "eth0" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_string_equal(vb_netif_choose(&all, rows[i].ipv4, rows[i].ipv6)->name,
				    rows[i].name);
}

static void without_a_route_an_interface_with_an_address_is_chosen(void **state)
{
	add(ETH0, "fe80::1", 64);
	assert_string_equal(vb_netif_choose(&all, 0, 0)->name, "eth0");
	add(WG0, "::ffff:10.8.0.2", 32);
	assert_string_equal(vb_netif_choose(&all, 0, 0)->name, "wg0");
	add(ETH0, "2001:db8::7", 64);
	assert_string_equal(vb_netif_choose(&all, 0, 0)->name, "eth0");
}

static void loopback_is_chosen_when_nothing_else_is_up(void **state)
{
	struct vb_netif down[2] = { netifs[2],
				    { .index = LO, .flags = IFF_LOOPBACK, .name = "lo" } };
	const struct vb_netif_snapshot few = { .netif_count = 2, .netifs = down };
	const struct vb_netif_snapshot none = { .netif_count = 0 };

	assert_string_equal(vb_netif_choose(&few, 0, 0)->name, "lo");
	assert_null(vb_netif_choose(&none, 0, 0));
}

/* The kernel says RUNNING a while after the carrier is there. */
static void an_interface_that_just_came_up_is_chosen(void **state)
{
	struct vb_netif young[2] = {
		{ .index = LO, .flags = UP | IFF_LOOPBACK, .name = "lo" },
		{ .index = ETH0, .flags = IFF_UP | IFF_LOWER_UP, .name = "eth0" }
	};
	const struct vb_netif_snapshot pair = { .netif_count = 2, .netifs = young };

	assert_string_equal(vb_netif_choose(&pair, 0, 0)->name, "eth0");
	young[1].flags |= IFF_DORMANT;
	assert_string_equal(vb_netif_choose(&pair, 0, 0)->name, "lo");
}

#define TEST(name) cmocka_unit_test_setup(name, no_addresses)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(link_local_comes_from_the_mac_when_the_kernel_has_none),
		TEST(link_local_is_the_kernels_own_when_there_is_one),
		TEST(of_link_local_addresses_the_oldest_comes_first),
		TEST(every_ipv4_address_is_a_gid_the_first_at_its_place),
		TEST(an_address_that_is_added_moves_no_other),
		TEST(the_oldest_addresses_have_the_table),
		TEST(without_ipv4_its_entry_stays_empty),
		TEST(a_tentative_address_is_not_a_gid_yet),
		TEST(one_entry_stays_empty_however_many_addresses),
		TEST(a_device_finds_its_interface_again),
		TEST(another_interface_with_its_number_is_not_its_own),
		TEST(an_address_keeps_its_index),
		TEST(gid_0_stays_while_it_is_an_address),
		TEST(gid_1_is_an_ipv4_address_while_there_is_one),
		TEST(loopback_has_its_two_addresses_even_when_down),
		TEST(an_interface_without_mac_is_known_by_its_address),
		TEST(the_infiniband_port_has_a_guid_of_its_own),
		TEST(guids_of_interfaces_differ),
		TEST(the_lid_is_the_host_part_of_the_address),
		TEST(what_belongs_to_this_host),
		TEST(which_gids_are_groups),
		TEST(the_default_route_chooses_the_interface),
		TEST(without_a_route_an_interface_with_an_address_is_chosen),
		TEST(loopback_is_chosen_when_nothing_else_is_up),
		TEST(an_interface_that_just_came_up_is_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
