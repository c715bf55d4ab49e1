/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the files of the completer: completer.c takes ACKs, NAKs and reports of gaps,
 * completer_read.c the answers of READs and ATOMICs.
 */
#ifndef VB_PATH_ROCE_COMPLETER_H
#define VB_PATH_ROCE_COMPLETER_H

#include "path/roce/roce.h"

/* True: psn is under way. An answer about another PSN is late. */
bool vb_completer_expects(const struct vb_requester *req, uint32_t psn);
/*
 * All PSNs up to psn are acknowledged, but READs and ATOMICs need answers of their own. False: psn
 * is behind a READ or ATOMIC without its answer.
 */
bool vb_completer_acknowledge(struct vb_wired *wired, uint32_t psn);
/* Moves una_psn as far as ACKs and answers let it. False: the answer of a READ or ATOMIC before
 * acked_psn is missing. */
bool vb_completer_move(struct vb_wired *wired);
/* una_psn has moved by count packets. */
void vb_completer_progressed(struct vb_wired *wired, uint32_t count);
/* Answers are missing: they are asked for again. If that does not help, the timer does. */
void vb_completer_answer_lost(struct vb_wired *wired);
/* True: early answers show that older ones are lost: they are many, or no other will follow. */
bool vb_completer_shows_loss(const struct vb_requester *req);

#endif
