/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as frames: what comes out are packets, whatever comes in. */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "abi/flush.h"
#include "capture/frame.h"

enum { MESSAGE = 2500, MTU = 1024, FRAMES = 16 };

static struct vb_capture_framer framer;

/* The packets of one record, parsed. */
struct packets {
	unsigned count;
	uint8_t opcodes[FRAMES];
	uint32_t psns[FRAMES], payloads[FRAMES];
	uint8_t syndrome;
	uint64_t original;
	bool out[FRAMES];
};

static void packet_take(void *arg, const struct vb_capture_frame *frame)
{
	struct packets *packets = arg;
	const uint32_t headers = 14 + (frame->bytes[12] == 0x86 ? 40 : 20) + 8;
	struct vb_packet packet;

	assert_in_range(packets->count, 0, FRAMES - 1);
	assert_int_equal(vb_packet_parse(frame->bytes + headers, frame->kept - headers, &packet),
			 VB_PACKET_OK);
	packets->opcodes[packets->count] = packet.opcode;
	packets->psns[packets->count] = packet.psn;
	packets->payloads[packets->count] = packet.payload_length;
	packets->out[packets->count] = frame->out;
	packets->syndrome = packet.syndrome;
	packets->original = packet.original;
	packets->count++;
}

/* A work request on an RC QP, that succeeds. */
struct record {
	struct vb_capture_work work;
	uint8_t payload[MESSAGE + 8];
};

static void record_fill(struct record *record, uint8_t opcode, uint32_t length)
{
	*record = (struct record){ 0 };
	record->work = (struct vb_capture_work){
		.head = { .size = sizeof(*record) & ~7u, .kind = VB_CAPTURE_WORK },
		.qpn = 0x123456,
		.dest_qpn = 0x654321,
		.psn = 0xffffff, /* PSNs wrap */
		.length = length,
		.count = (length + MTU - 1) / MTU ? (length + MTU - 1) / MTU : 1,
		.mtu = MTU,
		.bytes = VB_CAPTURE_ALL,
		.pkey = 0xffff,
		.opcode = opcode,
		.type = IBV_QPT_RC,
		.answers = 1,
		.syndrome = VB_CREDITS_NONE,
		.original = 42,
	};
	record->work.sgid[10] = record->work.sgid[11] = 0xff;
	record->work.dgid[10] = record->work.dgid[11] = 0xff;
}

static struct packets packets_of(const struct record *record)
{
	struct packets packets = { 0 };

	vb_capture_frames(&framer, &record->work.head, packet_take, &packets);
	return packets;
}

static void a_long_send_is_cut_and_acknowledged(void **state)
{
	struct record record;
	struct packets packets;

	(void)state;
	record_fill(&record, IBV_WR_SEND_WITH_IMM, MESSAGE);
	packets = packets_of(&record);
	assert_int_equal(packets.count, 4);
	assert_int_equal(packets.opcodes[0], VB_OP_SEND_FIRST);
	assert_int_equal(packets.opcodes[1], VB_OP_SEND_MIDDLE);
	assert_int_equal(packets.opcodes[2], VB_OP_SEND_LAST_IMM);
	assert_int_equal(packets.opcodes[3], VB_OP_ACKNOWLEDGE);
	assert_int_equal(packets.psns[1], 0);
	assert_int_equal(packets.psns[3], 1);
	assert_int_equal(packets.payloads[2], MESSAGE - 2 * MTU);
	assert_true(packets.out[2]);
	assert_false(packets.out[3]);
}

static void a_read_is_answered_by_its_bytes(void **state)
{
	struct record record;
	struct packets packets;

	(void)state;
	record_fill(&record, IBV_WR_RDMA_READ, MESSAGE);
	packets = packets_of(&record);
	assert_int_equal(packets.count, 4);
	assert_int_equal(packets.opcodes[0], VB_OP_READ_REQUEST);
	assert_int_equal(packets.opcodes[1], VB_OP_READ_RESPONSE_FIRST);
	assert_int_equal(packets.opcodes[3], VB_OP_READ_RESPONSE_LAST);
	assert_int_equal(packets.psns[1], 0xffffff);
	assert_int_equal(packets.payloads[0], 0);
}

static void atomics_and_flushes_have_answers_of_their_own(void **state)
{
	static const uint8_t rows[][3] = {
		{ IBV_WR_ATOMIC_CMP_AND_SWP, VB_OP_COMPARE_SWAP, VB_OP_ATOMIC_ACKNOWLEDGE },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, VB_OP_FETCH_ADD, VB_OP_ATOMIC_ACKNOWLEDGE },
		{ IBV_WR_ATOMIC_WRITE, VB_OP_ATOMIC_WRITE, VB_OP_READ_RESPONSE_ONLY },
		{ IBV_WR_FLUSH, VB_OP_FLUSH, VB_OP_READ_RESPONSE_ONLY },
	};
	struct record record;
	struct packets packets;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		record_fill(&record, rows[i][0], rows[i][0] == IBV_WR_FLUSH ? 0 : 8);
		record.work.operand[1] = rows[i][0] == IBV_WR_FLUSH ? 1 : 0;
		packets = packets_of(&record);
		assert_int_equal(packets.count, 2);
		assert_int_equal(packets.opcodes[0], rows[i][1]);
		assert_int_equal(packets.opcodes[1], rows[i][2]);
		if (i < 2)
			assert_int_equal(packets.original, 42);
	}
}

static void a_refusal_is_a_nak_of_its_packet(void **state)
{
	struct record record;
	struct packets packets;

	(void)state;
	record_fill(&record, IBV_WR_SEND, MESSAGE);
	record.work.count = 2;
	record.work.naked = 1;
	record.work.syndrome = VB_NAK_INVALID_REQUEST;
	packets = packets_of(&record);
	assert_int_equal(packets.count, 3);
	assert_int_equal(packets.opcodes[2], VB_OP_ACKNOWLEDGE);
	assert_int_equal(packets.syndrome, VB_NAK_INVALID_REQUEST);
	assert_int_equal(packets.psns[2], 0);
}

static void a_cut_packet_is_a_packet(void **state)
{
	struct record record;
	struct packets packets;

	(void)state;
	record_fill(&record, IBV_WR_SEND, MESSAGE);
	record.work.bytes = 66;
	packets = packets_of(&record);
	assert_int_equal(packets.count, 4);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(packets.payloads[i], 64);
}

static void any_take(void *arg, const struct vb_capture_frame *frame)
{
	uint64_t *sum = arg;

	assert_in_range(frame->kept, 14, VB_CAPTURE_FRAME_MAX);
	for (uint32_t i = 0; i < frame->kept; i++)
		*sum += frame->bytes[i];
}

/* Under AddressSanitizer this finds a byte outside of the record. */
static void a_record_of_random_bytes_harms_nobody(void **state)
{
	uint64_t sum = 0;

	(void)state;
	srandom(7);
	for (unsigned turn = 0; turn < 20000; turn++) {
		uint32_t size = 40 + 8 * (uint32_t)(random() % 40);
		struct vb_capture_head *record = malloc(size);
		uint8_t *bytes = (void *)record;

		for (uint32_t i = 0; i < size; i++)
			bytes[i] = random() % 3 ? (uint8_t)(random() % 8) : (uint8_t)random();
		record->size = size;
		record->kind = (uint16_t)(random() % 8);
		record->text = 0;
		if (size >= sizeof(struct vb_capture_work) && record->kind == VB_CAPTURE_WORK) {
			struct vb_capture_work *work = (void *)record;

			work->mtu = 1024;
			work->count = (uint32_t)(random() % 5);
			work->first = (uint32_t)(random() % 5);
		}
		vb_capture_frames(&framer, record, any_take, &sum);
		free(record);
	}
	assert_int_not_equal(sum, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_send_is_cut_and_acknowledged),
		cmocka_unit_test(a_read_is_answered_by_its_bytes),
		cmocka_unit_test(atomics_and_flushes_have_answers_of_their_own),
		cmocka_unit_test(a_refusal_is_a_nak_of_its_packet),
		cmocka_unit_test(a_cut_packet_is_a_packet),
		cmocka_unit_test(a_record_of_random_bytes_harms_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
