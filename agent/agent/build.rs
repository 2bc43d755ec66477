//! Compiles the BPF programs in `agent/bpf`, which the binary carries within itself.

use std::path::Path;
use std::process::Command;

const FOLDER: &str = "../bpf";
/// What they share, or are made of.
const HEADERS: [&str; 9] = [
    "drop_place",
    "kernel",
    "probe",
    "records",
    "watch_filter",
    "watch_packet",
    "watch_sample",
    "watch_sockets",
    "watch_tests",
];
const PROGRAMS: [&str; 4] = ["bridge", "drops", "stages", "watch"];
/// Those that are compiled a second time, with rings of our own (`records.h`): `NAME-rings`.
const WITH_RINGS: [&str; 2] = ["stages", "watch"];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    HEADERS.iter().for_each(|header| println!("cargo::rerun-if-changed={FOLDER}/{header}.h"));
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    println!("cargo::rustc-env=LATLAB_ARCHITECTURE={architecture}");
    PROGRAMS.iter().for_each(|program| compile(program, program, &[]));
    WITH_RINGS.iter().for_each(|program| compile(program, &format!("{program}-rings"), &["-DOWN_RINGS"]));
}

fn compile(program: &str, name: &str, defines: &[&str]) {
    let source = format!("{FOLDER}/{program}.bpf.c");
    println!("cargo::rerun-if-changed={source}");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let object = Path::new(&std::env::var("OUT_DIR").unwrap_or_default()).join(format!("{name}.bpf.o"));
    // Debian keeps asm/types.h, which is the same for every 64-bit machine, in a folder of the machine's own.
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let compiled = Command::new(&clang)
        .args(defines)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        // Version 3 of the instruction set is understood from Linux 5.1 on.
        // The object names no folder of the machine that compiled it: the agent is the same wherever it is built.
        .args(["-target", "bpf", "-mcpu=v3", "-fdebug-compilation-dir=.", "-idirafter", &headers, "-c", &source, "-o"])
        .arg(&object)
        .output();
    match compiled {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            fail(&format!(
                "{clang} cannot compile {source}; its headers are in libbpf-dev and linux-libc-dev:\n{said}"
            ));
        }
        Err(error) => fail(&format!(
            "{clang} cannot be run ({error}): install it (Debian package: clang), or name another one in CLANG"
        )),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1);
}
