/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects that belong to a PD, in words. */
#ifndef VB_NIC_PD_USERS_H
#define VB_NIC_PD_USERS_H

#include "nic/pd.h"

enum { VB_PD_USERS_WORDS = 160 };

/* Writes "1 MR, 2 QPs"; users: the count of all. */
const char *vb_pd_users_words(const struct vb_pd *pd, uint32_t users, char text[VB_PD_USERS_WORDS]);

#endif
