/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/qp_edges.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

enum {
	STATES = IBV_QPS_ERR + 1,
	TYPES = IBV_QPT_XRC_RECV + 1,
};
static_assert(IBV_QPS_RESET == 0 && STATES == 7, "states index the tables");

/* A missing row is an illegal edge. Edges to RESET and ERR are not in the tables (edge_find). */
struct qp_edge {
	bool legal;
	int required;
	int optional; /* besides IBV_QP_STATE, which is always allowed */
};

/* Attributes of path migration. */
#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
/* Attributes that may change on every edge into RTS. */
#define RC_RUNNING (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | MIGRATION)
#define UC_RUNNING (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | MIGRATION)
#define UD_RUNNING (IBV_QP_CUR_STATE | IBV_QP_QKEY)
/* Allowed in RTS, and on the edge from RTR. */
#define RATE IBV_QP_RATE_LIMIT

static const struct qp_edge rc_edges[STATES][STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {
		.legal = true,
		.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {
		.legal = true,
		.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH,
	},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {
		.legal = true,
		.required = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC,
		.optional = RC_RUNNING | RATE,
	},
	[IBV_QPS_RTS][IBV_QPS_RTS] = { .legal = true, .optional = RC_RUNNING | RATE },
	[IBV_QPS_RTS][IBV_QPS_SQD] = { .legal = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	[IBV_QPS_SQD][IBV_QPS_RTS] = { .legal = true, .optional = RC_RUNNING },
	[IBV_QPS_SQD][IBV_QPS_SQD] = {
		.legal = true,
		.optional = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_ACCESS_FLAGS |
			    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC |
			    IBV_QP_MAX_DEST_RD_ATOMIC | MIGRATION,
	},
	/* No SQE: an error on RC leads to ERR. */
};

static const struct qp_edge uc_edges[STATES][STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {
		.legal = true,
		.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {
		.legal = true,
		.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH,
	},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {
		.legal = true,
		.required = IBV_QP_SQ_PSN,
		.optional = UC_RUNNING | RATE,
	},
	[IBV_QPS_RTS][IBV_QPS_RTS] = { .legal = true, .optional = UC_RUNNING | RATE },
	[IBV_QPS_RTS][IBV_QPS_SQD] = { .legal = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	[IBV_QPS_SQD][IBV_QPS_RTS] = { .legal = true, .optional = UC_RUNNING },
	[IBV_QPS_SQD][IBV_QPS_SQD] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_ACCESS_FLAGS | MIGRATION,
	},
	[IBV_QPS_SQE][IBV_QPS_RTS] = {
		.legal = true,
		.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS,
	},
};

static const struct qp_edge ud_edges[STATES][STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {
		.legal = true,
		.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
	},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {
		.legal = true,
		.required = IBV_QP_SQ_PSN,
		.optional = UD_RUNNING | RATE,
	},
	[IBV_QPS_RTS][IBV_QPS_RTS] = { .legal = true, .optional = UD_RUNNING | RATE },
	[IBV_QPS_RTS][IBV_QPS_SQD] = { .legal = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	[IBV_QPS_SQD][IBV_QPS_RTS] = { .legal = true, .optional = UD_RUNNING },
	[IBV_QPS_SQD][IBV_QPS_SQD] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
	},
	[IBV_QPS_SQE][IBV_QPS_RTS] = { .legal = true, .optional = UD_RUNNING },
};

/* Frames have no path, no key and no PSN. */
static const struct qp_edge raw_edges[STATES][STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = { .legal = true, .required = IBV_QP_PORT },
	[IBV_QPS_INIT][IBV_QPS_INIT] = { .legal = true, .optional = IBV_QP_PORT },
	[IBV_QPS_INIT][IBV_QPS_RTR] = { .legal = true },
	[IBV_QPS_RTR][IBV_QPS_RTS] = { .legal = true, .optional = IBV_QP_CUR_STATE | RATE },
	[IBV_QPS_RTS][IBV_QPS_RTS] = { .legal = true, .optional = IBV_QP_CUR_STATE | RATE },
	[IBV_QPS_RTS][IBV_QPS_SQD] = { .legal = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	[IBV_QPS_SQD][IBV_QPS_RTS] = { .legal = true, .optional = IBV_QP_CUR_STATE },
	[IBV_QPS_SQD][IBV_QPS_SQD] = { .legal = true },
	[IBV_QPS_SQE][IBV_QPS_RTS] = { .legal = true, .optional = IBV_QP_CUR_STATE },
};

/* The sending half of RC, without the attributes of the receiving half. */
static const struct qp_edge xrc_send_edges[STATES][STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {
		.legal = true,
		.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {
		.legal = true,
		.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH,
	},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {
		.legal = true,
		.required = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC,
		.optional = UC_RUNNING | RATE,
	},
	[IBV_QPS_RTS][IBV_QPS_RTS] = { .legal = true, .optional = UC_RUNNING | RATE },
	[IBV_QPS_RTS][IBV_QPS_SQD] = { .legal = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	[IBV_QPS_SQD][IBV_QPS_RTS] = { .legal = true, .optional = UC_RUNNING },
	[IBV_QPS_SQD][IBV_QPS_SQD] = {
		.legal = true,
		.optional = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_ACCESS_FLAGS |
			    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC | MIGRATION,
	},
};

/* The receiving half of RC. */
static const struct qp_edge xrc_recv_edges[STATES][STATES] = {
	[IBV_QPS_RESET][IBV_QPS_INIT] = {
		.legal = true,
		.required = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_INIT] = {
		.legal = true,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	},
	[IBV_QPS_INIT][IBV_QPS_RTR] = {
		.legal = true,
		.required = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		.optional = IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH,
	},
	[IBV_QPS_RTR][IBV_QPS_RTS] = {
		.legal = true,
		.required = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
		.optional = RC_RUNNING,
	},
	[IBV_QPS_RTS][IBV_QPS_RTS] = { .legal = true, .optional = RC_RUNNING },
	[IBV_QPS_RTS][IBV_QPS_SQD] = { .legal = true, .optional = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	[IBV_QPS_SQD][IBV_QPS_RTS] = { .legal = true, .optional = RC_RUNNING },
	[IBV_QPS_SQD][IBV_QPS_SQD] = {
		.legal = true,
		.optional = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_ACCESS_FLAGS |
			    IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC |
			    MIGRATION,
	},
};

static const struct {
	const char *name;
	const struct qp_edge (*edges)[STATES];
} types[TYPES] = {
	[IBV_QPT_RC] = { "RC", rc_edges },
	[IBV_QPT_UC] = { "UC", uc_edges },
	[IBV_QPT_UD] = { "UD", ud_edges },
	[IBV_QPT_RAW_PACKET] = { "raw packet", raw_edges },
	[IBV_QPT_XRC_SEND] = { "XRC_SEND", xrc_send_edges },
	[IBV_QPT_XRC_RECV] = { "XRC_RECV", xrc_recv_edges },
};

static const char *const states[STATES] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

static const struct {
	int bit;
	const char *name;
} attributes[] = {
	{ IBV_QP_STATE, "IBV_QP_STATE" },
	{ IBV_QP_CUR_STATE, "IBV_QP_CUR_STATE" },
	{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY" },
	{ IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS" },
	{ IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX" },
	{ IBV_QP_PORT, "IBV_QP_PORT" },
	{ IBV_QP_QKEY, "IBV_QP_QKEY" },
	{ IBV_QP_AV, "IBV_QP_AV" },
	{ IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU" },
	{ IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT" },
	{ IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT" },
	{ IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY" },
	{ IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC" },
	{ IBV_QP_ALT_PATH, "IBV_QP_ALT_PATH" },
	{ IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER" },
	{ IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN" },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC" },
	{ IBV_QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE" },
	{ IBV_QP_CAP, "IBV_QP_CAP" },
	{ IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN" },
	{ IBV_QP_RATE_LIMIT, "IBV_QP_RATE_LIMIT" },
};

enum verdict { EDGE_OK, TYPE_UNKNOWN, EDGE_ILLEGAL, ATTR_MISSING, ATTR_FORBIDDEN };

static bool type_known(enum ibv_qp_type type)
{
	return (unsigned)type < TYPES && types[type].edges;
}

static bool state_known(enum ibv_qp_state state)
{
	return (unsigned)state < STATES;
}

/* Every state has edges to RESET and ERR, except that the kernel refuses RESET to ERR. */
static struct qp_edge edge_find(enum ibv_qp_type type, enum ibv_qp_state cur,
				enum ibv_qp_state next)
{
	if (!state_known(cur) || !state_known(next))
		return (struct qp_edge){ .legal = false };
	if (next == IBV_QPS_RESET)
		return (struct qp_edge){ .legal = true };
	if (next == IBV_QPS_ERR)
		return (struct qp_edge){ .legal = cur != IBV_QPS_RESET };
	return types[type].edges[cur][next];
}

/* `attrs` gets the attributes that the verdict is about. */
static enum verdict edge_judge(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
			       int attr_mask, int *attrs)
{
	struct qp_edge edge;

	*attrs = 0;
	if (!type_known(type))
		return TYPE_UNKNOWN;
	edge = edge_find(type, cur, next);
	if (!edge.legal)
		return EDGE_ILLEGAL;
	*attrs = edge.required & ~attr_mask;
	if (*attrs)
		return ATTR_MISSING;
	*attrs = attr_mask & ~(edge.required | edge.optional | IBV_QP_STATE);
	return *attrs ? ATTR_FORBIDDEN : EDGE_OK;
}

int vb_qp_edge_check(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		     int attr_mask)
{
	int attrs;

	return edge_judge(type, cur, next, attr_mask, &attrs) == EDGE_OK ? 0 : -EINVAL;
}

const char *vb_qp_state_str(enum ibv_qp_state state)
{
	return state_known(state) ? states[state] : "unknown";
}

/* A sentence under construction, cut at size. */
struct text {
	char *start;
	size_t size;
	size_t length;
};

static void text_add(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void text_add(struct text *text, const char *format, ...)
{
	va_list args;
	int added;

	if (text->length >= text->size)
		return;
	va_start(args, format);
	added = vsnprintf(text->start + text->length, text->size - text->length, format, args);
	va_end(args);
	if (added > 0)
		text->length += (size_t)added;
}

/* Adds " IBV_QP_AV, IBV_QP_PATH_MTU"; bits without a name follow as one number. */
static void text_add_attrs(struct text *text, int attrs)
{
	const char *separator = " ";

	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (!(attrs & attributes[i].bit))
			continue;
		text_add(text, "%s%s", separator, attributes[i].name);
		separator = ", ";
		attrs &= ~attributes[i].bit;
	}
	if (attrs)
		text_add(text, "%s0x%x", separator, (unsigned)attrs);
}

static void text_add_ways_out(struct text *text, enum ibv_qp_type type, enum ibv_qp_state cur)
{
	const char *separator = "; the ways from there are ";

	for (int next = 0; next < STATES; next++) {
		if (!edge_find(type, cur, (enum ibv_qp_state)next).legal)
			continue;
		text_add(text, "%s%s", separator, states[next]);
		separator = ", ";
	}
}

const char *vb_qp_type_str(enum ibv_qp_type type)
{
	return (unsigned)type < TYPES && types[type].name ? types[type].name : "unknown";
}

static void text_add_edge(struct text *text, enum ibv_qp_type type, enum ibv_qp_state cur,
			  enum ibv_qp_state next)
{
	text_add(text, "%s QP, %s to %s:", types[type].name, vb_qp_state_str(cur),
		 vb_qp_state_str(next));
}

const char *vb_qp_edge_explain(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
			       int attr_mask, char *sentence, size_t size)
{
	struct text text = { .start = sentence, .size = size };
	int attrs;

	text_add(&text, "%s", "");
	switch (edge_judge(type, cur, next, attr_mask, &attrs)) {
	case EDGE_OK:
		break;
	case TYPE_UNKNOWN:
		text_add(&text, "QP type %d is not one of RC, UC, UD, XRC, raw packet", (int)type);
		break;
	case EDGE_ILLEGAL:
		if (!state_known(next)) {
			text_add(&text, "qp_state %d is no state of a QP", (int)next);
			break;
		}
		text_add_edge(&text, type, cur, next);
		text_add(&text, " not a legal transition");
		text_add_ways_out(&text, type, cur);
		break;
	case ATTR_MISSING:
		text_add_edge(&text, type, cur, next);
		text_add(&text, " the attribute mask lacks");
		text_add_attrs(&text, attrs);
		break;
	case ATTR_FORBIDDEN:
		text_add_edge(&text, type, cur, next);
		text_add(&text, " the attribute mask must not have");
		text_add_attrs(&text, attrs);
		break;
	}
	return sentence;
}
