/* SPDX-License-Identifier: BSD-2-Clause */
/* Lock order: a set's lock, then that of an rsocket. No thread sleeps under a set's lock. */
#include "rsocket/repoll.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "rsocket/poll.h"
#include "rsocket/public.h"

struct set {
	struct vb_fd_object object;
	int epfd; /* the number; the kernel's set of ordinary descriptors */
	unsigned generation;
	pthread_mutex_t lock;   /* the rest */
	struct vb_list members; /* the next to be reported first */
	nfds_t count;
	uint64_t changes; /* members that a list names may be gone if this has changed */
	struct vb_list waiting, idle; /* struct sleeper.node */
	bool closed;
	bool kernel_first; /* the last wait had no room for the kernel's events */
};

struct member {
	struct vb_list node;
	int fd;
	struct vb_rs *rs; /* a reference */
	struct epoll_event event;
	bool disabled; /* EPOLLONESHOT has fired */
};

/* A thread that waits. */
struct sleeper {
	struct vb_list node;
	int event_fd; /* readable: the members have changed; owned */
};

/* A wait looks at these two first, then at members. */
enum { CHANGE, KERNEL, FIRST };

struct list {
	struct pollfd *fds;
	struct vb_rs **rsockets;
	struct member **members;
	nfds_t count;
	uint64_t changes;
};

static struct vb_fd_table sets;

/* --- sets --- */

/* Under the lock, or alone. */
static void member_free(struct set *set, struct member *member)
{
	vb_list_remove(&member->node);
	set->count--;
	set->changes++;
	vb_rs_put(member->rs);
	free(member);
}

static void sleeper_free(struct sleeper *sleeper)
{
	vb_list_remove(&sleeper->node);
	vb_fd_close(&sleeper->event_fd);
	free(sleeper);
}

static void set_release(struct vb_fd_object *object)
{
	struct set *set = vb_container(object, struct set, object);

	vb_list_for(member, &set->members, struct member, node) {
		member_free(set, member);
	}
	vb_list_for(sleeper, &set->idle, struct sleeper, node) {
		sleeper_free(sleeper);
	}
	pthread_mutex_destroy(&set->lock);
	free(set);
}

/* A child of fork has the numbers, but not the sets. */
static struct set *set_get(int epfd)
{
	struct vb_fd_object *object = vb_fd_table_get(&sets, epfd);
	struct set *set = object ? vb_container(object, struct set, object) : NULL;

	if (!set || set->generation == vb_rs_generation())
		return set;
	vb_fd_object_put(object);
	return NULL;
}

static void set_put(struct set *set)
{
	vb_fd_object_put(&set->object);
}

void vb_repoll_after_fork(void)
{
	vb_fd_table_after_fork(&sets);
}

static int install(struct set *set)
{
	struct vb_fd_object *before;
	int err;

	vb_rs_watch_fork();
	err = vb_fd_table_set(&sets, set->epfd, &set->object, &before);
	/* The program has closed the number of an older set with close. */
	if (!err && before)
		vb_fd_object_put(before);
	return err;
}

int vb_repoll_create(int flags)
{
	struct set *set = calloc(1, sizeof(*set));
	int err;

	if (!set)
		return -ENOMEM;
	vb_fd_object_init(&set->object, set_release);
	set->generation = vb_rs_generation();
	pthread_mutex_init(&set->lock, NULL);
	vb_list_init(&set->members);
	vb_list_init(&set->waiting);
	vb_list_init(&set->idle);
	set->epfd = epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
	err = set->epfd < 0 ? -errno : install(set);
	if (!err)
		return set->epfd;
	vb_fd_close(&set->epfd);
	set_put(set);
	return err;
}

/* Under the lock. */
static void wake_sleepers(struct set *set)
{
	const uint64_t one = 1;

	vb_list_for(sleeper, &set->waiting, struct sleeper, node) {
		if (write(sleeper->event_fd, &one, sizeof(one)) < 0)
			continue; /* the counter is full, and so readable */
	}
}

int vb_repoll_close(int epfd)
{
	struct vb_fd_object *object = vb_fd_table_remove(&sets, epfd);
	struct set *set;

	if (!object)
		return -EBADF;
	close(epfd);
	set = vb_container(object, struct set, object);
	if (set->generation != vb_rs_generation())
		return 0; /* its lock and rsockets are the parent's; the copy stays */
	pthread_mutex_lock(&set->lock);
	set->closed = true;
	wake_sleepers(set);
	pthread_mutex_unlock(&set->lock);
	set_put(set);
	return 0;
}

/* --- membership --- */

/* Is the number still that of the rsocket? A program may have closed it. */
static bool is_current(const struct member *member)
{
	struct vb_rs *rs = vb_rs_lookup(member->fd);

	if (rs)
		vb_rs_put(rs);
	return rs == member->rs;
}

/* Under the lock. A member whose rsocket is closed has left the set. */
static struct member *member_find(struct set *set, int fd)
{
	vb_list_for(member, &set->members, struct member, node) {
		if (member->fd != fd)
			continue;
		if (is_current(member))
			return member;
		member_free(set, member);
	}
	return NULL;
}

static int member_add(struct set *set, int fd, struct vb_rs *rs, const struct epoll_event *event)
{
	struct member *member = calloc(1, sizeof(*member));

	if (!member)
		return -ENOMEM;
	vb_rs_get(rs);
	member->rs = rs;
	member->fd = fd;
	member->event = *event;
	vb_list_append(&set->members, &member->node);
	set->count++;
	set->changes++;
	return 0;
}

static int member_modify(struct set *set, struct member *member, const struct epoll_event *event)
{
	member->event = *event;
	member->disabled = false;
	set->changes++;
	return 0;
}

/* Under the lock. */
static int control_rsocket(struct set *set, int op, int fd, struct vb_rs *rs,
			   const struct epoll_event *event)
{
	struct member *member = member_find(set, fd);

	switch (op) {
	case EPOLL_CTL_ADD:
		return member ? -EEXIST : member_add(set, fd, rs, event);
	case EPOLL_CTL_MOD:
		return member ? member_modify(set, member, event) : -ENOENT;
	case EPOLL_CTL_DEL:
		if (!member)
			return -ENOENT;
		member_free(set, member);
		return 0;
	default:
		return -EINVAL;
	}
}

static int control(struct set *set, int op, int fd, struct epoll_event *event)
{
	struct vb_rs *rs = vb_rs_lookup(fd);
	int err;

	if (!rs && vb_fd_table_has(&sets, fd)) {
		vb_explain("repoll_ctl: a set cannot be a member of a set");
		return -EINVAL;
	}
	if (!rs)
		return epoll_ctl(set->epfd, op, fd, event) ? -errno : 0;
	pthread_mutex_lock(&set->lock);
	err = control_rsocket(set, op, fd, rs, event);
	if (!err)
		wake_sleepers(set);
	pthread_mutex_unlock(&set->lock);
	vb_rs_put(rs);
	return err;
}

int vb_repoll_control(int epfd, int op, int fd, struct epoll_event *event)
{
	struct set *set = set_get(epfd);
	int err;

	if (!set || fd < 0)
		err = -EBADF;
	else if (op != EPOLL_CTL_DEL && !event)
		err = -EFAULT;
	else
		err = control(set, op, fd, event);
	if (set)
		set_put(set);
	return err;
}

/* --- waiting --- */

static struct sleeper *sleeper_create(void)
{
	struct sleeper *sleeper = calloc(1, sizeof(*sleeper));

	if (!sleeper)
		return NULL;
	vb_list_init(&sleeper->node);
	sleeper->event_fd = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (sleeper->event_fd >= 0)
		return sleeper;
	free(sleeper);
	return NULL;
}

/* NULL: there is no memory, or no descriptor. */
static struct sleeper *sleeper_begin(struct set *set)
{
	struct sleeper *sleeper;

	pthread_mutex_lock(&set->lock);
	sleeper = vb_list_element(set->idle.next, &set->idle, struct sleeper, node);
	if (sleeper)
		vb_list_remove(&sleeper->node);
	else
		sleeper = sleeper_create();
	if (sleeper)
		vb_list_append(&set->waiting, &sleeper->node);
	pthread_mutex_unlock(&set->lock);
	return sleeper;
}

static void sleeper_end(struct set *set, struct sleeper *sleeper)
{
	pthread_mutex_lock(&set->lock);
	vb_list_remove(&sleeper->node);
	vb_rs_event_drain(sleeper->event_fd);
	vb_list_append(&set->idle, &sleeper->node);
	pthread_mutex_unlock(&set->lock);
}

/* A thread in repoll_wait holds these. */
struct wait {
	struct set *set;
	struct sleeper *sleeper; /* NULL: there is no memory, or no descriptor */
};

static void wait_end(void *held)
{
	const struct wait *wait = held;

	if (wait->sleeper)
		sleeper_end(wait->set, wait->sleeper);
	set_put(wait->set);
}

static void list_free(void *held)
{
	struct list *list = held;

	for (nfds_t i = FIRST; i < list->count; i++)
		vb_rs_put(list->rsockets[i]);
	free(list->fds);
	free(list->rsockets);
	free(list->members);
}

static int list_allocate(struct list *list, nfds_t most)
{
	*list = (struct list){
		.fds = calloc(most, sizeof(*list->fds)),
		.rsockets = calloc(most, sizeof(*list->rsockets)),
		.members = calloc(most, sizeof(*list->members)),
	};
	if (list->fds && list->rsockets && list->members)
		return 0;
	list_free(list);
	return -ENOMEM;
}

/* Under the lock. */
static void list_add(struct list *list, struct member *member)
{
	list->fds[list->count] = (struct pollfd){
		.fd = member->fd,
		.events = (short)(member->event.events & 0x7fff), /* the bits of poll(2) */
	};
	list->rsockets[list->count] = member->rs;
	list->members[list->count++] = member;
	vb_rs_get(member->rs);
}

static int list_make(struct set *set, const struct sleeper *sleeper, struct list *list)
{
	int err;

	pthread_mutex_lock(&set->lock);
	err = set->closed ? -EBADF : list_allocate(list, FIRST + set->count);
	if (!err) {
		vb_rs_event_drain(sleeper->event_fd);
		list->fds[CHANGE] = (struct pollfd){ .fd = sleeper->event_fd, .events = POLLIN };
		list->fds[KERNEL] = (struct pollfd){ .fd = set->epfd, .events = POLLIN };
		list->count = FIRST;
		vb_list_for(member, &set->members, struct member, node) {
			if (!is_current(member))
				member_free(set, member);
			else if (!member->disabled)
				list_add(list, member);
		}
		list->changes = set->changes;
	}
	pthread_mutex_unlock(&set->lock);
	return err;
}

/* Reported members go to the end, so that each has its turn where there is little room. */
static void report(struct set *set, struct member *member, short ready, struct epoll_event *event)
{
	*event = (struct epoll_event){ .events = (uint32_t)(unsigned short)ready,
				       .data = member->event.data };
	vb_list_remove(&member->node);
	vb_list_append(&set->members, &member->node);
	if (member->event.events & EPOLLONESHOT) {
		member->disabled = true;
		set->changes++;
	}
}

static int collect_kernel(const struct set *set, struct epoll_event *events, int count)
{
	int found = count > 0 ? epoll_wait(set->epfd, events, count, 0) : 0;

	return found > 0 ? found : 0;
}

/* Under the lock. A list that is no longer true reports nothing: the next one does. */
static int collect_rsockets(struct set *set, const struct list *list, struct epoll_event *events,
			    int count)
{
	int found = 0;

	if (set->changes != list->changes)
		return 0;
	for (nfds_t i = FIRST; i < list->count && found < count; i++) {
		if (!list->fds[i].revents)
			continue;
		if (is_current(list->members[i]))
			report(set, list->members[i], list->fds[i].revents, &events[found++]);
		else
			member_free(set, list->members[i]);
	}
	return found;
}

static int collect(struct set *set, const struct list *list, struct epoll_event *events, int count)
{
	const bool kernel = list->fds[KERNEL].revents;
	int found = 0;

	pthread_mutex_lock(&set->lock);
	if (kernel && set->kernel_first)
		found = collect_kernel(set, events, count);
	found += collect_rsockets(set, list, events + found, count - found);
	if (kernel && !set->kernel_first)
		found += collect_kernel(set, events + found, count - found);
	set->kernel_first = !set->kernel_first && found == count;
	pthread_mutex_unlock(&set->lock);
	return found;
}

/* Looks once, and sleeps until there is something to look at. */
static int wait_once(struct set *set, const struct sleeper *sleeper, struct epoll_event *events,
		     int count, uint64_t deadline_ns, bool *again)
{
	struct list list;
	struct vb_undo undo;
	int result = list_make(set, sleeper, &list);

	*again = false;
	if (result)
		return result;
	vb_undo_push(&undo, list_free, &list);
	result = vb_rs_poll(list.fds, list.rsockets, list.count, deadline_ns, NULL);
	vb_undo_pop(&undo);
	if (result > 0 && list.fds[KERNEL].revents & POLLNVAL) {
		result = -EBADF; /* the program has closed the number with close */
	} else if (result > 0) {
		result = collect(set, &list, events, count);
		*again = !result;
	}
	list_free(&list);
	return result;
}

int vb_repoll_wait(int epfd, struct epoll_event *events, int count, uint64_t deadline_ns)
{
	struct wait wait = { .set = set_get(epfd) };
	struct vb_undo undo;
	bool again = true;
	int result = -ENOMEM;

	if (!wait.set)
		return -EBADF;
	wait.sleeper = sleeper_begin(wait.set);
	vb_undo_push(&undo, wait_end, &wait);
	while (wait.sleeper && again)
		result = wait_once(wait.set, wait.sleeper, events, count, deadline_ns, &again);
	vb_undo_pop(&undo);
	wait_end(&wait);
	return result;
}
