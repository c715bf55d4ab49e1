/* SPDX-License-Identifier: BSD-2-Clause */
/* Sentences about processes that do not go on, from two looks at all processes of this host. */
#ifndef VB_ENGINE_ATTACH_WHY_WORDS_H
#define VB_ENGINE_ATTACH_WHY_WORDS_H

#include <stdbool.h>

#include "engine/attach/ask.h"

enum { VB_WHY_LINE = 640 };

/* Two looks; a queue that moved between them is not stuck. */
struct vb_why {
	struct vb_asked_processes before, after;
	uint64_t now_ns;
};

/* The queues to tell of, and the listener. */
struct vb_why_question {
	pid_t pid;    /* 0: all processes of this user */
	uint32_t qpn; /* 0: all QPs */
	bool decimal; /* the user gave a number that may be of either kind */
	void (*say)(void *arg, const char *line);
	void *arg;
};

struct vb_why_verdict {
	unsigned stuck;   /* sentences about something that waits */
	unsigned moved;   /* QPs that got on */
	unsigned idle;    /* QPs with nothing posted */
	unsigned unasked; /* processes without an answer */
	bool found;       /* the process, or the QP, exists */
};

/* Looks twice, at the processes of the question and at their peers. 0 or -errno: there is nothing
 * to free. */
int vb_why_look(struct vb_why *why, const struct vb_why_question *question, unsigned gap_ms);
void vb_why_free(struct vb_why *why);
struct vb_why_verdict vb_why_tell(const struct vb_why *why, const struct vb_why_question *question);

/* The process that holds a slot, as /proc shows it; 0: none, or one of another user. */
pid_t vb_why_holder(unsigned slot);

/* The process of this host at the other end of a QP; 0: none is known. */
pid_t vb_why_peer_pid(const struct vb_why *why, const struct vb_why_record *record);

#endif
