/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/environment.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/once.h"

/* A profile that takes nothing away from posts costs them nothing. */
static void guard_posts(void)
{
	const bool guarded = vb_fact(VB_FACT_SEND_OPS) != vb_fact_rows[VB_FACT_SEND_OPS].own ||
			     vb_fact(VB_FACT_MAX_SGE_RD) < vb_fact(VB_FACT_MAX_SGE) ||
			     vb_fact(VB_FACT_MAX_MSG_SZ) != vb_fact_rows[VB_FACT_MAX_MSG_SZ].own ||
			     vb_fact(VB_FACT_MAX_TSO) != vb_fact_rows[VB_FACT_MAX_TSO].own;

	if (guarded)
		vb_wr_guard_posts();
}

static void explain_excess(const char *file, const struct vb_profile *profile)
{
	char text[2 * VB_PROFILE_VALUE_MAX];

	for (int i = 0; i < VB_FACT_COUNT; i++) {
		if (!vb_profile_exceeds(profile, i))
			continue;
		vb_profile_print_excess(profile, i, text);
		vb_explain_each("%s: beyond this device: %s", file, text);
	}
}

static int adopt(const char *file, const char *text)
{
	uint64_t values[VB_FACT_COUNT];
	char why[VB_PROFILE_WHY_MAX];
	struct vb_profile profile;

	if (vb_profile_parse(text, &profile, why))
		return vb_config_refuse(file, why);
	for (int i = 0; i < VB_FACT_COUNT; i++)
		values[i] = vb_profile_fact(&profile, i);
	vb_facts_set(values);
	guard_posts();
	explain_excess(file, &profile);
	return 0;
}

static int load_environment(void)
{
	const char *file = vb_environment_text(VB_ENV_AS);
	char *text = file ? malloc(VB_PROFILE_BYTES_MAX) : NULL;
	int err;

	if (!file)
		return 0;
	if (!text)
		return -ENOMEM;
	err = vb_config_read_file(file, 0, text, VB_PROFILE_BYTES_MAX);
	if (!err)
		err = adopt(file, text);
	free(text);
	return err;
}

int vb_profile_load(void)
{
	static struct vb_once once = VB_ONCE_INIT;

	return vb_once_load(&once, load_environment);
}

int vb_profile_check_verb(enum vb_verb verb, const char *call)
{
	if (vb_fact_has(VB_FACT_VERBS, verb))
		return 0;
	vb_explain("%s: the device whose profile is in force does not have this call", call);
	return -EOPNOTSUPP;
}

/* --- posts --- */

static uint64_t length_of(const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

bool vb_profile_sends(const struct vb_wr_row *row)
{
	return row->transports && vb_fact_has(VB_FACT_SEND_OPS, row->create_flag);
}

const char *vb_profile_refusal(const struct ibv_send_wr *wr, const struct vb_wr_row *row)
{
	if (row->flags & VB_WR_STAYS)
		return NULL;
	if (wr->opcode == IBV_WR_RDMA_READ && wr->num_sge > (int)vb_fact(VB_FACT_MAX_SGE_RD))
		return "more SGEs than max_sge_rd";
	/* Later checks refuse more elements: here they are not read. */
	if (wr->num_sge <= VB_SGE_MAX && length_of(wr) > vb_fact(VB_FACT_MAX_MSG_SZ))
		return "more bytes than max_msg_sz";
	if (wr->opcode == IBV_WR_TSO && length_of(wr) > vb_fact(VB_FACT_MAX_TSO))
		return "more bytes than max_tso";
	return NULL;
}

bool vb_profile_sends_plainly(void)
{
	return vb_fact_has(VB_FACT_SEND_OPS, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
}
