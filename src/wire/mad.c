/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mad.h"

#include "wire/bytes.h"

void vb_mad_parse(const uint8_t *bytes, struct vb_mad *mad)
{
	mad->base_version = bytes[0];
	mad->management_class = bytes[1];
	mad->class_version = bytes[2];
	mad->method = bytes[3];
	mad->status = vb_get16(bytes + 4);
	mad->class_specific = vb_get16(bytes + 6);
	mad->transaction_id = vb_get64(bytes + 8);
	mad->attribute_id = vb_get16(bytes + 16);
	mad->attribute_modifier = vb_get32(bytes + 20);
}

void vb_mad_emit(const struct vb_mad *mad, uint8_t *bytes)
{
	bytes[0] = mad->base_version;
	bytes[1] = mad->management_class;
	bytes[2] = mad->class_version;
	bytes[3] = mad->method;
	vb_put16(bytes + 4, mad->status);
	vb_put16(bytes + 6, mad->class_specific);
	vb_put64(bytes + 8, mad->transaction_id);
	vb_put16(bytes + 16, mad->attribute_id);
	vb_put16(bytes + 18, 0);
	vb_put32(bytes + 20, mad->attribute_modifier);
}

bool vb_mad_is_response(const struct vb_mad *mad)
{
	return mad->method & VB_MAD_RESPONSE || mad->method == VB_MAD_TRAP_REPRESS;
}

bool vb_mad_is_request(const struct vb_mad *mad)
{
	return !vb_mad_is_response(mad) && mad->method != VB_MAD_SEND &&
	       mad->method != VB_MAD_TRAP && mad->method != VB_MAD_REPORT;
}
