//! Cases that are assumed.

use super::progress::State;
use crate::state::analysis::Analysis;
use crate::value::Abs;

impl<'a> State<'a> {
    /// A state per case that is assumed.
    pub(super) fn split(self, e: &Analysis) -> Vec<State<'a>> {
        let mut out = vec![self];
        for &v in &e.cases {
            let values = (0..=e.modulus).map(|n| if n == 0 { Abs::All(0) } else { Abs::Count(n, e.modulus) });
            out = values
                .flat_map(|a| out.iter().map(move |s| (s, a)))
                .map(|(s, a)| {
                    let mut s = s.clone();
                    s.tasks.iter_mut().for_each(|t| t.env.insert(v, a));
                    s
                })
                .collect();
        }
        out
    }
}
