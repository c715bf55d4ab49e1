/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "preload-sockets/epoll_impl.h"

pthread_mutex_t vb_epoll_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_fd_table sets;

static void set_release(struct vb_fd_object *object)
{
	struct vb_epoll_set *set = vb_container(object, struct vb_epoll_set, object);

	vb_fd_close(&set->inner_fd);
	vb_fd_close(&set->kick_fd);
	pthread_mutex_destroy(&set->check_lock);
	free(set);
}

struct vb_epoll_set *vb_epoll_set_get(int epfd)
{
	struct vb_fd_object *object = vb_fd_table_get(&sets, epfd);

	return object ? vb_container(object, struct vb_epoll_set, object) : NULL;
}

static void forget_set(int epfd, struct vb_fd_object *object, void *unused)
{
	(void)object; /* never freed: the parent uses its descriptors, too */
	(void)unused;
	vb_fd_table_remove(&sets, epfd);
}

/* The child has the descriptors of its parent's sets, but no rsockets that could wake them. */
void vb_epoll_after_fork(void)
{
	pthread_mutex_init(&vb_epoll_lock, NULL);
	vb_fd_table_after_fork(&sets);
	vb_fd_table_each(&sets, forget_set, NULL);
}

bool vb_epoll_has(int epfd)
{
	return vb_fd_table_has(&sets, epfd);
}

static int watch_in(int epfd, int fd, void *pointer)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = pointer };

	return vb_real()->epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int set_open(struct vb_epoll_set *set, int epfd)
{
	int err;

	set->epfd = epfd;
	set->inner_fd = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	set->kick_fd = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (set->inner_fd < 0 || set->kick_fd < 0)
		return -errno;
	err = watch_in(set->inner_fd, set->kick_fd, NULL);
	return err ? err : watch_in(epfd, set->inner_fd, set);
}

static int set_make(int epfd, struct vb_epoll_set **out)
{
	struct vb_epoll_set *set = calloc(1, sizeof(*set));
	struct vb_fd_object *before;
	int err;

	if (!set)
		return -ENOMEM;
	vb_fd_object_init(&set->object, set_release);
	pthread_mutex_init(&set->check_lock, NULL);
	vb_list_init(&set->members);
	vb_list_init(&set->hot);
	err = set_open(set, epfd);
	if (!err) {
		vb_fd_object_get(&set->object); /* for the table */
		err = vb_fd_table_set(&sets, epfd, &set->object, &before);
		if (err)
			vb_fd_object_put(&set->object);
		else if (before)
			vb_fd_object_put(before);
	}
	if (err)
		vb_fd_object_put(&set->object);
	else
		*out = set;
	return err;
}

/* --- members --- */

void vb_epoll_heat(struct vb_epoll_member *member)
{
	const uint64_t one = 1;

	if (!vb_list_empty(&member->hot_node))
		return;
	vb_list_append(&member->set->hot, &member->hot_node);
	if (vb_real()->write(member->set->kick_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, and so readable */
}

static void notified(struct vb_rs_watch *watch)
{
	struct vb_epoll_member *member = vb_container(watch, struct vb_epoll_member, watch);

	pthread_mutex_lock(&vb_epoll_lock);
	vb_epoll_heat(member);
	pthread_mutex_unlock(&vb_epoll_lock);
}

void vb_epoll_member_channel(struct vb_epoll_member *member, int channel_fd)
{
	if (member->channel_fd == channel_fd)
		return;
	if (member->channel_fd >= 0)
		vb_real()->epoll_ctl(member->set->inner_fd, EPOLL_CTL_DEL, member->channel_fd,
				     NULL);
	member->channel_fd = channel_fd;
	if (channel_fd >= 0)
		watch_in(member->set->inner_fd, channel_fd, member);
}

static void leave_rsocket(struct vb_epoll_member *member)
{
	struct vb_rs *rs = member->rs;

	if (!rs)
		return;
	vb_epoll_member_channel(member, -1);
	pthread_mutex_lock(&rs->lock);
	vb_list_remove(&member->watch.node);
	pthread_mutex_unlock(&rs->lock);
	member->rs = NULL;
	vb_rs_put(rs);
}

static void enter_rsocket(struct vb_epoll_member *member, struct vb_rs *rs)
{
	member->rs = rs;
	vb_rs_get(rs);
	member->watch.notify = notified;
	pthread_mutex_lock(&rs->lock);
	vb_list_append(&rs->watches, &member->watch.node);
	pthread_mutex_unlock(&rs->lock);
}

static void enter_kernel(struct vb_epoll_member *member)
{
	if (member->listens)
		vb_real()->epoll_ctl(member->set->inner_fd, EPOLL_CTL_DEL, member->fd, NULL);
	member->listens = false;
	vb_real()->epoll_ctl(member->set->epfd, EPOLL_CTL_ADD, member->fd, &member->event);
	member->in_kernel = true;
}

void vb_epoll_member_fit(struct vb_epoll_member *member, const struct vb_entry_parts *parts)
{
	enum vb_kind kind;

	pthread_mutex_lock(&member->entry->lock);
	kind = member->entry->kind;
	pthread_mutex_unlock(&member->entry->lock);
	if (member->rs != parts->rs)
		leave_rsocket(member);
	if (parts->rs && !member->rs)
		enter_rsocket(member, parts->rs);
	member->look_at_ns = parts->look_again_at_ns;
	if (kind == VB_KIND_LISTENER && !member->listens)
		member->listens = !watch_in(member->set->inner_fd, member->fd, member);
	if (kind == VB_KIND_PLAIN && !member->in_kernel)
		enter_kernel(member);
}

/* Under the set's check_lock. */
static void member_free(struct vb_epoll_member *member)
{
	leave_rsocket(member);
	if (member->listens)
		vb_real()->epoll_ctl(member->set->inner_fd, EPOLL_CTL_DEL, member->fd, NULL);
	pthread_mutex_lock(&vb_epoll_lock);
	vb_list_remove(&member->set_node);
	vb_list_remove(&member->entry_node);
	vb_list_remove(&member->hot_node);
	pthread_mutex_unlock(&vb_epoll_lock);
	vb_entry_put(member->entry);
	free(member);
}

static struct vb_epoll_member *member_find(struct vb_epoll_set *set, int fd,
					   const struct vb_entry *entry)
{
	vb_list_for(member, &set->members, struct vb_epoll_member, set_node) {
		if (member->fd == fd && member->entry == entry)
			return member;
	}
	return NULL;
}

static int member_add(struct vb_epoll_set *set, int fd, struct vb_entry *entry,
		      struct epoll_event *event)
{
	struct vb_epoll_member *member = calloc(1, sizeof(*member));

	if (!member)
		return -ENOMEM;
	member->set = set;
	member->entry = entry;
	vb_fd_object_get(&entry->object);
	member->fd = fd;
	member->event = *event;
	member->channel_fd = -1;
	member->look_at_ns = VB_NEVER_NS;
	vb_list_init(&member->hot_node);
	vb_list_init(&member->watch.node);
	pthread_mutex_lock(&vb_epoll_lock);
	vb_list_append(&set->members, &member->set_node);
	vb_list_append(&entry->members, &member->entry_node);
	vb_epoll_heat(member);
	pthread_mutex_unlock(&vb_epoll_lock);
	return 0;
}

static void member_modify(struct vb_epoll_member *member, const struct epoll_event *event)
{
	member->event = *event;
	member->disabled = false;
	pthread_mutex_lock(&vb_epoll_lock);
	vb_epoll_heat(member);
	pthread_mutex_unlock(&vb_epoll_lock);
}

/* Under check_lock. */
static int set_control(struct vb_epoll_set *set, int op, int fd, struct vb_entry *entry,
		       struct epoll_event *event)
{
	struct vb_epoll_member *member = member_find(set, fd, entry);
	int err = 0;

	if (op == EPOLL_CTL_ADD)
		return member ? -EEXIST : member_add(set, fd, entry, event);
	if (!member)
		return -ENOENT;
	if (member->in_kernel && vb_real()->epoll_ctl(set->epfd, op, fd, event))
		err = -errno;
	if (op == EPOLL_CTL_DEL)
		member_free(member);
	else if (op == EPOLL_CTL_MOD)
		member_modify(member, event);
	else
		err = -EINVAL;
	return err;
}

int vb_epoll_control(int epfd, int op, int fd, struct vb_entry *entry, struct epoll_event *event)
{
	struct vb_epoll_set *set = vb_epoll_set_get(epfd);
	int err = 0;

	if (op != EPOLL_CTL_DEL && !event)
		return -EFAULT;
	if (!set) {
		if (op != EPOLL_CTL_ADD)
			return -ENOENT;
		err = set_make(epfd, &set);
		if (err)
			return err;
	}
	pthread_mutex_lock(&set->check_lock);
	err = set_control(set, op, fd, entry, event);
	pthread_mutex_unlock(&set->check_lock);
	vb_fd_object_put(&set->object);
	return err;
}

void vb_epoll_drop(int epfd)
{
	struct vb_fd_object *object;
	struct vb_epoll_set *set;

	if (!vb_epoll_has(epfd) || vb_entry_is_guest())
		return;
	object = vb_fd_table_remove(&sets, epfd);
	if (!object)
		return;
	set = vb_container(object, struct vb_epoll_set, object);
	pthread_mutex_lock(&set->check_lock);
	vb_list_for(member, &set->members, struct vb_epoll_member, set_node) {
		member_free(member);
	}
	pthread_mutex_unlock(&set->check_lock);
	vb_fd_object_put(object);
}

static void drop_in_range(int epfd, struct vb_fd_object *object, void *range)
{
	(void)object;
	if (vb_fd_in_range(epfd, range))
		vb_epoll_drop(epfd);
}

void vb_epoll_drop_range(unsigned first, unsigned last)
{
	struct vb_fd_range range = { first, last };

	vb_fd_table_each(&sets, drop_in_range, &range);
}

/* --- changes of entries --- */

void vb_epoll_changed(struct vb_entry *entry)
{
	pthread_mutex_lock(&vb_epoll_lock);
	vb_list_for(member, &entry->members, struct vb_epoll_member, entry_node) {
		vb_epoll_heat(member);
	}
	pthread_mutex_unlock(&vb_epoll_lock);
}

/* The next look at the member puts it into the kernel's set. */
void vb_epoll_became_plain(struct vb_entry *entry)
{
	vb_epoll_changed(entry);
}

/* A set that has the entry as a member, with a reference. */
static struct vb_epoll_set *first_set(struct vb_entry *entry)
{
	struct vb_epoll_set *set = NULL;

	pthread_mutex_lock(&vb_epoll_lock);
	if (!vb_list_empty(&entry->members)) {
		set = vb_container(entry->members.next, struct vb_epoll_member, entry_node)->set;
		vb_fd_object_get(&set->object);
	}
	pthread_mutex_unlock(&vb_epoll_lock);
	return set;
}

void vb_epoll_forget(struct vb_entry *entry)
{
	struct vb_epoll_set *set;

	while ((set = first_set(entry))) {
		pthread_mutex_lock(&set->check_lock);
		vb_list_for(member, &set->members, struct vb_epoll_member, set_node) {
			if (member->entry == entry)
				member_free(member);
		}
		pthread_mutex_unlock(&set->check_lock);
		vb_fd_object_put(&set->object);
	}
}
