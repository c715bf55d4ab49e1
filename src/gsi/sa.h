/* SPDX-License-Identifier: BSD-2-Clause */
/* Subnet administration of this host, for its own programs. */
#ifndef VB_GSI_SA_H
#define VB_GSI_SA_H

#include "gsi/impl.h"
#include "mad/sa.h"

/* The length of the answer; 0: none. room is VB_SA_ANSWER_MAX at least. */
size_t vb_mad_sa(struct vb_nic *nic, const struct vb_device *dev, const uint8_t *request,
		 uint8_t *answer, size_t room);

/* In a child of fork: memberships are the parent's. */
void vb_gsi_forget_groups(struct vb_gsi *gsi);

#endif
