/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_MIGRATE_H
#define VB_ENGINE_WIRE_MIGRATE_H

#include "nic/qp.h"

/*
 * ibv_modify_qp has changed the path of a connected QP, or its migration state. The path that
 * carries the QP follows, and the peer is told.
 */
void vb_engine_follow_path(struct vb_qp *qp);

#endif
