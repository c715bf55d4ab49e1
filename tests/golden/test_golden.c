/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of Linux Soft-RoCE, packet by packet: each decodes, its ICRC is right with its IPv4
 * identification and is found right without it, that identification is one to be expected, encoding
 * it again gives the same bytes, and its line is that of the text beside the capture. So with the
 * messages of the connection manager that packets between two QPs 1 carry: each has a line of its
 * own, below that of its packet.
 *
 *   test-golden FOLDER            checks every FOLDER/NAME.pcap against FOLDER/NAME.txt
 *   test-golden --update FOLDER   writes the texts
 */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "path/roce/ident.h"
#include "pcap.h"
#include "wire/cm.h"
#include "wire/packet.h"

enum { LINE_MAX_LENGTH = 64 + VB_CM_LINE_SIZE, PATH_MAX_LENGTH = 4096 };

struct capture {
	const char *name; /* without .pcap */
	FILE *twin;       /* read, or written with --update */
	bool update;
	unsigned packets, messages, faults;
	struct vb_cm_message last_req;
	struct vb_ident_table idents;
	uint64_t now_ns;
};

__attribute__((format(printf, 2, 3))) static void fault(struct capture *capture, const char *format,
							...)
{
	va_list arguments;

	capture->faults++;
	printf("# %s, packet %u: ", capture->name, capture->packets);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

static uint32_t icrc_of(const struct frame *frame)
{
	const uint8_t *at = frame->packet + frame->length - VB_ICRC_LENGTH;

	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static void check_icrc(struct capture *capture, const struct frame *frame)
{
	size_t covered = frame->length - VB_ICRC_LENGTH;
	uint32_t right = vb_icrc(&frame->flow, frame->id, frame->packet, covered);
	uint16_t id = 0;

	if (right != icrc_of(frame))
		fault(capture, "its ICRC is 0x%08x and should be 0x%08x", icrc_of(frame), right);
	if (!vb_icrc_check(&frame->flow, frame->packet, covered, &id))
		fault(capture, "no identification makes its ICRC right");
	else if (id != frame->id)
		fault(capture, "id %u is taken for %u", frame->id, id);
	if (!vb_ident_check(&capture->idents, &frame->flow, frame->packet, covered, 0,
			    capture->now_ns))
		fault(capture, "id %u is not one that was to be expected", frame->id);
}

static void check_encoding(struct capture *capture, const struct frame *frame,
			   const struct vb_packet *packet)
{
	uint8_t again[VB_PACKET_MAX] = { 0 };
	size_t headers = vb_packet_emit(packet, again);
	size_t length = vb_packet_length(packet);

	if (length != frame->length) {
		fault(capture, "%zu bytes become %zu", frame->length, length);
		return;
	}
	memcpy(again + headers, packet->payload, packet->payload_length);
	vb_icrc_put(&frame->flow, frame->id, again, length - VB_ICRC_LENGTH);
	for (size_t i = 0; i < length; i++) {
		if (again[i] == frame->packet[i])
			continue;
		fault(capture, "byte %zu is 0x%02x and becomes 0x%02x", i, frame->packet[i],
		      again[i]);
		return;
	}
}

static void check_line(struct capture *capture, const char *line)
{
	char expected[LINE_MAX_LENGTH];

	if (capture->update) {
		fprintf(capture->twin, "%s\n", line);
		return;
	}
	if (!fgets(expected, sizeof(expected), capture->twin)) {
		fault(capture, "reads \"%s\", the text has ended", line);
		return;
	}
	expected[strcspn(expected, "\n")] = 0;
	if (strcmp(line, expected))
		fault(capture, "reads \"%s\", the text says \"%s\"", line, expected);
}

static void check_message_encoding(struct capture *capture, const struct vb_packet *packet,
				   const struct vb_cm_message *message)
{
	uint8_t again[VB_MAD_SIZE];

	vb_cm_emit(message, again);
	for (size_t i = 0; i < sizeof(again); i++) {
		if (again[i] == packet->payload[i])
			continue;
		fault(capture, "byte %zu of the MAD is 0x%02x and becomes 0x%02x", i,
		      packet->payload[i], again[i]);
		return;
	}
}

/* The IP header in front of private data is a value of its own. */
static void check_ip_header(struct capture *capture, const uint8_t *bytes)
{
	uint8_t again[VB_CM_IP_SIZE];
	struct vb_cm_ip ip;

	if (vb_cm_ip_parse(bytes, &ip)) {
		fault(capture, "no IP header in its private data");
		return;
	}
	vb_cm_ip_emit(&ip, again);
	if (memcmp(again, bytes, sizeof(again)))
		fault(capture, "its IP header does not become the same bytes");
}

/* Linux answered a REQ that nobody waited for: so is ours answered, byte for byte. */
static void check_rejection(struct capture *capture, const struct vb_packet *packet)
{
	uint8_t bytes[VB_MAD_SIZE];
	struct vb_cm_message answer;

	if (!vb_cm_stray(&capture->last_req, &answer)) {
		fault(capture, "is not the answer to a REQ");
		return;
	}
	vb_cm_emit(&answer, bytes);
	if (memcmp(bytes, packet->payload, sizeof(bytes)))
		fault(capture, "would be another one here");
}

static void check_message(struct capture *capture, const struct vb_packet *packet)
{
	char text[VB_CM_LINE_SIZE], line[LINE_MAX_LENGTH];
	struct vb_cm_message message;
	enum vb_cm_flaw why = vb_cm_parse(packet->payload, packet->payload_length, &message);

	capture->messages++;
	if (why) {
		fault(capture, "message: %s", vb_cm_flaw_name(why));
		return;
	}
	check_message_encoding(capture, packet, &message);
	if (message.attribute == VB_CM_REQ) {
		check_ip_header(capture, message.req.private_data);
		capture->last_req = message;
	}
	if (message.attribute == VB_CM_SIDR_REQ)
		check_ip_header(capture, message.sidr_req.private_data);
	if (message.attribute == VB_CM_REJ && message.rej.reason == VB_CM_REJ_INVALID_SERVICE_ID)
		check_rejection(capture, packet);
	snprintf(line, sizeof(line), "    %s", vb_cm_print(&message, text, sizeof(text)));
	check_line(capture, line);
}

static void check_frame(struct capture *capture, const uint8_t *bytes, size_t length)
{
	char from_to[160], text[256], line[LINE_MAX_LENGTH];
	struct frame frame;
	struct vb_packet packet;
	enum vb_packet_flaw why;

	capture->packets++;
	if (frame_parse(bytes, length, &frame)) {
		fault(capture, "not an unfragmented UDP datagram");
		return;
	}
	why = vb_packet_parse(frame.packet, frame.length, &packet);
	if (why) {
		fault(capture, "%s", vb_packet_flaw_name(why));
		return;
	}
	check_icrc(capture, &frame);
	check_encoding(capture, &frame, &packet);
	snprintf(line, sizeof(line), "%s  %s  icrc 0x%08x",
		 frame_print(&frame, from_to, sizeof(from_to)),
		 vb_packet_print(&packet, text, sizeof(text)), icrc_of(&frame));
	check_line(capture, line);
	if (packet.dest_qpn == VB_GSI_QPN)
		check_message(capture, &packet);
}

static void check_frames(struct capture *capture, struct pcap *pcap)
{
	char left[LINE_MAX_LENGTH];
	const uint8_t *bytes;
	size_t length;
	int more;

	while ((more = pcap_next(pcap, &bytes, &length)) > 0) {
		capture->now_ns = pcap->frame_ns;
		check_frame(capture, bytes, length);
	}
	if (more < 0)
		fault(capture, "the file is damaged behind it");
	if (!capture->packets)
		fault(capture, "there is none");
	if (!capture->update && fgets(left, sizeof(left), capture->twin))
		fault(capture, "was the last one, the text goes on");
}

static void path_of(char *path, const char *folder, const char *name, const char *suffix)
{
	snprintf(path, PATH_MAX_LENGTH, "%s/%s.%s", folder, name, suffix);
}

/* Faults found in one capture. */
static unsigned check_capture(const char *folder, const char *name, bool update, unsigned number)
{
	struct capture capture = { .name = name, .update = update };
	char path[PATH_MAX_LENGTH];
	struct pcap pcap = { 0 };
	int error;

	path_of(path, folder, name, "pcap");
	error = pcap_open(&pcap, path);
	if (error)
		fault(&capture, "%s: %s", path, strerror(-error));
	path_of(path, folder, name, "txt");
	capture.twin = fopen(path, update ? "we" : "re");
	if (!capture.twin)
		fault(&capture, "%s: %s", path, strerror(errno));
	if (!capture.faults)
		check_frames(&capture, &pcap);
	if (capture.twin && fclose(capture.twin))
		fault(&capture, "%s: %s", path, strerror(errno));
	pcap_close(&pcap);
	printf("%sok %u - %s: %u packets, %u of them messages\n", capture.faults ? "not " : "",
	       number, name, capture.packets, capture.messages);
	return capture.faults;
}

static int ends_with(const struct dirent *entry, const char *suffix)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, suffix);
}

static int is_pcap(const struct dirent *entry)
{
	return ends_with(entry, ".pcap");
}

static int is_text(const struct dirent *entry)
{
	return ends_with(entry, ".txt");
}

static int count_texts(const char *folder)
{
	struct dirent **texts;
	int count = scandir(folder, &texts, is_text, alphasort);

	for (int i = 0; i < count; i++)
		free(texts[i]);
	if (count >= 0)
		free(texts);
	return count;
}

int main(int argc, char **argv)
{
	bool update = argc == 3 && !strcmp(argv[1], "--update");
	const char *folder = argv[argc - 1];
	struct dirent **captures;
	unsigned faults = 0;
	int count;

	if (argc != 2 && !update) {
		fprintf(stderr, "usage: test-golden [--update] FOLDER\n");
		return 2;
	}
	count = scandir(folder, &captures, is_pcap, alphasort);
	if (count <= 0) {
		printf("Bail out! no captures in %s\n", folder);
		return 1;
	}
	printf("1..%d\n", count + 1);
	for (int i = 0; i < count; i++) {
		*strrchr(captures[i]->d_name, '.') = 0;
		faults += check_capture(folder, captures[i]->d_name, update, (unsigned)i + 1);
		free(captures[i]);
	}
	free(captures);
	faults += count_texts(folder) != count;
	printf("%sok %d - every text has its capture\n", count_texts(folder) == count ? "" : "not ",
	       count + 1);
	return faults ? 1 : 0;
}
