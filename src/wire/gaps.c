/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/gaps.h"

#include "wire/packet.h"

uint32_t vb_gaps_emit(const struct vb_gaps *gaps, uint8_t out[VB_GAPS_LENGTH_MAX])
{
	uint8_t *at = out + VB_GAPS_HEAD_LENGTH;

	vb_put32(out, gaps->end_psn);
	vb_put32(out + 4, gaps->held);
	for (uint32_t i = 0; i < gaps->count; i++, at += VB_GAP_LENGTH) {
		vb_put32(at, gaps->gap[i].psn);
		vb_put32(at + 4, gaps->gap[i].end_psn);
	}
	return (uint32_t)(at - out);
}

/* Gaps have at least one PSN each, do not touch each other, and end before the newest arrival. Not
 * all gaps need be listed. */
static bool gaps_are_in_order(const struct vb_gaps *gaps)
{
	uint32_t from_psn = gaps->psn, missing = 0;

	for (uint32_t i = 0; i < gaps->count; i++) {
		const struct vb_gap *gap = &gaps->gap[i];

		if (vb_psn_diff(gap->psn, from_psn) < (i ? 1 : 0) ||
		    vb_psn_diff(gap->end_psn, gap->psn) <= 0 ||
		    vb_psn_diff(gap->end_psn, gaps->end_psn) >= 0)
			return false;
		missing += (uint32_t)vb_psn_diff(gap->end_psn, gap->psn);
		from_psn = gap->end_psn;
	}
	return missing + gaps->held <= (uint32_t)vb_psn_diff(gaps->end_psn, gaps->psn);
}

bool vb_gaps_parse(uint32_t psn, const uint8_t *payload, uint32_t length, struct vb_gaps *gaps)
{
	if (length < VB_GAPS_HEAD_LENGTH || length > VB_GAPS_LENGTH_MAX ||
	    (length - VB_GAPS_HEAD_LENGTH) % VB_GAP_LENGTH)
		return false;
	gaps->psn = psn;
	gaps->end_psn = vb_get32(payload);
	gaps->held = vb_get32(payload + 4);
	gaps->count = (length - VB_GAPS_HEAD_LENGTH) / VB_GAP_LENGTH;
	if (gaps->end_psn > VB_PSN_MASK || gaps->held > VB_PSN_MASK ||
	    vb_psn_diff(gaps->end_psn, psn) <= 0)
		return false;
	payload += VB_GAPS_HEAD_LENGTH;
	for (uint32_t i = 0; i < gaps->count; i++, payload += VB_GAP_LENGTH) {
		gaps->gap[i] = (struct vb_gap){ vb_get32(payload), vb_get32(payload + 4) };
		if (gaps->gap[i].psn > VB_PSN_MASK || gaps->gap[i].end_psn > VB_PSN_MASK)
			return false;
	}
	return gaps_are_in_order(gaps);
}
