/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/log.h"
#include "nic/fact.h"
#include "nic/import.h"
#include "nic/pd_users.h"

int vb_pd_number(struct vb_nic *nic, struct vb_pd *pd)
{
	int err = -ENOMEM;

	pthread_mutex_lock(&nic->lock);
	if (nic->pd_count < vb_fact(VB_FACT_MAX_PD)) {
		nic->pd_count++;
		pd->id = nic->next_pd++;
		pd->nic = nic;
		err = 0;
	}
	pthread_mutex_unlock(&nic->lock);
	if (err)
		vb_explain("all %u protection domains are in use", vb_fact_u32(VB_FACT_MAX_PD));
	return err;
}

int vb_pd_alloc(struct ibv_context *ctx, struct vb_pd **out)
{
	struct vb_nic *nic = vb_nic_get();
	struct vb_pd *pd;
	int err;

	if (!nic)
		return -errno;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	err = vb_pd_number(nic, pd);
	if (err) {
		free(pd);
		return err;
	}
	pd->ibv.context = ctx;
	vb_list_init(&pd->same);
	pd->export = vb_export_get(vb_context(ctx)->export);
	pd->ibv.handle = vb_export_pd_add(pd->export, pd);
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = pd;
	return 0;
}

int vb_pd_adopt(struct vb_pd *pd)
{
	struct vb_nic *nic = vb_nic_get();
	int err;

	if (!nic)
		return -errno;
	if (__builtin_expect(pd->nic == nic, 1))
		return 0;
	err = pd->base ? vb_pd_adopt(pd->base) : vb_pd_number(nic, pd);
	if (err)
		return err;
	atomic_fetch_and(&pd->users, VB_PD_UNIMPORTED);
	if (pd->base) {
		pd->id = pd->base->id;
		pd->nic = nic;
		atomic_fetch_add(&pd->base->users, 1);
	}
	return 0;
}

void vb_pd_release(struct vb_pd *pd, const struct vb_nic *nic)
{
	if (pd->nic == nic && atomic_fetch_sub(&pd->users, 1) == (VB_PD_UNIMPORTED | 1))
		vb_pd_unimport_unused(pd);
}

static int dealloc_parent(struct vb_pd *pd)
{
	vb_pd_release(pd->base, pd->nic);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	return 0;
}

static int dealloc(struct vb_pd *pd, uint32_t users)
{
	char words[VB_PD_USERS_WORDS];

	if (pd->nic != vb_nic_current()) {
		vb_pd_forget(pd);
		return 0;
	}
	if (pd->destroyed) {
		vb_explain("ibv_dealloc_pd: the PD was deallocated through an imported object; "
			   "use ibv_unimport_pd");
		return -EINVAL;
	}
	if (users) {
		vb_explain("ibv_dealloc_pd: %u objects still belong to the PD: %s", users,
			   vb_config_explain() ? vb_pd_users_words(pd, users, words) : "");
		return -EBUSY;
	}
	vb_pd_end(pd);
	pthread_mutex_lock(&pd->nic->lock);
	pd->nic->pd_count--;
	pthread_mutex_unlock(&pd->nic->lock);
	return 0;
}

int vb_pd_dealloc(struct vb_pd *pd)
{
	uint32_t users = pd->nic == vb_nic_current() ? vb_pd_users(pd) : 0;
	int err;

	if (pd->base && users) {
		vb_explain("ibv_dealloc_pd: %u objects still belong to the parent domain", users);
		err = -EBUSY;
	} else if (pd->base)
		err = dealloc_parent(pd);
	else
		err = dealloc(pd, users);
	if (err)
		return err;
	vb_export_put(pd->export);
	atomic_fetch_sub(&vb_context(pd->ibv.context)->objects, 1);
	free(pd);
	return 0;
}
