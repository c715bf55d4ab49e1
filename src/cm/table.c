/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash tables. The list nodes are inside of the endpoints, so adding an endpoint never fails. */
#include <errno.h>
#include <stdlib.h>

#include "cm/impl.h"

enum { BUCKETS_FIRST = 64 };

int vb_cm_table_init(struct vb_cm_table *table)
{
	table->buckets = malloc(BUCKETS_FIRST * sizeof(*table->buckets));
	if (!table->buckets)
		return -ENOMEM;
	table->mask = BUCKETS_FIRST - 1;
	table->count = 0;
	for (uint32_t i = 0; i <= table->mask; i++)
		vb_list_init(&table->buckets[i]);
	return 0;
}

void vb_cm_table_fini(struct vb_cm_table *table)
{
	free(table->buckets);
	*table = (struct vb_cm_table){ 0 };
}

/* Without memory the table does not grow, and its chains become longer. */
static void grow(struct vb_cm_table *table)
{
	uint32_t count = 2 * (table->mask + 1);
	struct vb_list *buckets = malloc(count * sizeof(*buckets));

	if (!buckets)
		return;
	for (uint32_t i = 0; i < count; i++)
		vb_list_init(&buckets[i]);
	for (uint32_t i = 0; i <= table->mask; i++)
		vb_list_for(node, &table->buckets[i], struct vb_cm_node, list) {
			vb_list_remove(&node->list);
			vb_list_append(&buckets[node->hash & (count - 1)], &node->list);
		}
	free(table->buckets);
	table->buckets = buckets;
	table->mask = count - 1;
}

void vb_cm_table_add(struct vb_cm_table *table, struct vb_cm_node *node, uint32_t hash)
{
	if (table->count > table->mask)
		grow(table);
	node->hash = hash;
	vb_list_append(vb_cm_bucket(table, hash), &node->list);
	table->count++;
}

void vb_cm_table_remove(struct vb_cm_table *table, struct vb_cm_node *node)
{
	if (vb_list_empty(&node->list))
		return;
	vb_list_remove(&node->list);
	table->count--;
}
