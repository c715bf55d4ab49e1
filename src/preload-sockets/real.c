/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload-sockets/real.h"

#include <dlfcn.h>
#include <pthread.h>

static struct vb_real real;

/* POSIX allows to convert a void * to a function pointer; ISO C does not. */
#define FIND(name) (*(void **)&real.name = dlsym(RTLD_NEXT, #name))

static void find_sockets(void)
{
	FIND(socket);
	FIND(bind);
	FIND(listen);
	FIND(accept4);
	FIND(connect);
	FIND(shutdown);
	FIND(close);
	FIND(getpeername);
	FIND(getsockname);
	FIND(getsockopt);
	FIND(setsockopt);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(close_range);
	FIND(closefrom);
	FIND(fcntl);
	FIND(ioctl);
}

static void find_all(void)
{
	find_sockets();
	FIND(read);
	FIND(readv);
	FIND(recv);
	FIND(recvfrom);
	FIND(recvmsg);
	FIND(write);
	FIND(writev);
	FIND(send);
	FIND(sendto);
	FIND(sendmsg);
	FIND(sendfile);
	FIND(splice);
	FIND(recvmmsg);
	FIND(sendmmsg);
	FIND(poll);
	FIND(ppoll);
	FIND(select);
	FIND(pselect);
	FIND(epoll_ctl);
	FIND(epoll_pwait);
	FIND(epoll_pwait2);
}

const struct vb_real *vb_real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_all);
	return &real;
}
