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

/* A record: 16 bytes; in the ring of the kernel's 24 with its header. Sequences have 32 bits, as the socket's timestamps have. */
struct record {
	__u64 ns;
	__u32 sequence;
	__u16 stream;
	__u16 kind;
};

#include "records.h"

/*
 * The first sockets that send and interfaces that packets come in at: an array's only entry is read without a call, and
 * most packets are nobody's of ours. What there is no place for is in the maps below.
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

/*
 * The EtherType of a packet that leaves. The tag of a VLAN's interface stands in the frame where the card does not insert it
 * (validate_xmit_vlan, net/core/dev.c); the network header is that of what the tag is in front of.
 */
static __always_inline __be16 type_leaving(const struct sk_buff *skb)
{
	__be16 type = skb->protocol;

	if (type == bpf_htons(TYPE_8021Q) || type == bpf_htons(TYPE_8021AD))
		bpf_probe_read_kernel(&type, sizeof(type), skb->head + skb->network_header - sizeof(type));
	return type;
}

/* A packet that leaves: datagrams have a network header that is in force, frames of a packet socket need not. */
static __always_inline bool find_leaving(const struct sk_buff *skb, struct probe *probe)
{
	const void *network = skb->head + skb->network_header;
	__be16 type = type_leaving(skb);

	if (type == bpf_htons(TYPE_IPV4))
		return read_behind(probe, network + IPV4_UDP);
	if (type == bpf_htons(TYPE_IPV6))
		return read_behind(probe, network + IPV6_UDP);
	/* A tag that was asked for stands in the frame; one of an interface above may be pushed in front of it. */
	return read_behind(probe, skb->data + ETHERNET_HEADER) ||
	       read_behind(probe, skb->data + ETHERNET_HEADER + VLAN_TAG) ||
	       read_behind(probe, skb->data + ETHERNET_HEADER + 2 * VLAN_TAG);
}

/* Whether probes come in datagrams that IP may have cut; set before the programs are loaded. */
const volatile __u32 may_be_cut = 0;

/* IPv4 (RFC 791). */
struct ipv4_header {
	__u8 version_and_length;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
};

#define MORE_FRAGMENTS 0x2000
#define FRAGMENT_OFFSET 0x1fff
#define MAX_BEGUN 1024

struct datagram {
	__be32 source;
	__be32 destination;
	__u32 id;
};

struct begun {
	__u32 sequence;
	__u32 stream;
};

/* Datagrams whose first fragment has come in, with what its probe says. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_BEGUN);
	__type(key, struct datagram);
	__type(value, struct begun);
} begun SEC(".maps");

/* A datagram has come in whole, with this packet: one that is no fragment, or the last one of some. */
static __always_inline bool find_whole(const void *data, struct probe *probe)
{
	struct datagram datagram = {};
	const struct begun *first;
	struct begun found = {};
	struct ipv4_header ip;
	__u16 fragment;

	if (bpf_probe_read_kernel(&ip, sizeof(ip), data))
		return false;
	fragment = bpf_ntohs(ip.fragment);
	if (!(fragment & (MORE_FRAGMENTS | FRAGMENT_OFFSET)))
		return read_behind(probe, data + IPV4_UDP);
	datagram.source = ip.source;
	datagram.destination = ip.destination;
	datagram.id = ip.id;
	if (!(fragment & FRAGMENT_OFFSET)) {
		if (read_behind(probe, data + IPV4_UDP)) {
			found.sequence = probe->sequence;
			found.stream = probe->stream;
			bpf_map_update_elem(&begun, &datagram, &found, BPF_ANY);
		}
		return false;
	}
	if (fragment & MORE_FRAGMENTS)
		return false;
	first = bpf_map_lookup_elem(&begun, &datagram);
	if (!first)
		return false;
	probe->sequence = first->sequence;
	probe->stream = first->stream;
	return true;
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
		return may_be_cut ? find_whole(data, probe) : read_behind(probe, data + IPV4_UDP);
	if (type == bpf_htons(TYPE_IPV6))
		return read_behind(probe, data + IPV6_UDP);
	return read_behind(probe, data);
}

static __always_inline void stamp(const struct probe *probe, enum kind kind)
{
	__u64 ns;
	struct record *record = new_record(&ns);

	if (!record)
		return;
	record->sequence = probe->sequence;
	record->stream = probe->stream;
	record->kind = kind;
	submit(record, ns);
}

/*
 * Messages over a connection: a segment need not begin with one, and what is sent is not in one piece with its headers. So
 * TCP's numbers are recorded, and whoever reads them counts messages. Port 0: no connection. Set before the programs are
 * loaded: the answerer's port, whether this is who asks.
 */
const volatile __u32 tcp_port = 0;
const volatile __u32 tcp_asks = 0;

/* Whatever leaves by this interface in this namespace is looked at, whose socket it may be; 0: what known sockets send. */
const volatile __u32 out_netns = 0;
const volatile __u32 out_ifindex = 0;

static __always_inline bool is_of_namespace(const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	return sk && sk->__sk_common.skc_net.net->ns.inum == out_netns;
}

#define TCP 6
#define SYN 0x02

/* In a record's kind beside the stage, as in wire::stage: the sequence is that of the byte behind the segment, the stream its
 * length; the connection begins. */
#define OF_BYTES 4
#define BEGINS 8

struct tcp_header {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 acknowledged;
	__u8 offset;
	__u8 flags;
};

/* A segment of the connection, its TCP header at `at` and so many bytes from there on. */
static __always_inline void stamp_segment(const void *at, __u32 bytes, bool leaves, enum kind kind)
{
	struct tcp_header tcp;
	struct record *record;
	__u32 header, begins;
	__u64 ns;

	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), at))
		return;
	if ((leaves == !!tcp_asks ? tcp.destination : tcp.source) != bpf_htons(tcp_port))
		return;
	header = (tcp.offset >> 4) * 4;
	begins = !!(tcp.flags & SYN);
	if (bytes < header || (bytes == header && !begins))
		return;
	record = new_record(&ns);
	if (!record)
		return;
	record->sequence = bpf_ntohl(tcp.sequence) + (bytes - header) + begins;
	record->stream = bytes - header;
	record->kind = kind | OF_BYTES | (begins ? BEGINS : 0);
	submit(record, ns);
}

/* A packet of the connection's host that leaves; whatever comes here has its headers in force. */
static __always_inline void segment_leaves(const struct sk_buff *skb, enum kind kind)
{
	const unsigned char *network = skb->head + skb->network_header, *transport = skb->head + skb->transport_header;
	__be16 type = type_leaving(skb);
	__u8 protocol = 0;

	if (!is_of_namespace(skb))
		return;
	if (type == bpf_htons(TYPE_IPV4))
		bpf_probe_read_kernel(&protocol, sizeof(protocol), network + 9);
	else if (type == bpf_htons(TYPE_IPV6))
		bpf_probe_read_kernel(&protocol, sizeof(protocol), network + 6);
	if (protocol == TCP)
		stamp_segment(transport, skb->len - (transport - skb->data), true, kind);
}

/* A packet that comes in, as in find_arriving. */
static __always_inline void segment_arrives(const struct sk_buff *skb, enum kind kind)
{
	const unsigned char *data = skb->data;
	__be16 type = skb->protocol;
	__u8 header[10];
	__u32 length, before;

	if (type == bpf_htons(TYPE_8021Q) || type == bpf_htons(TYPE_8021AD)) {
		if (bpf_probe_read_kernel(&type, sizeof(type), data + 2))
			return;
		data += VLAN_TAG;
	}
	if (bpf_probe_read_kernel(header, sizeof(header), data))
		return;
	if (type == bpf_htons(TYPE_IPV4) && header[9] == TCP) {
		before = (header[0] & 0x0f) * 4;
		length = header[2] << 8 | header[3];
	} else if (type == bpf_htons(TYPE_IPV6) && header[6] == TCP) {
		before = 40;
		length = 40 + (header[4] << 8 | header[5]);
	} else {
		return;
	}
	if (length > before)
		stamp_segment(data + before, length - before, false, kind);
}

/* The number of the interface to which the packet's sender is bound; 0: its sender is nobody of ours. */
static __always_inline __u32 sender_of(const struct sk_buff *skb)
{
	const struct few *known = bpf_map_lookup_elem(&few, &only);
	const struct sock *sk = skb->sk;
	const __u32 *bound_to;
	__u64 cookie;

	if (out_ifindex)
		return is_of_namespace(skb) ? out_ifindex : 0;
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
	__u32 ifindex;
	struct probe probe;

	if (tcp_port) {
		if ((__u32)skb->dev->ifindex == out_ifindex)
			segment_leaves(skb, TX_SCHED);
		return 0;
	}
	ifindex = sender_of(skb);
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

	lower = &dev->adj_list.lower;
	if (tcp_port) {
		if (lower->next == lower)
			segment_leaves(skb, TX_SOFT);
		return 0;
	}
	if (!sender_of(skb))
		return 0;
	if (lower->next == lower && find_leaving(skb, &probe))
		stamp(&probe, TX_SOFT);
	return 0;
}

static __always_inline int arrived(const struct sk_buff *skb)
{
	struct probe probe;

	if (!expects_at(skb->dev))
		return 0;
	if (tcp_port)
		segment_arrives(skb, RX_SOFT);
	else if (find_arriving(skb, &probe))
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
