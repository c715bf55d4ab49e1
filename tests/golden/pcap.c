/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER = 24, FRAME_HEADER = 16, LINK_ETHERNET = 1 };
#define MAGIC_MICROSECONDS 0xa1b2c3d4u

static uint32_t get_le32(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static int read_all(FILE *file, struct pcap *pcap)
{
	long size;

	if (fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
		return -errno;
	rewind(file);
	pcap->bytes = malloc((size_t)size + 1);
	if (!pcap->bytes)
		return -ENOMEM;
	pcap->length = fread(pcap->bytes, 1, (size_t)size, file);
	return pcap->length == (size_t)size ? 0 : -EIO;
}

static int check_header(struct pcap *pcap)
{
	if (pcap->length < FILE_HEADER || get_le32(pcap->bytes) != MAGIC_MICROSECONDS ||
	    get_le32(pcap->bytes + 20) != LINK_ETHERNET)
		return -EPROTO;
	pcap->at = FILE_HEADER;
	return 0;
}

int pcap_open(struct pcap *pcap, const char *path)
{
	FILE *file = fopen(path, "rbe");
	int error;

	memset(pcap, 0, sizeof(*pcap));
	if (!file)
		return -errno;
	error = read_all(file, pcap);
	fclose(file);
	if (!error)
		error = check_header(pcap);
	if (error)
		pcap_close(pcap);
	return error;
}

int pcap_next(struct pcap *pcap, const uint8_t **frame, size_t *length)
{
	const uint8_t *header = pcap->bytes + pcap->at;
	size_t left = pcap->length - pcap->at;

	if (!left)
		return 0;
	if (left < FRAME_HEADER)
		return -EPROTO;
	*length = get_le32(header + 8);
	if (*length > left - FRAME_HEADER || *length != get_le32(header + 12))
		return -EPROTO;
	pcap->frame_ns = get_le32(header) * 1000000000ull + get_le32(header + 4) * 1000ull;
	*frame = header + FRAME_HEADER;
	pcap->at += FRAME_HEADER + *length;
	return 1;
}

void pcap_close(struct pcap *pcap)
{
	free(pcap->bytes);
	memset(pcap, 0, sizeof(*pcap));
}
