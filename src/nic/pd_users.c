/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/pd_users.h"

#include <pthread.h>
#include <stdio.h>

#include "nic/mr.h"
#include "nic/mw.h"
#include "nic/nic.h"
#include "nic/qp.h"
#include "nic/srq.h"

enum { MRS, MWS, QPS, SRQS, KINDS };

/* Under nic->lock, which deregistering takes before it frees. */
static uint32_t mr_count(const struct vb_nic *nic, const struct vb_pd *pd)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < nic->keys_made; i++) {
		struct vb_mr **page = __atomic_load_n(&nic->mrs[i / VB_KEY_PAGE], __ATOMIC_ACQUIRE);
		const struct vb_mr *mr =
			page ? __atomic_load_n(&page[i % VB_KEY_PAGE], __ATOMIC_ACQUIRE) : NULL;

		count += mr && mr->pd == pd;
	}
	return count;
}

static void count_all(struct vb_nic *nic, const struct vb_pd *pd, uint32_t counts[KINDS])
{
	pthread_mutex_lock(&nic->lock);
	counts[MRS] = mr_count(nic, pd);
	vb_list_for(mw, &nic->mws, struct vb_mw, node)
		counts[MWS] += mw->pd == pd;
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		counts[QPS] += qp->pd == pd;
	vb_list_for(srq, &nic->srqs, struct vb_srq, node)
		counts[SRQS] += srq->pd == pd;
	pthread_mutex_unlock(&nic->lock);
}

const char *vb_pd_users_words(const struct vb_pd *pd, uint32_t users, char text[VB_PD_USERS_WORDS])
{
	static const char *const names[KINDS] = { "MR", "MW", "QP", "SRQ" };
	uint32_t counts[KINDS] = { 0 };
	int length = 0;

	count_all(pd->nic, pd, counts);
	*text = '\0';
	for (int i = 0; i < KINDS; i++) {
		if (counts[i])
			length += snprintf(text + length, VB_PD_USERS_WORDS - (size_t)length,
					   "%s%u %s%s", length ? ", " : "", counts[i], names[i],
					   counts[i] > 1 ? "s" : "");
		users -= counts[i] < users ? counts[i] : users;
	}
	if (users)
		snprintf(text + length, VB_PD_USERS_WORDS - (size_t)length,
			 "%s%u of AHs, CQs, memory and parent domains", length ? ", " : "", users);
	return text;
}
