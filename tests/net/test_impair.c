/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of impair, without a network: fates, frames, the delay line, the relay. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "frame.h"
#include "relay.h"

enum { PAYLOAD = 100, FRAME_SIZE = 14 + 20 + 8 + PAYLOAD };

/* Field by field: the bytes between them mean nothing. */
static bool same_fate(const struct fate *a, const struct fate *b)
{
	return a->lost == b->lost && a->duplicated == b->duplicated &&
	       a->reordered == b->reordered && a->corrupted == b->corrupted &&
	       a->tampered == b->tampered && a->overtakers == b->overtakers &&
	       a->delay_us == b->delay_us && a->bit == b->bit;
}

static void test_fates_follow_from_the_seed(void **state)
{
	struct fate_odds odds = { .loss = 20000, .reorder = 10000, .overtakers_max = 3 };
	unsigned lost = 0, differ = 0;

	for (uint64_t i = 0; i < 100000; i++) {
		struct fate one = fate_of(&odds, 1, A_TO_B, i), same = fate_of(&odds, 1, A_TO_B, i);
		struct fate back = fate_of(&odds, 1, B_TO_A, i),
			    other = fate_of(&odds, 2, A_TO_B, i);

		assert_true(same_fate(&one, &same));
		assert_in_range(one.overtakers, 1, 3);
		lost += one.lost;
		differ += (one.lost != back.lost) + (one.lost != other.lost);
	}
	assert_in_range(lost, 1800, 2200);
	assert_true(differ > 4000);
}

static void test_one_chance_does_not_move_the_others(void **state)
{
	struct fate_odds odds = { .loss = 20000 }, more = { .loss = 20000, .duplicate = 500000 };

	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(fate_of(&odds, 9, B_TO_A, i).lost,
				 fate_of(&more, 9, B_TO_A, i).lost);
}

static void test_odds_are_parsed(void **state)
{
	static const char *const wrong[] = { "", "x", "101", "-1", "1,", "1,2,3", "nan", "1 " };
	uint32_t odds[2];

	assert_int_equal(odds_parse("2", odds), 0);
	assert_true(odds[0] == 20000 && odds[1] == 20000);
	assert_int_equal(odds_parse("0.5,100", odds), 0);
	assert_true(odds[0] == 5000 && odds[1] == 1000000);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(odds_parse(wrong[i], odds), -EINVAL);
}

/* An IPv4 UDP frame to a port, with its checksum. */
static void make_frame(uint8_t *frame, uint16_t port, uint8_t number)
{
	static const uint8_t head[] = { 0x08, 0, 0x45, 0, 0,  20 + 8 + PAYLOAD,
					0,    0, 0x40, 0, 64, 17,
					0,    0, 10,   0, 0,  1,
					10,   0, 0,    2 };
	uint32_t sum = 0;

	memset(frame, 0, FRAME_SIZE);
	memcpy(frame + 12, head, sizeof(head));
	frame[34] = 0xc0;
	frame[36] = (uint8_t)(port >> 8);
	frame[37] = (uint8_t)port;
	frame[39] = 8 + PAYLOAD;
	memset(frame + 42, number, PAYLOAD);
	for (int i = 26; i < FRAME_SIZE; i += 2)
		sum += (uint32_t)(frame[i] << 8 | frame[i + 1]);
	sum += 17 + 8 + PAYLOAD;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	frame[40] = (uint8_t)(~sum >> 8);
	frame[41] = (uint8_t)~sum;
}

/* Over pseudo header and datagram; right if all ones. */
static uint16_t checksum(const uint8_t *frame)
{
	uint32_t sum = 17 + 8 + PAYLOAD;

	for (int i = 26; i < FRAME_SIZE; i += 2)
		sum += (uint32_t)(frame[i] << 8 | frame[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

static void test_frames_are_told_apart(void **state)
{
	uint8_t frame[FRAME_SIZE];

	make_frame(frame, 4791, 1);
	assert_int_equal(frame_look(frame, FRAME_SIZE).kind, FRAME_ROCE);
	assert_int_equal(frame_look(frame, 41).kind, FRAME_OTHER);
	frame[20] = 0x20; /* more fragments */
	assert_int_equal(frame_look(frame, FRAME_SIZE).kind, FRAME_OTHER);
	make_frame(frame, 4792, 1);
	assert_int_equal(frame_look(frame, FRAME_SIZE).kind, FRAME_UDP);
	frame[23] = 6;
	assert_int_equal(frame_look(frame, FRAME_SIZE).kind, FRAME_TCP);
	frame[13] = 6; /* ARP */
	assert_int_equal(frame_look(frame, FRAME_SIZE).kind, FRAME_OTHER);
}

static void test_every_short_frame_is_survived(void **state)
{
	for (size_t length = 0; length <= FRAME_SIZE; length++) {
		uint8_t *frame = malloc(length + 1), whole[FRAME_SIZE];

		make_frame(whole, 4791, 7);
		memcpy(frame, whole, length);
		for (uint64_t bit = 0; bit < 2000; bit += 111) {
			frame_corrupt(frame, length, bit);
			frame_tamper(frame, length, bit);
		}
		free(frame);
	}
}

static void test_tampering_keeps_the_checksum_right(void **state)
{
	uint8_t frame[FRAME_SIZE], before[FRAME_SIZE];

	for (uint64_t bit = 0; bit < PAYLOAD * 8; bit++) {
		make_frame(frame, 4791, (uint8_t)bit);
		memcpy(before, frame, FRAME_SIZE);
		assert_int_equal(checksum(frame), 0xffff);
		assert_true(frame_tamper(frame, FRAME_SIZE, bit));
		assert_memory_not_equal(frame + 42, before + 42, PAYLOAD);
		assert_int_equal(checksum(frame), 0xffff);
	}
}

static void test_the_delay_line_is_in_order_of_time_then_of_arrival(void **state)
{
	struct delay_line line;
	struct delayed out;
	uint64_t last_due = 0, last_number = 0;

	assert_int_equal(delay_line_open(&line, 1000), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(delay_line_put(&line, (uint8_t *)&i, sizeof(i), i * 7919 % 100));
	assert_false(delay_line_put(&line, (uint8_t *)"", 1, 0));
	assert_int_equal(delay_line_next_ns(&line), 0);
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(delay_line_take(&line, 99, &out));
		assert_true(out.due_ns > last_due || !i ||
			    (out.due_ns == last_due && out.number > last_number));
		last_due = out.due_ns;
		last_number = out.number;
		free(out.bytes);
	}
	assert_false(delay_line_take(&line, UINT64_MAX, &out));
	delay_line_close(&line);
}

struct rig {
	struct relay relay;
	int out; /* what the relay delivers */
};

static void rig_open(struct rig *rig, struct fate_odds odds)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
	*rig = (struct rig){
		.relay = { .in = -1, .out = pair[0], .kinds = FRAME_ROCE, .seed = 5, .odds = odds },
		.out = pair[1]
	};
	assert_int_equal(relay_open(&rig->relay, 16), 0);
}

static void rig_close(struct rig *rig)
{
	relay_close(&rig->relay);
	close(rig->relay.out);
	close(rig->out);
}

static void rig_put(struct rig *rig, uint8_t number, uint64_t now_ns)
{
	uint8_t frame[FRAME_SIZE];

	make_frame(frame, 4791, number);
	relay_take(&rig->relay, frame, FRAME_SIZE, now_ns);
}

/* The number of the next frame that came out; -1: none. */
static int rig_get(struct rig *rig)
{
	uint8_t frame[FRAME_SIZE];

	return recv(rig->out, frame, sizeof(frame), 0) == FRAME_SIZE ? frame[60] : -1;
}

static void test_a_reordered_frame_is_overtaken_by_one(void **state)
{
	struct rig rig;

	rig_open(&rig, (struct fate_odds){ .reorder = 1000000, .overtakers_max = 1 });
	rig_put(&rig, 1, 0);
	assert_int_equal(rig_get(&rig), -1);
	rig.relay.odds.reorder = 0;
	rig_put(&rig, 2, 0);
	assert_int_equal(rig_get(&rig), 2);
	assert_int_equal(rig_get(&rig), 1);
	rig_close(&rig);
}

static void test_a_reordered_frame_does_not_wait_for_ever(void **state)
{
	struct rig rig;

	rig_open(&rig, (struct fate_odds){ .reorder = 1000000, .overtakers_max = 1 });
	rig_put(&rig, 1, 0);
	assert_int_equal(relay_next_ns(&rig.relay), 5000000);
	relay_release(&rig.relay, 4999999);
	assert_int_equal(rig_get(&rig), -1);
	relay_release(&rig.relay, 5000000);
	assert_int_equal(rig_get(&rig), 1);
	assert_true(relay_next_ns(&rig.relay) == UINT64_MAX);
	rig_close(&rig);
}

static void test_a_rate_spaces_frames(void **state)
{
	struct rig rig;
	uint64_t each_ns = FRAME_SIZE * 8 * 1000ull;

	rig_open(&rig, (struct fate_odds){ .overtakers_max = 1 });
	rig.relay.rate_bps = 1000000;
	for (uint8_t i = 0; i < 20; i++)
		rig_put(&rig, i, 0);
	assert_int_equal(rig.relay.counts.overflowed, 4);
	for (uint8_t i = 0; i < 16; i++) {
		assert_int_equal(relay_next_ns(&rig.relay), (i + 1) * each_ns);
		relay_release(&rig.relay, (i + 1) * each_ns);
		assert_int_equal(rig_get(&rig), i);
		assert_int_equal(rig_get(&rig), -1);
	}
	rig_close(&rig);
}

static void test_every_frame_is_accounted_for(void **state)
{
	struct rig rig;

	rig_open(&rig, (struct fate_odds){ .loss = 100000,
					   .duplicate = 100000,
					   .reorder = 100000,
					   .corrupt = 100000,
					   .overtakers_max = 3 });
	for (unsigned i = 0; i < 5000; i++) {
		rig.relay.partitioned = i % 100 == 0;
		rig_put(&rig, (uint8_t)i, i);
		while (rig_get(&rig) >= 0)
			;
	}
	relay_release(&rig.relay, 1000000000);
	struct relay_counts *c = &rig.relay.counts;

	assert_int_equal(c->partitioned, 50);
	assert_int_equal(c->frames, 5000);
	assert_int_equal(c->subject, 4950);
	assert_int_equal(c->refused, 0);
	assert_int_equal(c->delivered, c->subject - c->lost + c->duplicated);
	assert_true(c->lost > 400 && c->duplicated > 300 && c->reordered > 300 &&
		    c->corrupted > 300);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fates_follow_from_the_seed),
		cmocka_unit_test(test_one_chance_does_not_move_the_others),
		cmocka_unit_test(test_odds_are_parsed),
		cmocka_unit_test(test_frames_are_told_apart),
		cmocka_unit_test(test_every_short_frame_is_survived),
		cmocka_unit_test(test_tampering_keeps_the_checksum_right),
		cmocka_unit_test(test_the_delay_line_is_in_order_of_time_then_of_arrival),
		cmocka_unit_test(test_a_reordered_frame_is_overtaken_by_one),
		cmocka_unit_test(test_a_reordered_frame_does_not_wait_for_ever),
		cmocka_unit_test(test_a_rate_spaces_frames),
		cmocka_unit_test(test_every_frame_is_accounted_for),
	};

	return cmocka_run_group_tests_name("impair", tests, NULL, NULL);
}
