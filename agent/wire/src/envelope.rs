//! Bounds on the offset between two clocks, from exchanges of timestamps.
//!
//! A question leaves at t1 and arrives at t2; the answer leaves at t3 and arrives at t4. No packet arrives before
//! it was sent, so with θ = responder − initiator: θ ≤ t2 − t1 and θ ≥ t3 − t4, whatever the delays were and
//! however asymmetric. Over time θ is taken as a straight line (constant drift), which must pass below every upper
//! point and above every lower one: the envelopes of Duda, Harrus, Haddad and Bernard, "Estimating global time in
//! distributed systems", ICDCS 1987.

use crate::record::Exchange;
use schemars::JsonSchema;
use serde::Serialize;

/// What the exchanges prove, if the two clocks drift apart at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Bound {
    /// The instant at which the offset is bounded, on the initiator's CLOCK_TAI: the middle of the exchanges.
    pub reference_tai_ns: i64,
    /// Responder − initiator is at least this then, ns.
    pub lower_ns: i64,
    /// Responder − initiator is at most this then, ns.
    pub upper_ns: i64,
    /// The responder gains at least this on the initiator, parts per 10⁹; None if nothing bounds it.
    pub drift_lower_ppb: Option<f64>,
    /// The responder gains at most this on the initiator, parts per 10⁹; None if nothing bounds it.
    pub drift_upper_ppb: Option<f64>,
    /// From the first question to the last answer, ns.
    pub span_ns: i64,
}

/// Slopes searched: ±1 %, far beyond any clock that still runs. A bound at the edge is no bound.
const STEEPEST: f64 = 0.01;
const SEARCH_STEPS: usize = 200;

/// The bound that all `exchanges` prove together; None if there are none, or if no straight line fits:
/// one of the clocks was stepped or steered meanwhile.
pub fn bound(exchanges: &[Exchange]) -> Option<Bound> {
    let first = exchanges.iter().map(|e| e.t1_tai_ns).min()?;
    let last = exchanges.iter().map(|e| e.t4_tai_ns).max()?;
    let reference = first + (last - first) / 2;
    let base = exchanges[0].t2_tai_ns - exchanges[0].t1_tai_ns;
    let point = |at: i64, offset: i64| ((at - reference) as f64, (offset - base) as f64);
    let upper = hull(exchanges.iter().map(|e| point(e.t1_tai_ns, e.t2_tai_ns - e.t1_tai_ns)).collect(), 1.0);
    let lower = hull(exchanges.iter().map(|e| point(e.t4_tai_ns, e.t3_tai_ns - e.t4_tai_ns)).collect(), -1.0);

    // For a slope, the highest line below all upper points and the lowest above all lower ones.
    let highest = |slope: f64| upper.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min);
    let lowest = |slope: f64| lower.iter().map(|(x, y)| y - slope * x).fold(f64::NEG_INFINITY, f64::max);
    let room = |slope: f64| highest(slope) - lowest(slope);

    // `room` is concave, so its maximum and the two slopes where it runs out are found by bisection.
    let widest = maximum(room, -STEEPEST, STEEPEST);
    if room(widest) < 0.0 {
        return None;
    }
    let least = edge(room, widest, -STEEPEST);
    let most = edge(room, widest, STEEPEST);
    let top = highest(maximum(highest, least, most));
    let bottom = lowest(maximum(|slope| -lowest(slope), least, most));
    Some(Bound {
        reference_tai_ns: reference,
        lower_ns: base + bottom.floor() as i64,
        upper_ns: base + top.ceil() as i64,
        drift_lower_ppb: (least > -STEEPEST).then_some(least * 1e9),
        drift_upper_ppb: (most < STEEPEST).then_some(most * 1e9),
        span_ns: last - first,
    })
}

/// The points that can touch a line from below (`side` 1) or from above (`side` −1): Andrew's monotone chain.
fn hull(mut points: Vec<(f64, f64)>, side: f64) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then((side * a.1).total_cmp(&(side * b.1))));
    let mut chain: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = chain[..] {
            let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
            if side * turn > 0.0 {
                break;
            }
            chain.pop();
        }
        chain.push(point);
    }
    chain
}

/// Where the concave `f` is highest between `low` and `high`.
fn maximum(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..SEARCH_STEPS {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if f(a) < f(b) { low = a } else { high = b }
    }
    let middle = low + (high - low) / 2.0;
    [low, middle, high].into_iter().max_by(|a, b| f(*a).total_cmp(&f(*b))).unwrap_or(middle)
}

/// The slope furthest from `inside` towards `outside` at which `f` is not below zero.
fn edge(f: impl Fn(f64) -> f64, mut inside: f64, mut outside: f64) -> f64 {
    if f(outside) >= 0.0 {
        return outside;
    }
    for _ in 0..SEARCH_STEPS {
        let middle = inside + (outside - inside) / 2.0;
        if f(middle) >= 0.0 { inside = middle } else { outside = middle }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_700_000_000_000_000_000;

    /// Exchanges over links with the given delays, between clocks `offset` apart that drift by `ppb`.
    fn exchanges(offset: i64, ppb: f64, period: i64, delays: &[(i64, i64)]) -> Vec<Exchange> {
        let theirs = |mine: i64| mine + offset + ((mine - START) as f64 * ppb / 1e9).round() as i64;
        delays
            .iter()
            .enumerate()
            .map(|(n, (there, back))| {
                let t1 = START + n as i64 * period;
                let turn = t1 + there;
                Exchange {
                    sequence: n as u64,
                    t1_tai_ns: t1,
                    t2_tai_ns: theirs(turn),
                    t3_tai_ns: theirs(turn + 2_000),
                    t4_tai_ns: turn + 2_000 + back,
                }
            })
            .collect()
    }

    #[test]
    fn equal_clocks_are_bounded_by_the_smallest_delays() {
        let found =
            bound(&exchanges(0, 0.0, 1_000_000, &[(30_000, 25_000), (12_000, 40_000), (90_000, 9_000)])).unwrap();
        assert!(found.lower_ns <= 0 && found.upper_ns >= 0);
        // The line through the middle of the span is held by the smallest delays around it.
        assert!(found.upper_ns <= 40_000 && found.lower_ns >= -40_000, "{found:?}");
    }

    #[test]
    fn a_single_exchange_bounds_the_offset_and_not_the_drift() {
        let found = bound(&exchanges(5_000, 0.0, 1, &[(300, 200)])).unwrap();
        assert!(found.lower_ns <= 5_000 && found.upper_ns >= 5_000);
        assert_eq!((found.drift_lower_ppb, found.drift_upper_ppb), (None, None));
    }

    #[test]
    fn no_exchange_bounds_nothing() {
        assert_eq!(bound(&[]), None);
    }

    #[test]
    fn a_step_between_exchanges_is_no_straight_line() {
        let mut stepped = exchanges(0, 0.0, 1_000_000_000, &[(10_000, 10_000); 6]);
        for exchange in &mut stepped[3..] {
            exchange.t2_tai_ns += 5_000_000;
            exchange.t3_tai_ns += 5_000_000;
        }
        assert_eq!(bound(&stepped), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_true_offset_and_drift_are_always_inside(
            offset in -1_000_000_000i64..1_000_000_000,
            ppb in -50_000.0f64..50_000.0,
            period in 1_000_000i64..100_000_000,
            delays in proptest::collection::vec((1_000i64..500_000, 1_000i64..500_000), 2..120),
        ) {
            let found = bound(&exchanges(offset, ppb, period, &delays)).unwrap();
            let truth = offset as f64 + (found.reference_tai_ns - START) as f64 * ppb / 1e9;
            // Whole nanoseconds in the timestamps leave 2 ns of rounding, and the turn-round drifts a little.
            prop_assert!(found.lower_ns as f64 <= truth + 3.0, "{found:?} {truth}");
            prop_assert!(found.upper_ns as f64 >= truth - 3.0, "{found:?} {truth}");
            let slack = 3.0 / found.span_ns as f64 * 1e9 + 1.0;
            prop_assert!(found.drift_lower_ppb.is_none_or(|d| d <= ppb + slack));
            prop_assert!(found.drift_upper_ppb.is_none_or(|d| d >= ppb - slack));
        }

        #[test]
        fn readings_of_one_instant_bound_the_offset_to_their_width_and_the_rounding_of_its_ends(
            offset in -1_000_000_000i64..1_000_000_000,
            ppb in -50_000.0f64..50_000.0,
            period in 1_000_000i64..100_000_000,
            within in 10i64..1_000,
            n in 1i64..120,
        ) {
            let at = |k: i64| {
                let t1 = START + k * period;
                let theirs = t1 + offset + ((t1 - START) as f64 * ppb / 1e9).round() as i64;
                Exchange { sequence: k as u64, t1_tai_ns: t1, t2_tai_ns: theirs + within, t3_tai_ns: theirs - within, t4_tai_ns: t1 }
            };
            let found = bound(&(0..n).map(at).collect::<Vec<_>>()).unwrap();
            prop_assert!(found.upper_ns - found.lower_ns <= 2 * within + 1, "{found:?}");
        }

        #[test]
        fn no_bound_is_wider_than_the_fastest_exchange_when_clocks_do_not_drift(
            offset in -1_000_000i64..1_000_000,
            delays in proptest::collection::vec((1_000i64..500_000, 1_000i64..500_000), 8..60),
        ) {
            // With the drift known to be nil the bound could be min(there) + min(back); not knowing it costs at
            // most what the slowest exchanges at the ends allow.
            let found = bound(&exchanges(offset, 0.0, 10_000_000, &delays)).unwrap();
            let widest = delays.iter().map(|d| d.0).max().unwrap() + delays.iter().map(|d| d.1).max().unwrap();
            prop_assert!(found.upper_ns - found.lower_ns <= widest + 6);
        }
    }
}
