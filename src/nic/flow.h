/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: rules that steer Ethernet frames to raw packet QPs. The layers of an application's rule
 * become one pattern: a value and a mask over all header fields of a frame.
 */
#ifndef VB_NIC_FLOW_H
#define VB_NIC_FLOW_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct vb_qp;

/* The headers of a frame, in network order. Fields that the frame does not have are zero. */
struct vb_flow_key {
	uint8_t dst_mac[6], src_mac[6];
	uint16_t ether_type;            /* behind VLAN tags */
	uint16_t vlan_tag;              /* of the outer VLAN header */
	uint8_t tagged;                 /* 0xff: the frame has a VLAN tag */
	uint8_t l3;                     /* 4: IPv4; 6: IPv6 */
	uint8_t l4;                     /* IPPROTO_TCP, IPPROTO_UDP; none in later fragments */
	uint8_t protocol;               /* behind extension headers */
	uint8_t src_ip[16], dst_ip[16]; /* IPv4: the first four bytes */
	uint32_t flow_label;
	uint8_t tos;      /* or traffic class */
	uint8_t ttl;      /* or hop limit */
	uint8_t ip_flags; /* enum vb_ip_flags */
	uint8_t reserved;
	uint16_t src_port, dst_port;
};
static_assert(sizeof(struct vb_flow_key) == 64, "no holes: compared as words");

enum vb_ip_flags { VB_IP_DONT_FRAGMENT = 2, VB_IP_MORE_FRAGMENTS = 4 }; /* the kernel's values */

enum { VB_FLOW_SPECS_MAX = 10, VB_FLOW_KEY_WORDS = sizeof(struct vb_flow_key) / 8 };

union vb_flow_words {
	struct vb_flow_key key;
	uint64_t word[VB_FLOW_KEY_WORDS];
};

struct vb_flow {
	struct ibv_flow ibv; /* first */
	struct vb_list node; /* in the port's list, by rank, older flows first */
	struct vb_qp *qp;
	uint32_t rank;                   /* flows of a lower rank see a frame first */
	union vb_flow_words value, mask; /* value has no bits outside of mask */
	bool sniffs;                     /* also sees frames that other flows take */
	bool promiscuous;                /* wants frames for any address */
	bool names_address;              /* mask has a whole destination MAC: the port takes it */
	bool goes_on;                    /* later flows also see the frames that this one took */
	bool drops;                      /* discards the frames that match */
	uint32_t tag;
	/* Counters of the frames that the flow took; NULL: none. */
	struct ibv_counters *counters;
	void (*count)(struct ibv_counters *counters, uint64_t packets, uint64_t bytes);
};

static inline struct vb_flow *vb_flow(struct ibv_flow *ibv)
{
	return vb_container(ibv, struct vb_flow, ibv);
}

/* Fills all but ibv, node, qp and count; -EINVAL, -EOPNOTSUPP with an explanation. */
int vb_flow_compile(const struct ibv_flow_attr *attr, struct vb_flow *flow);

static inline bool vb_flow_matches(const struct vb_flow *flow, const union vb_flow_words *frame)
{
	uint64_t wrong = 0;

	for (unsigned i = 0; i < VB_FLOW_KEY_WORDS; i++)
		wrong |= (frame->word[i] & flow->mask.word[i]) ^ flow->value.word[i];
	return !wrong;
}

/* Two flows with the same rule: a frame that matches goes to the QPs of both. */
bool vb_flow_same(const struct vb_flow *a, const struct vb_flow *b);

#endif
