/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of the device. Completions are stamped with it as well. */
#include "base/annotate.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "verbs/ops.h"

/* In ticks: programs take tv_nsec for the counter, and tv_sec * 10^9 + tv_nsec is the same. */
int vb_ops_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	VB_NO_CANCEL;
	uint32_t asked = values->comp_mask;

	(void)context; /* all devices of the host have one clock */
	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)vb_device_clock();
		values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	}
	vb_tell_filled(values, sizeof(*values));
	if (!(asked & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK))
		return 0;
	vb_explain("ibv_query_rt_values_ex: comp_mask 0x%x asks for more than the raw clock (0x%x)",
		   asked, IBV_VALUES_MASK_RAW_CLOCK);
	return vb_return_errno(-EINVAL);
}
