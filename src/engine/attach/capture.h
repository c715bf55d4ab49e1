/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of the same user, or of root, captures or traces what this process does
 * (capture/record.h). There are two ways to meet:
 *
 *  - The program finds the process: it connects to the slot socket and sends a request instead of a
 *    hello.
 *  - The process finds the program: when its service thread starts, it looks for programs that
 *    listen under the names below, or under that of VERBENA_TRACE, and gets the request there. So
 *    a capture misses nothing of a process that starts later.
 *
 * From then on both do the same. The answer has the ring. The capture ends when the last program
 * has hung up.
 */
#ifndef VB_ENGINE_ATTACH_CAPTURE_H
#define VB_ENGINE_ATTACH_CAPTURE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct vb_nic;

/* Abstract names: the user, and one of a few numbers. */
enum { VB_CAPTURE_NAMES = 2, VB_CAPTURE_NAME_SIZE = 40 };
static inline int vb_capture_name(char name[VB_CAPTURE_NAME_SIZE], uid_t uid, unsigned number)
{
	return snprintf(name, VB_CAPTURE_NAME_SIZE, "verbena-capture.%u.%u", (unsigned)uid, number);
}

/* Reads the request from a socket and answers it. True: the socket is taken over. */
bool vb_capture_serve(struct vb_nic *nic, int socket);
/* Looks for programs that capture already. The service thread runs. */
void vb_capture_join(struct vb_nic *nic);

#endif
