//! The reader of rings that BPF programs fill: one for each CPU, in memory that both sides have.
//!
//! agent/bpf/records.h has the other side, and says why no record is lost, read in part, or read twice.

/// Memory of 64-bit words that others change, too.
pub trait Words {
    /// The word at `index`; loads after it are not done before it.
    fn load(&self, index: usize) -> u64;
    /// Sets the word at `index`; stores before it are seen before it, and loads before it are done before it.
    fn store(&self, index: usize, value: u64);
}

/// Words of what a ring has beside its slots (`struct ring` in agent/bpf/records.h).
pub const RING_WORDS: usize = 16;
const HEAD: usize = 0;
const LOST: usize = 1;
const TAIL: usize = 2;
const FIRST: usize = 3;
const MASK: usize = 4;

/// A CPU's ring has so many bytes at least, and so many slots unless fewer are asked for: a busy CPU fills these in some 10 ms.
const LEAST_BYTES: usize = 32 << 10;
const LEAST_SLOTS: usize = 4096;
/// The ring of a CPU that is not there when rings are made, and may come later.
const LATER_SLOTS: usize = 256;
/// Such a part of a ring may have been read before this is published: each time it is, a program that records at the
/// same time waits for the ring's cache line.
const UNPUBLISHED_PART: u64 = 16;
/// All rings together have no more bytes.
const MOST_BYTES: usize = 1 << 30;

/// Slots of each CPU's ring, by CPU, where `records` are asked for, of so many bytes each. `cpus`: those there may be;
/// `online`: whether one is there now.
///
/// On one and two CPUs each ring has room for all. On more they share twice the room: it is seldom that all records are made on
/// one, and memory should not grow with the number of CPUs.
pub fn slots(records: usize, bytes: usize, cpus: usize, online: impl Fn(usize) -> bool) -> Vec<usize> {
    let count = (0..cpus).filter(|cpu| online(*cpu)).count().max(1);
    let records = records.clamp(LEAST_BYTES / bytes, MOST_BYTES / bytes);
    let all = records.next_power_of_two();
    let most = MOST_BYTES / bytes / count;
    let mut each = (2 * records / count).next_power_of_two().clamp(LEAST_SLOTS.min(all), all);
    while each > most && each > 1 {
        each /= 2;
    }
    (0..cpus).map(|cpu| if online(cpu) { each } else { each.min(LATER_SLOTS) }).collect()
}

/// The rings, as their only reader has them.
pub struct Rings<W> {
    rings: W,
    slots: W,
    by_cpu: Vec<Ring>,
    /// CPUs with records at the last look.
    filled: Vec<usize>,
    /// How many records are due: claimed before the look before the last one.
    due: u64,
    /// The last one that was taken.
    record: Vec<u8>,
}

struct Ring {
    first: u64,
    mask: u64,
    /// The next position to read, and what programs know of that.
    tail: u64,
    published: u64,
    /// When the record there was made; 0: it is not known to be there.
    ns: u64,
    /// What was claimed at the look before the last one, and at the last one.
    due: u64,
    head: u64,
}

impl<W: Words> Rings<W> {
    /// Rings with these slots of so many bytes, which are a multiple of 8. `rings` has [`RING_WORDS`] for each CPU. No program
    /// fills them yet.
    pub fn new(rings: W, slots: W, sizes: &[usize], bytes: usize) -> Self {
        let mut first = 0;
        let mut by_cpu = Vec::with_capacity(sizes.len());
        for (cpu, size) in sizes.iter().enumerate() {
            let ring = Ring { first, mask: *size as u64 - 1, tail: 0, published: 0, ns: 0, due: 0, head: 0 };
            rings.store(cpu * RING_WORDS + FIRST, ring.first);
            rings.store(cpu * RING_WORDS + MASK, ring.mask);
            first += *size as u64;
            by_cpu.push(ring);
        }
        Self { rings, slots, by_cpu, filled: Vec::with_capacity(sizes.len()), due: 0, record: vec![0; bytes] }
    }

    /// The next record, by its instant; None: there is none now. All that was recorded before this is called comes before None
    /// does, unless a program is still filling a slot: then what follows it waits, as it may be later.
    pub fn next_record(&mut self) -> Option<&[u8]> {
        if self.due == 0 {
            self.look();
        }
        if self.due == 0 {
            // What came since the look before: the first one has shown it, the second one makes it due.
            self.look();
        }
        if self.due == 0 {
            return None;
        }
        let Some(cpu) = self.earliest() else {
            self.publish();
            return None;
        };
        Some(self.take(cpu))
    }

    /// How many records had no room.
    pub fn lost(&self) -> u64 {
        (0..self.by_cpu.len()).map(|cpu| self.rings.load(cpu * RING_WORDS + LOST)).sum()
    }

    /// Looks what programs have claimed.
    ///
    /// CPUs are looked at one after the other, and this thread may be interrupted meanwhile. So what one look shows of a CPU can
    /// be later than what it does not show of another. But what the next look does not show either is later than all that this one
    /// shows: records are due once two looks have shown them.
    fn look(&mut self) {
        self.publish();
        self.due = 0;
        self.filled.clear();
        for (cpu, ring) in self.by_cpu.iter_mut().enumerate() {
            ring.due = ring.head;
            ring.head = self.rings.load(cpu * RING_WORDS + HEAD);
            self.due += ring.due - ring.tail;
            if ring.head != ring.tail {
                self.filled.push(cpu);
            }
        }
    }

    /// Publishes what was read.
    fn publish(&mut self) {
        for cpu in &self.filled {
            let ring = &mut self.by_cpu[*cpu];
            if ring.published != ring.tail {
                ring.published = ring.tail;
                self.rings.store(cpu * RING_WORDS + TAIL, ring.tail);
            }
        }
    }

    /// The CPU with the record that was made first; None: another one may be, which is not there yet.
    fn earliest(&mut self) -> Option<usize> {
        let mut found: Option<(u64, usize)> = None;
        for cpu in &self.filled {
            let ring = &mut self.by_cpu[*cpu];
            if ring.tail == ring.head {
                continue;
            }
            if ring.ns == 0 {
                ring.ns = self.slots.load(ring.slot() * (self.record.len() / 8));
                if ring.ns == 0 {
                    return None;
                }
            }
            if found.is_none_or(|(ns, _)| ring.ns < ns) {
                found = Some((ring.ns, *cpu));
            }
        }
        found.map(|(_, cpu)| cpu)
    }

    /// Takes the next record of a CPU, which is there.
    fn take(&mut self, cpu: usize) -> &[u8] {
        let ring = &mut self.by_cpu[cpu];
        let at = ring.slot() * (self.record.len() / 8);
        for (word, bytes) in self.record.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.slots.load(at + word).to_ne_bytes());
        }
        self.slots.store(at, 0);
        if ring.tail < ring.due {
            self.due -= 1;
        }
        ring.tail += 1;
        ring.ns = 0;
        if ring.tail - ring.published > ring.mask / UNPUBLISHED_PART {
            ring.published = ring.tail;
            self.rings.store(cpu * RING_WORDS + TAIL, ring.tail);
        }
        &self.record
    }
}

impl Ring {
    fn slot(&self) -> usize {
        (self.first + (self.tail & self.mask)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    const TRIES: usize = crate::in_c::defined(include_str!("../../bpf/records.h"), "TRIES") as usize;
    /// Words of a record here: its instant, its number, and the number's complement.
    const WORDS: usize = 3;

    fn number(record: &[u8]) -> u64 {
        let word = |at: usize| u64::from_ne_bytes(record[8 * at..][..8].try_into().unwrap());
        assert_eq!(word(1), !word(2), "a record is read whole");
        word(1)
    }

    /// A program that makes records on a CPU, and how far it is. Each step loads or stores once.
    #[derive(Clone, Debug)]
    struct Program {
        cpu: usize,
        left: u64,
        number: u64,
        at: Step,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Clock,
        Tail { tries: usize, ns: u64 },
        Head { tries: usize, ns: u64, tail: u64 },
        Claim { tries: usize, ns: u64, head: u64 },
        Fill { slot: usize, word: usize, ns: u64 },
        Publish { slot: usize, ns: u64 },
    }

    /// What programs and reader share, and in which order they come to it.
    struct World {
        rings: Vec<u64>,
        slots: Vec<u64>,
        programs: Vec<Program>,
        /// Before each of the reader's steps these programs go one step further, in this order; None: the reader's turn.
        schedule: std::vec::IntoIter<Option<usize>>,
        clock: u64,
        /// By record: its instant, and when it was there; None: it had no room.
        made: Vec<Option<(u64, u64)>>,
    }

    impl World {
        fn new(sizes: &[usize], programs: &[(usize, u64)], schedule: Vec<Option<usize>>) -> Self {
            let program = |&(cpu, left): &(usize, u64)| Program { cpu, left, number: u64::MAX, at: Step::Clock };
            Self {
                rings: vec![0; sizes.len() * RING_WORDS],
                slots: vec![0; sizes.iter().sum::<usize>() * WORDS],
                programs: programs.iter().map(program).collect(),
                schedule: schedule.into_iter(),
                clock: 1,
                made: Vec::new(),
            }
        }

        fn others(&mut self) {
            while let Some(Some(number)) = self.schedule.next() {
                let number = number % self.programs.len();
                self.step(number);
            }
        }

        /// One step of a program; whether it has any left.
        fn step(&mut self, program: usize) -> bool {
            let Program { cpu, left, mut number, at } = self.programs[program].clone();
            if left == 0 {
                return false;
            }
            self.clock += 1;
            let ring = cpu * RING_WORDS;
            if number == u64::MAX {
                number = self.made.len() as u64;
                self.made.push(None);
                self.programs[program].number = number;
            }
            let next = match at {
                Step::Clock => Some(Step::Tail { tries: 0, ns: self.clock }),
                Step::Tail { tries, ns } => Some(Step::Head { tries, ns, tail: self.rings[ring + TAIL] }),
                Step::Head { tries, ns, tail } => {
                    let head = self.rings[ring + HEAD];
                    let full = head.wrapping_sub(tail) as i64 > self.rings[ring + MASK] as i64;
                    (!full).then_some(Step::Claim { tries, ns, head })
                }
                Step::Claim { tries, ns, head } => {
                    let slot = (self.rings[ring + FIRST] + (head & self.rings[ring + MASK])) as usize;
                    if self.rings[ring + HEAD] == head {
                        self.rings[ring + HEAD] += 1;
                        self.made[number as usize] = Some((ns, u64::MAX));
                        Some(Step::Fill { slot, word: 1, ns })
                    } else {
                        (tries + 1 < TRIES).then_some(Step::Tail { tries: tries + 1, ns })
                    }
                }
                Step::Fill { slot, word, ns } => {
                    assert_eq!(self.slots[slot * WORDS], 0, "a record is overwritten that was not read");
                    self.slots[slot * WORDS + word] = if word == 1 { number } else { !number };
                    Some(if word == 1 { Step::Fill { slot, word: 2, ns } } else { Step::Publish { slot, ns } })
                }
                Step::Publish { slot, ns } => {
                    self.slots[slot * WORDS] = ns;
                    self.made[number as usize] = self.made[number as usize].map(|(ns, _)| (ns, self.clock));
                    self.programs[program].number = u64::MAX;
                    self.programs[program].left -= 1;
                    self.programs[program].at = Step::Clock;
                    return true;
                }
            };
            if let Some(next) = next {
                self.programs[program].at = next;
            } else {
                self.rings[ring + LOST] += 1;
                let program = &mut self.programs[program];
                (program.number, program.left, program.at) = (u64::MAX, program.left - 1, Step::Clock);
            }
            true
        }
    }

    /// The reader's view of the world: others go on before each of its loads and stores.
    struct Seen {
        world: Rc<RefCell<World>>,
        slots: bool,
    }

    impl Words for Seen {
        fn load(&self, index: usize) -> u64 {
            let mut world = self.world.borrow_mut();
            world.others();
            if self.slots { world.slots[index] } else { world.rings[index] }
        }

        fn store(&self, index: usize, value: u64) {
            let mut world = self.world.borrow_mut();
            world.others();
            *(if self.slots { &mut world.slots[index] } else { &mut world.rings[index] }) = value;
        }
    }

    fn reader(world: &Rc<RefCell<World>>, sizes: &[usize]) -> Rings<Seen> {
        let part = |slots| Seen { world: Rc::clone(world), slots };
        Rings::new(part(false), part(true), sizes, WORDS * 8)
    }

    /// Slots of each CPU; the CPU of each program, and how many records it makes; who goes on when.
    type Drawn = (Vec<usize>, Vec<(usize, u64)>, Vec<Option<usize>>);

    /// Programs of several threads and interrupts of each CPU, which come between each other and the reader anywhere.
    fn worlds() -> impl Strategy<Value = Drawn> {
        let sizes = prop::collection::vec(prop::sample::select(vec![1_usize, 2, 4]), 1..4);
        sizes.prop_flat_map(|sizes| {
            let programs = prop::collection::vec((0..sizes.len(), 1_u64..8), 1..7);
            let schedule = prop::collection::vec(prop::option::weighted(0.8, 0_usize..7), 0..500);
            (Just(sizes), programs, schedule)
        })
    }

    proptest! {
        #[test]
        fn each_record_is_read_once_and_whole_or_counted_as_lost_wherever_programs_stand_still(
            (sizes, programs, schedule) in worlds(),
        ) {
            let world = Rc::new(RefCell::new(World::new(&sizes, &programs, schedule)));
            // The reader sets rings up before programs are attached.
            let before = std::mem::take(&mut world.borrow_mut().schedule);
            let mut rings = reader(&world, &sizes);
            world.borrow_mut().schedule = before;
            let mut read = Vec::new();
            while !world.borrow().schedule.as_slice().is_empty() {
                read.extend(rings.next_record().map(number));
                // It comes round even where there is nothing to load.
                world.borrow_mut().others();
            }
            // All go on to their end: the reader has room for them, and comes past each position.
            while (0..programs.len()).filter(|number| world.borrow_mut().step(*number)).count() > 0 {
                read.extend(rings.next_record().map(number));
            }
            while let Some(record) = rings.next_record() {
                read.push(number(record));
            }
            let made = world.borrow().made.clone();
            prop_assert_eq!(made.len() as u64, programs.iter().map(|(_, count)| count).sum::<u64>());
            prop_assert_eq!(rings.lost(), made.iter().filter(|one| one.is_none()).count() as u64);
            let mut sorted = read.clone();
            sorted.sort_unstable();
            let there: Vec<u64> = (0..made.len() as u64).filter(|one| made[*one as usize].is_some()).collect();
            prop_assert_eq!(sorted, there);
            // What was there before the instant of another one is read before it, whichever CPUs they are of.
            let times: Vec<(u64, u64)> = read.iter().filter_map(|one| made[*one as usize]).collect();
            for (place, (ns, _)) in times.iter().enumerate() {
                prop_assert!(times[place..].iter().all(|(_, there)| there >= ns), "{:?}", times);
            }
        }
    }

    #[test]
    fn what_follows_a_record_in_the_making_waits_and_comes_with_it() {
        let sizes = [4, 4];
        let world = Rc::new(RefCell::new(World::new(&sizes, &[(0, 1), (0, 5), (1, 1)], Vec::new())));
        let mut rings = reader(&world, &sizes);
        let step = |program: usize, steps: usize| (0..steps).all(|_| world.borrow_mut().step(program));
        // It has claimed its position, and is interrupted by programs that fill the ring, and want more of it.
        step(0, 4);
        step(1, 100);
        step(2, 100);
        assert_eq!(rings.next_record(), None);
        assert_eq!(rings.lost(), 2);
        step(0, 100);
        let mut read = Vec::new();
        while let Some(record) = rings.next_record() {
            read.push(number(record));
        }
        // By instant: the interrupted one had looked at the clock before all others.
        assert_eq!(read, [0, 1, 2, 3, 6]);
    }

    #[derive(Clone)]
    struct Memory(Arc<Vec<AtomicU64>>);

    impl Memory {
        fn new(words: usize) -> Self {
            Self(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()))
        }
    }

    impl Words for Memory {
        fn load(&self, index: usize) -> u64 {
            self.0[index].load(Ordering::Acquire)
        }

        fn store(&self, index: usize, value: u64) {
            self.0[index].store(value, Ordering::Release);
        }
    }

    /// As `new_record_of` and `submit` do; whether there was room.
    fn record(rings: &Memory, slots: &Memory, cpu: usize, ns: &AtomicU64, number: u64) -> bool {
        let ring = &rings.0[cpu * RING_WORDS..][..RING_WORDS];
        let ns = ns.fetch_add(1, Ordering::Relaxed);
        for _ in 0..TRIES {
            // The program's branch on it orders what it stores behind that, which this language has no word for.
            let tail = ring[TAIL].load(Ordering::Acquire);
            let head = ring[HEAD].load(Ordering::Relaxed);
            let mask = ring[MASK].load(Ordering::Relaxed);
            if head.wrapping_sub(tail) as i64 > mask as i64 {
                break;
            }
            let slot = (ring[FIRST].load(Ordering::Relaxed) + (head & mask)) as usize * WORDS;
            if ring[HEAD].compare_exchange(head, head + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slots.0[slot + 1].store(number, Ordering::Relaxed);
                slots.0[slot + 2].store(!number, Ordering::Relaxed);
                slots.0[slot].store(ns, Ordering::Release);
                return true;
            }
        }
        ring[LOST].fetch_add(1, Ordering::Relaxed);
        false
    }

    #[test]
    fn threads_of_two_cpus_lose_nothing_that_is_not_counted() {
        const EACH: u64 = 20_000;
        const THREADS: u64 = 4;
        let sizes = [16, 64];
        let (state, slots) = (Memory::new(2 * RING_WORDS), Memory::new(80 * WORDS));
        let mut rings = Rings::new(state.clone(), slots.clone(), &sizes, WORDS * 8);
        let (ns, ended) = (AtomicU64::new(1), AtomicBool::new(false));
        let mut seen = vec![false; (EACH * THREADS) as usize];
        let mut read = |rings: &mut Rings<Memory>| {
            while let Some(record) = rings.next_record() {
                assert!(!std::mem::replace(&mut seen[number(record) as usize], true), "a record is read twice");
            }
        };
        let roomy: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (state, slots, ns) = (&state, &slots, &ns);
                    scope.spawn(move || {
                        let numbers = thread * EACH..(thread + 1) * EACH;
                        numbers.filter(|one| record(state, slots, (thread % 2) as usize, ns, *one)).count() as u64
                    })
                })
                .collect();
            let ended = &ended;
            let waiting = scope.spawn(move || {
                let made = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
                ended.store(true, Ordering::Release);
                made
            });
            while !ended.load(Ordering::Acquire) {
                read(&mut rings);
            }
            waiting.join().unwrap()
        });
        read(&mut rings);
        assert_eq!(seen.iter().filter(|one| **one).count() as u64, roomy);
        assert_eq!(rings.lost(), EACH * THREADS - roomy);
    }

    #[test]
    fn two_cpus_have_room_for_all_on_each_and_many_share_about_twice_that() {
        let all = |_| true;
        assert_eq!(slots(131_072, 16, 1, all), [131_072]);
        assert_eq!(slots(131_072, 16, 2, all), [131_072; 2]);
        assert_eq!(slots(131_072, 16, 8, all), [32_768; 8]);
        assert_eq!(slots(131_072, 16, 256, all), [4096; 256]);
        assert_eq!(slots(2048, 16, 64, all), [2048; 64]);
        // Those that are not there yet have little.
        assert_eq!(slots(65_536, 16, 4, |cpu| cpu < 2), [65_536, 65_536, 256, 256]);
        assert_eq!(slots(1, 16, 2, all), [2048; 2]);
        assert_eq!(slots(1, 344, 2, |cpu| cpu < 1), [128, 128]);
    }

    proptest! {
        #[test]
        fn rings_are_powers_of_two_that_a_ring_of_32_bit_slots_can_have(
            records in 0_usize..1 << 40, bytes in 1_usize..64, cpus in 1_usize..600, there in 0_usize..600,
        ) {
            let found = slots(records, bytes * 8, cpus, |cpu| cpu < there);
            prop_assert_eq!(found.len(), cpus);
            prop_assert!(found.iter().all(|one| one.is_power_of_two()));
            let offline = cpus.saturating_sub(there) * LATER_SLOTS * bytes * 8;
            prop_assert!(found.iter().sum::<usize>() * bytes * 8 <= MOST_BYTES + offline);
            prop_assert!(u32::try_from(found.iter().sum::<usize>()).is_ok());
        }
    }
}
