/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that picks a socket, and the count of sockets in the group. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <linux/filter.h>

#include "port/impl.h"
#include "port/steer_message.h"
#include "wire/packet.h"

enum {
	PROLOGUE = 7,
	BY_CHANCE = 4, /* and two for each position that can be drawn */
	PROGRAM_MAX = PROLOGUE + 1 + BY_CHANCE + 2 * VB_STEER_DRAWN + 2 * VB_STEER_ENTRIES + 1,
	QPN_WORD = 4, /* the word of the BTH whose lower 24 bits are the destination QPN */
};
#define BY_HASH UINT32_MAX /* no such position: the kernel falls back to its hash */

static struct sock_filter statement(unsigned code, uint32_t k)
{
	return (struct sock_filter){ (uint16_t)code, 0, 0, k };
}

static struct sock_filter jump_equal(uint32_t k, uint8_t if_true, uint8_t if_false)
{
	return (struct sock_filter){ BPF_JMP | BPF_JEQ | BPF_K, if_true, if_false, k };
}

static bool has_position(const uint32_t *positions, uint32_t count, uint32_t position)
{
	for (uint32_t i = 0; i < count; i++)
		if (positions[i] == position)
			return true;
	return false;
}

/* The positions of the first lanes in the entries, each once. */
static uint32_t positions_of(const struct vb_steer_entry *entries, uint32_t count,
			     uint32_t positions[VB_STEER_DRAWN])
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < count && found < VB_STEER_DRAWN; i++)
		if (entries[i].key < VB_STEER_ROW &&
		    !has_position(positions, found, entries[i].position))
			positions[found++] = entries[i].position;
	return found;
}

/*
 * Packets for QPs without a slot, 0 and 1, go to a member that answered: the others may be stopped.
 * A lone member gets them, too, and not a process that joins it: that one is not ready yet.
 */
static uint32_t add_by_chance(struct sock_filter *code, const struct vb_steer_entry *entries,
			      uint32_t count, uint32_t members)
{
	uint32_t positions[VB_STEER_DRAWN], drawn = positions_of(entries, count, positions);
	const uint32_t length = BY_CHANCE + 2 * drawn;

	code[0] = jump_equal(0, 0, (uint8_t)(length - 1));
	code[1] = statement(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM));
	code[2] = statement(BPF_ALU | BPF_MOD | BPF_K, drawn ? drawn : members);
	for (uint32_t i = 0; i < drawn; i++) {
		code[3 + 2 * i] = jump_equal(i, 0, 1);
		code[4 + 2 * i] = statement(BPF_RET | BPF_K, positions[i]);
	}
	code[length - 1] = statement(BPF_RET | BPF_A, 0);
	return length;
}
static_assert(BY_CHANCE + 2 * VB_STEER_DRAWN <= UINT8_MAX, "a jump over it");

/* Compares the rows, or the slots, of the entries. */
static uint32_t add_entries(struct sock_filter *code, const struct vb_steer_entry *entries,
			    uint32_t count, bool rows)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < count; i++) {
		if ((entries[i].key >= VB_STEER_ROW) != rows)
			continue;
		code[length++] = jump_equal(entries[i].key % VB_STEER_ROW, 0, 1);
		code[length++] = statement(BPF_RET | BPF_K, entries[i].position);
	}
	return length;
}

int vb_steer_install(int fd, const struct vb_steer_entry *entries, uint32_t count, uint32_t members)
{
	struct sock_filter code[PROGRAM_MAX] = {
		statement(BPF_LD | BPF_W | BPF_ABS, 0),
		jump_equal(STEER_MAGIC, 0, 2),
		statement(BPF_LD | BPF_W | BPF_ABS, QPN_WORD), /* a question: its position */
		statement(BPF_RET | BPF_A, 0),
		statement(BPF_LD | BPF_W | BPF_ABS, QPN_WORD),
		statement(BPF_ALU | BPF_AND | BPF_K, VB_QPN_MASK),
		statement(BPF_ALU | BPF_RSH | BPF_K, VB_QP_ROW_BITS),
	};
	struct sock_fprog program;

	memset(&program, 0, sizeof(program)); /* valgrind looks between its members, too */
	program.len = PROLOGUE;
	program.filter = code;
	program.len += add_entries(code + program.len, entries, count, true);
	code[program.len++] =
		statement(BPF_ALU | BPF_RSH | BPF_K, VB_QP_INDEX_BITS - VB_QP_ROW_BITS);
	if (members)
		program.len += add_by_chance(code + program.len, entries, count, members);
	program.len += add_entries(code + program.len, entries, count, false);
	code[program.len++] = statement(BPF_RET | BPF_K, BY_HASH);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program))
		       ? -errno
		       : 0;
}

/* The kernel lists some sockets twice. */
static bool is_new(unsigned long inode, unsigned long seen[VB_STEER_MEMBERS], uint32_t count)
{
	for (uint32_t i = 0; i < count && i < VB_STEER_MEMBERS; i++)
		if (seen[i] == inode)
			return false;
	if (count < VB_STEER_MEMBERS)
		seen[count] = inode;
	return true;
}

uint32_t vb_steer_count_members(const struct vb_endpoint *endpoint)
{
	unsigned long seen[VB_STEER_MEMBERS];
	struct vb_udp_socket member;
	struct vb_udp_table table;
	uint32_t count = 0;

	if (!vb_udp_table_open(&table, endpoint->address.ipv6))
		return 0;
	while (vb_udp_table_next(&table, &member))
		if (vb_endpoint_is_at(endpoint, &member) && is_new(member.inode, seen, count))
			count++;
	vb_udp_table_close(&table);
	return count;
}
