/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is read of the kernel's own structures; the offsets are found when the programs are loaded. */
#ifndef LATLAB_KERNEL_H
#define LATLAB_KERNEL_H

#include <linux/types.h>

#define KERNEL __attribute__((preserve_access_index))

struct list_head {
	struct list_head *next;
} KERNEL;

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	char name[16];
	int ifindex;
	unsigned short type;
	possible_net_t nd_net;
	struct {
		struct list_head lower;
	} adj_list;
} KERNEL;

typedef struct {
	__s64 counter;
} KERNEL atomic64_t;

struct sock_common {
	possible_net_t skc_net;
	atomic64_t skc_cookie;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
} KERNEL;

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned char *head;
	unsigned char *data;
	unsigned int end;
	unsigned int len;
	unsigned int data_len;
	int skb_iif;
	__be16 vlan_proto;
	__u16 vlan_tci;
	__u16 transport_header;
	__u16 network_header;
	__u16 mac_header;
	__be16 protocol;
} KERNEL;

struct skb_shared_info {
	unsigned short gso_segs;
} KERNEL;

/* Of include/uapi/linux/if_ether.h. */
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_8021Q 0x8100
#define TYPE_8021AD 0x88a8
#define ETHERNET_HEADER 14
#define VLAN_TAG 4

#endif
