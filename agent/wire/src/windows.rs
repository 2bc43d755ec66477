//! Bounds on the offset between two clocks over time, for clocks whose rates do not stay the same.
//!
//! A straight line through minutes of exchanges is too stiff for a clock that is being steered. The exchanges are cut into
//! windows instead. A line through each bounds the drift in it ([`envelope::bound`]); the drift is then taken to lie, at every
//! moment, between the least and the largest that any window allows. With that alone, every exchange of a window bounds the
//! offset in the window's middle, whatever the drift did within those limits.
//!
//! A window in which the drift changed has no line. It is cut in two until its parts have one; of the least parts that have
//! none, what neighbouring exchanges say of the drift between them counts. So a drift that comes and goes again can only
//! escape between two exchanges, or where exchanges bound it too loosely to say anything in so short a time.

use crate::envelope::{self, Bound};
use crate::record::Exchange;

/// Exchanges of the least parts that a window is cut into.
const LEAST: usize = 4;
/// How well a part of a window has to bound the drift for it to count, ppb: a short one with long delays says nothing.
const TELLING_PPB: f64 = 200_000.0;

/// What each stretch of at most `size` exchanges proves, in order; `exchanges` in order. A window that contradicts itself,
/// because a clock was stepped in it, is left out. All windows have the same bounds of the drift; where no window bounds the
/// drift, each is what its own line says.
pub fn windows(exchanges: &[Exchange], size: usize) -> Vec<Bound> {
    if exchanges.is_empty() {
        return Vec::new();
    }
    // Evenly, so that no short rest bounds next to nothing.
    let windows: Vec<&[Exchange]> =
        exchanges.chunks(exchanges.len().div_ceil(exchanges.len().div_ceil(size))).collect();
    let pieces: Vec<&[Exchange]> = windows.iter().flat_map(|window| straight(window)).collect();
    let lines: Vec<Bound> = pieces.iter().copied().filter_map(envelope::bound).collect();
    let of_windows = windows.iter().filter_map(|window| drift_in(window));
    let of_parts = windows
        .iter()
        .filter(|window| envelope::bound(window).is_none())
        .flat_map(|window| straight(window))
        .flat_map(drifts_in)
        .filter(|(least, most)| most - least < TELLING_PPB);
    let Some(drift) = of_windows.chain(of_parts).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return lines };
    pieces.into_iter().filter_map(|piece| at_middle(piece, drift)).collect()
}

/// The window, or its parts that each have a straight line; of the least parts, those that have none, too.
fn straight(window: &[Exchange]) -> Vec<&[Exchange]> {
    if window.len() < 2 * LEAST || envelope::bound(window).is_some() {
        return vec![window];
    }
    let (earlier, later) = window.split_at(window.len() / 2);
    [straight(earlier), straight(later)].concat()
}

/// The least and the largest drift that a straight line through the exchanges may have, ppb; None if there is no line.
fn drift_in(exchanges: &[Exchange]) -> Option<(f64, f64)> {
    envelope::bound(exchanges).and_then(|b| b.drift_lower_ppb.zip(b.drift_upper_ppb))
}

/// The same of a part; of one that has no line, of each few exchanges that follow each other in it.
fn drifts_in(part: &[Exchange]) -> Vec<(f64, f64)> {
    match drift_in(part) {
        Some(drift) => vec![drift],
        None => (2..=LEAST).flat_map(|few| part.windows(few)).filter_map(drift_in).collect(),
    }
}

/// The offset's bound in the middle of the exchanges if the drift is always within `drift`, ppb; None if there is none.
fn at_middle(exchanges: &[Exchange], drift: (f64, f64)) -> Option<Bound> {
    let first = exchanges.iter().map(|e| e.t1_tai_ns).min()?;
    let last = exchanges.iter().map(|e| e.t4_tai_ns).max()?;
    let reference = first + (last - first) / 2;
    // What the offset gains from an instant to the middle, at least and at most.
    let gain = |at: i64| {
        let (a, b) = ((reference - at) as f64 * drift.0 * 1e-9, (reference - at) as f64 * drift.1 * 1e-9);
        (a.min(b).floor() as i64, a.max(b).ceil() as i64)
    };
    let upper = exchanges.iter().map(|e| e.t2_tai_ns - e.t1_tai_ns + gain(e.t1_tai_ns).1).min()?;
    let lower = exchanges.iter().map(|e| e.t3_tai_ns - e.t4_tai_ns + gain(e.t4_tai_ns).0).max()?;
    (lower <= upper).then_some(Bound {
        reference_tai_ns: reference,
        lower_ns: lower,
        upper_ns: upper,
        drift_lower_ppb: Some(drift.0),
        drift_upper_ppb: Some(drift.1),
        span_ns: last - first,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_700_000_000_000_000_000;
    const PERIOD: i64 = 10_000_000;
    const SIZE: usize = 20;

    /// The offset at `at`, for drifts that each last for `stretch` ns.
    fn truth(at: i64, offset: i64, drifts: &[f64], stretch: i64) -> f64 {
        drifts.iter().enumerate().fold(offset as f64, |sum, (n, ppb)| {
            let begun = START + n as i64 * stretch;
            let last = n + 1 == drifts.len();
            sum + (at - begun).clamp(0, if last { i64::MAX } else { stretch }) as f64 * ppb * 1e-9
        })
    }

    fn exchanges(offset: i64, drifts: &[f64], stretch: i64, delays: &[(i64, i64)]) -> Vec<Exchange> {
        delays
            .iter()
            .enumerate()
            .map(|(n, (there, back))| {
                let t1 = START + n as i64 * PERIOD;
                let turn = t1 + there;
                let theirs = turn + truth(turn, offset, drifts, stretch).round() as i64;
                Exchange {
                    sequence: n as u64,
                    t1_tai_ns: t1,
                    t2_tai_ns: theirs,
                    t3_tai_ns: theirs,
                    t4_tai_ns: turn + back,
                }
            })
            .collect()
    }

    #[test]
    fn nothing_was_exchanged_and_nothing_is_bounded() {
        assert_eq!(windows(&[], 100), []);
    }

    #[test]
    fn windows_are_equally_long() {
        let found = windows(&exchanges(0, &[0.0], 1, &[(500, 500); 120]), 100);
        assert_eq!(found.iter().map(|b| b.span_ns).collect::<Vec<_>>(), [59 * PERIOD + 1000; 2]);
    }

    #[test]
    fn the_window_of_a_step_is_left_out() {
        let mut stepped = exchanges(0, &[0.0], 1, &[(500, 500); 60]);
        for exchange in &mut stepped[33..] {
            exchange.t2_tai_ns += 1_000_000;
            exchange.t3_tai_ns += 1_000_000;
        }
        let found = windows(&stepped, 20);
        assert_eq!(found.len(), 4);
        assert!(found[1].upper_ns < 10_000 && found[2].lower_ns > 990_000, "{found:?}");
    }

    #[test]
    fn a_rate_that_changes_within_the_first_few_exchanges_is_known_from_the_first_on() {
        let (offset, before) = (1_000_000, 5);
        let all = exchanges(offset, &[450_000.0, 150_000.0], before * PERIOD, &[(50, 50); 40]);
        let found = windows(&all, 100);
        let first = found[0];
        let away = all[0].t1_tai_ns - first.reference_tai_ns;
        let gains = [first.drift_lower_ppb.unwrap(), first.drift_upper_ppb.unwrap()].map(|d| d * 1e-9 * away as f64);
        assert!(first.lower_ns as f64 + gains[1].min(gains[0]) <= (offset + 2) as f64, "{first:?}");
        assert!(first.upper_ns as f64 + gains[0].max(gains[1]) >= (offset - 2) as f64, "{first:?}");
    }

    #[test]
    fn a_rate_that_changes_in_the_only_window_is_known_before_and_after() {
        let found = windows(&exchanges(0, &[450_000.0, 150_000.0], 30 * PERIOD, &[(500, 500); 60]), 100);
        assert!(found.len() >= 2, "{found:?}");
        for window in found {
            let drift = (window.drift_lower_ppb.unwrap(), window.drift_upper_ppb.unwrap());
            assert!(drift.0 < 150_000.0 && drift.1 > 450_000.0, "{drift:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_true_offset_is_inside_at_every_moment_though_the_drift_jumps(
            offset in -1_000_000_000i64..1_000_000_000,
            drifts in proptest::collection::vec(-100_000.0f64..100_000.0, 1..6),
            delays in proptest::collection::vec((200i64..2_000, 200i64..2_000), 240),
        ) {
            let stretch = 2 * SIZE as i64 * PERIOD;
            let found = windows(&exchanges(offset, &drifts, stretch, &delays), SIZE);
            prop_assert_eq!(found.len(), 12);
            for window in found {
                let drift = (window.drift_lower_ppb.unwrap(), window.drift_upper_ppb.unwrap());
                for tenth in -5..=5 {
                    let away = window.span_ns / 10 * tenth;
                    let gains = (away as f64 * drift.0 * 1e-9, away as f64 * drift.1 * 1e-9);
                    let true_ns = truth(window.reference_tai_ns + away, offset, &drifts, stretch);
                    // Timestamps are whole nanoseconds.
                    prop_assert!(window.lower_ns as f64 + gains.0.min(gains.1) <= true_ns + 2.0);
                    prop_assert!(window.upper_ns as f64 + gains.0.max(gains.1) >= true_ns - 2.0);
                }
            }
        }
    }
}
