// SPDX-License-Identifier: GPL-2.0
/*
 * Lets an interrupt that KVM injects into its guest arrive once where QEMU emulates the CPU.
 *
 * VMRUN with an interrupt to inject leaves its vector behind as a pending exception (helper_vmrun() in
 * target/i386/tcg/system/svm_helper.c sets cs->exception_index and nobody resets it, in QEMU 7.2 as in 10.0). If the
 * emulation then leaves its inner loop before the guest exits, the guest gets the vector a second time, even with
 * interrupts disabled: a timer's while it holds the timers' lock, and it spins for ever. An exit of the guest resets
 * it. So each VMRUN that injects an interrupt is made with one pending for the host: the guest exits before its first
 * instruction, and is entered again. On any other CPU nothing is changed.
 */
#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>
#include <asm/svm.h>

#define HYPERVISOR_LEAF 0x40000000

/* How struct vcpu_svm begins (arch/x86/kvm/svm/svm.h), which is in no package of headers. */
struct vcpu_begin {
	struct kvm_vcpu vcpu;
	struct vmcb *vmcb;
};

static void nothing(struct irq_work *work)
{
}

static DEFINE_PER_CPU(struct irq_work, interrupt);

/* Called with interrupts disabled, so that the one asked for comes once the guest has been entered. */
static int before_entry(struct kprobe *probe, struct pt_regs *regs)
{
	const struct vcpu_begin *vcpu = (const struct vcpu_begin *)regs->di;
	u32 injected = vcpu->vmcb->control.event_inj;

	if ((injected & (SVM_EVTINJ_VALID | SVM_EVTINJ_TYPE_MASK)) == (SVM_EVTINJ_VALID | SVM_EVTINJ_TYPE_INTR))
		irq_work_queue(this_cpu_ptr(&interrupt));
	return 0;
}

static struct kprobe entry = {
	.symbol_name = "svm_vcpu_run",
	.pre_handler = before_entry,
};

static int __init svm_inject_once_init(void)
{
	u32 highest, signature[3];
	int cpu;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return -ENODEV;
	cpuid(HYPERVISOR_LEAF, &highest, &signature[0], &signature[1], &signature[2]);
	if (memcmp(signature, "TCGTCGTCGTCG", sizeof(signature)))
		return -ENODEV;
	for_each_possible_cpu(cpu)
		per_cpu(interrupt, cpu) = IRQ_WORK_INIT_HARD(nothing);
	return register_kprobe(&entry);
}
module_init(svm_inject_once_init);

static void __exit svm_inject_once_exit(void)
{
	unregister_kprobe(&entry);
}
module_exit(svm_inject_once_exit);

MODULE_SOFTDEP("pre: kvm_amd");
MODULE_DESCRIPTION("Lets an interrupt that KVM injects arrive once where the CPU is emulated");
MODULE_LICENSE("GPL");
