/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "xrc.h"

enum { MESSAGE_SIZE = sizeof("0000:000000:000000:000000:000000:") + PP_GID_DIGITS };

bool xrc_address_send(int fd, const struct xrc_address *address)
{
	char message[MESSAGE_SIZE], gid[PP_GID_DIGITS + 1];

	pp_gid_write(&address->gid, gid);
	snprintf(message, sizeof(message), "%04x:%06x:%06x:%06x:%06x:%s", address->lid & 0xffff,
		 address->receive_qpn & 0xffffff, address->send_qpn & 0xffffff,
		 address->psn & 0xffffff, address->srqn & 0xffffff, gid);
	return pp_meet_write(fd, message, sizeof(message));
}

bool xrc_address_receive(int fd, struct xrc_address *address)
{
	char message[MESSAGE_SIZE + 1] = "", gid[PP_GID_DIGITS + 1];

	if (!pp_meet_read(fd, message, MESSAGE_SIZE))
		return false;
	if (sscanf(message, "%x:%x:%x:%x:%x:%32s", &address->lid, &address->receive_qpn,
		   &address->send_qpn, &address->psn, &address->srqn, gid) != 6 ||
	    strlen(gid) != PP_GID_DIGITS || !pp_gid_read(gid, &address->gid)) {
		fprintf(stderr, "Couldn't read remote address: '%s' is none\n", message);
		return false;
	}
	return true;
}

void xrc_address_print(const char *whose, const struct xrc_address *address)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, address->gid.raw, gid, sizeof(gid));
	printf("%8s: LID %04x, QPN RECV %06x SEND %06x, PSN %06x, SRQN %06x, GID %s\n", whose,
	       address->lid, address->receive_qpn, address->send_qpn, address->psn, address->srqn,
	       gid);
}

struct xrc_address xrc_address_of(const struct xrc_side *side, const struct pp_player *player)
{
	return (struct xrc_address){
		.lid = side->end.port.lid,
		.receive_qpn = player->receive_qp->qp_num,
		.send_qpn = player->qp->qp_num,
		.psn = pp_psn(),
		.srqn = side->srqn,
		.gid = side->end.gid,
	};
}
