/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists the RDMA devices with their node GUIDs. */
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list) {
		perror("Failed to get IB devices list");
		return EXIT_FAILURE;
	}
	printf("    %-16s\t   node GUID\n", "device");
	printf("    %-16s\t----------------\n", "------");
	for (int i = 0; i < count; i++)
		printf("    %-16s\t%016llx\n", ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])));
	ibv_free_device_list(list);
	return EXIT_SUCCESS;
}
