/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/choice.h"

/* To a process of this host that has said whether memory can be touched. */
static enum vb_choice to_process(enum vb_path_choice configured,
				 const struct vb_choice_facts *facts)
{
	if (configured == VB_PATH_AUTO && facts->touchable && !facts->by_packets)
		return VB_CHOICE_LOCAL;
	return facts->process == VB_PROCESS_SELF ? VB_CHOICE_MEMORY : VB_CHOICE_SLOT;
}

enum vb_choice vb_choice_of(enum vb_path_choice configured, const struct vb_choice_facts *facts)
{
	if (facts->multicast)
		return facts->within_host ? VB_CHOICE_GROUP : VB_CHOICE_UDP;
	if (!facts->local || configured == VB_PATH_WIRE)
		return VB_CHOICE_UDP;
	if (configured == VB_PATH_SIM)
		return VB_CHOICE_MEMORY;
	switch (facts->process) {
	case VB_PROCESS_NONE:
		return configured == VB_PATH_SLOT ? VB_CHOICE_MEMORY : VB_CHOICE_UDP;
	case VB_PROCESS_UNASKED:
		return VB_CHOICE_ATTACH;
	case VB_PROCESS_SELF:
	case VB_PROCESS_OTHER:
		break;
	}
	return to_process(configured, facts);
}

enum vb_choice vb_choose(const struct vb_choice_facts *facts)
{
	return vb_choice_of(vb_config_path(), facts);
}

bool vb_choice_udp_to_self(void)
{
	return vb_config_path() == VB_PATH_WIRE;
}

bool vb_choice_never_udp_to_self(void)
{
	return vb_config_path() == VB_PATH_SLOT || vb_config_path() == VB_PATH_SIM;
}

bool vb_choice_may_touch(void)
{
	return vb_config_path() != VB_PATH_SLOT;
}

bool vb_choice_memory_leads_on(void)
{
	return vb_config_path() == VB_PATH_SIM;
}
