/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire/migrate.h"

#include <sched.h>

#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "nic/migrate.h"

void vb_engine_follow_path(struct vb_qp *qp)
{
	while (!vb_qp_token_try(qp)) {
		if (vb_qp_on_wire(qp)) {
			vb_wire_kick(qp);
			return;
		}
		sched_yield();
	}
	vb_qp_follow_path(qp);
	vb_qp_token_release(qp);
	vb_migrate_tell(qp);
	vb_engine_kick(qp);
}
