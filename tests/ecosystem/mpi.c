/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages, collective and one-sided operations of MPI, each of which checks every byte of what it
 * got. Prints "all right" and the number of checks, or the first thing that is wrong.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 18 }; /* words of a message */

static int me, size;
static uint64_t checks;
static uint64_t *out, *in;

static void wrong(const char *what, int from, size_t at, uint64_t got, uint64_t wanted)
{
	fprintf(stderr, "rank %d of %d: %s from %d, word %zu: %#llx instead of %#llx\n", me, size,
		what, from, at, (unsigned long long)got, (unsigned long long)wanted);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The word that a rank sends: it tells rank, round and place. */
static uint64_t word(int rank, size_t round, size_t at)
{
	return ((uint64_t)rank << 48 ^ (uint64_t)round << 32 ^ at) * 0x9e3779b97f4a7c15u;
}

static void fill(size_t round, size_t count)
{
	for (size_t i = 0; i < count; i++)
		out[i] = word(me, round, i);
}

static void compare(const char *what, int from, size_t round, const uint64_t *words, size_t first,
		    size_t count)
{
	for (size_t i = 0; i < count; i++, checks++)
		if (words[i] != word(from, round, first + i))
			wrong(what, from, i, words[i], word(from, round, first + i));
}

static void compare_sum(const char *what, size_t round, const uint64_t *words, size_t first,
			size_t count, int ranks)
{
	for (size_t i = 0; i < count; i++, checks++) {
		uint64_t sum = 0;

		for (int rank = 0; rank < ranks; rank++)
			sum += word(rank, round, first + i);
		if (words[i] != sum)
			wrong(what, -1, i, words[i], sum);
	}
}

/* --- messages --- */

/* Each rank sends to the next one, so eager messages and rendezvous go both ways at once. */
static void ring(size_t round, size_t count)
{
	int to = (me + 1) % size, from = (me + size - 1) % size;

	fill(round, count);
	memset(in, 0, count * sizeof(*in));
	MPI_Sendrecv(out, (int)count, MPI_UINT64_T, to, 7, in, (int)count, MPI_UINT64_T, from, 7,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	compare("Sendrecv", from, round, in, 0, count);
}

/* Every second word of a block, received as one. */
static void strided(size_t round, size_t count)
{
	int to = (me + 1) % size, from = (me + size - 1) % size;
	MPI_Datatype stride;

	fill(round, 2 * count);
	MPI_Type_vector((int)count, 1, 2, MPI_UINT64_T, &stride);
	MPI_Type_commit(&stride);
	MPI_Sendrecv(out, 1, stride, to, 8, in, (int)count, MPI_UINT64_T, from, 8, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Type_free(&stride);
	for (size_t i = 0; i < count; i++, checks++)
		if (in[i] != word(from, round, 2 * i))
			wrong("strided", from, i, in[i], word(from, round, 2 * i));
}

/* Messages that come before their receives, in an order other than that of the receives. */
static void unexpected(size_t round, size_t count)
{
	enum { MANY = 16 };
	int to = (me + 1) % size, from = (me + size - 1) % size;
	MPI_Request requests[MANY];

	fill(round, count * MANY);
	for (int i = 0; i < MANY; i++)
		MPI_Isend(out + (size_t)i * count, (int)count, MPI_UINT64_T, to, 100 + i,
			  MPI_COMM_WORLD, &requests[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = MANY - 1; i >= 0; i--) {
		MPI_Recv(in, (int)count, MPI_UINT64_T, from, 100 + i, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		compare("unexpected", from, round, in, (size_t)i * count, count);
	}
	MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
}

/* --- collective operations --- */

static void one_to_all(size_t round, size_t count)
{
	for (int root = 0; root < size; root++) {
		fill(round, count * (size_t)size);
		if (me == root)
			memcpy(in, out, count * sizeof(*in));
		MPI_Bcast(in, (int)count, MPI_UINT64_T, root, MPI_COMM_WORLD);
		compare("Bcast", root, round, in, 0, count);
		MPI_Scatter(out, (int)count, MPI_UINT64_T, in, (int)count, MPI_UINT64_T, root,
			    MPI_COMM_WORLD);
		compare("Scatter", root, round, in, (size_t)me * count, count);
		MPI_Gather(out, (int)count, MPI_UINT64_T, in, (int)count, MPI_UINT64_T, root,
			   MPI_COMM_WORLD);
		for (int from = 0; me == root && from < size; from++)
			compare("Gather", from, round, in + (size_t)from * count, 0, count);
		MPI_Reduce(out, in, (int)count, MPI_UINT64_T, MPI_SUM, root, MPI_COMM_WORLD);
		if (me == root)
			compare_sum("Reduce", round, in, 0, count, size);
	}
}

static void all_to_all(size_t round, size_t count)
{
	fill(round, count * (size_t)size);
	MPI_Allreduce(out, in, (int)count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	compare_sum("Allreduce", round, in, 0, count, size);
	MPI_Scan(out, in, (int)count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	compare_sum("Scan", round, in, 0, count, me + 1);
	MPI_Reduce_scatter_block(out, in, (int)count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	compare_sum("Reduce_scatter", round, in, (size_t)me * count, count, size);
	MPI_Allgather(out, (int)count, MPI_UINT64_T, in, (int)count, MPI_UINT64_T, MPI_COMM_WORLD);
	for (int from = 0; from < size; from++)
		compare("Allgather", from, round, in + (size_t)from * count, 0, count);
	MPI_Alltoall(out, (int)count, MPI_UINT64_T, in, (int)count, MPI_UINT64_T, MPI_COMM_WORLD);
	for (int from = 0; from < size; from++)
		compare("Alltoall", from, round, in + (size_t)from * count, (size_t)me * count,
			count);
}

/* --- one-sided operations --- */

/* Each rank has a part in the window of the next one. */
static void put_and_get(MPI_Win window, const uint64_t *memory, size_t round, size_t count)
{
	int to = (me + 1) % size, from = (me + size - 1) % size;

	fill(round, count);
	MPI_Win_fence(0, window);
	MPI_Put(out, (int)count, MPI_UINT64_T, to, 0, (int)count, MPI_UINT64_T, window);
	MPI_Win_fence(0, window);
	compare("Put", from, round, memory, 0, count);
	MPI_Win_fence(0, window);
	MPI_Get(in, (int)count, MPI_UINT64_T, to, 0, (int)count, MPI_UINT64_T, window);
	MPI_Win_fence(0, window);
	compare("Get", me, round, in, 0, count);
}

/* All ranks add to the words of rank 0, and each ticket of the first word is given out once. */
static void accumulate(MPI_Win window, uint64_t *memory, size_t count)
{
	enum { TICKETS = 50 };
	uint64_t one = 1, ticket, sum = 0, total;

	memset(memory, 0, (count + 1) * sizeof(*memory));
	MPI_Win_fence(0, window);
	MPI_Win_fence(0, window);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	for (int i = 0; i < TICKETS; i++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		sum += ticket;
	}
	for (size_t i = 0; i < count; i++)
		out[i] = (uint64_t)me + i;
	MPI_Accumulate(out, (int)count, MPI_UINT64_T, 0, 1, (int)count, MPI_UINT64_T, MPI_SUM,
		       window);
	MPI_Win_unlock(0, window);
	MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	uint64_t given = (uint64_t)TICKETS * (uint64_t)size;
	if (total != given * (given - 1) / 2)
		wrong("tickets", -1, 0, total, given * (given - 1) / 2);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
	MPI_Get(in, (int)count, MPI_UINT64_T, 0, 1, (int)count, MPI_UINT64_T, window);
	MPI_Win_unlock(0, window);
	for (size_t i = 0; i < count; i++, checks++) {
		uint64_t wanted = (uint64_t)size * (uint64_t)(size - 1) / 2 + (uint64_t)size * i;

		if (in[i] != wanted)
			wrong("Accumulate", 0, i, in[i], wanted);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A lock by compare and swap: nobody is inside twice. */
static void swap(MPI_Win window, uint64_t *memory)
{
	enum { TURNS = 10 };
	uint64_t free_word = 0, mine = (uint64_t)me + 1, was, count;
	int any;

	memory[0] = memory[1] = 0;
	MPI_Win_fence(0, window);
	MPI_Win_fence(0, window);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < TURNS; i++) {
		do {
			MPI_Compare_and_swap(&mine, &free_word, &was, MPI_UINT64_T, 0, 0, window);
			MPI_Win_flush(0, window);
			/* Open MPI 4.1 over UCX takes no request in while a rank works on memory
			 * of its own: the lock's owner could not give it back. */
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any,
				   MPI_STATUS_IGNORE);
		} while (was);
		MPI_Get(&count, 1, MPI_UINT64_T, 0, 1, 1, MPI_UINT64_T, window);
		MPI_Win_flush(0, window);
		count++;
		MPI_Put(&count, 1, MPI_UINT64_T, 0, 1, 1, MPI_UINT64_T, window);
		MPI_Win_flush(0, window);
		MPI_Compare_and_swap(&free_word, &mine, &was, MPI_UINT64_T, 0, 0, window);
		MPI_Win_flush(0, window);
		if (was != mine)
			wrong("the lock's owner", 0, 0, was, mine);
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	MPI_Get(&count, 1, MPI_UINT64_T, 0, 1, 1, MPI_UINT64_T, window);
	MPI_Win_unlock(0, window);
	if (count != (uint64_t)TURNS * (uint64_t)size)
		wrong("turns", 0, 0, count, (uint64_t)TURNS * (uint64_t)size);
	checks++;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void one_sided(void)
{
	uint64_t *memory;
	MPI_Win window;

	MPI_Win_allocate(LONGEST * sizeof(*memory), sizeof(*memory), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &memory, &window);
	for (size_t count = 1; count <= LONGEST; count *= 64)
		put_and_get(window, memory, count, count);
	accumulate(window, memory, 1000);
	swap(window, memory);
	MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
	uint64_t all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	out = calloc((size_t)size * LONGEST, sizeof(*out));
	in = calloc((size_t)size * LONGEST, sizeof(*in));
	for (size_t count = 1; count <= LONGEST; count *= 8)
		ring(count, count);
	strided(3, 1000);
	unexpected(4, 700);
	for (size_t count = 1; count <= LONGEST / 16; count *= 16) {
		one_to_all(count, count);
		all_to_all(count, count);
	}
	one_sided();
	MPI_Reduce(&checks, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (me == 0)
		printf("all right: %llu words of %d ranks\n", (unsigned long long)all, size);
	MPI_Finalize();
	return 0;
}
