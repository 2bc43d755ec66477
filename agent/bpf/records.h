/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The ring that records go into. Who includes this declares before what one is: struct record, which begins with ns. */
#ifndef LATLAB_RECORDS_H
#define LATLAB_RECORDS_H

#include <stddef.h>

/* Set before the programs are loaded. */
const volatile __u32 use_tai = 0; /* the kernel has bpf_ktime_get_tai_ns (6.1); else records have CLOCK_MONOTONIC */

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

/* The key of an array's only entry. */
static const __u32 only;

static __always_inline __u64 now_ns(void)
{
	return use_tai ? bpf_ktime_get_tai_ns() : bpf_ktime_get_ns();
}

/* A record of this instant of so many bytes, which the verifier knows; NULL, and counted, where there is no room. What else
 * is in it is not set. */
static __always_inline struct record *new_record_of(__u64 bytes)
{
	struct record *record = bpf_ringbuf_reserve(&records, bytes, 0);
	__u64 *count;

	if (record) {
		record->ns = now_ns();
		return record;
	}
	count = bpf_map_lookup_elem(&lost, &only);
	if (count)
		(*count)++;
	return NULL;
}

static __always_inline struct record *new_record(void)
{
	return new_record_of(sizeof(struct record));
}

/* Whoever reads comes round by itself: waking it would cost packets. */
static __always_inline void submit(struct record *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#endif
