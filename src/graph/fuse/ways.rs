//! Pairs, and the ways to make one kernel of each: what is known of a pair stays until something changes on which it rests.
//!
//! ```text
//! pair ── made in each way, priced ─► ways that pay, the cheapest first ── lowered when it is the best of all pairs ─► taken, or the next way
//!         rests on who uses the tensors of both, and in which order
//! ```
//!
//! To lower a kernel takes longest, so it is done for what would be taken, and a pair is looked at again only where a neighbour changed: a graph
//! of twice as many kernels takes twice as long.

use super::cost::estimate;
use super::pair::Pair;
use super::report::{How, Refusal, RefusalKind};
use super::split::split;
use super::state::{Known, Link, Search, Users, Way, Worth, position};
use crate::graph::nodes::{Node, Tensor, TensorId, Use};

impl Search<'_> {
    /// Producers and consumers with the tensor between them, in program order.
    pub(super) fn pairs(&self) -> Vec<Link> {
        let mut all = Vec::new();
        for (t, users) in self.users().iter().enumerate() {
            for (i, &(p, _)) in users.iter().enumerate().filter(|(_, (_, u))| u.writes) {
                // Up to the next writer, which may read first.
                let end = (i + 1..users.len()).find(|&j| users[j].1.writes).map_or(users.len(), |j| j + 1);
                all.extend(users[i + 1..end].iter().filter(|(_, u)| u.reads).map(|&(c, _)| (p, c, TensorId(t as u32))));
            }
        }
        all.sort_unstable();
        all
    }

    /// All that may tell how a pair stands to the rest of its graph: order, other readers, other writers.
    fn users_of(&self, users: &[Vec<(usize, Use)>], (p, c, _): Link) -> Users {
        let tensors = self.uses[p].iter().chain(&self.uses[c]);
        tensors.map(|(t, _)| users[t.index()].iter().map(|&(n, u)| (self.ids[n], u)).collect()).collect()
    }

    /// Whether what is known of a pair still is so.
    fn holds(&self, known: &Known, users: &[Vec<(usize, Use)>], link: Link) -> bool {
        let grows = known.ways.iter().any(|w| w.folds.is_some());
        known.users == self.users_of(users, link) && (!grows || known.tensors == self.graph.tensors.len())
    }

    /// The pair that gains most by a way that the target takes; those that are joined whole come first.
    pub(super) fn best_pair(&mut self) -> Option<(Worth, Link)> {
        let (pairs, users) = (self.pairs(), self.users());
        for &(p, c, t) in &pairs {
            let key = (self.ids[p], self.ids[c], t);
            let link = (p, c, t);
            if !self.known.get(&key).is_some_and(|k| self.holds(k, &users, link)) {
                let found = self.look(link, &users);
                self.known.insert(key, found);
            }
        }
        loop {
            let mut best: Option<(bool, Worth, Link)> = None;
            for &(p, c, t) in &pairs {
                let Some(way) = self.first(p, c, t) else { continue };
                let simple = way.folds.is_none();
                let before = self.costs[p].cost.saturating_add(self.costs[c].cost);
                let worth = self.worth(usize::from(simple), before, way.cost().cost);
                if best.is_none_or(|(s, w, _)| (simple, worth) > (s, w)) {
                    best = Some((simple, worth, (p, c, t)));
                }
            }
            let (_, worth, link) = best?;
            if self.settle(link) {
                return Some((worth, link));
            }
        }
    }

    fn first(&self, p: usize, c: usize, t: TensorId) -> Option<&Way> {
        self.known.get(&(self.ids[p], self.ids[c], t))?.ways.first()
    }

    /// Whether the target takes the first way of a pair; if not, the next one is the first.
    fn settle(&mut self, (p, c, t): Link) -> bool {
        let key = (self.ids[p], self.ids[c], t);
        let Some(mut known) = self.known.remove(&key) else { return true };
        let settled = match known.ways.first_mut() {
            None => true,
            Some(way) if way.accepted => true,
            Some(way) => {
                let folds = way.folds.as_ref().map_or(Ok(()), |f| self.accepted(&[p], &f.0));
                match folds.and_then(|()| self.accepted(&[p, c], &way.node)) {
                    Ok(()) => way.accepted = true,
                    Err(why) => {
                        let way = known.ways.remove(0);
                        known.reasons.push((Some(way.how), why));
                        self.split_too(&mut known, (p, c, t));
                        known.reasons.sort_by_key(|r| r.0);
                    }
                }
                known.ways.first().is_some_and(|w| w.accepted)
            }
        };
        self.known.insert(key, known);
        settled
    }

    /// Whether a pair is joined without leaving folds behind; `None` if it could be, but should not.
    pub(super) fn joins(&mut self, p: usize, c: usize, t: TensorId) -> Option<bool> {
        while !self.settle((p, c, t)) {}
        let Some(known) = self.known.get(&(self.ids[p], self.ids[c], t)) else { return Some(false) };
        if let Some(way) = known.ways.first() {
            return Some(way.folds.is_none());
        }
        let right = |how: &Option<How>, why: &Refusal| {
            *how != Some(How::SplitPrologue) && matches!(why.kind, RefusalKind::Cost | RefusalKind::Target)
        };
        (!known.reasons.iter().any(|(how, why)| right(how, why))).then_some(false)
    }

    /// The ways to fuse a pair that pay, and the reasons against the others.
    fn look(&self, link: Link, users: &[Vec<(usize, Use)>]) -> Known {
        let (p, c, _) = link;
        let tensors = self.graph.tensors.len();
        let mut known = Known { users: self.users_of(users, link), tensors, ways: Vec::new(), reasons: Vec::new(), split: false };
        if let Err(why) = position(&self.graph, p, c) {
            known.reasons.push((None, why));
            return known;
        }
        let pair = Pair::new(&self.graph, link, self.options.allow);
        for &how in How::PAIRS {
            let made = match how {
                How::Epilogue => pair.epilogue(),
                How::SameTile => pair.same_tile(),
                How::Prologue => pair.prologue(),
                How::SplitPrologue | How::Inlined => continue,
            };
            match made.and_then(|node| self.priced(how, node, None, link)) {
                Ok(way) => known.ways.push(way),
                Err(why) => known.reasons.push((Some(how), why)),
            }
        }
        known.ways.sort_by_key(|w| w.cost().cost);
        self.split_too(&mut known, link);
        known
    }

    /// Where the whole producer does not go in front of the consumer there may be something to split.
    fn split_too(&self, known: &mut Known, link: Link) {
        if !known.ways.is_empty() || known.split {
            return;
        }
        known.split = true;
        let made = self.split(&Pair::new(&self.graph, link, self.options.allow), link);
        match made.and_then(|(node, folds)| self.priced(How::SplitPrologue, node, Some(folds), link)) {
            Ok(way) => {
                known.tensors = self.graph.tensors.len();
                known.ways.push(way);
            }
            Err(why) => known.reasons.push((Some(How::SplitPrologue), why)),
        }
    }

    /// What is made of a pair, improved, with its price, if it pays.
    fn priced(&self, how: How, node: Node, folds: Option<(Node, Vec<Tensor>)>, (p, c, _): Link) -> Result<Way, Refusal> {
        let mut grown = None;
        if let Some((_, tensors)) = &folds {
            let graph = grown.insert(self.graph.clone());
            graph.tensors.extend(tensors.iter().cloned());
        }
        let graph = grown.as_ref().unwrap_or(&self.graph);
        let price = |node: &Node| estimate(graph, node, self.options.typical, self.target);
        let node = self.improved(graph, node)?;
        let after = price(&node);
        let folds = match folds {
            Some((node, tensors)) => {
                let node = self.improved(graph, node)?;
                Some((price(&node), node, tensors))
            }
            None => None,
        };
        let way = Way { how, node, after, folds: folds.map(|(cost, node, tensors)| (node, cost, tensors)), accepted: false };
        let [one, two] = [self.costs[p], self.costs[c]];
        let (before, all) = (one.cost.saturating_add(two.cost), way.cost());
        if all.cost >= before && !self.options.always {
            let why = format!(
                "it would cost {} instead of {before} ({} and {}), and ask for {} bytes instead of {}",
                all.cost,
                one.cost,
                two.cost,
                all.bytes,
                one.bytes.saturating_add(two.bytes)
            );
            return Err(Refusal::new(RefusalKind::Cost, why));
        }
        Ok(way)
    }

    /// The fused node of a producer whose folds stay behind, the node of these, and the tensors between them.
    fn split(&self, pair: &Pair<'_>, (p, c, t): Link) -> Result<(Node, (Node, Vec<Tensor>)), Refusal> {
        if pair.wanted() {
            let why = format!("`{}` is read by others, too", self.graph.tensors[t.index()].name);
            return Err(Refusal::new(RefusalKind::Place, why));
        }
        let trial = split(&self.graph, p, t)?;
        position(&trial, p + 1, c + 1)?;
        let node = Pair::new(&trial, (p + 1, c + 1, t), self.options.allow).prologue()?;
        Ok((node, (trial.nodes[p].clone(), trial.tensors[self.graph.tensors.len()..].to_vec())))
    }
}
