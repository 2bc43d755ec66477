//! What tracepoints show: where a record has its fields, which records there are on a page of the kernel's ring buffer and when
//! each was made, and how many were lost before them, by what tracefs says of its formats.

/// Where a field is in its tracepoint's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Field {
    /// The field of this name in a `format` file; None if it has none, or none of 1, 2, 4 or 8 bytes.
    ///
    /// A line is `field:unsigned char common_flags; offset:2; size:1; signed:0;`, with tabs between (Documentation/trace/events.rst).
    pub fn find(format: &str, name: &str) -> Option<Self> {
        declared(format, name).filter(|field| matches!(field.size, 1 | 2 | 4 | 8))
    }

    /// Its bits in this record, in the low ones of the result; None: the record is too short.
    pub fn bits(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        match *bytes {
            [a] => Some(a.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            _ => bytes.try_into().ok().map(u64::from_ne_bytes),
        }
    }

    /// Its value in this record; one that is too large, as an address, by its bits. None: the record is too short.
    pub fn value(self, record: &[u8]) -> Option<i64> {
        let above = 64 - 8 * self.size as u32;
        let bits = self.bits(record)? as i64;
        Some(if self.signed { bits << above >> above } else { bits })
    }
}

fn declared(format: &str, name: &str) -> Option<Field> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?.rsplit([' ', '*']).next()?;
        if declared != name {
            return None;
        }
        let number = |part: Option<&str>, key: &str| part?.strip_prefix(key)?.parse().ok();
        let (offset, size) = (number(parts.next(), "offset:")?, number(parts.next(), "size:")?);
        Some(Field { offset, size, signed: parts.next() == Some("signed:1") })
    })
}

/// How the pages of a ring buffer are laid out that `trace_pipe_raw` gives, by `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    stamp: Field,
    commit: Field,
    data: usize,
    /// Bytes of a page.
    pub bytes: usize,
}

/// A record as the `format` file of its tracepoint lays it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was made, ns of the instance's trace clock.
    pub stamp_ns: i64,
    /// What it says.
    pub bytes: &'a [u8],
}

/// Of a page that was read (include/linux/ring_buffer.h): records before it were lost, and how many they are stands behind its
/// own. The rest of `commit` is its length.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMITTED: u64 = (1 << 27) - 1;

/// What stands in the low five bits of a record's head, `struct ring_buffer_event`. Other values are the record's length in
/// words; 0: that is in the next word.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const WORD: usize = 4;
/// The head's other bits are the time since the record before; what goes beyond them is in the word that follows.
const SINCE_BITS: u32 = 27;
/// An absolute time has no more bits than the two words have; those above are as they were.
const STAMP_BITS: u32 = 59;

impl Page {
    /// As a `header_page` file says; None: that is none.
    pub fn of(header_page: &str) -> Option<Self> {
        let data = declared(header_page, "data")?;
        let bytes = data.offset.checked_add(data.size)?;
        let (stamp, commit) = (Field::find(header_page, "timestamp")?, Field::find(header_page, "commit")?);
        Some(Self { stamp, commit, data: data.offset, bytes })
    }

    /// How many records were lost before those of this page: None: none; 0: some, and the kernel does not say how many.
    pub fn lost(self, page: &[u8]) -> Option<u64> {
        let commit = self.commit.bits(page)?;
        let behind = Field { offset: self.data.saturating_add((commit & COMMITTED) as usize), ..self.commit };
        match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => None,
            (true, false) => Some(0),
            (true, true) => Some(behind.bits(page).unwrap_or(0)),
        }
    }

    /// How many bytes of a page that was read are records.
    pub fn length(self, page: &[u8]) -> usize {
        self.commit.bits(page).map_or(0, |commit| (commit & COMMITTED) as usize)
    }

    /// When the first record of a page was made, ns of the trace clock: what was lost was made before.
    pub fn begins_ns(self, page: &[u8]) -> i64 {
        self.stamp.bits(page).unwrap_or(0) as i64
    }

    /// The records of a page that was read. What is cut short ends them.
    ///
    /// Times add up as the kernel checks them (`check_buffer`, kernel/trace/ring_buffer.c): that of a record which a filter
    /// dropped counts, unless it is the 1 that stands for none.
    pub fn records(self, page: &[u8]) -> impl Iterator<Item = Record<'_>> {
        let length = self.length(page);
        let mut rest = page.get(self.data..).unwrap_or_default();
        rest = &rest[..length.min(rest.len())];
        let mut stamp_ns = self.begins_ns(page) as u64;
        std::iter::from_fn(move || {
            loop {
                let (first, second) = (word(rest, 0)?, word(rest, WORD));
                let (kind, since) = (first & 31, first >> 5);
                let record = match kind {
                    // The rest of the page is empty.
                    PADDING if since == 0 => return None,
                    TIME_EXTEND | TIME_STAMP => 0..2 * WORD,
                    0 | PADDING => 2 * WORD..WORD + second? as usize,
                    words => WORD..WORD + WORD * words as usize,
                };
                let found = rest.get(record.clone())?;
                rest = &rest[record.end..];
                let long = u64::from(second.unwrap_or(0)) << SINCE_BITS | u64::from(since);
                stamp_ns = match kind {
                    TIME_STAMP => absolute(long, stamp_ns),
                    TIME_EXTEND => stamp_ns.wrapping_add(long),
                    PADDING if since == 1 => stamp_ns,
                    _ => stamp_ns.wrapping_add(since.into()),
                };
                if kind < PADDING {
                    return Some(Record { stamp_ns: stamp_ns as i64, bytes: found });
                }
            }
        })
    }
}

/// The instant whose low bits are these, with the others of the one before it (`rb_fix_abs_ts`).
fn absolute(low: u64, before: u64) -> u64 {
    let found = low | before >> STAMP_BITS << STAMP_BITS;
    if found < before { found.wrapping_add(1 << STAMP_BITS) } else { found }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.18, events/timer/hrtimer_start/format.
    const FORMAT: &str = "name: hrtimer_start
ID: 460
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:void * hrtimer;	offset:8;	size:8;	signed:0;
	field:void * function;	offset:16;	size:8;	signed:0;
	field:s64 expires;	offset:24;	size:8;	signed:1;
	field:s64 softexpires;	offset:32;	size:8;	signed:1;
	field:enum hrtimer_mode mode;	offset:40;	size:4;	signed:0;
	field:bool was_armed;	offset:44;	size:1;	signed:0;
	field:char comm[16];	offset:48;	size:16;	signed:0;

print fmt: \"hrtimer=%p function=%ps expires=%llu\", REC->hrtimer, REC->function, REC->expires
";

    #[test]
    fn fields_are_where_the_kernel_says() {
        let at = |name| Field::find(FORMAT, name).map(|field| (field.offset, field.size));
        assert_eq!(at("common_type"), Some((0, 2)));
        assert_eq!(at("common_pid"), Some((4, 4)));
        assert_eq!(at("hrtimer"), Some((8, 8)));
        assert_eq!(at("softexpires"), Some((32, 8)));
        assert_eq!(at("was_armed"), Some((44, 1)));
        for none in ["expire", "pid", "comm", "comm[16]", "fmt", ""] {
            assert_eq!(at(none), None, "{none}");
        }
    }

    #[test]
    fn fields_are_read_at_their_size_and_never_beyond_the_record() {
        let record: Vec<u8> = (0..44).collect();
        let bits = |name| Field::find(FORMAT, name).unwrap().bits(&record);
        assert_eq!(bits("common_flags"), Some(2));
        assert_eq!(bits("common_type"), Some(u16::from_ne_bytes([0, 1]).into()));
        assert_eq!(bits("common_pid"), Some(u32::from_ne_bytes([4, 5, 6, 7]).into()));
        assert_eq!(bits("hrtimer"), Some(u64::from_ne_bytes([8, 9, 10, 11, 12, 13, 14, 15])));
        assert_eq!(bits("was_armed"), None);
    }

    #[test]
    fn a_value_has_the_sign_that_the_kernel_says() {
        let record = [0xff; 48];
        let value = |name| Field::find(FORMAT, name).unwrap().value(&record);
        assert_eq!([value("common_pid"), value("softexpires"), value("hrtimer")], [Some(-1); 3]);
        assert_eq!([value("mode"), value("common_type")], [Some(u32::MAX.into()), Some(u16::MAX.into())]);
    }

    /// Linux 6.18, events/header_page.
    const HEADER_PAGE: &str = "	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
";

    const BEGINS: u64 = 3 << STAMP_BITS | 1_000;

    fn page(flags: u64, words: &[u32], behind: &[u8]) -> Vec<u8> {
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let commit = flags | data.len() as u64;
        // What is not committed is left from before.
        [&BEGINS.to_ne_bytes(), &commit.to_ne_bytes()[..], &data, behind, &[2; 64]].concat()
    }

    /// How long after the page's beginning each record was made, and its words.
    fn stamped(flags: u64, words: &[u32]) -> Vec<(i64, Vec<u32>)> {
        let layout = Page::of(HEADER_PAGE).unwrap();
        let words_of = |bytes: &[u8]| bytes.chunks(4).map(|c| u32::from_ne_bytes(c.try_into().unwrap())).collect();
        let read = page(flags, words, &[]);
        layout.records(&read).map(|record| (record.stamp_ns - BEGINS as i64, words_of(record.bytes))).collect()
    }

    fn told(flags: u64, words: &[u32]) -> Vec<Vec<u32>> {
        stamped(flags, words).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn a_page_is_as_the_kernel_says() {
        let found = Page::of(HEADER_PAGE).unwrap();
        assert_eq!((found.data, found.bytes), (16, 4096));
        for kib in [16, 64] {
            let bytes = kib << 10;
            let larger = HEADER_PAGE.replace("size:4080", &format!("size:{}", bytes - 16));
            let found = Page::of(&larger).unwrap();
            assert_eq!((found.data, found.bytes), (16, bytes));
            // All of it is records of two words.
            let words: Vec<u32> = (0..bytes as u32 / 8 - 2).flat_map(|n| [1 << 5 | 1, n]).collect();
            let read = page(0, &words, &[]);
            let last = found.records(&read).last().unwrap();
            assert_eq!(last.bytes, (bytes as u32 / 8 - 3).to_ne_bytes());
            assert_eq!(found.length(&read), bytes - 16);
        }
        assert_eq!(found.begins_ns(&page(0, &[], &[])), BEGINS as i64);
        assert_eq!(found.length(&page(MISSED, &[1, 2, 3], &[])), 12);
        assert_eq!(Page::of(FORMAT), None);
    }

    #[test]
    fn records_come_in_order_and_what_is_none_is_passed_over() {
        let since = 5 << 5;
        let words = [
            since | 2,
            11,
            12,
            since | TIME_EXTEND,
            7,
            since | PADDING, // dropped by a filter: its length, that word included, is in the next
            12,
            99,
            99,
            since, // as is that of a long one
            12,
            21,
            22,
            since | TIME_STAMP,
            7,
            since | 1,
            31,
        ];
        let expected = vec![vec![11, 12], vec![21, 22], vec![31]];
        assert_eq!(told(0, &words), expected);
        // Flags of lost records stand next to the length.
        assert_eq!(told(3 << 30, &words), expected);
        assert_eq!(told(0, &[since | 1, 41, PADDING, since | 1, 42]), [[41]]);
    }

    #[test]
    fn each_record_was_made_so_long_after_the_one_before() {
        let (short, extend) = (|ns: u32| ns << 5 | 1, |ns: u64| [(ns as u32) << 5 | TIME_EXTEND, (ns >> 27) as u32]);
        let [low, high] = extend(10_000_000_000);
        assert_eq!(stamped(0, &[short(0), 1, short(7), 2]), [(0, vec![1]), (7, vec![2])]);
        assert_eq!(
            stamped(0, &[low, high, short(0), 1, short(3), 2]),
            [(10_000_000_000, vec![1]), (10_000_000_003, vec![2])]
        );
    }

    #[test]
    fn the_time_of_what_a_filter_dropped_counts_unless_it_stands_for_none() {
        let dropped = |ns: u32| [ns << 5 | PADDING, 8, 99];
        for (ns, expected) in [(5, 7), (1, 2)] {
            let words = [&dropped(ns)[..], &[2 << 5 | 1, 1]].concat();
            assert_eq!(stamped(0, &words), [(expected, vec![1])]);
        }
    }

    #[test]
    fn an_absolute_time_has_its_highest_bits_from_the_one_before() {
        let stamp = |ns: u64| [(ns as u32) << 5 | TIME_STAMP, (ns >> 27) as u32];
        let after = |low: u64| stamped(0, &[&stamp(low)[..], &[1, 1]].concat())[0].0;
        assert_eq!(after(1_000 + 123), 123);
        // They are one more where the low ones have gone round.
        assert_eq!(after(10), (1 << STAMP_BITS) - 990);
    }

    #[test]
    fn what_was_lost_before_a_page_is_told() {
        let layout = Page::of(HEADER_PAGE).unwrap();
        let words = [2 << 5 | 1, 1];
        let lost = |flags, behind: &[u8]| layout.lost(&page(flags, &words, behind));
        assert_eq!(lost(0, &77_u64.to_ne_bytes()), None);
        assert_eq!(lost(MISSED, &77_u64.to_ne_bytes()), Some(0));
        assert_eq!(lost(MISSED | MISSED_STORED, &77_u64.to_ne_bytes()), Some(77));
        assert_eq!(layout.lost(&[]), None);
    }

    #[test]
    fn a_record_cut_short_ends_the_page() {
        assert_eq!(told(0, &[32 | 1, 41, 32 | 3, 42]), [[41]]);
        assert_eq!(told(0, &[32, 4000, 42]), Vec::<Vec<u32>>::new());
        assert_eq!(told(0, &[32, 0, 42]), Vec::<Vec<u32>>::new());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_go_on_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Page::of(HEADER_PAGE).unwrap().records(&bytes).count() <= bytes.len() / WORD);
        }

        #[test]
        fn no_text_makes_the_search_panic(format in "\\PC{0,100}", name in "\\PC{0,10}") {
            let _ = Field::find(&format, &name).map(|field| (field.bits(&[0; 16]), field.value(&[0; 16])));
        }
    }
}
