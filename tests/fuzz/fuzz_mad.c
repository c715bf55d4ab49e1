/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a MAD to an agent, or to subnet administration: an answer has the transaction of its
 * request, is an answer, and gets none itself.
 */
#include <string.h>

#include "../unit/mad/sample_port.h"
#include "fuzz.h"
#include "mad/sa.h"

static void check_answer(const uint8_t *request, const uint8_t *answer)
{
	const struct vb_mad_port port = sample_port();
	uint8_t more[VB_MAD_SIZE];
	struct vb_mad asked, told;
	uint16_t clear;

	vb_mad_parse(request, &asked);
	vb_mad_parse(answer, &told);
	fuzz_check(told.transaction_id == asked.transaction_id);
	fuzz_check(told.management_class == asked.management_class);
	fuzz_check(told.attribute_id == asked.attribute_id);
	fuzz_check(vb_mad_is_response(&told) && !vb_mad_is_response(&asked));
	fuzz_check(!vb_agent_answer(&port, answer, more, &clear));
}

static void ask_administration(const uint8_t *request)
{
	static struct vb_sa_view view = { .port_count = VB_SA_PORTS_MAX,
					  .group_count = VB_SA_GROUPS_MAX };
	uint8_t *answer = malloc(VB_SA_ANSWER_MAX);
	struct vb_sa_effect effect;
	struct vb_mad asked, told;
	size_t length;

	fuzz_check(answer);
	view.own = sample_port();
	length = vb_sa_answer(&view, request, answer, &effect);
	fuzz_check(length <= VB_SA_ANSWER_MAX);
	if (length) {
		fuzz_check(length >= VB_SA_DATA_AT);
		vb_mad_parse(request, &asked);
		vb_mad_parse(answer, &told);
		fuzz_check(told.transaction_id == asked.transaction_id);
		fuzz_check(vb_mad_is_response(&told) && !vb_mad_is_response(&asked));
		fuzz_check(effect.act == VB_SA_NOTHING || !told.status);
	}
	free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const struct vb_mad_port port = sample_port();
	uint8_t request[VB_MAD_SIZE] = { 0 }, answer[VB_MAD_SIZE];
	uint16_t clear;

	memcpy(request, bytes, length < sizeof(request) ? length : sizeof(request));
	memset(answer, 0xee, sizeof(answer));
	if (vb_agent_answer(&port, request, answer, &clear))
		check_answer(request, answer);
	ask_administration(request);
	return 0;
}
