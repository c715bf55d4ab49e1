/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams: 256 bytes to QP 1, a common header (IBA 13.4.3) and the data of the
 * datagram's class. The only class here is that of the connection manager, wire/cm.h.
 */
#ifndef VB_WIRE_MAD_H
#define VB_WIRE_MAD_H

#include <stdint.h>

enum {
	VB_MAD_SIZE = 256,
	VB_MAD_HEADER_SIZE = 24,
	VB_MAD_DATA_SIZE = VB_MAD_SIZE - VB_MAD_HEADER_SIZE,
	VB_MAD_BASE_VERSION = 1,
	VB_MAD_CLASS_CM = 0x07,
	VB_MAD_ATTRIBUTE_CLASS_PORT_INFO = 0x0001,
	VB_GSI_QPN = 1, /* the general service interface, source and destination */
};

#define VB_GSI_QKEY 0x80010000u /* of QP 1 on every port */

enum vb_mad_method {
	VB_MAD_GET = 0x01,
	VB_MAD_SET = 0x02,
	VB_MAD_SEND = 0x03,
	VB_MAD_RESPONSE = 0x80, /* set in answers to GET and SET */
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

#endif
