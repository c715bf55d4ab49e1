/* SPDX-License-Identifier: BSD-2-Clause */
/* From text to rules: "ACTION TARGET [NAME=VALUE]...", and a sentence for a wrong rule. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nic/wr_opcode.h"
#include "path/fault/rule.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ACTION(a)    (1u << VB_FAULT_##a)

enum {
	ANY_ACTION = ~0u,
	HOLD_NS = 1000000, /* time for which a packet waits to be overtaken, without by= */
};

/* The word of each action, and the targets that it goes with. */
static const struct {
	const char *name;
	unsigned targets;
} actions[VB_FAULT_ACTION_COUNT] = {
	[VB_FAULT_DROP] = { "drop", VB_FAULT_PACKET | VB_FAULT_WR },
	[VB_FAULT_DUPLICATE] = { "duplicate", VB_FAULT_PACKET },
	[VB_FAULT_DELAY] = { "delay", VB_FAULT_PACKET | VB_FAULT_WR },
	[VB_FAULT_REORDER] = { "reorder", VB_FAULT_PACKET },
	[VB_FAULT_CORRUPT] = { "corrupt", VB_FAULT_PACKET },
	[VB_FAULT_FAIL] = { "fail", VB_FAULT_WR },
	[VB_FAULT_FATAL] = { "fatal", VB_FAULT_DEVICE },
};

struct reader {
	struct vb_fault_rule *rule;
	const char *action, *target; /* words of the rule */
	unsigned given;              /* set of options, by their index */
	char *why;
};

static int rule_refuse(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int rule_refuse(struct reader *reader, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->why, VB_FAULT_WHY_MAX, format, args);
	va_end(args);
	return -EINVAL;
}

/* --- values --- */

/* Reads the digits at *text, and moves *text behind them. */
static bool read_number(const char **text, uint64_t *number)
{
	bool hex = !strncasecmp(*text, "0x", 2);
	const char *digits = hex ? *text + 2 : *text;
	char *end;

	errno = 0;
	*number = strtoull(digits, &end, hex ? 16 : 10);
	if (end == digits || strchr("+- \t", *digits) || errno)
		return false;
	*text = end;
	return true;
}

static bool whole_number(const char *text, uint64_t most, uint64_t *number)
{
	return read_number(&text, number) && !*text && *number <= most;
}

static bool counting_number(const char *text, uint64_t *number)
{
	return whole_number(text, UINT64_MAX, number) && *number;
}

static int read_qpn(struct reader *reader, const char *value, uint32_t *qpn)
{
	uint64_t number;

	if (!whole_number(value, 0xffffff, &number))
		return rule_refuse(reader, "\"%s\" is not a QP number", value);
	*qpn = (uint32_t)number;
	return 0;
}

/* "3", "3..7" or "3.." */
static int read_nth(struct reader *reader, const char *value)
{
	struct vb_fault_rule *rule = reader->rule;
	const char *at = value;

	if (!read_number(&at, &rule->first) || !rule->first)
		goto not_one;
	rule->last = rule->first;
	if (!*at)
		return 0;
	if (strncmp(at, "..", 2))
		goto not_one;
	at += 2;
	rule->last = UINT64_MAX;
	if (*at && (!read_number(&at, &rule->last) || *at || rule->last < rule->first))
		goto not_one;
	return 0;
not_one:
	return rule_refuse(reader,
			   "\"nth=%s\" is neither a number from 1 nor a range such as 3..7 or "
			   "3..",
			   value);
}

static int read_after(struct reader *reader, const char *value)
{
	uint64_t count;

	if (!whole_number(value, UINT64_MAX - 1, &count))
		return rule_refuse(reader, "\"after=%s\" is not a number", value);
	reader->rule->first = count + 1;
	reader->rule->last = UINT64_MAX;
	return 0;
}

static int read_every(struct reader *reader, const char *value)
{
	if (!counting_number(value, &reader->rule->every))
		return rule_refuse(reader, "\"every=%s\" is not a number from 1", value);
	return 0;
}

static int read_times(struct reader *reader, const char *value)
{
	if (!counting_number(value, &reader->rule->times))
		return rule_refuse(reader, "\"times=%s\" is not a number from 1", value);
	return 0;
}

static int read_seed(struct reader *reader, const char *value)
{
	if (!whole_number(value, UINT64_MAX, &reader->rule->seed))
		return rule_refuse(reader, "\"seed=%s\" is not a number", value);
	return 0;
}

/*
 * "0.02" or "2%", in units of 10^-9. Not strtod, which expects a comma in some locales.
 */
static bool read_fraction(const char *text, uint64_t *billionths)
{
	uint64_t unit = 1000000000, sum = 0;
	bool digits = false, percent = *text && text[strlen(text) - 1] == '%';

	for (; *text >= '0' && *text <= '9' && sum < 1000 * unit; text++, digits = true)
		sum = sum * 10 + (uint64_t)(*text - '0') * unit;
	if (*text == '.') {
		for (text++; *text >= '0' && *text <= '9'; text++, digits = true) {
			unit /= 10;
			sum += (uint64_t)(*text - '0') * unit;
		}
	}
	*billionths = percent ? sum / 100 : sum;
	return digits && !strcmp(text, percent ? "%" : "") && *billionths <= 1000000000;
}

static int read_chance(struct reader *reader, const char *value)
{
	uint64_t billionths;

	if (!read_fraction(value, &billionths))
		return rule_refuse(
			reader, "\"p=%s\" is not a probability from 0 to 1, or up to 100%%", value);
	reader->rule->chance = billionths * VB_FAULT_ALWAYS / 1000000000;
	return 0;
}

static int read_time(struct reader *reader, const char *value)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	const char *unit = value;
	uint64_t number;

	if (read_number(&unit, &number)) {
		for (size_t i = 0; i < COUNT(units); i++) {
			if (strcmp(units[i].name, unit) || number > 3600000000000ull / units[i].ns)
				continue;
			reader->rule->by_ns = number * units[i].ns;
			return 0;
		}
	}
	return rule_refuse(reader,
			   "\"by=%s\" is not a time up to an hour: a number with ns, us, ms or "
			   "s",
			   value);
}

static int read_bit(struct reader *reader, const char *value)
{
	uint64_t number;

	if (!whole_number(value, UINT32_MAX, &number))
		return rule_refuse(reader, "\"bit=%s\" is not a number", value);
	reader->rule->bit = (uint32_t)number;
	reader->rule->bit_given = true;
	return 0;
}

static int read_own_qpn(struct reader *reader, const char *value)
{
	return read_qpn(reader, value, &reader->rule->qpn);
}

static int read_peer_qpn(struct reader *reader, const char *value)
{
	return read_qpn(reader, value, &reader->rule->peer_qpn);
}

/* Reads one of two words; the set is 1 for the first, 2 for the second. */
static int read_either(struct reader *reader, const char *value, const char *first,
		       const char *second, uint8_t *set)
{
	if (strcmp(value, first) && strcmp(value, second))
		return rule_refuse(reader, "\"%s\" is neither %s nor %s", value, first, second);
	*set = strcmp(value, first) ? 2 : 1;
	return 0;
}

static int read_direction(struct reader *reader, const char *value)
{
	return read_either(reader, value, "in", "out", &reader->rule->directions);
}

static int read_path(struct reader *reader, const char *value)
{
	return read_either(reader, value, "local", "wire", &reader->rule->paths);
}

static int read_transport(struct reader *reader, const char *value)
{
	static const char *const names[] = { [0] = "rc", [1] = "uc", [3] = "ud", [5] = "xrc" };

	for (unsigned i = 0; i < COUNT(names); i++) {
		if (names[i] && !strcasecmp(names[i], value)) {
			reader->rule->transports = (uint8_t)(1u << i);
			return 0;
		}
	}
	return rule_refuse(reader, "\"transport=%s\" is not one of rc, uc, ud, xrc", value);
}

/* The opcodes of work requests that never leave the adapter, and so cannot get lost. */
static uint64_t opcodes_staying(void)
{
	uint64_t bits = 0;

	for (uint8_t opcode = 0; opcode < VB_WR_OPCODE_COUNT; opcode++)
		bits |= (uint64_t)vb_wr_stays(opcode) << opcode;
	return bits;
}

static bool rule_loses_work(const struct vb_fault_rule *rule)
{
	return rule->action == VB_FAULT_DROP && rule->target == VB_FAULT_WR;
}

/* Names, separated by commas. */
static int read_opcodes(struct reader *reader, const char *value)
{
	struct vb_fault_rule *rule = reader->rule;
	bool packet = rule->target == VB_FAULT_PACKET;
	char names[VB_FAULT_TEXT_MAX], *rest = names, *name;

	snprintf(names, sizeof(names), "%s", value);
	rule->opcodes = (struct vb_fault_opcodes){ 0 };
	while ((name = strsep(&rest, ","))) {
		if (packet ? !vb_fault_packet_opcode(name, &rule->opcodes)
			   : !vb_fault_wr_opcode(name, &rule->opcodes))
			return rule_refuse(reader, "\"%s\" is not an opcode of a %s", name,
					   packet ? "packet" : "work request");
		if (rule_loses_work(rule) && rule->opcodes.word[0] & opcodes_staying())
			return rule_refuse(reader,
					   "\"%s\" never leaves the adapter: it cannot get lost",
					   name);
	}
	return 0;
}

static int read_status(struct reader *reader, const char *value)
{
	if (!vb_fault_status(value, &reader->rule->status))
		return rule_refuse(reader,
				   "\"status=%s\" is not the name of an error such as "
				   "rem_access_err",
				   value);
	return 0;
}

/* --- options --- */

static const struct option {
	const char *name;
	int (*read)(struct reader *reader, const char *value);
	unsigned targets, actions; /* sets of those that the option goes with */
} options[] = {
	{ "nth", read_nth, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "after", read_after, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "every", read_every, VB_FAULT_PACKET | VB_FAULT_WR, ANY_ACTION },
	{ "times", read_times, VB_FAULT_PACKET | VB_FAULT_WR, ANY_ACTION },
	{ "p", read_chance, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "seed", read_seed, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "qp", read_own_qpn, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "peer", read_peer_qpn, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "opcode", read_opcodes, VB_FAULT_PACKET | VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "path", read_path, VB_FAULT_WR | VB_FAULT_DEVICE, ANY_ACTION },
	{ "direction", read_direction, VB_FAULT_PACKET, ANY_ACTION },
	{ "transport", read_transport, VB_FAULT_PACKET, ANY_ACTION },
	{ "by", read_time, VB_FAULT_PACKET | VB_FAULT_WR, ACTION(DELAY) | ACTION(REORDER) },
	{ "bit", read_bit, VB_FAULT_PACKET, ACTION(CORRUPT) },
	{ "status", read_status, VB_FAULT_WR, ACTION(FAIL) },
};

static bool is_given(const struct reader *reader, const char *name)
{
	for (unsigned i = 0; i < COUNT(options); i++) {
		if (!strcmp(options[i].name, name))
			return reader->given >> i & 1;
	}
	return false;
}

static int read_option(struct reader *reader, char *word)
{
	char *value = strchr(word, '=');
	unsigned i = 0;

	if (!value)
		return rule_refuse(reader, "\"%s\" is not of the form name=value", word);
	*value++ = '\0';
	while (i < COUNT(options) && strcmp(options[i].name, word))
		i++;
	if (i == COUNT(options))
		return rule_refuse(reader, "there is no option \"%s\"", word);
	if (!(options[i].targets & reader->rule->target) ||
	    !(options[i].actions >> reader->rule->action & 1))
		return rule_refuse(reader, "\"%s\" does not go with \"%s %s\"", word,
				   reader->action, reader->target);
	if (reader->given >> i & 1)
		return rule_refuse(reader, "\"%s\" is given twice", word);
	reader->given |= 1u << i;
	return options[i].read(reader, value);
}

/* --- a rule --- */

static int read_action(struct reader *reader)
{
	static const char *const targets[] = { "packet", "wr", "device" };
	struct vb_fault_rule *rule = reader->rule;

	for (unsigned i = 0; i < VB_FAULT_ACTION_COUNT; i++) {
		if (actions[i].name && !strcmp(actions[i].name, reader->action))
			rule->action = (enum vb_fault_action)i;
	}
	if (rule->action == VB_FAULT_NONE)
		return rule_refuse(reader,
				   "the rule begins with \"%s\", not with drop, duplicate, delay, "
				   "reorder, corrupt, fail or fatal",
				   reader->action);
	for (unsigned i = 0; i < COUNT(targets); i++) {
		if (reader->target && !strcmp(targets[i], reader->target))
			rule->target = 1u << i;
	}
	if (!rule->target)
		return rule_refuse(reader,
				   "\"%s\" is followed by \"%s\", not by packet, wr or device",
				   reader->action, reader->target ? reader->target : "");
	if (!(actions[rule->action].targets & rule->target))
		return rule_refuse(reader, "\"%s\" cannot happen to a %s", reader->action,
				   reader->target);
	return 0;
}

static void rule_preset(struct vb_fault_rule *rule, unsigned number)
{
	rule->directions = VB_FAULT_IN | VB_FAULT_OUT;
	rule->paths = VB_FAULT_LOCAL | VB_FAULT_WIRE;
	rule->transports = UINT8_MAX;
	rule->qpn = rule->peer_qpn = VB_FAULT_QPN_ANY;
	rule->first = 1;
	rule->last = UINT64_MAX;
	rule->every = 1;
	rule->times = rule->action == VB_FAULT_FATAL ? 1 : UINT64_MAX;
	rule->chance = VB_FAULT_ALWAYS;
	rule->seed = number;
	rule->by_ns = rule->action == VB_FAULT_REORDER ? HOLD_NS : 0;
	for (unsigned i = 0; i < COUNT(rule->opcodes.word); i++)
		rule->opcodes.word[i] = UINT64_MAX;
	if (rule_loses_work(rule))
		rule->opcodes.word[0] &= ~opcodes_staying();
}

static int rule_check(struct reader *reader)
{
	if (reader->rule->action == VB_FAULT_DELAY && !is_given(reader, "by"))
		return rule_refuse(reader, "\"delay\" needs by=TIME");
	if (reader->rule->action == VB_FAULT_FAIL && !is_given(reader, "status"))
		return rule_refuse(reader, "\"fail\" needs status=NAME");
	if (is_given(reader, "nth") && is_given(reader, "after"))
		return rule_refuse(reader, "\"nth\" and \"after\" say the same in two ways");
	return 0;
}

static int read_rule(char *text, unsigned number, struct vb_fault_rule *rule, char *why)
{
	static const char space[] = " \t\r";
	char *rest, *word;
	struct reader reader = { .rule = rule, .why = why };
	int err;

	reader.action = strtok_r(text, space, &rest);
	reader.target = strtok_r(NULL, space, &rest);
	err = read_action(&reader);
	if (err)
		return err;
	rule_preset(rule, number);
	while (!err && (word = strtok_r(NULL, space, &rest)))
		err = read_option(&reader, word);
	return err ? err : rule_check(&reader);
}

static int add_rule(struct vb_fault_rules *rules, const char *text, size_t length, char *why)
{
	struct vb_fault_rule *rule = &rules->rule[rules->count];
	char words[VB_FAULT_TEXT_MAX], because[VB_FAULT_WHY_MAX];
	int err;

	if (rules->count == VB_FAULT_RULES_MAX || length >= sizeof(words)) {
		snprintf(why, VB_FAULT_WHY_MAX,
			 length >= sizeof(words) ? "a rule has more than %d bytes"
						 : "there are more than %d rules",
			 length >= sizeof(words) ? VB_FAULT_TEXT_MAX - 1 : VB_FAULT_RULES_MAX);
		return -EINVAL;
	}
	memset(rule, 0, sizeof(*rule));
	memcpy(rule->text, text, length);
	memcpy(words, rule->text, sizeof(words));
	err = read_rule(words, rules->count + 1, rule, because);
	if (err)
		snprintf(why, VB_FAULT_WHY_MAX, "\"%.100s\": %.200s", rule->text, because);
	else
		rules->count++;
	return err;
}

int vb_fault_parse(const char *text, struct vb_fault_rules *rules, char why[VB_FAULT_WHY_MAX])
{
	static const char space[] = " \t\r\n;";

	for (;;) {
		size_t length;
		int err;

		text += strspn(text, space);
		if (!*text)
			return 0;
		length = strcspn(text, *text == '#' ? "\n" : ";\n#");
		if (*text != '#') {
			size_t kept = length;

			while (kept && strchr(space, text[kept - 1]))
				kept--;
			err = add_rule(rules, text, kept, why);
			if (err)
				return err;
		}
		text += length;
	}
}
