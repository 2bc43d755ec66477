//! What comes out of a guest's port, in whatever pieces, and the records of a board in virtual time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::port::Decoder;
use wire::turns;

/// All that is heard, as text.
fn heard<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut decoder, mut all) = (Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.feed(piece);
        while let Some(one) = decoder.hear() {
            all.push(format!("{one:?}"));
            if all.len() > 10_000 {
                return all;
            }
        }
    }
    all
}

fuzz_target!(|input: (u8, &[u8])| {
    let (length, bytes) = input;
    let whole = heard(std::iter::once(bytes));
    assert_eq!(whole, heard(bytes.chunks(usize::from(length).max(1))), "pieces are heard as the whole is");
    assert!(turns::records(bytes).count() <= bytes.len());
});
