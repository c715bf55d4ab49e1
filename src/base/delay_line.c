/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/delay_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void vb_delay_line_init(struct vb_delay_line *line, unsigned count_max, size_t bytes_max)
{
	*line = (struct vb_delay_line){ .count_max = count_max, .bytes_max = bytes_max };
	vb_list_init(&line->packets);
}

void vb_delay_take(struct vb_delay_line *line, struct vb_delayed *packet)
{
	vb_list_remove(&packet->node);
	line->count--;
	line->bytes -= packet->length;
}

void vb_delay_line_fini(struct vb_delay_line *line)
{
	vb_list_for(packet, &line->packets, struct vb_delayed, node) {
		vb_delay_take(line, packet);
		free(packet);
	}
}

/* The search begins at the end: most packets are due later than all before them. */
static void packet_insert(struct vb_delay_line *line, struct vb_delayed *packet)
{
	struct vb_list *before = line->packets.prev;

	while (before != &line->packets &&
	       vb_container(before, struct vb_delayed, node)->due_ns > packet->due_ns)
		before = before->prev;
	/* A node taken for the head of the list: an append there inserts before that node. */
	vb_list_append(before->next, &packet->node);
	line->count++;
	line->bytes += packet->length;
}

static size_t size_align(size_t size)
{
	return (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

static struct vb_delayed *packet_new(const struct vb_delay_input *input)
{
	size_t context_at = size_align(sizeof(struct vb_delayed));
	size_t bytes_at = context_at + size_align(input->context_length);
	struct vb_delayed *packet = malloc(bytes_at + input->length);

	if (!packet)
		return NULL;
	*packet = (struct vb_delayed){
		.due_ns = input->due_ns,
		.flow = input->flow,
		.overtaken_ends = input->until_overtaken,
		.length = input->length,
		.context_length = input->context_length,
		.context = (char *)packet + context_at,
		.bytes = (uint8_t *)packet + bytes_at,
	};
	if (input->context_length)
		memcpy(packet->context, input->context, input->context_length);
	if (input->length)
		memcpy(packet->bytes, input->bytes, input->length);
	return packet;
}

int vb_delay_push(struct vb_delay_line *line, const struct vb_delay_input *input)
{
	struct vb_delayed *packet;

	if (line->count >= line->count_max || input->length > line->bytes_max - line->bytes) {
		line->refused++;
		return -ENOBUFS;
	}
	packet = packet_new(input);
	if (!packet)
		return -ENOMEM;
	packet_insert(line, packet);
	return 0;
}

void vb_delay_pass(struct vb_delay_line *line, uint32_t flow, uint64_t now_ns)
{
	vb_list_for(packet, &line->packets, struct vb_delayed, node) {
		if (!packet->overtaken_ends || packet->flow != flow || packet->due_ns <= now_ns)
			continue;
		vb_delay_take(line, packet);
		packet->due_ns = now_ns;
		packet_insert(line, packet);
	}
}

struct vb_delayed *vb_delay_pop_due(struct vb_delay_line *line, uint64_t now_ns)
{
	struct vb_delayed *packet;

	if (vb_delay_next_due_ns(line) > now_ns || vb_list_empty(&line->packets))
		return NULL;
	packet = vb_container(line->packets.next, struct vb_delayed, node);
	vb_delay_take(line, packet);
	return packet;
}

uint64_t vb_delay_next_due_ns(const struct vb_delay_line *line)
{
	if (line->packets.next == &line->packets)
		return VB_NEVER_NS;
	return vb_container(line->packets.next, struct vb_delayed, node)->due_ns;
}
