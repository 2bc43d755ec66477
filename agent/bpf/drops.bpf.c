// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Where in this kernel probe packets are dropped, and why: every one that is freed as lost, whichever network namespace
 * it is in. Packets that came to their end in order are freed elsewhere (consume_skb).
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "drop_place.h"
#include "probe.h"

/* A record, as wire::drops reads it: 64 bytes in the ring with its header. */
struct record {
	__u64 ns;
	__u64 sequence;
	__u64 location; /* the instruction that had it freed */
	struct drop_place place;
	__u32 reason; /* 0: the kernel gives none */
	__u16 stream;
	__u16 unused;
};

#include "records.h"

/*
 * A packet may be dropped anywhere between its sender's socket and its receiver's: `data` is then at any of its headers,
 * or behind them, and the network header may not be in force. Headers that were passed stay where they are in memory.
 */
static __always_inline bool find(const struct sk_buff *skb, struct probe *probe)
{
	const unsigned char *network = skb->head + skb->network_header, *data = skb->data;
	__be16 type = skb->protocol;

	if (type == bpf_htons(TYPE_IPV4))
		return read_probe(probe, network + IPV4_UDP) || read_probe(probe, data + IPV4_UDP) ||
		       read_probe(probe, data + ETHERNET_HEADER + IPV4_UDP);
	if (type == bpf_htons(TYPE_IPV6))
		return read_probe(probe, network + IPV6_UDP) || read_probe(probe, data + IPV6_UDP) ||
		       read_probe(probe, data + ETHERNET_HEADER + IPV6_UDP);
	/* A frame of ours, with as many tags as there may be; or a datagram whose tag stands in the frame. */
	return read_behind(probe, data) || read_behind(probe, data + VLAN_TAG) ||
	       read_behind(probe, data + ETHERNET_HEADER) || read_behind(probe, data + ETHERNET_HEADER + VLAN_TAG) ||
	       read_behind(probe, data + ETHERNET_HEADER + 2 * VLAN_TAG) || read_probe(probe, network + IPV4_UDP) ||
	       read_probe(probe, network + IPV6_UDP) || read_probe(probe, data + VLAN_TAG + IPV4_UDP) ||
	       read_probe(probe, data + VLAN_TAG + IPV6_UDP);
}

static __always_inline int dropped(const struct sk_buff *skb, __u64 location, __u32 reason, __u32 netns)
{
	struct record *record;
	struct probe probe;
	__u64 ns;

	if (!find(skb, &probe))
		return 0;
	record = new_record(&ns);
	if (!record)
		return 0;
	__builtin_memset(&record->sequence, 0, sizeof(*record) - offsetof(struct record, sequence));
	record->sequence = probe.sequence;
	record->stream = probe.stream;
	record->location = location;
	record->reason = reason;
	find_place(skb, netns, &record->place);
	submit(record, ns);
	return 0;
}

/* From Linux 6.11 on: with the socket that was to receive it. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_at_socket, const struct sk_buff *skb, void *location, int reason, const struct sock *receiver)
{
	__u32 netns = 0;

	if (receiver)
		netns = receiver->__sk_common.skc_net.net->ns.inum;
	return dropped(skb, (__u64)location, reason, netns);
}

/* From Linux 5.17 on: with the reason. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_for_reason, const struct sk_buff *skb, void *location, int reason)
{
	return dropped(skb, (__u64)location, reason, 0);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_somewhere, const struct sk_buff *skb, void *location)
{
	return dropped(skb, (__u64)location, 0, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
