/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets: bytes and values are each other's inverse, and what is no packet is refused by name. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { ROUNDS = 200 };

static void assert_same_bth(const struct vb_packet *a, const struct vb_packet *b)
{
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->migreq, b->migreq);
	assert_int_equal(a->ack_request, b->ack_request);
	assert_int_equal(a->fecn, b->fecn);
	assert_int_equal(a->becn, b->becn);
	assert_int_equal(a->pad, b->pad);
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
}

static void assert_same_headers(const struct vb_packet *a, const struct vb_packet *b)
{
	assert_true(a->va == b->va);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->dma_length, b->dma_length);
	assert_true(a->swap_add == b->swap_add);
	assert_true(a->compare == b->compare);
	assert_int_equal(a->syndrome, b->syndrome);
	assert_int_equal(a->msn, b->msn);
	assert_true(a->original == b->original);
	assert_int_equal(a->qkey, b->qkey);
	assert_int_equal(a->src_qpn, b->src_qpn);
	assert_int_equal(a->srqn, b->srqn);
	assert_int_equal(a->flush, b->flush);
	assert_int_equal(a->imm, b->imm);
	assert_int_equal(a->invalidate_rkey, b->invalidate_rkey);
	assert_int_equal(a->flush, b->flush);
}

static void assert_inverse(uint8_t opcode, uint64_t *seed)
{
	struct vb_packet packet = sample_packet(opcode, VB_MTU_MAX, seed), back;
	uint8_t *bytes = sample_bytes(&packet, seed), again[VB_HEADERS_MAX];
	size_t length = vb_packet_length(&packet), headers;

	memset(&back, 0xee, sizeof(back));
	assert_int_equal(vb_packet_parse(bytes, length, &back), VB_PACKET_OK);
	assert_same_bth(&packet, &back);
	assert_same_headers(&packet, &back);
	assert_int_equal(back.payload_length, packet.payload_length);
	memset(again, 0xee, sizeof(again));
	headers = vb_packet_emit(&back, again);
	assert_int_equal(headers, vb_opcode_row(opcode)->headers_length);
	assert_ptr_equal(back.payload, bytes + headers);
	assert_memory_equal(again, bytes, headers);
	assert_int_equal(vb_packet_length(&back), length);
	free(bytes);
}

static void every_opcode_parses_to_what_was_emitted(void **state)
{
	uint64_t seed = 1;

	for (unsigned opcode = 0; opcode < 256; opcode++)
		for (unsigned i = 0; vb_opcode_row((uint8_t)opcode)->name && i < ROUNDS; i++)
			assert_inverse((uint8_t)opcode, &seed);
}

/* Cut to each length, in a block that ends there. */
static void assert_no_prefix_is_a_longer_packet(uint8_t opcode, uint64_t *seed)
{
	const struct vb_opcode_row *row = vb_opcode_row(opcode);
	struct vb_packet packet = sample_packet(opcode, 300, seed), back;
	uint8_t *bytes = sample_bytes(&packet, seed);

	for (size_t length = 0; length < vb_packet_length(&packet); length++) {
		uint8_t *cut = malloc(length ? length : 1);
		enum vb_packet_flaw fault;

		memcpy(cut, bytes, length);
		fault = vb_packet_parse(cut, length, &back);
		if (length < row->headers_length + 4u || row->payload_exact)
			assert_true(fault == VB_PACKET_TRUNCATED || fault == VB_PACKET_UNALIGNED);
		else if ((length - row->headers_length) % 4)
			assert_int_equal(fault, VB_PACKET_UNALIGNED);
		else if (length - row->headers_length - 4 < packet.pad)
			assert_int_equal(fault, VB_PACKET_TRUNCATED);
		else
			assert_int_equal(back.payload_length,
					 length - row->headers_length - 4 - packet.pad);
		free(cut);
	}
	free(bytes);
}

static void a_packet_cut_anywhere_is_refused_or_shorter(void **state)
{
	uint64_t seed = 2;

	for (unsigned opcode = 0; opcode < 256; opcode++)
		if (vb_opcode_row((uint8_t)opcode)->name)
			assert_no_prefix_is_a_longer_packet((uint8_t)opcode, &seed);
}

static void below_its_headers_and_icrc_a_packet_is_truncated(void **state)
{
	uint64_t seed = 3;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		struct vb_packet packet = sample_packet((uint8_t)opcode, 0, &seed), back;
		size_t least = vb_opcode_row((uint8_t)opcode)->headers_length + 4u;
		uint8_t *bytes;

		if (!vb_opcode_row((uint8_t)opcode)->name)
			continue;
		bytes = sample_bytes(&packet, &seed);
		for (size_t length = 0; length < least; length++)
			assert_int_equal(vb_packet_parse(bytes, length, &back),
					 VB_PACKET_TRUNCATED);
		free(bytes);
	}
}

/* An opcode with room more bytes behind its headers than fit. */
static enum vb_packet_flaw parse_with_room(uint8_t opcode, size_t room, unsigned pad)
{
	size_t length = vb_opcode_row(opcode)->headers_length + room + VB_ICRC_LENGTH;
	uint8_t *bytes = calloc(1, length);
	enum vb_packet_flaw fault;
	struct vb_packet packet;

	bytes[0] = opcode;
	bytes[1] = (uint8_t)(pad << 4);
	fault = vb_packet_parse(bytes, length, &packet);
	free(bytes);
	return fault;
}

static void more_payload_than_any_mtu_is_oversized(void **state)
{
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct vb_opcode_row *row = vb_opcode_row((uint8_t)opcode);
		size_t most = row->payload_exact ? row->payload_exact
			      : row->has_payload ? VB_MTU_MAX
						 : 0;

		if (!row->name)
			continue;
		assert_int_equal(parse_with_room((uint8_t)opcode, most, 0), VB_PACKET_OK);
		assert_int_equal(parse_with_room((uint8_t)opcode, most + 4, 0),
				 VB_PACKET_OVERSIZED);
		assert_int_equal(parse_with_room((uint8_t)opcode, 60000, 0), VB_PACKET_OVERSIZED);
		assert_int_equal(parse_with_room((uint8_t)opcode, 60000, 3), VB_PACKET_OVERSIZED);
	}
}

static void payload_and_pad_are_a_multiple_of_four(void **state)
{
	for (unsigned room = 0; room < 64; room++)
		for (unsigned pad = 0; pad < 4; pad++) {
			enum vb_packet_flaw fault = parse_with_room(VB_OP_SEND_ONLY, room, pad);

			assert_int_equal(fault, room % 4     ? VB_PACKET_UNALIGNED
						: room < pad ? VB_PACKET_TRUNCATED
							     : VB_PACKET_OK);
		}
}

static void a_pad_where_there_is_no_payload_is_refused(void **state)
{
	for (unsigned pad = 1; pad < 4; pad++) {
		assert_int_equal(parse_with_room(VB_OP_ACKNOWLEDGE, 0, pad), VB_PACKET_TRUNCATED);
		assert_int_equal(parse_with_room(VB_OP_ACKNOWLEDGE, 4, pad), VB_PACKET_OVERSIZED);
		assert_int_equal(parse_with_room(VB_OP_ATOMIC_WRITE, 8, pad), VB_PACKET_TRUNCATED);
	}
}

static void unknown_opcodes_and_versions_are_refused(void **state)
{
	uint8_t bytes[64] = { 0 };
	struct vb_packet packet;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		bytes[0] = (uint8_t)opcode;
		bytes[1] = 0;
		if (!vb_opcode_row((uint8_t)opcode)->name)
			assert_int_equal(vb_packet_parse(bytes, sizeof(bytes), &packet),
					 VB_PACKET_UNKNOWN);
		for (bytes[1] = 1; bytes[1] < 16; bytes[1]++)
			assert_int_equal(vb_packet_parse(bytes, sizeof(bytes), &packet),
					 VB_PACKET_VERSION);
	}
}

/* Each bit that the IBA reserves, set alone in a packet that is good without it. */
static void reserved_bits_mean_nothing(void **state)
{
	static const struct {
		uint8_t opcode, at, bits;
	} reserved[] = {
		{ 0x04, 4, 0x3f },  { 0x04, 8, 0x7f },  { 0x64, 16, 0xe0 }, { 0xa4, 12, 0xff },
		{ 0x1c, 12, 0xff }, { 0x1c, 13, 0xff }, { 0x1c, 14, 0xff }, { 0x1c, 15, 0xc0 },
		{ 0x81, 12, 0xff }, { 0x81, 27, 0xff },
	};
	struct vb_packet packet, plain;

	for (size_t i = 0; i < COUNT(reserved); i++) {
		size_t length = vb_opcode_row(reserved[i].opcode)->headers_length + VB_ICRC_LENGTH;
		uint8_t bytes[VB_HEADERS_MAX] = { reserved[i].opcode };

		assert_int_equal(vb_packet_parse(bytes, length, &plain), VB_PACKET_OK);
		assert_false(plain.reserved);
		for (unsigned bit = 1; bit < 256; bit <<= 1) {
			bytes[reserved[i].at] = (uint8_t)bit;
			assert_int_equal(vb_packet_parse(bytes, length, &packet), VB_PACKET_OK);
			assert_int_equal(packet.reserved, (bit & reserved[i].bits) != 0);
			assert_int_equal(vb_packet_parse_again(bytes, &packet), VB_PACKET_OK);
			assert_int_equal(packet.reserved, (bit & reserved[i].bits) != 0);
			if (packet.reserved)
				assert_same_headers(&packet, &plain);
		}
	}
}

static void reserved_syndromes_are_refused(void **state)
{
	uint8_t bytes[20] = { VB_OP_ACKNOWLEDGE };
	struct vb_packet packet;

	for (unsigned syndrome = 0; syndrome < 256; syndrome++) {
		bool good = syndrome < 0x40 || (syndrome >= 0x60 && syndrome <= 0x64);

		bytes[12] = (uint8_t)syndrome;
		assert_int_equal(vb_packet_parse(bytes, sizeof(bytes), &packet),
				 good ? VB_PACKET_OK : VB_PACKET_SYNDROME);
	}
}

/* RC WRITE_ONLY_IMM of one byte, composed by hand from the figures of the IBA. */
static void a_packet_written_by_hand_reads_as_meant(void **state)
{
	/* clang-format off */
	static const uint8_t bytes[] = {
		0x0b, 0xf0, 0x12, 0x34, 0xc0, 0xab, 0xcd, 0xef, 0x80, 0xff, 0xff, 0xfe,
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1,
		0xca, 0xfe, 0xba, 0xbe, 0x5a, 0, 0, 0, 1, 2, 3, 4,
	};
	/* clang-format on */
	struct vb_packet packet;

	assert_int_equal(vb_packet_parse(bytes, sizeof(bytes), &packet), VB_PACKET_OK);
	assert_true(packet.solicited && packet.migreq && packet.ack_request && packet.fecn &&
		    packet.becn);
	assert_int_equal(packet.pad, 3);
	assert_int_equal(packet.pkey, 0x1234);
	assert_int_equal(packet.dest_qpn, 0xabcdef);
	assert_int_equal(packet.psn, 0xfffffe);
	assert_true(packet.va == 0x0102030405060708u);
	assert_int_equal(packet.rkey, 0x11223344);
	assert_int_equal(packet.dma_length, 1);
	assert_int_equal(ntohl(packet.imm), 0xcafebabe);
	assert_int_equal(packet.payload_length, 1);
	assert_int_equal(packet.payload[0], 0x5a);
}

static void the_next_packet_differs_in_psn_and_ack_request(void **state)
{
	uint8_t bytes[12 + 64 + 4] = { 0x07, 0x40, 0xff, 0xff, 0, 1, 2, 3, 0x80, 0xff, 0xff, 0xff };
	uint8_t next[sizeof(bytes)];
	struct vb_packet packet, whole;

	assert_int_equal(vb_packet_parse(bytes, sizeof(bytes), &packet), VB_PACKET_OK);
	memcpy(next, bytes, sizeof(next));
	next[8] = next[9] = next[10] = next[11] = 0;
	assert_int_equal(vb_packet_parse(next, sizeof(next), &whole), VB_PACKET_OK);
	vb_packet_parse_next(next, &packet);
	assert_false(packet.ack_request || packet.reserved);
	assert_int_equal(packet.psn, 0);
	assert_ptr_equal(packet.payload, whole.payload);
	assert_int_equal(packet.payload_length, whole.payload_length);
	next[8] = 0x01;
	vb_packet_parse_next(next, &packet);
	assert_true(packet.reserved);
}

static void psns_compare_across_the_wrap(void **state)
{
	assert_int_equal(vb_psn_diff(0, 0xffffff), 1);
	assert_int_equal(vb_psn_diff(0xffffff, 0), -1);
	assert_int_equal(vb_psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(vb_psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(vb_psn_diff(5, 5), 0);
	assert_int_equal(vb_psn_add(0xffffff, 2), 1);
}

static void every_flaw_has_a_name(void **state)
{
	for (unsigned a = 0; a < VB_PACKET_FLAWS; a++)
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(vb_packet_flaw_name(a), vb_packet_flaw_name(b));
	assert_string_equal(vb_packet_flaw_name(VB_PACKET_FLAWS), "unknown flaw");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_parses_to_what_was_emitted),
		cmocka_unit_test(a_packet_cut_anywhere_is_refused_or_shorter),
		cmocka_unit_test(below_its_headers_and_icrc_a_packet_is_truncated),
		cmocka_unit_test(more_payload_than_any_mtu_is_oversized),
		cmocka_unit_test(payload_and_pad_are_a_multiple_of_four),
		cmocka_unit_test(a_pad_where_there_is_no_payload_is_refused),
		cmocka_unit_test(unknown_opcodes_and_versions_are_refused),
		cmocka_unit_test(reserved_bits_mean_nothing),
		cmocka_unit_test(reserved_syndromes_are_refused),
		cmocka_unit_test(a_packet_written_by_hand_reads_as_meant),
		cmocka_unit_test(the_next_packet_differs_in_psn_and_ack_request),
		cmocka_unit_test(psns_compare_across_the_wrap),
		cmocka_unit_test(every_flaw_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
