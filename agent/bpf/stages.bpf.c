// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Timestamps of probe packets at stages of the kernel's own path, for those that sent or expect them.
 *
 * A packet that leaves belongs to a socket of ours: the socket's cookie is known, so nothing else is looked at. A packet
 * that comes in belongs to nobody yet: the interface is known, then what its payload says. The sequence in the payload
 * names the packet in either case.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "probe.h"

#define MAX_SENDERS 4096
#define MAX_ARRIVALS 1024

/* What happened to a packet; as wire::stage::Stage. */
enum kind { TX_SCHED = 0, TX_SOFT = 1, RX_SOFT = 2 };

/* A record: 16 bytes, 24 in the ring with its header. Sequences have 32 bits, as the socket's timestamps have. */
struct record {
	__u64 ns;
	__u32 sequence;
	__u16 stream;
	__u16 kind;
};

#include "records.h"

/*
 * The first sockets that send and interfaces that packets come in at: an array's only entry is read without a call, and
 * most packets are nobody's of ours. What there is no place for is in the maps below. As in agent/src/stages/program.rs.
 */
#define FEW 4

struct few {
	__u64 cookies[FEW];
	__u64 bound_to[FEW]; /* the number of the interface */
	__u64 entries[FEW]; /* the number of an interface; above it the network namespace, or 0 for any */
	__u64 more_senders; /* some are in `senders` */
	__u64 more_arrivals; /* some are in `arrivals` */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct few);
} few SEC(".maps");

/* Sockets that send, by cookie: the number of the interface they are bound to. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SENDERS);
	__type(key, __u64);
	__type(value, __u32);
} senders SEC(".maps");

/* Interfaces that packets come in at, by number: the network namespace, or 0 for any. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ARRIVALS);
	__type(key, __u32);
	__type(value, __u32);
} arrivals SEC(".maps");

/* A packet that leaves: datagrams have a network header that is in force, frames of a packet socket need not. */
static __always_inline bool find_leaving(const struct sk_buff *skb, struct probe *probe)
{
	const void *network = skb->head + skb->network_header;
	__be16 type = skb->protocol;

	if (type == bpf_htons(TYPE_IPV4))
		return read_probe(probe, network + IPV4_UDP);
	if (type == bpf_htons(TYPE_IPV6))
		return read_probe(probe, network + IPV6_UDP);
	/* A tag that was asked for stands in the frame; one of an interface above may be pushed in front of it. */
	return read_behind(probe, skb->data + ETHERNET_HEADER) ||
	       read_behind(probe, skb->data + ETHERNET_HEADER + VLAN_TAG) ||
	       read_behind(probe, skb->data + ETHERNET_HEADER + 2 * VLAN_TAG);
}

/* A packet that comes in: `data` is behind the Ethernet header, the network header is not set yet. */
static __always_inline bool find_arriving(const struct sk_buff *skb, struct probe *probe)
{
	const void *data = skb->data;
	__be16 type = skb->protocol;

	if (type == bpf_htons(TYPE_8021Q) || type == bpf_htons(TYPE_8021AD)) {
		if (bpf_probe_read_kernel(&type, sizeof(type), data + 2))
			return false;
		data += VLAN_TAG;
	}
	if (type == bpf_htons(TYPE_IPV4))
		return read_probe(probe, data + IPV4_UDP);
	if (type == bpf_htons(TYPE_IPV6))
		return read_probe(probe, data + IPV6_UDP);
	return read_behind(probe, data);
}

static __always_inline void stamp(const struct probe *probe, enum kind kind)
{
	struct record *record = new_record();

	if (!record)
		return;
	record->sequence = probe->sequence;
	record->stream = probe->stream;
	record->kind = kind;
	submit(record);
}

/* The number of the interface to which the packet's sender is bound; 0: its sender is nobody of ours. */
static __always_inline __u32 sender_of(const struct sk_buff *skb)
{
	const struct few *known = bpf_map_lookup_elem(&few, &only);
	const struct sock *sk = skb->sk;
	const __u32 *bound_to;
	__u64 cookie;

	if (!sk || !known)
		return 0;
	cookie = sk->__sk_common.skc_cookie.counter;
	if (!cookie)
		return 0;
#pragma unroll
	for (int n = 0; n < FEW; n++)
		if (known->cookies[n] == cookie)
			return known->bound_to[n];
	if (!known->more_senders)
		return 0;
	bound_to = bpf_map_lookup_elem(&senders, &cookie);
	return bound_to ? *bound_to : 0;
}

/* Whether packets that come in at this interface are looked at. Those of other namespaces may have the same number. */
static __always_inline bool expects_at(const struct net_device *dev)
{
	const struct few *known = bpf_map_lookup_elem(&few, &only);
	__u32 ifindex = dev->ifindex;
	const __u32 *netns;

	if (!known)
		return false;
#pragma unroll
	for (int n = 0; n < FEW; n++)
		if ((__u32)known->entries[n] == ifindex)
			return !(known->entries[n] >> 32) || known->entries[n] >> 32 == dev->nd_net.net->ns.inum;
	if (!known->more_arrivals)
		return false;
	netns = bpf_map_lookup_elem(&arrivals, &ifindex);
	return netns && (!*netns || *netns == dev->nd_net.net->ns.inum);
}

/* Entered the qdisc layer: that of the sender's own interface, whatever is below it. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(stage_tx_sched, struct sk_buff *skb)
{
	__u32 ifindex = sender_of(skb);
	struct probe probe;

	if (ifindex && (__u32)skb->dev->ifindex == ifindex && find_leaving(skb, &probe))
		stamp(&probe, TX_SCHED);
	return 0;
}

/* Handed to a driver: that of an interface which has none below it, as a VLAN's, a bond's or a bridge's has. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(stage_tx_soft, const struct sk_buff *skb, const struct net_device *dev)
{
	const struct list_head *lower;
	struct probe probe;

	if (!sender_of(skb))
		return 0;
	lower = &dev->adj_list.lower;
	if (lower->next == lower && find_leaving(skb, &probe))
		stamp(&probe, TX_SOFT);
	return 0;
}

static __always_inline int arrived(const struct sk_buff *skb)
{
	struct probe probe;

	if (expects_at(skb->dev) && find_arriving(skb, &probe))
		stamp(&probe, RX_SOFT);
	return 0;
}

/* Taken in by the kernel: before protocols, bridges and the like have it. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(stage_rx_soft, struct sk_buff *skb)
{
	return arrived(skb);
}

/* The same where an interface without a NAPI puts packets into the kernel's backlog. */
SEC("tp_btf/netif_rx")
int BPF_PROG(stage_rx_queued, struct sk_buff *skb)
{
	return arrived(skb);
}

/* The same before packets are merged; of a packet's two stamps the first counts. */
SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(stage_rx_gro, const struct sk_buff *skb)
{
	return arrived(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
