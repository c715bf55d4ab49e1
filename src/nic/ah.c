/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/ah.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "nic/fact.h"

static int count_one(struct vb_nic *nic, int by)
{
	int err = 0;

	pthread_mutex_lock(&nic->lock);
	if (by > 0 && nic->ah_count >= vb_fact(VB_FACT_MAX_AH))
		err = -ENOMEM;
	else
		nic->ah_count += (uint32_t)by;
	pthread_mutex_unlock(&nic->lock);
	return err;
}

int vb_ah_create(struct vb_pd *pd, const struct ibv_ah_attr *attr, struct vb_ah **out)
{
	struct vb_ah *ah = calloc(1, sizeof(*ah));
	int err;

	if (!ah)
		return -ENOMEM;
	err = vb_device_resolve(vb_context(pd->ibv.context)->dev, attr, &ah->av);
	if (!err)
		err = count_one(pd->nic, 1);
	if (err) {
		free(ah);
		return err;
	}
	ah->ibv.context = pd->ibv.context;
	ah->ibv.pd = &pd->ibv;
	ah->pd = pd;
	ah->nic = pd->nic;
	atomic_store(&ah->refs, 1);
	atomic_fetch_add(&pd->users, 1);
	*out = ah;
	return 0;
}

void vb_ah_put(struct vb_ah *ah)
{
	if (ah && atomic_fetch_sub(&ah->refs, 1) == 1)
		free(ah);
}

void vb_ah_destroy(struct vb_ah *ah)
{
	if (ah->nic == vb_nic_current())
		count_one(ah->nic, -1);
	vb_pd_release(ah->pd, ah->nic);
	vb_ah_put(ah);
}
