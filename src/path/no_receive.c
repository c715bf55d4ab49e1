/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/no_receive.h"

void (*_Atomic vb_no_receive_hook)(uint32_t qpn);
