/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where records go. Who includes this declares before what one is: struct record, which begins with ns and has a multiple of 8 bytes.
 *
 *	record = new_record(&ns);
 *	if (record) {
 *		... all but record->ns
 *		submit(record, ns);
 *	}
 *
 * With OWN_RINGS records go into rings of ours, else into the kernel's.
 */
#ifndef LATLAB_RECORDS_H
#define LATLAB_RECORDS_H

#include <stddef.h>

/* Set before the programs are loaded. */
const volatile __u32 use_tai = 0; /* the kernel has bpf_ktime_get_tai_ns (6.1); else records have CLOCK_MONOTONIC */

/* The key of an array's only entry. */
static const __u32 only;

static __always_inline __u64 now_ns(void)
{
	return use_tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
}

#ifdef OWN_RINGS

/*
 * A ring for each CPU, in memory that the reader has mapped: neither side makes a call, and CPUs share no cache line. A program that
 * did not run for a while waits for two lines, that of the ring and that of the slot. It takes instructions that kernels have from
 * Linux 5.12 on, for 64-bit ARM from 5.18 on. The reader is wire::rings.
 *
 * Programs of one CPU come between each other: those of interrupts, and of threads where a thread may be preempted in one. Any may
 * stand still anywhere in here while others pass. So:
 *
 * 1. A position is claimed by one atomic step from `head` to `head + 1`, which is refused if another program was quicker. No two
 *    programs have the same one.
 * 2. A position is claimed only if the reader has passed the one that had its slot before: `head - tail <= mask`. `tail` only grows,
 *    so what was seen of it is enough. (To add to `head` first and to look then would claim positions that have no slot: nobody
 *    fills them, and the reader cannot pass them.)
 * 3. Behind the claim nothing can fail: the slot is looked up before. Programs end, so each claimed position is filled.
 * 4. A slot whose ns is 0 has no record. The reader reads a record, sets its ns to 0, and publishes `tail` behind that, for some
 *    records at once. A program stores into the slot after a branch on such a `tail`, which no processor does sooner.
 * 5. ns is stored last: behind all else of the record, which the reader sees before.
 * 6. A program looks at the clock before it claims. So what follows a position in its ring was there only after that position's
 *    instant, and the reader, which goes by the instants of the rings' next positions, takes nothing before what was there already.
 *
 * So by 1, 2 and 4 nothing is overwritten that was not read, by 4 and 5 nothing is read in part or twice, and by 3 the reader
 * waits for a claimed position no longer than a program stands still, as it does with the kernel's ring.
 */
struct ring {
	__u64 head; /* positions that were claimed */
	__u64 lost; /* records that had no room */
	__u64 tail; /* positions that were read: this and what follows is set by the reader */
	__u64 first; /* the slot of position 0 */
	__u64 mask; /* slots less 1: they are a power of two */
	__u64 unused[11]; /* to a multiple of the cache lines of most machines, and of the two that some fetch at once */
};

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before it is made */
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");

#ifndef SLOT_BYTES
#define SLOT_BYTES sizeof(struct record)
#endif

/* The slots of all rings. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before it is made */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, SLOT_BYTES);
} records SEC(".maps");

/* Other CPUs see stores in the order in which they were done, as on x86-64; set before the programs are loaded. */
const volatile __u32 stores_in_order = 0;

/* A try fails only if another program on this CPU claimed a position during its few instructions. */
#define TRIES 8

/*
 * A record of so many bytes, which a slot has, and its instant. NULL, and counted, where there is no room. What is in it is not set.
 */
static __always_inline struct record *new_record_of(__u64 bytes, __u64 *ns)
{
	__u32 cpu = bpf_get_smp_processor_id(), slot;
	struct ring *ring = bpf_map_lookup_elem(&rings, &cpu);
	struct record *record;
	__u64 head, tail;

	if (!ring)
		return NULL;
	*ns = now_ns();
	for (int n = 0; n < TRIES; n++) {
		tail = *(volatile __u64 *)&ring->tail;
		head = *(volatile __u64 *)&ring->head;
		/* Less than 0 is an old `head`, which is not claimed below. */
		if ((__s64)(head - tail) > (__s64)ring->mask)
			break;
		slot = ring->first + (head & ring->mask);
		record = bpf_map_lookup_elem(&records, &slot);
		if (!record)
			break;
		if (__sync_val_compare_and_swap(&ring->head, head, head + 1) == head)
			return record;
	}
	__sync_fetch_and_add(&ring->lost, 1);
	return NULL;
}

static __always_inline void submit(struct record *record, __u64 ns)
{
	/* 0 says that there is none. */
	if (!ns)
		ns = 1;
	if (stores_in_order) {
		barrier();
		*(volatile __u64 *)&record->ns = ns;
	} else {
		/* BPF has no store that is ordered behind others before Linux 6.15. An exchange is ordered both ways. */
		__sync_lock_test_and_set(&record->ns, ns);
	}
}

#else

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set before it is made */
} records SEC(".maps");

/* Records for which the ring had no room. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* The same: the verifier knows the bytes. */
static __always_inline struct record *new_record_of(__u64 bytes, __u64 *ns)
{
	struct record *record = bpf_ringbuf_reserve(&records, bytes, 0);
	__u64 *count;

	if (record) {
		*ns = now_ns();
		return record;
	}
	count = bpf_map_lookup_elem(&lost, &only);
	if (count)
		__sync_fetch_and_add(count, 1);
	return NULL;
}

/* Whoever reads comes round by itself: waking it would cost packets. */
static __always_inline void submit(struct record *record, __u64 ns)
{
	record->ns = ns;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#endif

static __always_inline struct record *new_record(__u64 *ns)
{
	return new_record_of(sizeof(struct record), ns);
}

#endif
