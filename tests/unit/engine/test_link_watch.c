/* SPDX-License-Identifier: BSD-2-Clause */
/* Port events: what happens to the interface is told to whoever opened the device. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../netns.h"
#include "engine/engine.h"
#include "engine/link_watch.h"
#include "net/gid.h"

enum { PATIENCE_MS = 20000 };

static struct vb_context *open_context(const char *device)
{
	struct vb_context *ctx = calloc(1, sizeof(*ctx));
	struct vb_device *const *table;

	setenv("VERBENA_DEVICES", device, 1);
	CHECK(ctx && vb_device_table(&table) == 1);
	ctx->dev = table[0];
	CHECK(!vb_async_init(ctx));
	vb_link_watch_add(ctx);
	return ctx;
}

static bool next_event(struct vb_context *ctx, int timeout_ms, struct ibv_async_event *event)
{
	struct pollfd ready = { .fd = ctx->verbs.context.async_fd, .events = POLLIN };

	return poll(&ready, 1, timeout_ms) == 1 && !vb_async_take(&ctx->verbs.context, event);
}

/* Addresses come and go with the link: their events may be in between. */
static void expect(struct vb_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		CHECK(next_event(ctx, PATIENCE_MS, &event));
		CHECK(event.element.port_num == 1);
		CHECK(event.event_type == type || event.event_type == IBV_EVENT_GID_CHANGE);
	} while (event.event_type != type);
}

static enum ibv_port_state state_of(const struct vb_context *ctx)
{
	struct ibv_port_attr attr;

	CHECK(!vb_device_port_attr(ctx->dev, 1, &attr));
	return attr.state;
}

static void expect_ipv4(struct vb_context *ctx, const char *text)
{
	union ibv_gid gid;
	uint8_t address[4];

	CHECK(inet_pton(AF_INET, text, address) == 1);
	do {
		expect(ctx, IBV_EVENT_GID_CHANGE);
		CHECK(!vb_device_gid(ctx->dev, VB_GID_IPV4, &gid));
	} while (memcmp(gid.raw + 12, address, sizeof(address)) != 0);
}

static void a_link_that_goes_down_and_up(void)
{
	struct ibv_async_event event;
	struct vb_context *ctx;

	netns_veth();
	ctx = open_context("vb0");
	CHECK(state_of(ctx) == IBV_PORT_ACTIVE);
	CHECK(!vb_engine_start(vb_nic_get()));
	for (int i = 0; i < 3; i++) {
		netns_up("vb0", false);
		expect(ctx, IBV_EVENT_PORT_ERR);
		/* At once: who was told must not read the old state. */
		CHECK(state_of(ctx) == IBV_PORT_DOWN);
		netns_up("vb0", true);
		expect(ctx, IBV_EVENT_PORT_ACTIVE);
		CHECK(state_of(ctx) == IBV_PORT_ACTIVE);
	}
	/* The carrier goes when the other end does. */
	netns_up("veth0", false);
	expect(ctx, IBV_EVENT_PORT_ERR);
	netns_up("veth0", true);
	expect(ctx, IBV_EVENT_PORT_ACTIVE);
	netns_address("vb0", "192.0.2.33", "255.255.255.0");
	expect_ipv4(ctx, "192.0.2.33");
	vb_link_watch_remove(ctx);
	netns_up("vb0", false);
	CHECK(!vb_link_compare());
	while (next_event(ctx, 0, &event))
		CHECK(event.event_type == IBV_EVENT_GID_CHANGE); /* from before */
}

static void whoever_opened_the_device_is_told(void **state)
{
	int result = netns_run(a_link_that_goes_down_and_up);

	if (result == NETNS_SKIPPED)
		skip();
	assert_int_equal(result, 0);
}

/* Before there is a service thread changes are not seen, but they are not forgotten either. */
static void what_changed_early_is_told_later_in_namespace(void)
{
	struct ibv_async_event event;
	struct vb_context *ctx;

	netns_veth();
	ctx = open_context("vb0");
	netns_up("vb0", false);
	CHECK(!next_event(ctx, 0, &event));
	CHECK(!vb_engine_start(vb_nic_get()));
	expect(ctx, IBV_EVENT_PORT_ERR);
}

static void what_changed_early_is_told_later(void **state)
{
	int result = netns_run(what_changed_early_is_told_later_in_namespace);

	if (result == NETNS_SKIPPED)
		skip();
	assert_int_equal(result, 0);
}

/*
 * An InfiniBand port whose interface comes to another IP subnet has another subnet manager there.
 */
static void a_port_that_changes_its_subnet(void)
{
	struct ibv_async_event event;
	struct vb_context *ctx;

	netns_veth();
	netns_default_route("192.0.2.1");
	ctx = open_context("ib");
	/* No service thread: it might look while the kernel replaces the address. */
	netns_address("vb0", "192.0.2.9", "255.255.255.0");
	CHECK(vb_link_compare());
	expect(ctx, IBV_EVENT_LID_CHANGE);
	CHECK(!next_event(ctx, 0, &event)); /* the same subnet */
	netns_address("vb0", "203.0.113.9", "255.255.255.0");
	CHECK(vb_link_compare());
	expect(ctx, IBV_EVENT_SM_CHANGE);
	expect(ctx, IBV_EVENT_CLIENT_REREGISTER);
	CHECK(!next_event(ctx, 0, &event)); /* the same LID */
}

static void another_subnet_is_told(void **state)
{
	int result = netns_run(a_port_that_changes_its_subnet);

	if (result == NETNS_SKIPPED)
		skip();
	assert_int_equal(result, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_opened_the_device_is_told),
		cmocka_unit_test(what_changed_early_is_told_later),
		cmocka_unit_test(another_subnet_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
