/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_devinfo: lines of a name and a value, aligned with tabs, and the sections made of them. They
 * are those that ibv_devinfo of the rdma-core has whose headers the build found.
 */
#ifndef UTILS_DEVINFO_H
#define UTILS_DEVINFO_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/config.h"

/* A line: tabs, "name:", tabs up to a column (of 8 per tab), the value. */
void devinfo_line(unsigned tabs, unsigned column, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* A bit and its name. */
struct devinfo_bit {
	uint64_t bit;
	const char *name;
};

/* One line for each bit that is set, and one for all bits without a name. */
void devinfo_bits(const struct devinfo_bit *bits, size_t count, uint64_t flags);

/* The text of an enumerator; instead if it has none. */
const char *devinfo_text(const char *const *texts, size_t count, unsigned value,
			 const char *instead);

/* --- devinfo_device.c: the attributes of a device, for --verbose --- */
void devinfo_device(struct ibv_context *context, const struct ibv_device_attr_ex *attr);
/* --- devinfo_port.c: -1 after a complaint --- */
int devinfo_port(struct ibv_context *context, uint32_t port_num, int verbose);

#endif
