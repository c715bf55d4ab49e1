/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of work request opcodes against the man pages of the calls, and against itself. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nic/wr_opcode.h"
#include "wire/opcode.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { READS = 1, RETURNS = 2, INLINE = 4, WORD = 8, STAYS = 16 };

/*
 * Transports: the table of ibv_post_send(3), or ibv_wr_post(3) for ATOMIC_WRITE and FLUSH, which
 * the former lacks. A capital letter: this device has it. A small letter: only the page has it.
 * Completions: ibv_poll_cq(3). Rights: ibv_reg_mr(3) and ibv_modify_qp(3).
 */
static const struct fact {
	enum ibv_wr_opcode opcode;
	const char *words;
	const char *transports; /* Datagram, Unreliable and Reliable connected, Xrc, Frames */
	enum ibv_wc_opcode wc, recv;
	unsigned recv_flags, access, flags;
} facts[] = {
	{ IBV_WR_SEND, "send", "DURXF", IBV_WC_SEND, IBV_WC_RECV, 0, 0, INLINE },
	{ IBV_WR_SEND_WITH_IMM, "send-with-imm", "DURX", IBV_WC_SEND, IBV_WC_RECV, IBV_WC_WITH_IMM,
	  0, INLINE },
	{ IBV_WR_SEND_WITH_INV, "send-with-inv", "uRX", IBV_WC_SEND, IBV_WC_RECV, IBV_WC_WITH_INV,
	  0, INLINE },
	{ IBV_WR_RDMA_WRITE, "rdma-write", "URX", IBV_WC_RDMA_WRITE, 0, 0, IBV_ACCESS_REMOTE_WRITE,
	  INLINE },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, "rdma-write-with-imm", "URX", IBV_WC_RDMA_WRITE,
	  IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, IBV_ACCESS_REMOTE_WRITE, INLINE },
	{ IBV_WR_RDMA_READ, "rdma-read", "RX", IBV_WC_RDMA_READ, 0, 0, IBV_ACCESS_REMOTE_READ,
	  READS | RETURNS },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, "atomic-cmp-and-swp", "RX", IBV_WC_COMP_SWAP, 0, 0,
	  IBV_ACCESS_REMOTE_ATOMIC, READS | RETURNS | WORD },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, "atomic-fetch-and-add", "RX", IBV_WC_FETCH_ADD, 0, 0,
	  IBV_ACCESS_REMOTE_ATOMIC, READS | RETURNS | WORD },
	{ IBV_WR_ATOMIC_WRITE, "atomic-write", "RX", IBV_WC_ATOMIC_WRITE, 0, 0,
	  IBV_ACCESS_REMOTE_WRITE, READS | INLINE | WORD },
	{ IBV_WR_FLUSH, "flush", "RX", IBV_WC_FLUSH, 0, 0, 0, READS },
	{ IBV_WR_LOCAL_INV, "local-inv", "URX", IBV_WC_LOCAL_INV, 0, 0, 0, STAYS },
	{ IBV_WR_BIND_MW, "bind-mw", "URX", IBV_WC_BIND_MW, 0, 0, 0, STAYS },
	{ IBV_WR_TSO, "tso", "dF", IBV_WC_TSO, 0, 0, 0, 0 },
};

static const struct {
	char letter;
	enum ibv_qp_type type;
	uint8_t packets; /* enum vb_transport */
} transports[] = {
	{ 'D', IBV_QPT_UD, VB_TRANSPORT_UD }, { 'U', IBV_QPT_UC, VB_TRANSPORT_UC },
	{ 'R', IBV_QPT_RC, VB_TRANSPORT_RC }, { 'X', IBV_QPT_XRC_SEND, VB_TRANSPORT_XRC },
	{ 'F', IBV_QPT_RAW_PACKET, 0 },
};

static const struct fact *fact_of(unsigned opcode)
{
	for (size_t i = 0; i < COUNT(facts); i++)
		if (facts[i].opcode == opcode)
			return &facts[i];
	return NULL;
}

static void each_transport_has_the_opcodes_of_the_man_page(void **state)
{
	for (size_t i = 0; i < COUNT(facts); i++) {
		const struct vb_wr_row *row = vb_wr_row_any(facts[i].opcode);
		unsigned all = 0;

		for (size_t t = 0; t < COUNT(transports); t++) {
			bool has = strchr(facts[i].transports, transports[t].letter);

			if (vb_wr_on(row, transports[t].type) != has)
				fail_msg("%s on transport %c", row->name, transports[t].letter);
			all |= 1u << transports[t].type;
		}
		assert_int_equal(row->transports & ~all, 0); /* XRC_RECV sends nothing */
	}
}

static void each_opcode_completes_as_the_man_page_says(void **state)
{
	for (size_t i = 0; i < COUNT(facts); i++) {
		const struct vb_wr_row *row = vb_wr_row(facts[i].opcode);

		assert_int_equal(row->wc_opcode, facts[i].wc);
		assert_int_equal(row->recv_opcode, facts[i].recv);
		assert_int_equal(row->recv_flags, facts[i].recv_flags);
		assert_int_equal(vb_wr_consumes(facts[i].opcode), facts[i].recv != 0);
		assert_int_equal(vb_wr_has_imm(facts[i].opcode),
				 facts[i].recv_flags == IBV_WC_WITH_IMM);
	}
}

static void each_opcode_needs_its_right_and_has_its_nature(void **state)
{
	for (size_t i = 0; i < COUNT(facts); i++) {
		const uint8_t opcode = (uint8_t)facts[i].opcode;
		const struct vb_wr_row *row = vb_wr_row(opcode);

		assert_int_equal(row->access, facts[i].access);
		assert_int_equal(vb_wr_reads(opcode), !!(facts[i].flags & READS));
		assert_int_equal(vb_wr_returns(opcode), !!(facts[i].flags & RETURNS));
		assert_int_equal(vb_wr_is_word(opcode), !!(facts[i].flags & WORD));
		assert_int_equal(vb_wr_stays(opcode), !!(facts[i].flags & STAYS));
		assert_int_equal(!!(row->flags & VB_WR_INLINE), !!(facts[i].flags & INLINE));
	}
}

/* The two names of an opcode differ in letters and dashes only. */
static void each_opcode_is_called_as_in_the_enumeration(void **state)
{
	for (size_t i = 0; i < COUNT(facts); i++) {
		const struct vb_wr_row *row = vb_wr_row(facts[i].opcode);

		assert_string_equal(row->words, facts[i].words);
		assert_int_equal(strlen(row->name), strlen(row->words));
		for (const char *c = row->words; *c; c++)
			assert_int_equal(row->name[c - row->words],
					 *c == '-' ? '_' : toupper((unsigned char)*c));
	}
}

static bool says_nothing(const struct vb_wr_row *row)
{
	return !row->transports && !row->create_flag && !row->wc_opcode && !row->recv_opcode &&
	       !row->recv_flags && !row->access && !row->family && !row->flags;
}

/* The driver's opcode has a name, for ibv_wr_opcode_str, and nothing else. */
static void values_that_are_no_opcodes_of_the_device_have_empty_rows(void **state)
{
	static const unsigned beyond[] = { 16, 99, 255, 256 + IBV_WR_SEND, INT32_MAX, UINT32_MAX };

	for (unsigned opcode = 0; opcode < VB_WR_OPCODE_COUNT; opcode++) {
		const struct vb_wr_row *row = vb_wr_row_any(opcode);
		const bool named = fact_of(opcode) || opcode == IBV_WR_DRIVER1;

		assert_int_equal(row->name != NULL, named);
		assert_int_equal(row->words != NULL, named);
		assert_int_equal(says_nothing(row), !fact_of(opcode));
	}
	for (size_t i = 0; i < COUNT(beyond); i++) {
		const struct vb_wr_row *row = vb_wr_row_any(beyond[i]);

		assert_true(says_nothing(row) && !row->name && !row->words);
	}
}

/* ibv_create_qp_ex(3): one flag per operation. */
static void each_opcode_has_a_create_flag_of_its_own(void **state)
{
	unsigned all = 0;

	for (size_t i = 0; i < COUNT(facts); i++) {
		const unsigned flag = vb_wr_row(facts[i].opcode)->create_flag;

		assert_true(flag && !(flag & (flag - 1)) && !(all & flag));
		all |= flag;
	}
	assert_int_equal(vb_wr_row(IBV_WR_SEND)->create_flag, IBV_QP_EX_WITH_SEND);
	assert_int_equal(vb_wr_row(IBV_WR_ATOMIC_WRITE)->create_flag, IBV_QP_EX_WITH_ATOMIC_WRITE);
	assert_int_equal(vb_wr_row(IBV_WR_FLUSH)->create_flag, IBV_QP_EX_WITH_FLUSH);
}

static bool transport_has(uint8_t transport, uint8_t family)
{
	for (unsigned operation = 0; operation < 0x20; operation++)
		if (vb_opcode_row((uint8_t)(transport | operation))->family == family)
			return true;
	return false;
}

/* An opcode has packets on each transport that takes it, unless it stays here or is a frame. */
static void each_opcode_that_leaves_has_packets(void **state)
{
	for (size_t i = 0; i < COUNT(facts); i++) {
		const struct vb_wr_row *row = vb_wr_row(facts[i].opcode);
		const bool packets = !(facts[i].flags & STAYS) && facts[i].opcode != IBV_WR_TSO;

		assert_int_equal(row->family != VB_FAMILY_UNKNOWN, packets);
		for (size_t t = 0; packets && t < COUNT(transports); t++)
			if (transports[t].letter != 'F' && vb_wr_on(row, transports[t].type))
				assert_true(transport_has(transports[t].packets, row->family));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_transport_has_the_opcodes_of_the_man_page),
		cmocka_unit_test(each_opcode_completes_as_the_man_page_says),
		cmocka_unit_test(each_opcode_needs_its_right_and_has_its_nature),
		cmocka_unit_test(each_opcode_is_called_as_in_the_enumeration),
		cmocka_unit_test(values_that_are_no_opcodes_of_the_device_have_empty_rows),
		cmocka_unit_test(each_opcode_has_a_create_flag_of_its_own),
		cmocka_unit_test(each_opcode_that_leaves_has_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
