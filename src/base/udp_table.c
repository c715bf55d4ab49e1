/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/udp_table.h"

#include <string.h>

enum { WORD_DIGITS = 8 };

bool vb_udp_table_open(struct vb_udp_table *table, bool ipv6)
{
	table->ipv6 = ipv6;
	table->file = fopen(ipv6 ? "/proc/net/udp6" : "/proc/net/udp", "rec");
	if (table->file)
		setvbuf(table->file, table->page, _IOFBF, sizeof(table->page));
	return table->file != NULL;
}

/* The kernel prints an address as words in the byte order of this host, in hexadecimal. */
static bool parse_address(const char *text, bool ipv6, uint8_t bytes[16])
{
	const size_t words = ipv6 ? 4 : 1;
	uint32_t word;

	memset(bytes, 0, 16);
	if (strlen(text) != words * WORD_DIGITS)
		return false;
	for (size_t i = 0; i < words; i++) {
		if (sscanf(text + i * WORD_DIGITS, "%8x", &word) != 1)
			return false;
		memcpy(bytes + i * sizeof(word), &word, sizeof(word));
	}
	return true;
}

/* "  12: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000  0 12345 …" */
static bool line_parse(const char *line, bool ipv6, struct vb_udp_socket *socket)
{
	char address[33];
	unsigned port, uid;

	if (sscanf(line, " %*[^:]: %32[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*s %lu", address,
		   &port, &uid, &socket->inode) != 4)
		return false;
	socket->port = (uint16_t)port;
	socket->uid = uid;
	return parse_address(address, ipv6, socket->address);
}

bool vb_udp_table_next(struct vb_udp_table *table, struct vb_udp_socket *socket)
{
	char line[256];

	while (fgets(line, sizeof(line), table->file))
		if (line_parse(line, table->ipv6, socket))
			return true;
	return false;
}

void vb_udp_table_close(struct vb_udp_table *table)
{
	fclose(table->file);
}

bool vb_udp_socket_is_everywhere(const struct vb_udp_socket *socket)
{
	static const uint8_t none[16];

	return !memcmp(socket->address, none, sizeof(none));
}
