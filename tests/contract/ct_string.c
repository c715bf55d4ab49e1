/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of enumerators, and rates. */
#include "ct.h"

/* Every value below `count` has a name of its own; a value out of range still answers text. */
static void names_differ(const char *(*name)(int), int first, int count)
{
	for (int i = first; i < count; i++) {
		CT_TRUE(name(i) && name(i)[0]);
		for (int j = first; j < i; j++)
			CT_TRUE(strcmp(name(i), name(j)));
	}
	CT_TRUE(name(10000) && name(10000)[0]);
	CT_TRUE(name(-1000) && name(-1000)[0]);
}

static const char *status_name(int value)
{
	return ibv_wc_status_str(value);
}

static const char *event_name(int value)
{
	return ibv_event_type_str(value);
}

static const char *state_name(int value)
{
	return ibv_port_state_str(value);
}

static const char *node_name(int value)
{
	return ibv_node_type_str(value);
}

static void statuses_have_names(struct ct *t)
{
	names_differ(status_name, IBV_WC_SUCCESS, IBV_WC_GENERAL_ERR + 1);
}

static void events_have_names(struct ct *t)
{
	names_differ(event_name, IBV_EVENT_CQ_ERR, IBV_EVENT_GID_CHANGE + 1);
}

static void port_states_have_names(struct ct *t)
{
	names_differ(state_name, IBV_PORT_NOP, IBV_PORT_ACTIVE_DEFER + 1);
}

static void node_types_have_names(struct ct *t)
{
	names_differ(node_name, IBV_NODE_CA, IBV_NODE_RNIC + 1);
}

static void rates_convert_both_ways(struct ct *t)
{
	static const struct {
		enum ibv_rate rate;
		int mult, mbps;
	} rates[] = {
		/* multiples of 2.5 Gb/s; data rates as the encoding of the lanes leaves them */
		{ IBV_RATE_2_5_GBPS, 1, 2500 },    { IBV_RATE_5_GBPS, 2, 5000 },
		{ IBV_RATE_10_GBPS, 4, 10000 },    { IBV_RATE_20_GBPS, 8, 20000 },
		{ IBV_RATE_30_GBPS, 12, 30000 },   { IBV_RATE_40_GBPS, 16, 40000 },
		{ IBV_RATE_60_GBPS, 24, 60000 },   { IBV_RATE_80_GBPS, 32, 80000 },
		{ IBV_RATE_120_GBPS, 48, 120000 },
	};

	for (int i = 0; i < CT_COUNT(rates); i++) {
		CT_EQ(ibv_rate_to_mult(rates[i].rate), rates[i].mult);
		CT_EQ(mult_to_ibv_rate(rates[i].mult), rates[i].rate);
		CT_EQ(ibv_rate_to_mbps(rates[i].rate), rates[i].mbps);
		CT_EQ(mbps_to_ibv_rate(rates[i].mbps), rates[i].rate);
	}
	CT_EQ(ibv_rate_to_mult(99), -1);
	CT_EQ(ibv_rate_to_mbps(99), -1);
	CT_EQ(mult_to_ibv_rate(3), IBV_RATE_MAX);
	CT_EQ(mbps_to_ibv_rate(12345), IBV_RATE_MAX);
}

const struct ct_case ct_string_cases[] = {
	{ "every completion status has its own name", statuses_have_names, CT_SOLO },
	{ "every async event has its own name", events_have_names, CT_SOLO },
	{ "every port state has its own name", port_states_have_names, CT_SOLO },
	{ "every node type has its own name", node_types_have_names, CT_SOLO },
	{ "rates convert both ways, an unknown one is told apart", rates_convert_both_ways,
	  CT_SOLO },
	{ 0 },
};
