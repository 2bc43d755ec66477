//! Bytes on their way to someone who takes some of them at a time.

/// Bytes that wait to be taken, the oldest first.
#[derive(Default)]
pub struct Outbox {
    /// For appending to; nothing else is to be done with it.
    pub bytes: Vec<u8>,
    taken: usize,
}

impl Outbox {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that wait.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// The first `count` of them are gone.
    pub fn took(&mut self, count: usize) {
        self.taken += count;
        // Moving what is left costs no more than sending what is gone did.
        if self.taken * 2 >= self.bytes.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }
}
