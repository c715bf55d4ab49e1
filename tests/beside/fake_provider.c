/* SPDX-License-Identifier: BSD-2-Clause */
/* A provider of the made-up system library: its private symbols must be those of that library. */
void verbs_register_driver_34(const void *ops);
int ibv_cmd_get_context(void);
void fake_begin(void);

__attribute__((constructor)) static void begin(void)
{
	verbs_register_driver_34(0);
}

void fake_begin(void)
{
	ibv_cmd_get_context();
}
