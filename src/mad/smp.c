/* SPDX-License-Identifier: BSD-2-Clause */
/* The subnet management agent (IBA 14.2.5). */
#include <string.h>

#include "mad/agent.h"
#include "mad/attribute.h"
#include "wire/bytes.h"

enum attribute {
	NODE_DESCRIPTION = 0x0010,
	NODE_INFO = 0x0011,
	GUID_INFO = 0x0014,
	PORT_INFO = 0x0015,
	PKEY_TABLE = 0x0016,
	SM_INFO = 0x0020,
};

enum { PKEYS_OF_BLOCK = 32 };

static uint16_t get_node_description(const struct vb_mad_port *port, uint32_t modifier,
				     uint8_t *data)
{
	memcpy(data, port->description, sizeof(port->description));
	return VB_MAD_OK;
}

static uint16_t get_node_info(const struct vb_mad_port *port, uint32_t modifier, uint8_t *data)
{
	vb_node_info_emit(port, data);
	return VB_MAD_OK;
}

/* The modifier is a block of eight GUIDs. */
static uint16_t get_guid_info(const struct vb_mad_port *port, uint32_t modifier, uint8_t *data)
{
	if (modifier)
		return VB_MAD_BAD_VALUE;
	vb_put64(data, port->port_guid);
	return VB_MAD_OK;
}

/* The modifier is the port; 0: the port that the MAD came to. */
static uint16_t get_port_info(const struct vb_mad_port *port, uint32_t modifier, uint8_t *data)
{
	if (modifier > 1)
		return VB_MAD_BAD_VALUE;
	vb_port_info_emit(port, data);
	return VB_MAD_OK;
}

/* The lower half of the modifier is a block of the table; the upper half is for switches. */
static uint16_t get_pkey_table(const struct vb_mad_port *port, uint32_t modifier, uint8_t *data)
{
	const unsigned first = (modifier & 0xffff) * PKEYS_OF_BLOCK;

	if (modifier >> 16 > 1 || first >= port->pkey_count)
		return VB_MAD_BAD_VALUE;
	for (unsigned i = 0; i < PKEYS_OF_BLOCK && first + i < port->pkey_count; i++)
		vb_put16(data + 2 * i, port->pkeys[first + i]);
	return VB_MAD_OK;
}

static uint16_t get_sm_info(const struct vb_mad_port *port, uint32_t modifier, uint8_t *data)
{
	vb_sm_info_emit(port, data);
	return VB_MAD_OK;
}

/* SwitchInfo and the tables of switches are no attributes of a channel adapter. */
static const struct row {
	enum attribute attribute;
	uint16_t (*get)(const struct vb_mad_port *port, uint32_t modifier, uint8_t *data);
} rows[] = {
	{ NODE_DESCRIPTION, get_node_description },
	{ NODE_INFO, get_node_info },
	{ GUID_INFO, get_guid_info },
	{ PORT_INFO, get_port_info },
	{ PKEY_TABLE, get_pkey_table },
	{ SM_INFO, get_sm_info },
};

uint16_t vb_smp_get(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *data)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].attribute == mad->attribute_id)
			return rows[i].get(port, mad->attribute_modifier, data);
	return VB_MAD_BAD_ATTRIBUTE;
}
