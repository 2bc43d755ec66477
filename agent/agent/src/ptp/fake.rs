//! Who answers as a ptp4l does, for tests.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use wire::ptp::{Asker, ClockIdentity, Inquiry, MAX_BYTES, PortIdentity, QUESTION_BYTES};

/// Whose questions they are.
pub const ASKER: Asker = Asker {
    domain: 0,
    transport_specific: 0,
    source: PortIdentity { clock: ClockIdentity(0x8f3c_5e0d_12ab_34cd), port: 1 },
};

/// Questions as the verb asks them.
pub fn inquiry() -> Inquiry {
    Inquiry::new(ASKER, 7, Inquiry::STATUS)
}

/// An empty folder of this name's.
pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("latlab-link-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Data of the right length for each question, all ones but for one port, which is SLAVE.
fn answer(question: &[u8]) -> Vec<u8> {
    let (length, id) = match question[53] {
        0 if question[52] == 0xc0 => (50, 0),
        id => ([20, 18, 32, 4, 26][usize::from(id)], id),
    };
    let mut data = vec![1; length];
    match id {
        0 if length == 20 => data[2..4].copy_from_slice(&[0, 1]),
        4 => data[10] = 9,
        _ => {}
    }
    let mut answer = question[..QUESTION_BYTES].to_vec();
    answer[34..44].copy_from_slice(&question[20..30]);
    answer[46] = 2;
    answer[51] = length as u8 + 2;
    answer.extend(data);
    let length = answer.len() as u16;
    answer[2..4].copy_from_slice(&length.to_be_bytes());
    answer
}

/// Answers `count` questions: each time garbage first, then an answer to an older question, then the answer.
pub fn serve(socket: UnixDatagram, count: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for _ in 0..count {
            let mut question = [0; MAX_BYTES];
            let (length, from) = socket.recv_from(&mut question).unwrap();
            let right = answer(&question[..length]);
            let mut older = right.clone();
            older[30] ^= 0x80;
            for message in [&[0xd][..], &[0xff; 1400], &older, &right[..40], &right] {
                socket.send_to_addr(message, &from).unwrap();
            }
        }
    })
}

/// Answers each question, but that for ports it refuses (MANAGEMENT_ERROR_STATUS, NOT_SUPPORTED).
pub fn serve_without_ports(socket: UnixDatagram, count: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for _ in 0..count {
            let mut question = [0; MAX_BYTES];
            let (length, from) = socket.recv_from(&mut question).unwrap();
            let mut answer = answer(&question[..length]);
            if question[52..54] == [0x20, 4] {
                answer.truncate(48);
                answer.extend([0, 2, 0, 8, 0, 6, 0x20, 4, 0, 0, 0, 0]);
                answer[3] = 60;
            }
            socket.send_to_addr(&answer, &from).unwrap();
        }
    })
}
