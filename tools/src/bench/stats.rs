//! Order statistics of timings.

/// Order statistics of a set of samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Summary {
    /// Number of samples.
    pub(crate) n: usize,
    pub(crate) min: f64,
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// The statistics; `None` without samples or with one that is no number.
    pub(crate) fn of(samples: &[f64]) -> Option<Summary> {
        if samples.is_empty() || samples.iter().any(|s| s.is_nan()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |q| quantile(&sorted, q);
        Some(Summary { n: sorted.len(), min: at(0.0), q1: at(0.25), median: at(0.5), q3: at(0.75), max: at(1.0) })
    }
}

/// The quantile `q` of sorted samples, interpolated between neighbours (Hyndman and Fan 1996, definition 7).
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

/// A random order of `0..n`, the same for the same seed (Fisher and Yates).
pub(crate) fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        let j = tilelift_kernels::rng::bits(seed, i as u64) % (i as u64 + 1);
        order.swap(i, j as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_and_ignore_the_order() {
        let s = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(s, Summary { n: 4, min: 1.0, q1: 1.75, median: 2.5, q3: 3.25, max: 4.0 });
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!((one.min, one.q1, one.median, one.q3, one.max), (7.0, 7.0, 7.0, 7.0, 7.0));
        assert_eq!(Summary::of(&[5.0, 1.0, 3.0]).unwrap().median, 3.0);
    }

    #[test]
    fn there_are_no_statistics_of_nothing_or_nan() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn shuffles_are_permutations_that_vary_with_the_seed() {
        let mut first_places = [0; 5];
        for seed in 0..1000 {
            let order = shuffled(5, seed);
            first_places[order[0]] += 1;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            assert_eq!(order, shuffled(5, seed));
        }
        // 200 each on average, with a standard deviation of 12.6.
        assert!(first_places.iter().all(|&c| (137..=263).contains(&c)), "{first_places:?}");
        assert!(shuffled(0, 1).is_empty());
    }
}
