//! Which hypervisor runs this machine, as it signs itself to its guests.

/// The hypervisor's signature, such as `KVMKVMKVM` or `TCGTCGTCGTCG`; None on bare metal and where CPUs do not report it.
///
/// Source: Linux `Documentation/virt/kvm/x86/cpuid.rst`; leaf 0x40000000, where bit 31 of leaf 1's ECX says there is one.
#[cfg(target_arch = "x86_64")]
pub fn signature() -> Option<String> {
    const FEATURES: u32 = 1;
    const HYPERVISOR_PRESENT: u32 = 1 << 31;
    const SIGNATURE: u32 = 0x4000_0000;
    // Unsafe in the oldest compiler this is built with, safe in newer ones.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction, and a leaf it lacks only returns numbers without meaning.
    let cpuid = |leaf: u32| unsafe { std::arch::x86_64::__cpuid(leaf) };
    if cpuid(FEATURES).ecx & HYPERVISOR_PRESENT == 0 {
        return None;
    }
    let leaf = cpuid(SIGNATURE);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    let text: String = bytes.iter().take_while(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte)).collect();
    (!text.is_empty()).then_some(text)
}

/// Leaves this machine for its hypervisor and comes back. Whether there is one, `signature` tells; without, it is quick.
///
/// CPUID exits whatever the leaf: always on Intel (SDM vol. 3, 26.1.2), on AMD as KVM intercepts it (arch/x86/kvm/svm/svm.c,
/// INTERCEPT_CPUID). KVM answers it in the kernel.
#[cfg(target_arch = "x86_64")]
pub fn leave() {
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction and this leaf.
    let leaf = unsafe { std::arch::x86_64::__cpuid(0) };
    std::hint::black_box(leaf);
}

/// Nothing: no instruction that a program may use leaves the machine. `signature` reports no hypervisor here.
#[cfg(not(target_arch = "x86_64"))]
pub fn leave() {}

/// The hypervisor's signature; None on bare metal and where CPUs do not report it.
#[cfg(not(target_arch = "x86_64"))]
pub fn signature() -> Option<String> {
    None
}
