/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a packet of a run of ours is recognised by what its payload begins with. */
#ifndef LATLAB_PROBE_H
#define LATLAB_PROBE_H

#include <stdbool.h>
#include "kernel.h"
#include "readable.h"

/* Before the probe: IPv4 or IPv6 without options, and UDP. */
#define UDP_HEADER 8
#define IPV4_UDP 28
#define IPV6_UDP 48

/* Whose packets, and whether the kernel has what readable.h calls; set before the programs are loaded. */
const volatile __u64 run_id = 0;
const volatile __u32 reads_directly = 0;

/* The beginning of a probe, as wire::probe lays it out. */
struct probe {
	__u8 magic[4];
	__u8 version;
	__u8 flags;
	__u16 stream;
	__u64 run_id;
	__u64 sequence;
};

static __always_inline bool ours(const struct probe *probe)
{
	return probe->run_id == run_id && probe->magic[0] == 'L' && probe->magic[1] == 'A' && probe->magic[2] == 'T' &&
	       probe->magic[3] == 'L';
}

static __always_inline bool read_probe(struct probe *probe, const void *at)
{
	const struct piece *piece;

	if (!reads_directly)
		return !bpf_probe_read_kernel(probe, sizeof(*probe), at) && ours(probe);
	piece = readable_piece(at);
	*(__u64 *)probe = piece->words[0];
	probe->run_id = piece->words[1];
	if (!ours(probe))
		return false;
	piece = readable_piece(at + sizeof(*piece));
	probe->sequence = piece->words[0];
	return true;
}

/*
 * How many bytes stand before the probe in what protocols carry it in: behind EtherType, or behind UDP's header; 0: no
 * such protocol. Set before the programs are loaded. As in wire::iec61850.
 */
#define MAX_PREFIXES 2
const volatile __u32 prefixes[MAX_PREFIXES] = {};

/* A probe behind an EtherType or UDP's header, or behind what a protocol has before it. */
static __always_inline bool read_behind(struct probe *probe, const void *behind)
{
	if (read_probe(probe, behind))
		return true;
#pragma unroll
	for (int n = 0; n < MAX_PREFIXES; n++)
		if (prefixes[n] && read_probe(probe, behind + prefixes[n]))
			return true;
	return false;
}

#endif
