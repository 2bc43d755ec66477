// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A fast path beside a kernel bridge: known unicast goes from port to port, everything else is left to the bridge. */

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "kernel.h"

/* The numbers and layouts up to the maps are those of agent/src/bridge/program.rs. */
#define MAX_PORTS 64
#define MAX_ENTRIES 16384

#define LEAVES_UNTAGGED 1 /* the entry's VLAN leaves its port without a tag */
#define ISOLATED 2 /* its port is isolated: it speaks only with ports that are not */
#define GENERIC 4 /* its port runs the program in generic mode */

struct settings {
	__u32 filtering; /* the bridge distinguishes VLANs */
	__u32 era; /* goes up by one from time to time */
	__u32 netns; /* inode of the network namespace the ports are in */
};

struct station {
	__u8 mac[6];
	__u16 vid; /* 0 where the bridge does not distinguish VLANs */
};

struct entry {
	__u32 ifindex;
	__u32 slot;
	__u32 flags;
	__u32 era; /* the last one in which it was the source of a frame */
};

struct port {
	__u32 slot;
	__u32 pvid; /* VLAN of what comes in untagged; 0: none */
};

struct counters {
	__u64 redirected;
	__u64 passed;
	__u64 dropped;
};

/* The frame a generic program has handed over and that the kernel is about to send. */
struct sending {
	__u32 ifindex; /* 0: none */
	__u32 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ENTRIES);
	__type(key, struct station);
	__type(value, struct entry);
} fdb SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct counters);
} counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sending);
} in_flight SEC(".maps");

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
};

struct vlan_tag {
	__be16 tci;
	__be16 type;
};

#define VID_MASK 0x0fff

static const __u32 only;

/* The VLAN a bridge that distinguishes VLANs puts the frame in; 0 if that is for the bridge to find out. */
static __always_inline __u16 vlan_of(struct xdp_md *ctx, const struct ethernet *header, bool *tagged)
{
	const struct vlan_tag *tag = (const void *)(header + 1);
	__u32 ingress = ctx->ingress_ifindex;
	struct port *port;

	*tagged = header->type == bpf_htons(TYPE_8021Q);
	if (*tagged) {
		if ((const void *)(tag + 1) > (void *)(long)ctx->data_end)
			return 0;
		return bpf_ntohs(tag->tci) & VID_MASK;
	}
	if (header->type == bpf_htons(TYPE_8021AD))
		return 0;
	port = bpf_map_lookup_elem(&ports, &ingress);
	return port ? port->pvid : 0;
}

/* Where the frame goes and where it came from; false if the kernel bridge is to decide. */
static __always_inline bool known(struct xdp_md *ctx, struct entry **from, struct entry **to)
{
	const struct ethernet *header = (void *)(long)ctx->data;
	struct station station = {};
	struct settings *now;
	bool tagged = false;

	if ((const void *)(header + 1) > (void *)(long)ctx->data_end)
		return false;
	if (header->destination[0] & 1)
		return false;
	now = bpf_map_lookup_elem(&settings, &only);
	if (!now)
		return false;
	if (now->filtering) {
		station.vid = vlan_of(ctx, header, &tagged);
		if (!station.vid)
			return false;
	}
	__builtin_memcpy(station.mac, header->source, sizeof(station.mac));
	*from = bpf_map_lookup_elem(&fdb, &station);
	/* A station that is new or has moved has to be seen by the bridge, which learns from it. */
	if (!*from || (*from)->ifindex != ctx->ingress_ifindex)
		return false;
	/* Written once an era, so that the cache line stays shared between CPUs. */
	if ((*from)->era != now->era)
		(*from)->era = now->era;
	__builtin_memcpy(station.mac, header->destination, sizeof(station.mac));
	*to = bpf_map_lookup_elem(&fdb, &station);
	if (!*to || (*to)->ifindex == ctx->ingress_ifindex)
		return false;
	if ((*from)->flags & (*to)->flags & ISOLATED)
		return false;
	/* Tags are put on and taken off by the bridge. */
	return !now->filtering || tagged == !((*to)->flags & LEAVES_UNTAGGED);
}

static __always_inline int pass(struct xdp_md *ctx)
{
	__u32 ingress = ctx->ingress_ifindex;
	struct port *port = bpf_map_lookup_elem(&ports, &ingress);
	struct counters *counters = port ? bpf_map_lookup_elem(&counted, &port->slot) : NULL;

	if (counters)
		counters->passed++;
	return XDP_PASS;
}

SEC("xdp")
int bridge_port(struct xdp_md *ctx)
{
	struct entry *from, *to;
	struct counters *counters;

	if (!known(ctx, &from, &to) || bpf_redirect_map(&targets, to->ifindex, XDP_PASS) != XDP_REDIRECT)
		return pass(ctx);
	counters = bpf_map_lookup_elem(&counted, &from->slot);
	if (counters)
		counters->redirected++;
	if (from->flags & GENERIC) {
		struct sending *sending = bpf_map_lookup_elem(&in_flight, &only);

		if (sending) {
			sending->ifindex = to->ifindex;
			sending->slot = from->slot;
		}
	}
	return XDP_REDIRECT;
}

static __always_inline void drop_in(__u32 slot, __u64 frames)
{
	struct counters *counters = bpf_map_lookup_elem(&counted, &slot);

	if (counters)
		__sync_fetch_and_add(&counters->dropped, frames);
}

static __always_inline void drop_from(const struct net_device *from, __u64 frames)
{
	struct settings *now = bpf_map_lookup_elem(&settings, &only);
	__u32 ifindex = from->ifindex;
	struct port *port;

	/* Interfaces of other namespaces may have the same number. */
	if (!now || from->nd_net.net->ns.inum != now->netns)
		return;
	port = bpf_map_lookup_elem(&ports, &ifindex);
	if (port)
		drop_in(port->slot, frames);
}

/* A native port's frames were handed to a driver, which took only some of them. */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(refused_by_driver, const struct net_device *from, const struct net_device *to, int sent, int drops)
{
	if (drops > 0)
		drop_from(from, drops);
	return 0;
}

/* A frame could not be handed over at all: the other port is down, has a smaller MTU, or takes no frames. */
SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(refused_before, const struct net_device *from)
{
	struct sending *sending = bpf_map_lookup_elem(&in_flight, &only);

	if (sending)
		sending->ifindex = 0;
	drop_from(from, 1);
	return 0;
}

/* A generic port's frame was freed unsent: between the program's end and `xdp_redirect` it is the one in flight. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(freed_unsent, const struct sk_buff *skb)
{
	struct sending *sending = bpf_map_lookup_elem(&in_flight, &only);
	const struct net_device *at;

	if (!sending || !sending->ifindex)
		return 0;
	at = skb->dev;
	if (!at || (__u32)at->ifindex != sending->ifindex)
		return 0;
	sending->ifindex = 0;
	drop_in(sending->slot, 1);
	return 0;
}

SEC("tp_btf/xdp_redirect")
int BPF_PROG(handed_over, const struct net_device *from)
{
	struct sending *sending = bpf_map_lookup_elem(&in_flight, &only);

	if (sending)
		sending->ifindex = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
