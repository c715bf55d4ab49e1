/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/rules.h"

#include <stdio.h>
#include <string.h>

const struct vb_rule_row vb_rules[VB_RULE_COUNT] = {
	[VB_RULE_SEND_CHANGED] = { "send-changed", "a buffer was changed while it was being sent" },
	[VB_RULE_RECV_WRITTEN] = { "recv-written", "a posted receive buffer was written to" },
	[VB_RULE_RECV_USED] = { "recv-used", "a posted receive buffer was read or written" },
	[VB_RULE_OVERLAP] = { "overlap", "buffers of posted work requests overlap" },
	[VB_RULE_UNMAPPED] = { "unmapped", "registered memory was unmapped" },
	[VB_RULE_FREED] = { "freed", "registered memory was freed" },
	[VB_RULE_IN_FLIGHT] = { "in-flight", "an object was destroyed with work in flight" },
	[VB_RULE_LEAK] = { "leak", "objects were never destroyed" },
	[VB_RULE_CQ_OVERRUN] = { "cq-overrun", "a completion queue can overrun" },
	[VB_RULE_UNSIGNALED] = { "unsignaled", "a send queue filled up with unsignaled work" },
	[VB_RULE_UNPOLLED] = { "unpolled", "completions were never polled" },
	[VB_RULE_UNACKED] = { "unacked", "events were never acknowledged" },
	[VB_RULE_DESTROYED] = { "destroyed", "an object was used after its end" },
	[VB_RULE_RNR] = { "rnr", "a message found no receive" },
	[VB_RULE_TIMER] = { "timer", "a timer does not fit a network" },
	[VB_RULE_ROUTE] = { "route", "an address works on this host only" },
	[VB_RULE_LIMIT] = { "limit", "common NICs do not grant this" },
	[VB_RULE_KEY] = { "key", "an rkey was used as an lkey" },
	[VB_RULE_THREADS] = { "threads", "two threads used an object at once" },
	[VB_RULE_SECTION] = { "section", "a batch of calls was begun or ended wrongly" },
};

static bool read_rule(const char *word, size_t length, struct vb_check_options *options)
{
	for (int i = 0; i < VB_RULE_COUNT; i++)
		if (strlen(vb_rules[i].name) == length && !strncmp(vb_rules[i].name, word, length))
			return options->off[i] = true;
	return false;
}

static bool read_word(const char *word, size_t length, struct vb_check_options *options)
{
	if (word[0] == '/' && length < sizeof(options->file)) {
		memcpy(options->file, word, length);
		options->file[length] = '\0';
		return true;
	}
	if (word[0] == '-')
		return read_rule(word + 1, length - 1, options);
	if (length == 4 && !strncmp(word, "warn", 4))
		return options->warn = true;
	return length == 1 && *word == '1';
}

bool vb_check_options_read(const char *text, struct vb_check_options *options, char *wrong,
			   size_t size)
{
	*options = (struct vb_check_options){ 0 };
	while (*text) {
		const size_t length = strcspn(text, ",");

		if (length && !read_word(text, length, options)) {
			snprintf(wrong, size, "%.*s", (int)length, text);
			return false;
		}
		text += length + (text[length] == ',');
	}
	return true;
}
