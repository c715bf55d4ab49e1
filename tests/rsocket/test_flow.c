/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control: a sender and a receiver that only exchange messages, and peers that lie. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/flow.h"

enum { RING_MAX = 4096, LINE_MAX_COUNT = 4096 };

/* One direction: the sender's window and table, the receiver's ring, and what is on its way. */
struct world {
	struct vb_rs_tx tx;
	struct vb_rs_rx rx;
	uint8_t table[VB_RS_SGL_COUNT * VB_RS_SGE_SIZE];
	uint8_t ring[RING_MAX];
	unsigned slot;                                         /* of the table, written next */
	uint32_t data[LINE_MAX_COUNT], grants[LINE_MAX_COUNT]; /* messages under way */
	unsigned data_head, data_tail, grant_head, grant_tail;
	uint8_t sent, read; /* the next byte of the stream */
};

static void world_init(struct world *world, uint32_t size, uint16_t credits)
{
	const struct vb_rs_conn receiver = {
		.credits = credits,
		.sgl = { 0, 1, VB_RS_SGL_COUNT },
		.data = { 0, 7, size / 2 },
	};

	memset(world, 0, sizeof(*world));
	vb_rs_tx_init(&world->tx, &receiver);
	vb_rs_rx_init(&world->rx, size, credits);
	world->slot = 1;
}

static void send_some(struct world *world, uint32_t size)
{
	const uint32_t room = vb_rs_tx_room(&world->tx);
	struct vb_rs_sge target;

	size = size < room ? size : room;
	if (!size || world->data_tail - world->data_head == LINE_MAX_COUNT)
		return;
	target = vb_rs_tx_take(&world->tx, size);
	assert_int_equal(target.key, 7);
	assert_true(target.addr + size <= 2 * world->rx.half);
	for (uint32_t i = 0; i < size; i++)
		world->ring[target.addr + i] = world->sent++;
	world->data[world->data_tail++ % LINE_MAX_COUNT] = size;
}

static void grant_if_due(struct world *world)
{
	struct vb_rs_grant grant;
	struct vb_rs_sge window = { .key = 7, .length = world->rx.half };

	if (!vb_rs_rx_grant_due(&world->rx))
		return;
	grant = vb_rs_rx_grant(&world->rx);
	if (grant.has_window) {
		window.addr = grant.offset;
		vb_rs_sge_emit(&window, false, world->table + world->slot * VB_RS_SGE_SIZE);
		world->slot = (world->slot + 1) % VB_RS_SGL_COUNT;
	}
	world->grants[world->grant_tail++ % LINE_MAX_COUNT] = grant.operand;
}

static void deliver(struct world *world)
{
	if (world->data_head != world->data_tail)
		assert_int_equal(
			vb_rs_rx_data(&world->rx, world->data[world->data_head++ % LINE_MAX_COUNT]),
			0);
	if (world->grant_head != world->grant_tail && rand() % 2)
		assert_int_equal(vb_rs_tx_grant(&world->tx,
						world->grants[world->grant_head++ % LINE_MAX_COUNT],
						world->table, false),
				 0);
}

static void read_some(struct world *world, uint32_t size)
{
	const uint32_t piece = vb_rs_rx_piece(&world->rx);

	size = size < piece ? size : piece;
	for (uint32_t i = 0; i < size; i++)
		assert_int_equal(world->ring[world->rx.read_offset + i], world->read++);
	vb_rs_rx_consume(&world->rx, size);
}

static void every_byte_arrives_once_and_in_order(void **state)
{
	const uint32_t sizes[] = { 16, 64, 1000, 4096 };
	const uint16_t credits[] = { 1, 2, 16, 0xfffe };

	srand(1);
	for (unsigned i = 0; i < 16; i++) {
		struct world world;
		uint64_t total = 0;

		world_init(&world, sizes[i % 4], credits[i / 4]);
		for (int step = 0; step < 200000; step++) {
			const uint8_t before = world.read;

			send_some(&world, 1 + (uint32_t)rand() % 300);
			deliver(&world);
			if (rand() % 3)
				read_some(&world, 1 + (uint32_t)rand() % 300);
			grant_if_due(&world);
			total += (uint8_t)(world.read - before);
		}
		/* Messages are counted modulo 2^16: several rounds of that. */
		assert_true(total > 100000);
	}
}

static void nothing_is_sent_beyond_credits_and_window(void **state)
{
	struct world world;

	world_init(&world, 100, 3);
	for (int i = 0; i < 10; i++)
		send_some(&world, 1);
	assert_int_equal(world.data_tail, 3); /* credits */
	world_init(&world, 100, 100);
	for (int i = 0; i < 10; i++)
		send_some(&world, 20);
	assert_int_equal(world.sent, 50); /* the first half */
}

static void grants_that_cannot_be_are_refused(void **state)
{
	struct vb_rs_sge window = { 1, 7, 50 };
	struct world world;

	world_init(&world, 100, 16);
	/* acknowledges what was never sent */
	assert_int_equal(vb_rs_tx_grant(&world.tx, 16 + 1, world.table, false), -EPROTO);
	/* takes credits back */
	send_some(&world, 1);
	assert_int_equal(vb_rs_tx_grant(&world.tx, 16 + 1, world.table, false), 0);
	assert_int_equal(vb_rs_tx_grant(&world.tx, 16, world.table, false), -EPROTO);
	/* a buffer again that was not filled */
	vb_rs_sge_emit(&window, false, world.table + VB_RS_SGE_SIZE);
	assert_int_equal(vb_rs_tx_grant(&world.tx, 16 + 1, world.table, false), 0);
	vb_rs_sge_emit(&window, false, world.table);
	assert_int_equal(vb_rs_tx_grant(&world.tx, 16 + 1, world.table, false), -EPROTO);
	/* one that wraps around the end of memory */
	world_init(&world, 100, 16);
	window.addr = UINT64_MAX - 10;
	vb_rs_sge_emit(&window, false, world.table + VB_RS_SGE_SIZE);
	assert_int_equal(vb_rs_tx_grant(&world.tx, 16, world.table, false), -EPROTO);
}

static void data_beyond_the_grant_is_refused(void **state)
{
	struct vb_rs_rx rx;

	vb_rs_rx_init(&rx, 100, 4);
	assert_int_equal(vb_rs_rx_data(&rx, 50), 0);
	assert_int_equal(vb_rs_rx_data(&rx, 1), -EPROTO);
	vb_rs_rx_init(&rx, 100, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(vb_rs_rx_data(&rx, 1), 0);
	assert_int_equal(vb_rs_rx_data(&rx, 1), -EPROTO); /* credits */
	vb_rs_rx_init(&rx, 100, 4);
	assert_int_equal(vb_rs_rx_data(&rx, 0x1fffffff), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_arrives_once_and_in_order),
		cmocka_unit_test(nothing_is_sent_beyond_credits_and_window),
		cmocka_unit_test(grants_that_cannot_be_are_refused),
		cmocka_unit_test(data_beyond_the_grant_is_refused),
	};

	return cmocka_run_group_tests_name("rsocket flow control", tests, NULL, NULL);
}
