// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Packets of anybody's traffic at chosen interfaces: when each came in or left, and its first bytes. Nothing is changed.
 *
 * A packet is recorded if one of the rules fits. Of what fits none only the number is kept, by flow, as long as nothing
 * at all has fitted there: whoever chose the rules is told what there was instead.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "kernel.h"

/* The numbers and layouts up to the maps are those of wire::watch. */
#define MAX_POINTS 64
#define MAX_RULES 8
#define MAX_SNAP 256
#define MAX_OTHERS 4096

/* What a rule looks at. */
#define HAS_TYPE 1
#define HAS_VLAN 2
#define HAS_VID 4
#define HAS_PCP 8
#define HAS_PROTOCOL 16
#define HAS_DSCP 32
#define HAS_SOURCE_PORT 64
#define HAS_DESTINATION_PORT 128
#define HAS_ANY_PORT 256
#define HAS_SOURCE 512
#define HAS_DESTINATION 1024
#define HAS_ANY_ADDRESS 2048

/* As in the packet; IPv4 addresses are the first word. */
struct address {
	__u32 words[4];
};

struct masked {
	struct address value;
	struct address mask;
};

struct ports {
	__u16 from;
	__u16 to;
};

struct rule {
	__u32 looks_at;
	__u16 type; /* behind all tags; the number, not as in the packet, as all below */
	__u16 vid;
	__u8 pcp;
	__u8 protocol;
	__u8 dscp;
	__u8 unused;
	struct ports source_port;
	struct ports destination_port;
	struct ports any_port;
	struct masked source;
	struct masked destination;
	struct masked any_address;
};

/* What rules look at of a packet. With its place the key of `others`: it has no gaps. */
struct headers {
	struct address source;
	struct address destination;
	__u16 type;
	__u16 tci; /* of the outermost tag */
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 dscp;
	__u8 tagged;
	__u8 has_ports;
};

struct other {
	struct headers headers;
	__u32 point;
	__u32 out;
};

struct place {
	__u32 netns;
	__u32 ifindex;
};

/* Snapped bytes follow. */
struct record {
	__u64 ns;
	__u32 length; /* of the packet, from its first header on */
	__u16 captured; /* how many of its bytes follow */
	__u8 point;
	__u8 flags;
};

#define FLAG_OUT 1
#define FLAG_NO_ETHERNET 2 /* it begins with an IP header */

#include "records.h"

const volatile __u32 rule_count = 0;
const volatile __u32 snap = 128;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_POINTS);
	__type(key, struct place);
	__type(value, __u32);
} points SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RULES);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

/* Whether anything has fitted at a point: one entry for what comes in there, one for what leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_POINTS);
	__type(key, __u32);
	__type(value, __u64);
} fitted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OTHERS);
	__type(key, struct other);
	__type(value, __u64);
} others SEC(".maps");

#define MAX_TAGS 3
#define TYPE_RTAG 0xf1c1
#define TYPE_HSR 0x892f
#define LONG_TAG 6
#define ARPHRD_ETHER 1
#define ARPHRD_LOOPBACK 772
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_SCTP 132
#define FRAGMENT_OFFSET 0x1fff

struct sk_buff___tagged_by_bit {
	__u8 vlan_present : 1;
} KERNEL;

/* The tag that the kernel keeps beside the packet. From Linux 6.2 on one is there if both its halves together are not 0. */
static __always_inline bool tag_beside(const struct sk_buff *skb)
{
	const struct sk_buff___tagged_by_bit *older = (const void *)skb;

	if (bpf_core_field_exists(older->vlan_present))
		return BPF_CORE_READ_BITFIELD(older, vlan_present);
	return skb->vlan_proto || skb->vlan_tci;
}

static __always_inline bool read_ipv4(struct headers *found, const unsigned char *at)
{
	struct {
		__u8 length;
		__u8 tos;
		__u16 unused[2];
		__be16 fragment;
		__u8 ttl;
		__u8 protocol;
		__u16 checksum;
		__u32 source;
		__u32 destination;
	} header;
	__be16 ports[2];

	if (bpf_probe_read_kernel(&header, sizeof(header), at) || header.length >> 4 != 4)
		return false;
	found->protocol = header.protocol;
	found->dscp = header.tos >> 2;
	found->source.words[0] = header.source;
	found->destination.words[0] = header.destination;
	if (header.fragment & bpf_htons(FRAGMENT_OFFSET))
		return true;
	if (bpf_probe_read_kernel(ports, sizeof(ports), at + (header.length & 0x0f) * 4))
		return true;
	found->source_port = bpf_ntohs(ports[0]);
	found->destination_port = bpf_ntohs(ports[1]);
	return true;
}

static __always_inline bool read_ipv6(struct headers *found, const unsigned char *at)
{
	struct {
		__u8 first;
		__u8 second;
		__u16 unused[2];
		__u8 protocol;
		__u8 hops;
		struct address source;
		struct address destination;
	} __attribute__((packed)) header;
	__be16 ports[2];

	if (bpf_probe_read_kernel(&header, 40, at) || header.first >> 4 != 6)
		return false;
	found->protocol = header.protocol;
	found->dscp = (header.first & 0x0f) << 2 | header.second >> 6;
	found->source = header.source;
	found->destination = header.destination;
	if (bpf_probe_read_kernel(ports, sizeof(ports), at + 40))
		return true;
	found->source_port = bpf_ntohs(ports[0]);
	found->destination_port = bpf_ntohs(ports[1]);
	return true;
}

/* `at`: the packet's first byte, of its Ethernet header where it has one. */
static __always_inline void read_headers(struct headers *found, const struct sk_buff *skb, const unsigned char *at, bool ethernet)
{
	__be16 type = skb->protocol, tag[2];
	bool has_ip = false;

	if (tag_beside(skb)) {
		found->tagged = 1;
		found->tci = skb->vlan_tci;
	}
	if (ethernet) {
		if (bpf_probe_read_kernel(&type, sizeof(type), at + ETHERNET_HEADER - 2))
			return;
		at += ETHERNET_HEADER;
#pragma unroll
		for (int n = 0; n < MAX_TAGS; n++) {
			if (type == bpf_htons(TYPE_8021Q) || type == bpf_htons(TYPE_8021AD)) {
				if (bpf_probe_read_kernel(tag, sizeof(tag), at))
					return;
				if (!found->tagged)
					found->tci = bpf_ntohs(tag[0]);
				found->tagged = 1;
				type = tag[1];
				at += VLAN_TAG;
			} else if (type == bpf_htons(TYPE_RTAG) || type == bpf_htons(TYPE_HSR)) {
				if (bpf_probe_read_kernel(&type, sizeof(type), at + LONG_TAG - 2))
					return;
				at += LONG_TAG;
			}
		}
	}
	found->type = bpf_ntohs(type);
	if (type == bpf_htons(TYPE_IPV4))
		has_ip = read_ipv4(found, at);
	else if (type == bpf_htons(TYPE_IPV6))
		has_ip = read_ipv6(found, at);
	if (has_ip && (found->protocol == PROTOCOL_UDP || found->protocol == PROTOCOL_TCP || found->protocol == PROTOCOL_SCTP)) {
		found->has_ports = 1;
	} else {
		found->source_port = 0;
		found->destination_port = 0;
	}
}

static __always_inline bool is(const struct address *address, const struct masked *wanted)
{
	return !(((address->words[0] & wanted->mask.words[0]) ^ wanted->value.words[0]) |
		 ((address->words[1] & wanted->mask.words[1]) ^ wanted->value.words[1]) |
		 ((address->words[2] & wanted->mask.words[2]) ^ wanted->value.words[2]) |
		 ((address->words[3] & wanted->mask.words[3]) ^ wanted->value.words[3]));
}

static __always_inline bool within(__u16 port, const struct ports *wanted)
{
	return wanted->from <= port && port <= wanted->to;
}

static __always_inline bool fits(const struct headers *found, const struct rule *rule)
{
	__u32 looks_at = rule->looks_at;

	if (looks_at & HAS_TYPE && found->type != rule->type)
		return false;
	if (looks_at & HAS_VLAN && !found->tagged)
		return false;
	if (looks_at & HAS_VID && (found->tci & 0x0fff) != rule->vid)
		return false;
	if (looks_at & HAS_PCP && found->tci >> 13 != rule->pcp)
		return false;
	if (looks_at & HAS_PROTOCOL && found->protocol != rule->protocol)
		return false;
	if (looks_at & HAS_DSCP && found->dscp != rule->dscp)
		return false;
	if (looks_at & (HAS_SOURCE_PORT | HAS_DESTINATION_PORT | HAS_ANY_PORT) && !found->has_ports)
		return false;
	if (looks_at & HAS_SOURCE_PORT && !within(found->source_port, &rule->source_port))
		return false;
	if (looks_at & HAS_DESTINATION_PORT && !within(found->destination_port, &rule->destination_port))
		return false;
	if (looks_at & HAS_ANY_PORT && !within(found->source_port, &rule->any_port) &&
	    !within(found->destination_port, &rule->any_port))
		return false;
	if (looks_at & HAS_SOURCE && !is(&found->source, &rule->source))
		return false;
	if (looks_at & HAS_DESTINATION && !is(&found->destination, &rule->destination))
		return false;
	return !(looks_at & HAS_ANY_ADDRESS) || is(&found->source, &rule->any_address) ||
	       is(&found->destination, &rule->any_address);
}

static __always_inline bool is_wanted(const struct headers *found)
{
	for (__u32 n = 0; n < MAX_RULES; n++) {
		__u32 key = n;
		const struct rule *rule;

		if (n >= rule_count)
			return false;
		rule = bpf_map_lookup_elem(&rules, &key);
		if (rule && fits(found, rule))
			return true;
	}
	return false;
}

static __always_inline void count_other(const struct headers *found, __u32 point, bool out)
{
	struct other other;
	__u64 *count, one = 1;

	__builtin_memset(&other, 0, sizeof(other));
	other.headers = *found;
	other.point = point;
	other.out = out;
	count = bpf_map_lookup_elem(&others, &other);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&others, &other, &one, BPF_NOEXIST);
}

static __always_inline int seen(const struct sk_buff *skb, const struct net_device *dev, bool out)
{
	struct place place = { .netns = dev->nd_net.net->ns.inum, .ifindex = dev->ifindex };
	__u32 *point = bpf_map_lookup_elem(&points, &place), side, captured, length;
	unsigned char *at = skb->data;
	bool ethernet;
	struct headers found;
	struct record *record;
	__u64 *any;

	if (!point)
		return 0;
	ethernet = dev->type == ARPHRD_ETHER || dev->type == ARPHRD_LOOPBACK;
	length = skb->len;
	captured = length - skb->data_len;
	/* What comes in has its Ethernet header behind it already. */
	if (ethernet && !out) {
		at -= ETHERNET_HEADER;
		length += ETHERNET_HEADER;
		captured += ETHERNET_HEADER;
	}
	__builtin_memset(&found, 0, sizeof(found));
	read_headers(&found, skb, at, ethernet);
	side = *point * 2 + out;
	any = bpf_map_lookup_elem(&fitted, &side);
	if (!any)
		return 0;
	if (!is_wanted(&found)) {
		if (!*any)
			count_other(&found, *point, out);
		return 0;
	}
	*any = 1;
	record = new_record_of(sizeof(*record) + snap);
	if (!record)
		return 0;
	if (captured > snap)
		captured = snap;
	record->length = length;
	record->point = *point;
	record->flags = (out ? FLAG_OUT : 0) | (ethernet ? 0 : FLAG_NO_ETHERNET);
	record->captured = bpf_probe_read_kernel(record + 1, captured, at) ? 0 : captured;
	submit(record);
	return 0;
}

/* Taken in by the kernel: before protocols, bridges and the like have it. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(watch_in, struct sk_buff *skb)
{
	return seen(skb, skb->dev, false);
}

/* Handed to a driver. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(watch_out, const struct sk_buff *skb, const struct net_device *dev)
{
	return seen(skb, dev, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
