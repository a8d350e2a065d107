//! Faults, and the places that they name.

use super::flight::Flight;
use crate::error::{ErrorKind, Fail, SimError, Site};
use crate::state::cta::Barrier;
use crate::state::machine::Simulator;
use crate::state::warp::Warp;

impl Simulator<'_> {
    /// A place in the text and the execution.
    pub(crate) fn site(&self, w: &Warp, at: u32, lane: Option<u32>, address: Option<u64>) -> Site {
        self.place(at, w.home, w.id, lane, address)
    }

    /// A place by its parts.
    pub(crate) fn place(&self, at: u32, cta: [u32; 3], warp: u32, lane: Option<u32>, address: Option<u64>) -> Site {
        let i = &self.prog.code[at as usize];
        let text = self.src.get(i.start as usize..i.end as usize).unwrap_or("");
        Site {
            text: text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches(';').to_string(),
            line: i.line,
            cta,
            warp,
            lane,
            address,
        }
    }

    /// An error at instruction `at`.
    pub(crate) fn fail(
        &self,
        w: &Warp,
        at: u32,
        kind: ErrorKind,
        message: impl Into<String>,
        lane: Option<u32>,
        address: Option<u64>,
    ) -> Fail {
        let mut e = SimError::new(kind, message);
        e.site = Some(Box::new(self.site(w, at, lane, address)));
        e
    }

    /// Where an operation in flight was issued.
    pub(crate) fn issue_site(&self, f: &Flight) -> Site {
        self.place(f.at, self.coords(f.issuer.0), f.issuer.1, Some(f.issuer.3), None)
    }

    /// The first arrival of a barrier's current generation.
    pub(crate) fn first_arrival(&self, b: &Barrier, w: &Warp) -> Option<Site> {
        b.log.first().map(|&(warp, at, _)| {
            let mut s = self.site(w, at, None, None);
            s.warp = warp;
            s
        })
    }
}
