/* SPDX-License-Identifier: BSD-2-Clause */
/* An intrusive, circular, doubly linked list. A node that is in no list points to itself. */
#ifndef VB_BASE_LIST_H
#define VB_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct vb_list {
	struct vb_list *next, *prev;
};

/* clang-format off */
#define VB_LIST_INIT(name) { &(name), &(name) }
#define vb_container(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
/* clang-format on */
/* The head of a list is no element: NULL stands for it. */
#define vb_list_element(node, head, type, member) \
	((node) == (head) ? NULL : vb_container(node, type, member))
/* The current element may be removed, and freed, inside the loop. */
#define vb_list_for(pos, head, type, member)                                                    \
	for (type *pos = vb_list_element((head)->next, head, type, member), *pos##_next;        \
	     pos && (pos##_next = vb_list_element(pos->member.next, head, type, member), true); \
	     pos = pos##_next)

static inline void vb_list_init(struct vb_list *head)
{
	head->next = head->prev = head;
}

static inline bool vb_list_empty(const struct vb_list *head)
{
	return head->next == head;
}

static inline void vb_list_append(struct vb_list *head, struct vb_list *node)
{
	node->next = head;
	node->prev = head->prev;
	head->prev->next = node;
	head->prev = node;
}

static inline void vb_list_remove(struct vb_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	vb_list_init(node);
}

#endif
