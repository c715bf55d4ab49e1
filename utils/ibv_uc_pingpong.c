/* SPDX-License-Identifier: BSD-2-Clause */
/* A ping-pong over an unreliable connection. A lost message ends the game. */
#include "duel.h"

static const struct pp_program program = {
	.letters = "pdismrnlegc",
	.exchanges = "number of exchanges",
	.defaults = { .port = 18515,
		      .ib_port = 1,
		      .size = 4096,
		      .mtu = 1024,
		      .rx_depth = 500,
		      .iters = 1000 },
};

int main(int argc, char **argv)
{
	return pp_duel(&program, IBV_QPT_UC, argc, argv);
}
