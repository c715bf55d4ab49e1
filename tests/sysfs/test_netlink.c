/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of NETLINK_RDMA under `verbena run`: they behave as the kernel's, and a program may do
 * with them what it does with others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "nl_check.h"
#include "sysfs/nl_request.h"

enum { MRS = 4000, THREADS = 3, ROUNDS = 50, FORKS = 50, HANG_S = 40 };

static int open_rdma(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	struct timeval patience = { .tv_sec = HANG_S };

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void send_dump(int fd, unsigned command, int device)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct nl_request_bytes request;

	nl_start(&request, command, NLM_F_DUMP);
	if (device >= 0)
		nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)device);
	assert_int_equal(
		sendto(fd, &request, request.header.nlmsg_len, 0, (void *)&kernel, sizeof(kernel)),
		request.header.nlmsg_len);
}

/* Reads datagrams up to the end of the dump. Returns the number of table entries or messages. */
static unsigned read_dump(int fd, unsigned table)
{
	unsigned found = 0;
	char buffer[8192];

	for (;;) {
		ssize_t size = recv(fd, buffer, sizeof(buffer), 0);
		const struct nlmsghdr *header = (const void *)buffer;

		if (size < NLMSG_HDRLEN)
			return UINT32_MAX;
		for (; NLMSG_OK(header, size); header = NLMSG_NEXT(header, size)) {
			if (header->nlmsg_seq != 4711)
				return UINT32_MAX;
			if (header->nlmsg_type == NLMSG_DONE)
				return found;
			found += table ? nl_entries(nl_attribute(header, table)) : 1;
		}
	}
}

static unsigned count_devices(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	ibv_free_device_list(list);
	return (unsigned)count;
}

static void a_dump_lists_the_devices_of_libibverbs(void **state)
{
	int fd = open_rdma();

	send_dump(fd, RDMA_NLDEV_CMD_GET, -1);
	assert_int_equal(read_dump(fd, 0), count_devices());
	close(fd);
}

static void names_are_those_of_netlink(void **state)
{
	struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_groups = 8 };
	socklen_t length = sizeof(name);
	int fd = open_rdma(), groups[] = { 4, 5, 0 };

	assert_int_equal(bind(fd, (void *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (void *)&name, &length), 0);
	assert_int_equal(name.nl_family, AF_NETLINK);
	assert_true(name.nl_pid != 0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[0], 4), 0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[1], 4), -1);
	assert_int_equal(errno, EINVAL);
	name = (struct sockaddr_nl){ .nl_family = AF_NETLINK };
	assert_int_equal(connect(fd, (void *)&name, sizeof(name)), 0);
	send_dump(fd, RDMA_NLDEV_CMD_GET, -1);
	assert_int_equal(read_dump(fd, 0), count_devices());
	name.nl_pid = 1;
	assert_int_equal(connect(fd, (void *)&name, sizeof(name)), -1);
	assert_int_equal(errno, EPERM);
	close(fd);
}

static void poll_recvmsg_and_peek(void **state)
{
	struct sockaddr_nl from = { .nl_pid = 1 };
	char buffer[8192];
	struct iovec iov = { buffer, sizeof(buffer) };
	struct msghdr message = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1
	};
	struct pollfd wait = { .fd = open_rdma(), .events = POLLIN };
	ssize_t size;

	assert_int_equal(poll(&wait, 1, 0), 0);
	assert_int_equal(recv(wait.fd, buffer, sizeof(buffer), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	send_dump(wait.fd, RDMA_NLDEV_CMD_GET, -1);
	assert_int_equal(poll(&wait, 1, 0), 1);
	size = recv(wait.fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	assert_true(size > 0);
	assert_int_equal(recvmsg(wait.fd, &message, 0), size);
	assert_int_equal(message.msg_namelen, sizeof(from));
	assert_int_equal(from.nl_family, AF_NETLINK);
	assert_int_equal(from.nl_pid, 0);
	assert_int_equal(poll(&wait, 1, 0), 0);
	close(wait.fd);
}

/* Requests by sendmsg, in pieces, two in one datagram. */
static void a_datagram_may_have_several_requests(void **state)
{
	struct nl_request_bytes first, second;
	struct iovec pieces[] = { { &first, 7 }, { (char *)&first + 7, 0 }, { &second, 0 } };
	const struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 3 };
	int fd = open_rdma();

	nl_start(&first, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	nl_start(&second, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	pieces[1].iov_len = first.header.nlmsg_len - 7;
	pieces[2].iov_len = second.header.nlmsg_len;
	assert_int_equal(sendmsg(fd, &message, 0), 2 * NLMSG_HDRLEN);
	assert_int_equal(read_dump(fd, 0), count_devices());
	assert_int_equal(read_dump(fd, 0), count_devices());
	close(fd);
}

static int error_of(int fd, const struct nl_request_bytes *request, char *buffer, size_t size)
{
	struct nlmsghdr *header = (void *)buffer;
	int error;

	assert_int_equal(send(fd, request, request->header.nlmsg_len, 0),
			 request->header.nlmsg_len);
	assert_true(recv(fd, buffer, size, 0) >= NLMSG_HDRLEN + 4);
	assert_int_equal(header->nlmsg_type, NLMSG_ERROR);
	memcpy(&error, NLMSG_DATA(header), sizeof(error));
	return error;
}

static void options_shape_acknowledgements(void **state)
{
	struct nl_request_bytes request;
	char buffer[8192];
	struct nlmsghdr *header = (void *)buffer;
	int fd = open_rdma(), on = 1;

	nl_start(&request, VB_NLDEV_CMD_FRMR_POOLS_GET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	assert_int_equal(error_of(fd, &request, buffer, sizeof(buffer)), -EOPNOTSUPP);
	assert_int_equal(header->nlmsg_flags, 0);
	assert_int_equal(header->nlmsg_len, NLMSG_HDRLEN + 4 + request.header.nlmsg_len);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)), 0);
	assert_int_equal(error_of(fd, &request, buffer, sizeof(buffer)), -EOPNOTSUPP);
	assert_int_equal(header->nlmsg_flags, NLM_F_CAPPED | NLM_F_ACK_TLVS);
	assert_non_null(nl_find(buffer + 2 * NLMSG_HDRLEN + 4,
				header->nlmsg_len - 2 * NLMSG_HDRLEN - 4, NLMSGERR_ATTR_MSG));
	close(fd);
}

static void ways_that_are_not_answered_fail(void **state)
{
	const struct sockaddr_nl other = { .nl_family = AF_NETLINK, .nl_pid = 1 };
	struct nl_request_bytes request;
	int fd = open_rdma();
	char *huge = calloc(1, 1 << 20);

	nl_start(&request, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	send_dump(fd, RDMA_NLDEV_CMD_GET, -1);
	assert_int_equal(write(fd, &request, NLMSG_HDRLEN), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(sendto(fd, &request, NLMSG_HDRLEN, 0, (void *)&other, sizeof(other)), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(send(fd, huge, 1 << 20, 0), -1);
	assert_int_equal(errno, EMSGSIZE);
	free(huge);
	close(fd);
}

/* Only answers come: the kernel refuses all others. */
static void another_socket_cannot_write_to_it(void **state)
{
	struct sockaddr_nl name = { .nl_family = AF_NETLINK };
	socklen_t length = sizeof(name);
	int fd = open_rdma();
	int stranger = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);

	assert_int_equal(bind(fd, (void *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (void *)&name, &length), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sendto(stranger, "x", 1, 0, (void *)&name, sizeof(name)), -1);
		assert_int_equal(errno, ECONNREFUSED);
		send_dump(fd, RDMA_NLDEV_CMD_GET, -1);
		assert_int_equal(read_dump(fd, 0), count_devices());
	}
	close(stranger);
	close(fd);
}

static void other_sockets_are_left_alone(void **state)
{
	struct sockaddr_nl name = { .nl_family = AF_NETLINK };
	int fd = open_rdma(), other;
	char byte;

	close(fd);
	other = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	assert_int_equal(other, fd);
	assert_int_equal(sendto(other, "x", 1, 0, (void *)&name, sizeof(name)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(other);
	other = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	assert_int_equal(bind(other, (void *)&name, sizeof(name)), 0);
	assert_int_equal(recv(other, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(other);
}

/* The answer is longer than the receive buffer: the rest follows as the program reads. */
static void a_long_dump_arrives_as_a_whole(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init); /* the process answers from now on */
	struct ibv_mr **mrs = calloc(MRS, sizeof(*mrs));
	int fd = open_rdma(), room = 4096;

	assert_non_null(qp);
	for (int i = 0; i < MRS; i++)
		assert_non_null(mrs[i] = ibv_reg_mr(pd, mrs, sizeof(*mrs), 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	send_dump(fd, RDMA_NLDEV_CMD_RES_MR_GET, 0);
	assert_true(read_dump(fd, RDMA_NLDEV_ATTR_RES_MR) >= MRS);
	close(fd);
	for (int i = 0; i < MRS; i++)
		ibv_dereg_mr(mrs[i]);
	free(mrs);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
}

/* The memory is bounded: at last a request fails as it would in the kernel. */
static void a_program_that_never_reads(void **state)
{
	enum { REQUESTS = 8000 };
	struct nl_request_bytes one;
	char *many = malloc(REQUESTS * NLMSG_HDRLEN);
	ssize_t sent;
	int fd = open_rdma();

	nl_start(&one, RDMA_NLDEV_CMD_SYS_GET, NLM_F_ACK);
	for (int i = 0; i < REQUESTS; i++)
		memcpy(many + i * NLMSG_HDRLEN, &one, NLMSG_HDRLEN);
	for (int i = 0; i < 1000; i++) {
		sent = send(fd, many, REQUESTS * NLMSG_HDRLEN, 0);
		if (sent < 0)
			break;
	}
	assert_int_equal(sent, -1);
	assert_int_equal(errno, ENOBUFS);
	free(many);
	close(fd);
}

static void *ask_often(void *wrong)
{
	for (int i = 0; i < ROUNDS; i++) {
		int fd = open_rdma();

		send_dump(fd, RDMA_NLDEV_CMD_GET, -1);
		if (read_dump(fd, 0) != count_devices())
			*(int *)wrong = 1;
		close(fd);
	}
	return NULL;
}

static int fork_once(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		int fd = open_rdma();

		alarm(HANG_S);
		send_dump(fd, RDMA_NLDEV_CMD_GET, -1);
		_exit(read_dump(fd, 0) == count_devices() ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void threads_and_forks(void **state)
{
	pthread_t threads[THREADS];
	int wrong = 0;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &wrong), 0);
	for (int i = 0; i < FORKS; i++)
		assert_int_equal(fork_once(), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong, 0);
}

/* --- libnl, as rdma-core's libraries use it --- */

static int count_message(void *message, void *count)
{
	++*(unsigned *)count;
	return 0; /* NL_OK */
}

static void libnl_reads_a_dump(void **state)
{
	void *library = dlopen("libnl-3.so.200", RTLD_NOW);
	void *(*alloc)(void) = library ? dlsym(library, "nl_socket_alloc") : NULL;
	int (*start)(void *, int), (*ask)(void *, int, int, void *, size_t), (*hear)(void *);
	int (*hook)(void *, int, int, int (*)(void *, void *), void *);
	void (*no_ack)(void *), (*release)(void *), *nl;
	unsigned count = 0;

	if (!alloc) {
		print_message("libnl is not installed\n");
		skip();
	}
	*(void **)&start = dlsym(library, "nl_connect");
	*(void **)&ask = dlsym(library, "nl_send_simple");
	*(void **)&hear = dlsym(library, "nl_recvmsgs_default");
	*(void **)&hook = dlsym(library, "nl_socket_modify_cb");
	*(void **)&no_ack = dlsym(library, "nl_socket_disable_auto_ack");
	*(void **)&release = dlsym(library, "nl_socket_free");
	nl = alloc();
	no_ack(nl);
	assert_int_equal(start(nl, NETLINK_RDMA), 0);
	assert_int_equal(hook(nl, 0 /* NL_CB_VALID */, 3 /* NL_CB_CUSTOM */, count_message, &count),
			 0);
	assert_true(ask(nl, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_DUMP, NULL,
			0) >= 0);
	assert_int_equal(hear(nl), 0);
	assert_int_equal(count, count_devices());
	release(nl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_lists_the_devices_of_libibverbs),
		cmocka_unit_test(names_are_those_of_netlink),
		cmocka_unit_test(poll_recvmsg_and_peek),
		cmocka_unit_test(a_datagram_may_have_several_requests),
		cmocka_unit_test(options_shape_acknowledgements),
		cmocka_unit_test(ways_that_are_not_answered_fail),
		cmocka_unit_test(another_socket_cannot_write_to_it),
		cmocka_unit_test(other_sockets_are_left_alone),
		cmocka_unit_test(a_long_dump_arrives_as_a_whole),
		cmocka_unit_test(a_program_that_never_reads),
		cmocka_unit_test(threads_and_forks),
		cmocka_unit_test(libnl_reads_a_dump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
