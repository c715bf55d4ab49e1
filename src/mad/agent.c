/* SPDX-License-Identifier: BSD-2-Clause */
#include "mad/agent.h"

#include <string.h>

enum { CLASS_VERSION = 1 }; /* of both classes */

bool vb_agent_has_class(uint8_t management_class)
{
	return vb_mad_is_smp(management_class) || management_class == VB_MAD_CLASS_PERF;
}

/* The parts of the request that an answer has, too (IBA 13.4.5, 14.2.2): M_Key and path. */
static void begin_answer(const struct vb_mad *mad, const uint8_t *request, uint8_t *answer)
{
	memcpy(answer, request, VB_MAD_SIZE);
	if (vb_mad_is_smp(mad->management_class))
		memset(answer + VB_SMP_DATA_AT, 0, VB_SMP_DATA_SIZE);
}

static uint16_t dispatch(const struct vb_mad_port *port, const struct vb_mad *mad, uint8_t *answer,
			 uint16_t *clear)
{
	const bool set = mad->method == VB_MAD_SET;

	if (mad->base_version != VB_MAD_BASE_VERSION || mad->class_version != CLASS_VERSION ||
	    !vb_agent_has_class(mad->management_class))
		return VB_MAD_BAD_VERSION;
	if (!set && mad->method != VB_MAD_GET)
		return VB_MAD_BAD_METHOD;
	if (mad->management_class == VB_MAD_CLASS_PERF)
		return set ? vb_perf_set(port, mad, answer + VB_PERF_DATA_AT, clear)
			   : vb_perf_get(port, mad, answer + VB_PERF_DATA_AT);
	/* The addresses of the host make the attributes of its port: there is nothing to set. */
	return set ? VB_MAD_BAD_ATTRIBUTE : vb_smp_get(port, mad, answer + VB_SMP_DATA_AT);
}

bool vb_agent_answer(const struct vb_mad_port *port, const uint8_t request[VB_MAD_SIZE],
		     uint8_t answer[VB_MAD_SIZE], uint16_t *clear)
{
	struct vb_mad mad;

	*clear = 0;
	vb_mad_parse(request, &mad);
	if (!vb_mad_is_request(&mad))
		return false;
	begin_answer(&mad, request, answer);
	mad.status = dispatch(port, &mad, answer, clear);
	if (mad.management_class == VB_MAD_CLASS_SUBN_DIRECTED) {
		mad.status |= VB_MAD_DIRECTION;
		mad.class_specific &= 0xff; /* the hop pointer is back at the source */
	}
	mad.method = vb_mad_method_of_answer(mad.method);
	vb_mad_emit(&mad, answer);
	return true;
}
