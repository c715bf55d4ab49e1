/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams: 256 bytes to QP 0 or QP 1, a common header (IBA 13.4.3) and the data of the
 * datagram's class. wire/cm.h has the class of the connection manager, mad/agent.h those of agents.
 */
#ifndef VB_WIRE_MAD_H
#define VB_WIRE_MAD_H

#include <stdbool.h>
#include <stdint.h>

enum {
	VB_MAD_SIZE = 256,
	VB_MAD_HEADER_SIZE = 24,
	VB_MAD_DATA_SIZE = VB_MAD_SIZE - VB_MAD_HEADER_SIZE,
	VB_MAD_BASE_VERSION = 1,
	VB_MAD_ATTRIBUTE_CLASS_PORT_INFO = 0x0001,
	VB_SMI_QPN = 0, /* the subnet management interface, source and destination */
	VB_GSI_QPN = 1, /* the general service interface, likewise */
};

enum vb_mad_class {
	VB_MAD_CLASS_SUBN = 0x01,          /* subnet management, routed by LID */
	VB_MAD_CLASS_SUBN_DIRECTED = 0x81, /* the same, by the ports of a path */
	VB_MAD_CLASS_SUBN_ADM = 0x03,      /* subnet administration */
	VB_MAD_CLASS_PERF = 0x04,          /* performance management */
	VB_MAD_CLASS_CM = 0x07,
	VB_MAD_CLASS_VENDOR_OUI = 0x30, /* this one and the following have an OUI ... */
	VB_MAD_CLASS_VENDOR_OUI_LAST = 0x4f,
};
enum { VB_MAD_OUI_AT = 37 }; /* ... here, in three bytes */

#define VB_GSI_QKEY 0x80010000u /* of QP 1 on every port */

enum vb_mad_method {
	VB_MAD_GET = 0x01,
	VB_MAD_SET = 0x02,
	VB_MAD_SEND = 0x03,
	VB_MAD_TRAP = 0x05,
	VB_MAD_REPORT = 0x06,
	VB_MAD_TRAP_REPRESS = 0x07,
	VB_MAD_GET_TABLE = 0x12, /* this one and DELETE: subnet administration */
	VB_MAD_DELETE = 0x15,
	VB_MAD_RESPONSE = 0x80, /* set in answers to GET and SET */
};

/* IBA 13.4.7 */
enum vb_mad_status {
	VB_MAD_OK = 0x0000,
	VB_MAD_BAD_VERSION = 0x0004, /* the base version, the class or its version */
	VB_MAD_BAD_METHOD = 0x0008,
	VB_MAD_BAD_ATTRIBUTE = 0x000c, /* or the method does not take it */
	VB_MAD_BAD_VALUE = 0x001c,     /* in the attribute or its modifier */
	VB_MAD_DIRECTION = 0x8000,     /* of a directed-route MAD: it is on its way back */
};

/* The common header; all in host order. */
struct vb_mad {
	uint8_t base_version, management_class, class_version, method;
	uint16_t status, class_specific;
	uint64_t transaction_id;
	uint16_t attribute_id;
	uint32_t attribute_modifier;
};

/* Reads the first VB_MAD_HEADER_SIZE bytes, without a check. Reserved bytes are ignored. */
void vb_mad_parse(const uint8_t *bytes, struct vb_mad *mad);
/* The inverse; reserved bytes become 0. */
void vb_mad_emit(const struct vb_mad *mad, uint8_t *bytes);

static inline bool vb_mad_is_smp(uint8_t management_class)
{
	return management_class == VB_MAD_CLASS_SUBN ||
	       management_class == VB_MAD_CLASS_SUBN_DIRECTED;
}

/* An answer, or a TrapRepress, which ends a transaction as well (IBA 13.4.5). */
bool vb_mad_is_response(const struct vb_mad *mad);
/* An agent answers the MAD, be it by a refusal. */
bool vb_mad_is_request(const struct vb_mad *mad);

/* The answer to a Set has the method of the answer to a Get. */
static inline uint8_t vb_mad_method_of_answer(uint8_t method)
{
	return (method == VB_MAD_SET ? VB_MAD_GET : method) | VB_MAD_RESPONSE;
}

#endif
