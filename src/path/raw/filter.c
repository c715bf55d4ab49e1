/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket's filter, in classic BPF. The filter compares addresses and frame type only, and
 * passes frames that some flow may take. Other traffic of the interface wakes no thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "path/raw/raw.h"

enum {
	PROGRAM_MAX = 1024,
	PER_FLOW_MAX = 20,
	ETHERTYPE_OFFSET = 12,
	PASS = -1, /* result of a filter that passes the whole frame */
};

struct program {
	struct sock_filter code[PROGRAM_MAX];
	unsigned length;
};

static void code_add(struct program *program, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	program->code[program->length++] = (struct sock_filter){ code, jt, jf, k };
}

static void code_load_ancillary(struct program *program, int what)
{
	code_add(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + what), 0, 0);
}

static void code_end(struct program *program, uint32_t value)
{
	code_add(program, BPF_RET | BPF_K, value, 0, 0);
}

/*
 * A frame that leaves passes if a raw QP sent it. On the loopback interface such a frame also comes
 * back: the copy that comes back is dropped.
 */
static void add_direction(struct program *program, bool loopback)
{
	code_load_ancillary(program, SKF_AD_PKTTYPE);
	code_add(program, BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 3);
	code_load_ancillary(program, SKF_AD_MARK);
	code_add(program, BPF_JMP | BPF_JEQ | BPF_K, VB_RAW_MARK, loopback ? 4 : 1, 0);
	code_end(program, 0);
	if (!loopback)
		return;
	code_load_ancillary(program, SKF_AD_MARK);
	code_add(program, BPF_JMP | BPF_JEQ | BPF_K, VB_RAW_MARK, 0, 1);
	code_end(program, 0);
}

/* The comparisons of a flow. A failed one jumps to the next flow, whose place is patched in
 * later. */
struct patch {
	unsigned at[8];
	unsigned count;
};

static void code_compare(struct program *program, struct patch *patch, uint32_t mask,
			 uint32_t value)
{
	code_add(program, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	patch->at[patch->count++] = program->length;
	code_add(program, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0);
}

static void add_addresses(struct program *program, struct patch *patch, const struct vb_flow *flow)
{
	uint32_t mask[3], value[3];

	memcpy(mask, flow->mask.key.dst_mac, sizeof(mask)); /* both addresses are adjacent */
	memcpy(value, flow->value.key.dst_mac, sizeof(value));
	for (uint32_t i = 0; i < 3; i++) {
		if (!mask[i])
			continue;
		code_add(program, BPF_LD | BPF_W | BPF_ABS, 4 * i, 0, 0);
		code_compare(program, patch, ntohl(mask[i]), ntohl(value[i]));
	}
}

/* A VLAN tag may stand in the place of the frame type: steer.c compares the type then. */
static void add_type(struct program *program, struct patch *patch, const struct vb_flow *flow)
{
	if (!flow->mask.key.ether_type)
		return;
	code_add(program, BPF_LD | BPF_H | BPF_ABS, ETHERTYPE_OFFSET, 0, 0);
	code_add(program, BPF_JMP | BPF_JEQ | BPF_K, ETH_P_8021Q, 3, 0);
	code_add(program, BPF_JMP | BPF_JEQ | BPF_K, ETH_P_8021AD, 2, 0);
	code_compare(program, patch, ntohs(flow->mask.key.ether_type),
		     ntohs(flow->value.key.ether_type));
}

static void add_flow(struct program *program, const struct vb_flow *flow)
{
	struct patch patch = { .count = 0 };

	add_addresses(program, &patch, flow);
	add_type(program, &patch, flow);
	code_end(program, (uint32_t)PASS);
	for (unsigned i = 0; i < patch.count; i++)
		program->code[patch.at[i]].jf = (uint8_t)(program->length - patch.at[i] - 1);
}

int vb_raw_filter(struct vb_raw_port *port)
{
	struct program program = { .length = 0 };
	struct sock_fprog attach = { .filter = program.code };
	uint32_t others = 0;

	add_direction(&program, port->loopback);
	vb_list_for(flow, &port->flows, struct vb_flow, node) {
		if (program.length + PER_FLOW_MAX >= PROGRAM_MAX) {
			others = (uint32_t)PASS; /* too many flows: steer.c compares them */
			break;
		}
		add_flow(&program, flow);
	}
	code_end(&program, others);
	attach.len = (unsigned short)program.length;
	return setsockopt(port->fd, SOL_SOCKET, SO_ATTACH_FILTER, &attach, sizeof(attach)) ? -errno
											   : 0;
}
