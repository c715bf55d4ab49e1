/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm.h"

#include <string.h>

#include "wire/cm_layout.h"

const char *vb_cm_flaw_name(enum vb_cm_flaw flaw)
{
	static const char *const names[VB_CM_FLAWS] = {
		[VB_CM_OK] = "ok",
		[VB_CM_FLAW_LENGTH] = "not 256 bytes",
		[VB_CM_FLAW_BASE_VERSION] = "unknown base version",
		[VB_CM_FLAW_CLASS] = "another class",
		[VB_CM_FLAW_CLASS_VERSION] = "unknown class version",
		[VB_CM_FLAW_OTHER] = "not a message",
		[VB_CM_FLAW_METHOD] = "unknown method",
		[VB_CM_FLAW_ATTRIBUTE] = "unknown attribute",
		[VB_CM_FLAW_INFO_LENGTH] = "information too long",
	};

	return (unsigned)flaw < VB_CM_FLAWS ? names[flaw] : "unknown flaw";
}

const char *vb_cm_name(enum vb_cm_attribute attribute)
{
	const struct vb_cm_layout *layout = vb_cm_layout(attribute);

	return layout ? layout->name : "unknown";
}

static enum vb_cm_flaw check_method(const struct vb_mad *mad)
{
	unsigned asked = mad->method & ~(unsigned)VB_MAD_RESPONSE;

	if (mad->method == VB_MAD_SEND)
		return VB_CM_OK;
	return asked == VB_MAD_GET || asked == VB_MAD_SET ? VB_CM_FLAW_OTHER : VB_CM_FLAW_METHOD;
}

static enum vb_cm_flaw check_header(const struct vb_mad *mad)
{
	if (mad->base_version != VB_MAD_BASE_VERSION)
		return VB_CM_FLAW_BASE_VERSION;
	if (mad->management_class != VB_MAD_CLASS_CM)
		return VB_CM_FLAW_CLASS;
	if (mad->class_version != VB_CM_CLASS_VERSION)
		return VB_CM_FLAW_CLASS_VERSION;
	return check_method(mad);
}

/* Readers of the message do not check info_length again. */
static enum vb_cm_flaw check_info(const struct vb_cm_layout *layout,
				  const struct vb_cm_message *message)
{
	const uint8_t *length = (const uint8_t *)message + layout->info_length;

	if (layout->info_length && *length > VB_CM_INFO_SIZE)
		return VB_CM_FLAW_INFO_LENGTH;
	return VB_CM_OK;
}

enum vb_cm_flaw vb_cm_parse(const uint8_t *bytes, size_t length, struct vb_cm_message *message)
{
	const struct vb_cm_layout *layout;
	enum vb_cm_flaw flaw;
	struct vb_mad mad;

	if (length != VB_MAD_SIZE)
		return VB_CM_FLAW_LENGTH;
	vb_mad_parse(bytes, &mad);
	flaw = check_header(&mad);
	if (flaw)
		return flaw;
	layout = vb_cm_layout(mad.attribute_id);
	if (!layout)
		return VB_CM_FLAW_ATTRIBUTE;
	memset(message, 0, sizeof(*message));
	message->attribute = mad.attribute_id;
	message->transaction_id = mad.transaction_id;
	message->attribute_modifier = mad.attribute_modifier;
	vb_fields_parse(layout->fields, layout->field_count, bytes + VB_MAD_HEADER_SIZE, message);
	return check_info(layout, message);
}

void vb_cm_emit(const struct vb_cm_message *message, uint8_t bytes[VB_MAD_SIZE])
{
	const struct vb_cm_layout *layout = vb_cm_layout(message->attribute);
	const struct vb_mad mad = {
		.base_version = VB_MAD_BASE_VERSION,
		.management_class = VB_MAD_CLASS_CM,
		.class_version = VB_CM_CLASS_VERSION,
		.method = VB_MAD_SEND,
		.transaction_id = message->transaction_id,
		.attribute_id = (uint16_t)message->attribute,
		.attribute_modifier = message->attribute_modifier,
	};

	memset(bytes, 0, VB_MAD_SIZE);
	vb_mad_emit(&mad, bytes);
	if (layout)
		vb_fields_emit(layout->fields, layout->field_count, message,
			       bytes + VB_MAD_HEADER_SIZE);
}

static uint32_t id_at(const struct vb_cm_message *message, uint16_t offset)
{
	uint32_t id = 0;

	if (offset)
		memcpy(&id, (const uint8_t *)message + offset, sizeof(id));
	return id;
}

uint32_t vb_cm_sender_id(const struct vb_cm_message *message)
{
	const struct vb_cm_layout *layout = vb_cm_layout(message->attribute);

	return layout ? id_at(message, layout->sender_id) : 0;
}

uint32_t vb_cm_receiver_id(const struct vb_cm_message *message)
{
	const struct vb_cm_layout *layout = vb_cm_layout(message->attribute);

	return layout ? id_at(message, layout->receiver_id) : 0;
}

uint8_t *vb_cm_private_data(struct vb_cm_message *message, size_t *size)
{
	const struct vb_cm_layout *layout = vb_cm_layout(message->attribute);

	*size = layout ? layout->private_data_size : 0;
	return layout ? (uint8_t *)message + layout->private_data : NULL;
}
