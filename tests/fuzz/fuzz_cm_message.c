/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a MAD to QP 1: parsing reads no further than told, and what it accepts can be
 * printed, answered, and emitted to bytes that parse to the same value.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wire/cm.h"

static void parse_again(const struct vb_cm_message *message, struct vb_cm_message *back,
			uint8_t bytes[VB_MAD_SIZE])
{
	memset(bytes, 0xee, VB_MAD_SIZE);
	vb_cm_emit(message, bytes);
	fuzz_check(vb_cm_parse(bytes, VB_MAD_SIZE, back) == VB_CM_OK);
}

/* Bytes that came in differ from those that go out in reserved bits only, which come out as 0. */
static void check_emitted(const struct vb_cm_message *message, const uint8_t *bytes)
{
	uint8_t out[VB_MAD_SIZE], again[VB_MAD_SIZE];
	struct vb_cm_message back;

	parse_again(message, &back, out);
	fuzz_check(back.attribute == message->attribute);
	vb_cm_emit(&back, again);
	fuzz_check(!memcmp(again, out, sizeof(out)));
	fuzz_check(!memcmp(out + 8, bytes + 8, 10) && !memcmp(out + 20, bytes + 20, 4));
	for (size_t i = VB_MAD_HEADER_SIZE; i < sizeof(out); i++)
		fuzz_check(!(out[i] & ~bytes[i]));
}

static void check_printed(const struct vb_cm_message *message, size_t size)
{
	char *line = malloc(size);

	fuzz_check(line && vb_cm_print(message, line, size) == line);
	fuzz_check(strlen(line) < size && !strchr(line, '\n'));
	free(line);
}

/* An answer names whom it is for, and is not answered again. */
static void check_answer(const struct vb_cm_message *message)
{
	struct vb_cm_message answer, back, more;
	uint8_t bytes[VB_MAD_SIZE];

	if (!vb_cm_stray(message, &answer))
		return;
	parse_again(&answer, &back, bytes);
	fuzz_check(back.transaction_id == message->transaction_id);
	fuzz_check(vb_cm_receiver_id(&back) == vb_cm_sender_id(message));
	fuzz_check(!vb_cm_stray(&back, &more));
}

static void check_private_data(struct vb_cm_message *message, const uint8_t *bytes)
{
	struct vb_cm_ip ip, back;
	uint8_t header[VB_CM_IP_SIZE];
	size_t size;
	uint8_t *data = vb_cm_private_data(message, &size);

	fuzz_check(data && size >= VB_CM_IP_SIZE);
	fuzz_check(!memcmp(data, bytes + VB_MAD_SIZE - size, size));
	if (vb_cm_ip_parse(data, &ip))
		return;
	vb_cm_ip_emit(&ip, header);
	fuzz_check(!vb_cm_ip_parse(header, &back));
	fuzz_check(ip.ipv6 == back.ipv6 && ip.src_port == back.src_port);
	fuzz_check(!memcmp(&ip.src, &back.src, 16) && !memcmp(&ip.dst, &back.dst, 16));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct vb_cm_message message;
	enum vb_cm_flaw fault = vb_cm_parse(bytes, length, &message);

	fuzz_check(fault < VB_CM_FLAWS);
	if (fault)
		return 0;
	check_emitted(&message, bytes);
	check_answer(&message);
	check_private_data(&message, bytes);
	check_printed(&message, 1 + bytes[length - 1]);
	check_printed(&message, VB_CM_LINE_SIZE);
	return 0;
}
