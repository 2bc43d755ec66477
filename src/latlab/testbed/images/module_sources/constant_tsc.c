// SPDX-License-Identifier: GPL-2.0
/*
 * Says that the TSC is constant where QEMU emulates the CPU.
 *
 * KVM on a PREEMPT_RT kernel refuses to load without X86_FEATURE_CONSTANT_TSC
 * (kvm_x86_vendor_init() in arch/x86/kvm/x86.c). The TSC of an emulated CPU
 * ticks at one rate for ever, but QEMU has no way to say so: TCG knows no
 * invtsc, from which the kernel would tell. On any other CPU nothing is changed.
 */
#include <linux/module.h>
#include <linux/string.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>

#define HYPERVISOR_LEAF 0x40000000

static int __init constant_tsc_init(void)
{
	u32 highest, signature[3];

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return -ENODEV;
	cpuid(HYPERVISOR_LEAF, &highest, &signature[0], &signature[1], &signature[2]);
	if (memcmp(signature, "TCGTCGTCGTCG", sizeof(signature)))
		return -ENODEV;
	set_cpu_cap(&boot_cpu_data, X86_FEATURE_CONSTANT_TSC);
	return 0;
}
module_init(constant_tsc_init);

MODULE_DESCRIPTION("Says that the TSC is constant, which that of an emulated CPU is");
MODULE_LICENSE("GPL");
