//! Statistics of latenesses, from whole sums: exact however many there are, and those of parts add up to those of the whole.

use schemars::JsonSchema;
use serde::Serialize;

/// What is known of some latenesses.
///
/// Each is counted from the first of them, so that sums of squares stay small though every one be late by hours. They are
/// exact as long as no two latenesses are 39 hours apart and there are fewer than 2³²; beyond they stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latenesses {
    n: u64,
    first_ns: i64,
    sum: i128,
    squares: i128,
    min_ns: i64,
    max_ns: i64,
    above: u64,
}

/// Statistics of latenesses, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Population standard deviation.
    pub stddev_ns: f64,
    /// Least.
    pub min_ns: i64,
    /// Largest.
    pub max_ns: i64,
}

/// The same as the lab gets it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Figures {
    /// None, as the three that follow: there are none.
    pub mean_ns: Option<f64>,
    /// Population standard deviation.
    pub stddev_ns: Option<f64>,
    /// Least.
    pub min_ns: Option<i64>,
    /// Largest.
    pub max_ns: Option<i64>,
    /// How many are above the threshold.
    pub above: u64,
    /// That threshold.
    pub threshold_ns: i64,
}

impl Figures {
    /// Of these latenesses, which were compared with this threshold.
    pub fn of(latenesses: &Latenesses, threshold_ns: i64) -> Self {
        let found = latenesses.statistics();
        Self {
            mean_ns: found.map(|s| s.mean_ns),
            stddev_ns: found.map(|s| s.stddev_ns),
            min_ns: found.map(|s| s.min_ns),
            max_ns: found.map(|s| s.max_ns),
            above: latenesses.above(),
            threshold_ns,
        }
    }
}

impl Latenesses {
    /// Adds one; it is above the threshold if it is larger.
    #[inline]
    pub fn add(&mut self, ns: i64, threshold_ns: i64) {
        if self.n == 0 {
            (self.first_ns, self.min_ns, self.max_ns) = (ns, ns, ns);
        }
        let beyond = i128::from(ns) - i128::from(self.first_ns);
        self.n += 1;
        self.sum += beyond;
        self.squares = self.squares.saturating_add(beyond.saturating_mul(beyond));
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.above += u64::from(ns > threshold_ns);
    }

    /// Adds all of `others`.
    pub fn merge(&mut self, others: &Self) {
        if self.n == 0 {
            *self = *others;
            return;
        }
        if others.n == 0 {
            return;
        }
        let (sum, squares) = others.counted_from(i128::from(self.first_ns) - i128::from(others.first_ns));
        self.n += others.n;
        self.sum += sum;
        self.squares = self.squares.saturating_add(squares);
        self.min_ns = self.min_ns.min(others.min_ns);
        self.max_ns = self.max_ns.max(others.max_ns);
        self.above += others.above;
    }

    /// How many there are.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// How many are above the threshold.
    pub fn above(&self) -> u64 {
        self.above
    }

    /// None: there are none.
    pub fn statistics(&self) -> Option<Statistics> {
        let n = i128::from(self.n);
        if n == 0 {
            return None;
        }
        // About the whole number below the mean, for what is divided last to be small: with the sum s and the sum of squares
        // q from there, the variance is (n q − s²) / n².
        let whole = self.sum.div_euclid(n);
        let (rest, squares) = self.counted_from(whole);
        let variance = match n.checked_mul(squares) {
            Some(product) => (product - rest * rest) as f64 / (n as f64 * n as f64),
            None => squares as f64 / n as f64,
        };
        Some(Statistics {
            mean_ns: (i128::from(self.first_ns) + whole) as f64 + rest as f64 / n as f64,
            stddev_ns: variance.max(0.0).sqrt(),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        })
    }

    /// The sum and the sum of squares as they are if each is counted from `by` beyond the first.
    fn counted_from(&self, by: i128) -> (i128, i128) {
        let n = i128::from(self.n);
        let change =
            n.saturating_mul(by.saturating_mul(by)).saturating_sub(by.saturating_mul(self.sum).saturating_mul(2));
        (self.sum - n * by, self.squares.saturating_add(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[i64]) -> Latenesses {
        let mut all = Latenesses::default();
        values.iter().for_each(|ns| all.add(*ns, 30));
        all
    }

    #[test]
    fn statistics_are_those_of_the_textbook() {
        let found = of(&[2, 4, 4, 4, 5, 5, 7, 9]).statistics().unwrap();
        assert_eq!(found, Statistics { mean_ns: 5.0, stddev_ns: 2.0, min_ns: 2, max_ns: 9 });
        assert_eq!(Latenesses::default().statistics(), None);
    }

    #[test]
    fn a_lateness_at_the_threshold_is_not_above_it() {
        assert_eq!(of(&[29, 30, 31]).above(), 1);
    }

    #[test]
    fn a_nanosecond_of_deviation_is_seen_in_latenesses_of_hours() {
        let hours = 30 * 3_600_000_000_000;
        let found = of(&[hours - 1, hours + 1]).statistics().unwrap();
        assert_eq!((found.mean_ns, found.stddev_ns), (hours as f64, 1.0));
        // Begun at the hour, half of them right at the beginning, where a sum of squares in floating point has no nanoseconds.
        let found = of(&[0, hours, hours]).statistics().unwrap();
        assert!((found.stddev_ns / (hours as f64 * (2.0_f64 / 9.0).sqrt()) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_thousand_millions_that_are_alike_but_one_deviate_by_what_that_one_does() {
        // As if added one by one: 2³⁰ latenesses of 1000 ns, and one of 1001 ns.
        let mut all = of(&[1000]);
        for _ in 0..30 {
            let half = all;
            all.merge(&half);
        }
        let n = f64::from(1 << 30);
        assert_eq!(all.statistics().unwrap().stddev_ns, 0.0);
        all.merge(&of(&[1001]));
        let (n, share) = (n + 1.0, 1.0 / (n + 1.0));
        assert_eq!(all.n() as f64, n);
        let expected = (share * (1.0 - share)).sqrt();
        assert!((all.statistics().unwrap().stddev_ns / expected - 1.0).abs() < 1e-14);
    }

    #[test]
    fn what_is_beyond_all_sums_is_large_and_not_a_panic() {
        let mut all = of(&[0, i64::MAX, i64::MIN]);
        for _ in 0..60 {
            let half = all;
            all.merge(&half);
        }
        let found = all.statistics().unwrap();
        assert!(found.stddev_ns.is_finite() && found.stddev_ns > 1e9, "{found:?}");
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole_wherever_they_are_cut(
            values in proptest::collection::vec(-1_000_000_000_000i64..1_000_000_000_000, 1..50),
            cut in 0usize..50,
        ) {
            let (earlier, later) = values.split_at(cut.min(values.len()));
            let mut sum = of(earlier);
            sum.merge(&of(later));
            prop_assert_eq!(sum, of(&values));
        }

        #[test]
        fn the_deviation_is_that_of_two_passes(values in proptest::collection::vec(0i64..1_000_000, 1..50)) {
            let found = of(&values).statistics().unwrap();
            let n = values.len() as f64;
            let mean = values.iter().sum::<i64>() as f64 / n;
            let variance = values.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((found.mean_ns - mean).abs() <= 1e-9 * mean.max(1.0));
            prop_assert!((found.stddev_ns - variance.sqrt()).abs() <= 1e-6 * variance.sqrt().max(1.0));
        }
    }
}
