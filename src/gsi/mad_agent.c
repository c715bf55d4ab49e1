/* SPDX-License-Identifier: BSD-2-Clause */
/* The agents answer a process of this host, in the thread that asks. */
#include <unistd.h>

#include "engine/attach/ask.h"
#include "gsi/mad.h"
#include "gsi/sa.h"
#include "mad/agent.h"

/* Processes of other users do not tell. */
static void count_others(struct vb_mad_port *port, uint16_t clear)
{
	const struct vb_ask_filter filter = { .except = getpid(),
					      .what = VB_DESCRIBE_PORT,
					      .clear = clear };
	struct vb_asked_processes all;

	if (vb_ask_processes(&all, &filter))
		return;
	for (unsigned i = 0; i < all.count; i++)
		if (!all.list[i].error && all.list[i].answer.record_count == 1)
			vb_mad_port_count(port, all.list[i].port);
	vb_ask_free(&all);
}

static void count_all(struct vb_nic *nic, struct vb_mad_port *port)
{
	struct vb_port_counts own;

	vb_port_counts(nic, &own);
	vb_mad_port_count(port, &own);
	count_others(port, 0);
}

static void clear_all(struct vb_nic *nic, uint16_t clear)
{
	struct vb_mad_port ignored = { 0 };

	vb_port_counts_clear(nic, clear);
	count_others(&ignored, clear);
}

size_t vb_mad_agent(struct vb_nic *nic, const struct vb_device *dev, const uint8_t *request,
		    uint8_t *answer, size_t room)
{
	struct vb_mad_port port;
	struct vb_mad mad;
	uint16_t clear;

	vb_mad_parse(request, &mad);
	if (mad.management_class == VB_MAD_CLASS_SUBN_ADM)
		return vb_mad_sa(nic, dev, request, answer, room);
	if (!vb_agent_has_class(mad.management_class) || room < VB_MAD_SIZE)
		return 0;
	vb_mad_port_fill(nic, dev, &port);
	if (mad.management_class == VB_MAD_CLASS_PERF)
		count_all(nic, &port);
	if (!vb_agent_answer(&port, request, answer, &clear))
		return 0;
	if (clear)
		clear_all(nic, clear);
	return VB_MAD_SIZE;
}
