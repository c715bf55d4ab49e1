/* SPDX-License-Identifier: BSD-2-Clause */
/* Classic pcap files with Ethernet frames, as tcpdump writes them on a little-endian machine. */
#ifndef VB_TESTS_GOLDEN_PCAP_H
#define VB_TESTS_GOLDEN_PCAP_H

#include <stddef.h>
#include <stdint.h>

struct pcap {
	uint8_t *bytes; /* owned: the whole file */
	size_t length, at;
	uint64_t frame_ns; /* when the last frame was captured */
};

/* 0 or -errno; -EPROTO: not such a file. */
int pcap_open(struct pcap *pcap, const char *path);
/* The next frame: 1, 0 at the end of the file, -EPROTO: the file is damaged or the frame cut. */
int pcap_next(struct pcap *pcap, const uint8_t **frame, size_t *length);
void pcap_close(struct pcap *pcap);

#endif
