/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading answers of NETLINK_RDMA strictly, in tests. */
#ifndef TESTS_SYSFS_NL_CHECK_H
#define TESTS_SYSFS_NL_CHECK_H

#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/netlink.h>

/* The attribute of the type in a row of attributes; NULL: none. */
static inline const struct nlattr *nl_find(const void *row, size_t size, unsigned type)
{
	const char *at = row;

	while (size >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const void *)at;
		const size_t step = NLA_ALIGN((size_t)attribute->nla_len);

		if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > size)
			return NULL;
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
		if (step >= size)
			return NULL;
		at += step;
		size -= step;
	}
	return NULL;
}

static inline const void *nl_payload(const struct nlattr *attribute)
{
	return (const char *)attribute + NLA_HDRLEN;
}

static inline size_t nl_size(const struct nlattr *attribute)
{
	return (size_t)attribute->nla_len - NLA_HDRLEN;
}

/* An attribute of a message without a fixed part. */
static inline const struct nlattr *nl_attribute(const struct nlmsghdr *header, unsigned type)
{
	return nl_find((const char *)header + NLMSG_HDRLEN, header->nlmsg_len - NLMSG_HDRLEN, type);
}

static inline uint32_t nl_u32(const struct nlattr *attribute)
{
	uint32_t value = UINT32_MAX;

	if (attribute && nl_size(attribute) >= sizeof(value))
		memcpy(&value, nl_payload(attribute), sizeof(value));
	return value;
}

/* The entries of a table. */
static inline unsigned nl_entries(const struct nlattr *table)
{
	const char *at = table ? nl_payload(table) : NULL;
	size_t left = table ? nl_size(table) : 0;
	unsigned count = 0;

	for (; left >= NLA_HDRLEN; count++) {
		const struct nlattr *entry = (const void *)at;
		const size_t step = NLA_ALIGN((size_t)entry->nla_len);

		if (entry->nla_len < NLA_HDRLEN || step > left)
			return UINT32_MAX;
		at += step;
		left -= step;
	}
	return count;
}

/* A request with up to a few attributes. */
struct nl_request_bytes {
	struct nlmsghdr header;
	char row[240];
};

static inline void nl_start(struct nl_request_bytes *request, unsigned command, unsigned flags)
{
	memset(request, 0, sizeof(*request));
	request->header = (struct nlmsghdr){
		.nlmsg_len = NLMSG_HDRLEN,
		.nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
		.nlmsg_seq = 4711,
	};
}

static inline void nl_add(struct nl_request_bytes *request, unsigned type, const void *bytes,
			  size_t size)
{
	struct nlattr head = { (uint16_t)(NLA_HDRLEN + size), (uint16_t)type };
	char *at = (char *)request + request->header.nlmsg_len;

	memcpy(at, &head, sizeof(head));
	memcpy(at + NLA_HDRLEN, bytes, size);
	request->header.nlmsg_len += (uint32_t)NLA_ALIGN(NLA_HDRLEN + size);
}

static inline void nl_add_u32(struct nl_request_bytes *request, unsigned type, uint32_t value)
{
	nl_add(request, type, &value, sizeof(value));
}

#endif
