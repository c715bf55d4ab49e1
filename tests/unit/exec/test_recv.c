/* SPDX-License-Identifier: BSD-2-Clause */
/* Consuming a receive at the target, which is this process: find, check, fill, complete. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../nic/rq_rig.h"
#include "base/clock.h"
#include "exec/recv.h"

enum { QPN = 0x1234, DEPTH = 4 };

static struct vb_qp_entry entry;
static struct vb_qp_lent *lent;
static struct vb_cq_shared cq;
static struct vb_remote remote;
static struct vb_claim claim;

static void open_remote(bool many)
{
	rq_open(DEPTH, many);
	memset(&entry, 0, sizeof(entry));
	memset(&cq, 0, sizeof(cq));
	entry.qpn = QPN;
	entry.pd = rig.pd->id + 1;
	atomic_store(&entry.gate, vb_gate(1, VB_PKEY_DEFAULT, IBV_QPS_RTS));
	entry.lent = vb_segment_lend(&rig.nic->seg, sizeof(*lent));
	lent = vb_peer_qp_lent(rig.nic->self, &entry);
	remote = (struct vb_remote){ .peer = rig.nic->self,
				     .home = rig.nic->self,
				     .pd = rig.pd->id + 1, /* of the QP: nothing to receives */
				     .recv_pd = rig.pd->id,
				     .entry = &entry,
				     .lent = lent,
				     .rq = sender_queue(),
				     .rq_lent = sender_lent(),
				     .cells = sender_cell(0),
				     .spill = rq.spill,
				     .sges = rq.sges,
				     .mask = rq.mask,
				     .sges_stride = rq.sges_stride,
				     .cq = &cq,
				     .many = many };
	claim = (struct vb_claim){ 0 };
	atomic_store(&rig.nic->seg.lent->attention, 0);
}

static int open_one(void **state)
{
	open_remote(false);
	return 0;
}

static int open_many(void **state)
{
	open_remote(true);
	return 0;
}

static int close_remote(void **state)
{
	atomic_store(&rig.nic->seg.lent->attention, 0);
	vb_segment_free(&rig.nic->seg, entry.lent, sizeof(*lent));
	rq_close();
	return 0;
}

static uint32_t attention(void)
{
	return atomic_load(&rig.nic->seg.lent->attention);
}

/* A small message into the receive that was claimed. */
static enum vb_reason complete(const char *text, enum vb_reason reason, bool *lost)
{
	struct vb_message message = { .length = (uint32_t)strlen(text),
				      .src_qpn = 0x77,
				      .wc_opcode = IBV_WC_RECV };
	uint8_t *ride = vb_recv_ride(&remote, &claim, message.length);

	assert_non_null(ride);
	memcpy(ride, text, message.length);
	claim.cell->where = ride == claim.cell->payload ? VB_PAYLOAD_INLINE : VB_PAYLOAD_SPILL;
	return vb_recv_complete(&remote, &claim, &message, reason, lost);
}

static void send_text(const char *text)
{
	bool lost;

	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(vb_recv_check(&remote, &claim, (uint32_t)strlen(text), true), VB_OK);
	assert_int_equal(complete(text, VB_OK, &lost), VB_OK);
	assert_false(lost);
}

/* --- finding --- */

static void without_a_posted_receive_nothing_is_found(void **state)
{
	assert_false(vb_recv_claim(&remote, &claim));
	post_ids(0, 1);
	send_text("a");
	assert_false(vb_recv_claim(&remote, &claim));
}

static void messages_go_into_receives_in_the_order_of_posting(void **state)
{
	for (uint64_t id = 0; id < 20; id += 2) {
		post_ids(id, 2);
		send_text("first");
		send_text("and second");
		assert_polls(id, id + 1, NOTHING);
		assert_memory_equal(&memory[id * RECEIVE_SIZE], "first", 5);
		assert_memory_equal(&memory[(id + 1) * RECEIVE_SIZE], "and second", 10);
	}
}

static void what_another_sender_has_taken_is_passed_over(void **state)
{
	post_ids(0, 3);
	take(0, 9);
	send_text("b");
	assert_int_equal(claim.index, 1);
	assert_polls(1, NOTHING);
}

static void a_long_message_keeps_the_receive_that_it_took(void **state)
{
	post_ids(0, 2);
	assert_true(vb_recv_claim(&remote, &claim));
	remote.holds_taken = true;
	remote.taken = claim.index;
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(claim.index, 0);
	assert_cell(1, VB_CELL_POSTED);
}

static void a_datagram_that_does_not_fit_leaves_the_receive(void **state)
{
	post_ids(0, 1);
	claim.fit = RECEIVE_SIZE + 1;
	assert_true(vb_recv_claim(&remote, &claim));
	assert_true(claim.too_short);
	assert_cell(0, VB_CELL_POSTED);
	claim.fit = RECEIVE_SIZE;
	assert_true(vb_recv_claim(&remote, &claim));
	assert_false(claim.too_short);
	assert_cell(0, VB_CELL_TAKEN);
}

static void what_is_not_used_is_given_back_to_the_end(void **state)
{
	post_ids(0, 2);
	assert_true(vb_recv_claim(&remote, &claim));
	vb_recv_unclaim(&remote, &claim);
	assert_cell(0, VB_CELL_RETURNED);
	assert_true(attention() & VB_ATTN_SRQ);
	assert_polls(NOTHING);
	send_text("x");
	send_text("y");
	assert_polls(1, 0, NOTHING);
}

static void the_limit_is_reported_once_when_fewer_are_left(void **state)
{
	post_ids(0, 4);
	atomic_store(&remote.rq_lent->limit, 2);
	send_text("a");
	send_text("b");
	assert_int_equal(atomic_load(&remote.rq_lent->limit_reached), 0);
	send_text("c");
	assert_int_equal(atomic_exchange(&remote.rq_lent->limit_reached, 0), 1);
	assert_int_equal(atomic_load(&remote.rq_lent->limit), 0);
	send_text("d");
	assert_int_equal(atomic_load(&remote.rq_lent->limit_reached), 0);
}

/* --- checking --- */

static void room_and_keys_are_checked_in_this_order(void **state)
{
	struct ibv_sge bad = { (uintptr_t)memory, 16, mr->ibv.lkey ^ 1 };

	post_ids(0, 1);
	assert_int_equal(post_list(1, &bad, 1), 0);
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(vb_recv_check(&remote, &claim, RECEIVE_SIZE, true), VB_OK);
	assert_int_equal(vb_recv_check(&remote, &claim, RECEIVE_SIZE + 1, true), VB_WHY_RECV_SHORT);
	remote.next_recv = 1;
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(vb_recv_check(&remote, &claim, 17, true), VB_WHY_RECV_SHORT);
	assert_int_equal(vb_recv_check(&remote, &claim, 16, true), VB_WHY_RECV_KEY);
}

static void keys_without_a_voucher_are_looked_up(void **state)
{
	struct vb_pd *other_pd;

	post_ids(0, 1);
	voucher_take_back(0);
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(vb_recv_check(&remote, &claim, 8, true), VB_OK);
	assert_int_equal(vb_pd_alloc(&rig.ctx.verbs.context, &other_pd), 0);
	remote.recv_pd = other_pd->id;
	assert_int_equal(vb_recv_check(&remote, &claim, 8, true), VB_WHY_RECV_KEY);
	assert_int_equal(vb_pd_dealloc(other_pd), 0);
}

/* --- cells that somebody has written at random --- */

static void bytes_are_not_placed_for_what_a_cell_says(void **state)
{
	post_ids(0, 2);
	assert_true(vb_recv_claim(&remote, &claim));
	sender_cell(0)->posted_length = UINT32_MAX;
	assert_int_equal(vb_recv_check(&remote, &claim, RECEIVE_SIZE, false), VB_OK);
	assert_int_equal(vb_recv_check(&remote, &claim, RECEIVE_SIZE + 1, false),
			 VB_WHY_RECV_SHORT);
	voucher_take_back(0);
	remote.recv_pd++;
	claim.word |= (uint64_t)VB_CELL_KEYS_OK << 8;
	assert_int_equal(vb_recv_check(&remote, &claim, 8, false), VB_WHY_RECV_KEY);
}

static void a_receive_that_was_never_posted_takes_no_bytes(void **state)
{
	post_ids(0, 1);
	atomic_store(&sender_cell(DEPTH + 1)->word,
		     vb_cell_word(DEPTH + 1, 0, VB_CELL_KEYS_OK, VB_CELL_POSTED));
	sender_cell(DEPTH + 1)->posted_length = RECEIVE_SIZE;
	remote.next_recv = DEPTH + 1;
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(vb_recv_check(&remote, &claim, 0, false), VB_WHY_RECV_KEY);
}

static void a_hint_from_outside_of_the_ring_hides_no_receive(void **state)
{
	static const uint32_t hints[] = { 0, 2, 3, 100, INT32_MAX, 1u << 31, UINT32_MAX - 1 };

	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++) {
		post_ids(i, 1);
		atomic_store(&remote.rq_lent->head, rq.tail - 1 + hints[i]);
		send_text("found");
		assert_polls((int64_t)i, NOTHING);
	}
}

/* A sender looks where it took the last receive, and tells the others now and then. */
static void senders_tell_each_other_the_place_now_and_then(void **state)
{
	struct vb_remote other = remote;

	for (uint32_t i = 0; i < VB_RECV_HINT_STEP; i++) {
		assert_int_equal(atomic_load(&remote.rq_lent->head), 0);
		assert_int_equal(remote.next_recv, i);
		post_ids(i, 1);
		send_text("x");
		assert_polls(i);
	}
	assert_int_equal(atomic_load(&remote.rq_lent->head), VB_RECV_HINT_STEP);
	post_ids(0, 2);
	send_text("x");
	assert_int_equal(claim.index, VB_RECV_HINT_STEP);
	assert_true(vb_recv_claim(&other, &claim));
	assert_int_equal(claim.index, VB_RECV_HINT_STEP + 1);
	assert_int_equal(other.next_recv, VB_RECV_HINT_STEP + 2);
}

/* The place is one of an old ring, or so many messages have passed that indexes began anew. */
static void a_place_from_outside_of_the_ring_hides_no_receive(void **state)
{
	post_ids(0, 1);
	remote.next_recv = 1u << 31;
	send_text("found");
	assert_int_equal(claim.index, 0);
}

/* Elements behind the end of the list would be read from somewhere else. */
static void a_list_is_no_longer_than_its_place(void **state)
{
	post_ids(0, 1);
	sender_sges(0)->count = UINT32_MAX;
	assert_int_equal(vb_recv_sge_count(&remote, sender_sges(0)), 4);
}

static void small_payload_rides_in_the_cell_or_behind_it(void **state)
{
	post_ids(0, 1);
	assert_true(vb_recv_claim(&remote, &claim));
	assert_ptr_equal(vb_recv_ride(&remote, &claim, 0), claim.cell->payload);
	assert_ptr_equal(vb_recv_ride(&remote, &claim, VB_INLINE_CELL), claim.cell->payload);
	assert_ptr_equal(vb_recv_ride(&remote, &claim, VB_INLINE_CELL + 1), rq.spill);
	assert_ptr_equal(vb_recv_ride(&remote, &claim, VB_SPILL), rq.spill);
	assert_null(vb_recv_ride(&remote, &claim, VB_SPILL + 1));
}

/* A cell that carries a stamp has less room for payload. */
static void payload_leaves_room_for_a_stamp(void **state)
{
	uint64_t before = vb_device_clock();

	post_ids(0, 2);
	atomic_store(&cq.asks, VB_CQ_STAMPS);
	send_text("sixteen bytes...");
	assert_int_equal(claim.cell->where, VB_PAYLOAD_INLINE);
	assert_true(claim.cell->stamped);
	assert_memory_equal(claim.cell->payload, "sixteen bytes...", 16);
	assert_in_range(claim.cell->stamp, before, vb_device_clock());
	send_text("seventeen bytes..");
	assert_int_equal(claim.cell->where, VB_PAYLOAD_SPILL);
	assert_memory_equal(rq.spill + VB_SPILL, "seventeen bytes..", 17);
}

/* The CQ began to ask between the payload and the completion. */
static void a_payload_that_rides_is_not_overwritten_by_a_stamp(void **state)
{
	bool lost;

	post_ids(0, 1);
	assert_true(vb_recv_claim(&remote, &claim));
	memset(vb_recv_ride(&remote, &claim, VB_INLINE_CELL), 'x', VB_INLINE_CELL);
	atomic_store(&cq.asks, VB_CQ_NUMBERS);
	assert_int_equal(complete("", VB_OK, &lost), VB_OK);
	assert_false(claim.cell->stamped);
	assert_int_equal(claim.cell->payload[VB_INLINE_CELL - 1], 'x');
}

/* --- completing --- */

static void a_completion_says_who_what_and_how(void **state)
{
	bool lost;

	post_ids(0, 1);
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(complete("abc", VB_WHY_RECV_SHORT, &lost), VB_OK);
	assert_cell(0, VB_CELL_DONE);
	assert_int_equal(sender_cell(0)->byte_length, 3);
	assert_int_equal(sender_cell(0)->qpn, QPN);
	assert_int_equal(sender_cell(0)->src_qpn, 0x77);
	assert_int_equal(sender_cell(0)->status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(sender_cell(0)->reason, VB_WHY_RECV_SHORT);
}

static void a_receive_flushed_meanwhile_is_lost_to_the_sender(void **state)
{
	uint32_t index;
	bool lost = false;

	post_ids(0, 2);
	assert_true(vb_recv_claim(&remote, &claim));
	assert_true(vb_rq_flush_next(&rq, &index));
	assert_int_equal(complete("x", VB_OK, &lost), VB_OK);
	assert_true(lost);
	assert_cell(0, VB_CELL_FLUSHED);
	/* With many senders it was taken, so no sender looks there again. */
	assert_int_equal(remote.next_recv, remote.many ? 1 : 0);
}

static void a_voucher_taken_back_meanwhile_loses_no_completion(void **state)
{
	bool lost = true;

	post_ids(0, 1);
	assert_true(vb_recv_claim(&remote, &claim));
	vb_rq_forget_keys(rig.nic, mr);
	assert_int_equal(complete("x", VB_OK, &lost), VB_OK);
	assert_false(lost);
	assert_polls(0, NOTHING);
}

/* Else the poll would scatter into memory that is the program's again. */
static void bytes_that_ride_find_out_that_their_region_went(void **state)
{
	static char buffer[64];
	struct vb_mr *region = rig_register(rig.pd, buffer, sizeof(buffer));
	struct ibv_sge sge = { (uintptr_t)buffer, sizeof(buffer), region->ibv.lkey };
	bool lost = true;

	assert_int_equal(post_list(7, &sge, 1), 0);
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(vb_recv_check(&remote, &claim, 1, true), VB_OK);
	assert_int_equal(vb_mr_deregister(region), 0);
	assert_int_equal(complete("x", VB_OK, &lost), VB_WHY_RECV_KEY);
	assert_false(lost);
	assert_int_equal(sender_cell(0)->reason, VB_WHY_RECV_KEY);
	assert_int_not_equal(sender_cell(0)->status, IBV_WC_SUCCESS);
	sender_cell(0)->where = VB_PAYLOAD_PLACED; /* a poll leaves the bytes of a failure alone */
	assert_polls(7, NOTHING);
}

static void an_armed_queue_is_disarmed_and_its_owner_told(void **state)
{
	post_ids(0, 2);
	send_text("a");
	assert_int_equal(atomic_load(&cq.fired), 0);
	assert_false(attention() & VB_ATTN_CQ);
	atomic_store(&cq.armed, VB_CQ_ARMED_ANY);
	send_text("b");
	assert_int_equal(atomic_load(&cq.fired), 1);
	assert_int_equal(atomic_load(&cq.armed), VB_CQ_UNARMED);
	assert_true(attention() & VB_ATTN_CQ);
}

static void a_full_completion_queue_fails_the_message_and_completes_nothing(void **state)
{
	bool lost;

	post_ids(0, 2);
	atomic_store(&cq.asks, VB_CQ_COUNTS);
	atomic_store(&cq.cqe, 1);
	send_text("fits");
	assert_true(vb_recv_claim(&remote, &claim));
	assert_int_equal(complete("too much", VB_OK, &lost), VB_WHY_TARGET_CQ_OVERRUN);
	assert_polls(0, NOTHING);
}

static void the_first_failure_closes_the_gate_and_is_the_one_reported(void **state)
{
	vb_target_fail(&remote, VB_WHY_RKEY_RANGE, false);
	assert_true(vb_gate_is_closed(lent, atomic_load(&entry.gate)));
	vb_target_fail(&remote, VB_WHY_QP_RIGHT, true);
	assert_int_equal(atomic_load(&lent->attention), VB_QP_ATTN_FAIL | VB_WHY_RKEY_RANGE);
	assert_true(attention() & VB_ATTN_QP);
	assert_true(
		atomic_exchange(&rig.nic->seg.lent->qp_attention[QPN % VB_QP_PER_SLOT / 64], 0) &
		1ull << QPN % 64);
}

/* --- both at once --- */

static struct vb_peer *guarded;

/* The sender looked at the cell and reads its own name for the claim: now the region goes. */
static void on_fault(int number)
{
	mprotect(guarded, sizeof(*guarded), PROT_READ | PROT_WRITE);
	vb_rq_forget_keys(rig.nic, mr);
}

/*
 * Once a bug in recv.c, take: a cell whose voucher goes between load and exchange is passed over
 * although it is still POSTED. Senders never come back to it, and polls stop there for ever.
 *
 * The peer lies in a page without access, so that its first use, between the two, is the moment.
 */
static void a_receive_whose_voucher_is_taken_back_is_not_passed_over(void **state)
{
	struct sigaction catch = { .sa_handler = on_fault }, before;

	guarded = mmap(NULL, sizeof(*guarded), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(guarded != MAP_FAILED);
	memcpy(guarded, rig.nic->self, sizeof(*guarded));
	remote.peer = remote.home = guarded;
	post_ids(0, 2);
	sigaction(SIGSEGV, &catch, &before);
	mprotect(guarded, sizeof(*guarded), PROT_NONE);
	assert_true(vb_recv_claim(&remote, &claim));
	sigaction(SIGSEGV, &before, NULL);
	munmap(guarded, sizeof(*guarded));
	assert_int_equal(vb_cell_flags(word_of(0)), 0); /* it did happen */
	assert_int_equal(claim.index, 0);
	assert_int_equal(claim.word, vb_cell_word(0, 0, 0, VB_CELL_TAKEN));
	assert_int_equal(word_of(0), claim.word);
	assert_cell(1, VB_CELL_POSTED);
}

/* clang-format off */
#define ONE(name)                                                         \
	{                                                                 \
#name " (one sender)", name, open_one, close_remote, NULL \
	}
#define MANY(name)                                                           \
	{                                                                    \
#name " (many senders)", name, open_many, close_remote, NULL \
	}
/* clang-format on */

/* A resize makes the version odd, and waits for senders that are inside. */
static void a_ring_that_is_being_replaced_is_not_used(void **state)
{
	entry.rq = rq.shared_offset;
	entry.recv_cq = vb_segment_lend(&rig.nic->seg, sizeof(cq));
	atomic_fetch_add(&rq.shared->version, 1);
	assert_true(vb_recv_resolve(&remote));
	assert_false(vb_recv_follow(&remote));
	atomic_fetch_add(&rq.shared->version, 1);
	assert_true(vb_recv_follow(&remote));
	vb_segment_free(&rig.nic->seg, entry.recv_cq, sizeof(cq));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(without_a_posted_receive_nothing_is_found),
		MANY(without_a_posted_receive_nothing_is_found),
		ONE(messages_go_into_receives_in_the_order_of_posting),
		MANY(messages_go_into_receives_in_the_order_of_posting),
		MANY(what_another_sender_has_taken_is_passed_over),
		MANY(a_long_message_keeps_the_receive_that_it_took),
		MANY(a_datagram_that_does_not_fit_leaves_the_receive),
		MANY(what_is_not_used_is_given_back_to_the_end),
		MANY(the_limit_is_reported_once_when_fewer_are_left),
		MANY(a_ring_that_is_being_replaced_is_not_used),
		ONE(bytes_are_not_placed_for_what_a_cell_says),
		ONE(a_receive_that_was_never_posted_takes_no_bytes),
		MANY(a_hint_from_outside_of_the_ring_hides_no_receive),
		MANY(senders_tell_each_other_the_place_now_and_then),
		MANY(a_place_from_outside_of_the_ring_hides_no_receive),
		ONE(a_list_is_no_longer_than_its_place),
		ONE(room_and_keys_are_checked_in_this_order),
		ONE(keys_without_a_voucher_are_looked_up),
		MANY(keys_without_a_voucher_are_looked_up),
		ONE(small_payload_rides_in_the_cell_or_behind_it),
		ONE(payload_leaves_room_for_a_stamp),
		ONE(a_payload_that_rides_is_not_overwritten_by_a_stamp),
		ONE(a_completion_says_who_what_and_how),
		MANY(a_completion_says_who_what_and_how),
		ONE(a_receive_flushed_meanwhile_is_lost_to_the_sender),
		MANY(a_receive_flushed_meanwhile_is_lost_to_the_sender),
		ONE(a_voucher_taken_back_meanwhile_loses_no_completion),
		MANY(a_voucher_taken_back_meanwhile_loses_no_completion),
		ONE(bytes_that_ride_find_out_that_their_region_went),
		MANY(bytes_that_ride_find_out_that_their_region_went),
		ONE(an_armed_queue_is_disarmed_and_its_owner_told),
		MANY(an_armed_queue_is_disarmed_and_its_owner_told),
		ONE(a_full_completion_queue_fails_the_message_and_completes_nothing),
		MANY(a_full_completion_queue_fails_the_message_and_completes_nothing),
		ONE(the_first_failure_closes_the_gate_and_is_the_one_reported),
		MANY(a_receive_whose_voucher_is_taken_back_is_not_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
