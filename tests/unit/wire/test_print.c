/* SPDX-License-Identifier: BSD-2-Clause */
/* The one line of a packet. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void assert_line(const struct vb_packet *packet, const char *expected)
{
	char line[256];

	assert_string_equal(vb_packet_print(packet, line, sizeof(line)), expected);
}

static void a_line_names_what_the_packet_holds(void **state)
{
	const struct {
		struct vb_packet packet;
		const char *line;
	} rows[] = {
		{ { .opcode = 0x04,
		    .pkey = 0xffff,
		    .dest_qpn = 0x11,
		    .psn = 5,
		    .ack_request = true,
		    .payload_length = 13 },
		  "RC SEND_ONLY qp 0x000011 psn 5 ackreq 13 B" },
		{ { .opcode = 0x25,
		    .pkey = 0x7fff,
		    .dest_qpn = 0xabcdef,
		    .psn = 0xffffff,
		    .solicited = true,
		    .migreq = true,
		    .fecn = true,
		    .becn = true,
		    .imm = htonl(0x12345678) },
		  "UC SEND_ONLY_IMM qp 0xabcdef psn 16777215 pkey 0x7fff solicited migreq fecn "
		  "becn imm 0x12345678 0 B" },
		{ { .opcode = 0x11, .pkey = 0xffff, .syndrome = 0x1f, .msn = 7 },
		  "RC ACKNOWLEDGE qp 0x000000 psn 0 ACK msn 7" },
		{ { .opcode = 0x11, .pkey = 0xffff, .syndrome = 0x05, .msn = 7 },
		  "RC ACKNOWLEDGE qp 0x000000 psn 0 ACK credits 5 msn 7" },
		{ { .opcode = 0x11, .pkey = 0xffff, .syndrome = 0x34 },
		  "RC ACKNOWLEDGE qp 0x000000 psn 0 RNR timer 20 msn 0" },
		{ { .opcode = 0x11, .pkey = 0xffff, .syndrome = 0x62 },
		  "RC ACKNOWLEDGE qp 0x000000 psn 0 NAK access msn 0" },
		{ { .opcode = 0x13,
		    .pkey = 0xffff,
		    .va = 0x1000,
		    .rkey = 0x42,
		    .compare = 1,
		    .swap_add = 2 },
		  "RC COMPARE_SWAP qp 0x000000 psn 0 va 0x1000 rkey 0x00000042 compare 0x1 "
		  "swap 0x2" },
		{ { .opcode = 0xb4, .pkey = 0xffff, .srqn = 3, .swap_add = 0x10 },
		  "XRC FETCH_ADD qp 0x000000 psn 0 srq 0x000003 va 0x0 rkey 0x00000000 add 0x10" },
		{ { .opcode = 0x64,
		    .pkey = 0xffff,
		    .dest_qpn = 1,
		    .src_qpn = 1,
		    .qkey = 0x80010000,
		    .payload_length = 256 },
		  "UD SEND_ONLY qp 0x000001 psn 0 from 0x000001 qkey 0x80010000 256 B" },
		{ { .opcode = 0x17, .pkey = 0xffff, .invalidate_rkey = 0x99 },
		  "RC SEND_ONLY_INVALIDATE qp 0x000000 psn 0 invalidate 0x00000099 0 B" },
		{ { .opcode = 0x1c, .pkey = 0xffff, .flush = 0x11, .dma_length = 64 },
		  "RC FLUSH qp 0x000000 psn 0 flush 0x11 va 0x0 rkey 0x00000000 length 64" },
		{ { .opcode = 0xff, .pkey = 0xffff }, "opcode 0xff qp 0x000000 psn 0" },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		assert_line(&rows[i].packet, rows[i].line);
}

static void a_line_fits_into_256_bytes(void **state)
{
	uint64_t seed = 1;

	for (unsigned opcode = 0; opcode < 256; opcode++)
		for (unsigned i = 0; i < 20; i++) {
			struct vb_packet packet = sample_packet((uint8_t)opcode, 4096, &seed);
			char line[1024];

			vb_packet_print(&packet, line, sizeof(line));
			assert_in_range(strlen(line), 20, 255);
		}
}

/* In a block of exactly that size. */
static void a_line_is_cut_at_the_size_given(void **state)
{
	uint64_t seed = 2;
	struct vb_packet packet = sample_packet(0xab, 4096, &seed);
	char whole[256];

	vb_packet_print(&packet, whole, sizeof(whole));
	for (size_t size = 1; size < sizeof(whole); size++) {
		char *line = malloc(size);

		assert_ptr_equal(vb_packet_print(&packet, line, size), line);
		assert_int_equal(strlen(line), strlen(whole) < size ? strlen(whole) : size - 1);
		assert_memory_equal(line, whole, strlen(line));
		free(line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_names_what_the_packet_holds),
		cmocka_unit_test(a_line_fits_into_256_bytes),
		cmocka_unit_test(a_line_is_cut_at_the_size_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
