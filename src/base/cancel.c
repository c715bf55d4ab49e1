/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cancel.h"

__thread struct vb_cancel_thread vb_cancel_thread __attribute__((tls_model("initial-exec")));
/* Here, and not in log.c: some libraries have guards, and explain nothing. */
__thread bool vb_explained __attribute__((tls_model("initial-exec")));

void vb_undo_all(void *unused)
{
	(void)unused;
	/* No sleep of a record is a cancellation point, nor one of the program's own handlers. */
	vb_cancel_thread.allowed = false;
	while (vb_cancel_thread.undo) {
		struct vb_undo *record = vb_cancel_thread.undo;

		vb_cancel_thread.undo = record->outer;
		record->undo(record->held);
	}
}
