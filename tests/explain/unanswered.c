/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SEND to a host that does not answer, and what explain says of it.
 *
 *   unanswered GID-INDEX ADDRESS
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

int main(int argc, char **argv)
{
	struct rig rig = { 0 };
	struct rig_plan plan = rig_plan();
	struct in_addr ipv4;

	if (argc != 3)
		rig_fail("unanswered GID-INDEX ADDRESS");
	rig.far.qpn = 0x123456;
	if (inet_pton(AF_INET, argv[2], &ipv4) == 1) {
		memset(rig.far.gid.raw + 10, 0xff, 2);
		memcpy(rig.far.gid.raw + 12, &ipv4, sizeof(ipv4));
	} else if (inet_pton(AF_INET6, argv[2], rig.far.gid.raw) != 1) {
		rig_fail("no address");
	}
	plan.timeout = 16; /* 0.27 s, eight times: hosts send about one report a second */
	plan.retry_cnt = 7;
	rig_side_open(&rig.near, &plan);
	rig.near.gid_index = (uint8_t)atoi(argv[1]);
	rig_connect(&rig.near, &plan, &rig.far, true);
	if (rig_post(&rig, IBV_WR_SEND, 2, rig_sge(&rig.near, 8)))
		rig_fail("ibv_post_send");
	return rig_wait(&rig.near) == IBV_WC_RETRY_EXC_ERR ? 0 : 1;
}
