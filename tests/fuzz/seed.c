/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes first inputs for the fuzz targets from captures: one packet of each opcode and syndrome,
 * the shortest there is, and one of each message of the connection manager, the last there is.
 *
 *   fuzz-seed CORPUS CAPTURE...   writes CORPUS/packet/NAME, CORPUS/icrc/NAME and
 *                                 CORPUS/cm_message/NAME
 */
#include <ctype.h>
#include <string.h>

#include "../golden/frame.h"
#include "../golden/pcap.h"
#include "fuzz.h"
#include "wire/bytes.h"
#include "wire/cm.h"
#include "wire/packet.h"

enum { SYNDROMES = 256, PATH_LENGTH = 4096, HEAD_LENGTH = 39, ATTRIBUTES = VB_CM_APR + 1 };

/* The shortest so far by family of addresses, opcode and syndrome; copied, never freed. */
static struct frame best[2][256][SYNDROMES];
/* By family of addresses and attribute; length 0: none. */
static struct mad {
	uint8_t bytes[VB_MAD_SIZE];
	size_t length;
} mads[2][ATTRIBUTES];

static void consider_mad(const struct frame *frame, const struct vb_packet *packet)
{
	struct vb_cm_message message;
	struct mad *mad;

	if (packet->dest_qpn != VB_GSI_QPN ||
	    vb_cm_parse(packet->payload, packet->payload_length, &message))
		return;
	mad = &mads[frame->flow.ipv6][message.attribute];
	mad->length = sizeof(mad->bytes);
	memcpy(mad->bytes, packet->payload, mad->length);
}

static void consider(const struct frame *frame)
{
	struct vb_packet packet;
	struct frame *slot;
	uint8_t *copy;

	if (vb_packet_parse(frame->packet, frame->length, &packet))
		return;
	consider_mad(frame, &packet);
	slot = &best[frame->flow.ipv6][packet.opcode][packet.syndrome];
	if (slot->length && slot->length <= frame->length)
		return;
	copy = malloc(frame->length);
	fuzz_check(copy);
	memcpy(copy, frame->packet, frame->length);
	*slot = *frame;
	slot->packet = copy;
}

static void read_capture(const char *path)
{
	const uint8_t *bytes;
	struct pcap pcap;
	struct frame frame;
	size_t length;

	fuzz_check(!pcap_open(&pcap, path));
	while (pcap_next(&pcap, &bytes, &length) > 0)
		if (!frame_parse(bytes, length, &frame))
			consider(&frame);
	pcap_close(&pcap);
}

static void write_seed(const char *folder, const char *target, const char *name,
		       const uint8_t *head, size_t head_length, const uint8_t *bytes, size_t length)
{
	char path[PATH_LENGTH];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
	file = fopen(path, "wbe");
	fuzz_check(file);
	fuzz_check(!head_length || fwrite(head, 1, head_length, file) == head_length);
	fuzz_check(fwrite(bytes, 1, length, file) == length);
	fuzz_check(!fclose(file));
}

static void lower(char *name)
{
	for (char *at = name; *at; at++)
		*at = *at == ' ' || *at == '_' ? '-' : (char)tolower((unsigned char)*at);
}

/* "rc-acknowledge-60-ipv6" */
static void name_of(const struct frame *frame, unsigned syndrome, char *name, size_t size)
{
	snprintf(name, size, "%s-%02x%s", vb_opcode_row(frame->packet[0])->name, syndrome,
		 frame->flow.ipv6 ? "-ipv6" : "");
	lower(name);
}

static void write_seeds(const char *folder, const struct frame *frame, unsigned syndrome)
{
	const struct vb_icrc_flow *flow = &frame->flow;
	unsigned place = vb_opcode_row(frame->packet[0])->place;
	uint8_t head[HEAD_LENGTH] = { flow->ipv6 };
	char name[128];

	vb_put16(head + 1, frame->id);
	vb_put16(head + 3, flow->src_port);
	vb_put16(head + 5, flow->dst_port);
	memcpy(head + 7, flow->src, 16);
	memcpy(head + 23, flow->dst, 16);
	name_of(frame, syndrome, name, sizeof(name));
	/* To a CRC one packet is like another: those of a message's middle add nothing. */
	if (place == VB_PLACE_ONLY || place == VB_PLACE_NONE)
		write_seed(folder, "icrc", name, head, sizeof(head), frame->packet, frame->length);
	if (!flow->ipv6)
		write_seed(folder, "packet", name, head, 0, frame->packet, frame->length);
}

/* Only a REQ differs by the family of its addresses. */
static void write_mads(const char *folder)
{
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++)
		for (unsigned attribute = 0; attribute < ATTRIBUTES; attribute++) {
			const struct mad *mad = &mads[ipv6][attribute];
			char name[128];

			snprintf(name, sizeof(name), "%s%s", vb_cm_name(attribute),
				 ipv6 ? "-ipv6" : "");
			lower(name);
			if (mad->length && (!ipv6 || attribute == VB_CM_REQ))
				write_seed(folder, "cm_message", name, NULL, 0, mad->bytes,
					   mad->length);
		}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: fuzz-seed CORPUS CAPTURE...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		read_capture(argv[i]);
	for (unsigned opcode = 0; opcode < 256; opcode++)
		for (unsigned syndrome = 0; syndrome < SYNDROMES; syndrome++)
			for (unsigned ipv6 = 0; ipv6 < 2; ipv6++)
				if (best[ipv6][opcode][syndrome].length)
					write_seeds(argv[1], &best[ipv6][opcode][syndrome],
						    syndrome);
	write_mads(argv[1]);
	return 0;
}
