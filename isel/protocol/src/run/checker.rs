//! What is known of a program while it is followed.

use super::agents::{self, Agent, Groups, ROLE, agent};
use super::code::{Code, Needs};
use super::dead::dead;
use super::fuel::Fuel;
use super::lifetimes::{Lifetime, lifetimes};
use crate::env::{Env, Homes};
use crate::find::{choices, comparisons, fixed, loops, relevant};
use crate::state::analysis::{Analysis, Effort, analyse};
use crate::state::found::Found;
use crate::state::knowledge::Places;
use crate::state::rotation::Rotation;
use crate::trip_classes::TripClasses;
use crate::value::Lists;
use cranelift_entity::{EntityRef, EntitySet};
use std::cell::Cell;
use std::rc::Rc;
use tilelift_lane::hash::Map;
use tilelift_lane::{For, Inst, LVal, Program, Role, Roles};

/// What is asked of a loop at every iteration.
#[derive(Clone, Copy, Default)]
pub(crate) struct Trips {
    /// Its trip class, of each block or of all.
    pub class: usize,
    pub shared: bool,
    /// Answers that it passes over in front of that of its first iteration, and those that it reads for each other one.
    pub strides: (usize, usize),
    /// Runs that are passed over behind it.
    pub skip: usize,
    /// Constant bounds and step.
    pub bounds: Option<(i64, i64, i64)>,
    /// How often it goes round, if that is often and known.
    pub rounds: Option<i64>,
    /// A case is assumed of its end.
    pub splits: bool,
    /// Its end is one number or another one, as a condition says.
    pub chosen: bool,
}

/// An end of which the case is assumed where the first loop with it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Late {
    pub end: LVal,
    /// The trip-count class of its loops.
    pub class: usize,
}

pub(crate) struct Checker<'a> {
    pub program: &'a Program,
    pub agents: Vec<Agent<'a>>,
    pub units: Groups<'a>,
    pub analysis: Analysis,
    pub places: Places,
    pub lists: Lists,
    pub found: Found,
    /// Slots that change places, if states are followed once for all that differ by nothing else.
    pub rotation: Option<Rotation>,
    pub(super) code: Code<'a>,
    /// The number of what all warps run.
    pub(super) front: usize,
    /// What is asked of loops, and the place of each there by its index.
    pub(super) trips: (Vec<Trips>, Vec<u32>),
    /// Trip-count classes of a block.
    pub(super) classes: usize,
    /// Memory that is done with in front of other loops.
    pub(super) lifetimes: Vec<Lifetime>,
    pub(super) trip_classes: &'a TripClasses,
    /// The agents that read each trip-count class.
    pub(super) readers: Vec<Vec<usize>>,
    /// Values that addresses, parities, guards and choices depend on; the others need not be computed.
    pub(super) relevant: EntitySet<LVal>,
    /// The same by number, less those that are the same everywhere.
    pub(super) computed: Vec<bool>,
    pub(super) homes: Rc<Homes>,
    /// Conditions of the form `lo < hi`.
    pub(super) less: Map<LVal, (LVal, LVal)>,
    /// A state of which more is known than of one that was followed is not followed.
    pub(super) subsumes: bool,
    /// States that differ by what is known alone are followed as one of which no more is known than of each.
    pub(super) joins: bool,
    /// Something was forgotten for that.
    pub(super) joined: Cell<bool>,
    /// Roles take iterations of a loop in turns: who has read a slot last is forgotten once that is known to be over.
    pub(crate) turns: bool,
    /// Rounds of loops that are the same in all cases are followed in one.
    pub(super) rounds: bool,
    /// A case is assumed where a loop first ends.
    pub(super) late: Option<Late>,
    /// Some were not followed.
    pub(super) shortened: Cell<bool>,
    pub(super) fuel: Fuel,
    /// While states are followed: an agent has moved that was not inside a loop that is the same in all cases, or left one.
    pub(super) left: Cell<bool>,
    /// Runs of loops that are known to go round so often.
    pub(super) runs: Cell<u64>,
    /// An iteration of such a loop has begun.
    pub(super) counted: Cell<bool>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(
        program: &'a Program,
        units: Groups<'a>,
        trip_classes: &'a TripClasses,
        (effort, alone): (Effort, bool),
        rotates: bool,
        fuel: &Fuel,
    ) -> Checker<'a> {
        let mut analysis = analyse(program, effort);
        analysis.alone = alone;
        let roles: &[Role] = program.roles().map_or(&[], |r: &Roles| &r.roles);
        let mut agents = Vec::new();
        for block in 0..analysis.blocks {
            agents.extend(roles.iter().enumerate().flat_map(|r| agents::agents(program, units, block, r)));
            agents.push(agent(program, block, None));
        }
        let mut less = Map::default();
        comparisons(&program.body, &mut less);
        let relevant = relevant(program, &|v| analysis.tracked(program, v));
        let mut met: Vec<u32> = agents.iter().filter(|a| a.is_part(program)).map(|a| ROLE + a.role as u32).collect();
        met.dedup();
        let places = Places::new(program, &analysis, agents.len(), met);
        let mut checker = Checker {
            program,
            agents,
            units,
            analysis,
            places,
            lists: Lists::default(),
            found: Found::default(),
            rotation: None,
            code: Code::default(),
            front: 0,
            trips: Default::default(),
            classes: trip_classes.count(),
            lifetimes: Vec::new(),
            trip_classes,
            subsumes: true,
            joins: false,
            joined: Cell::new(false),
            turns: effort.cases && !trip_classes.skips.is_empty(),
            readers: Vec::new(),
            relevant,
            computed: Vec::new(),
            homes: Rc::default(),
            less,
            fuel: fuel.clone(),
            left: Cell::new(false),
            runs: Cell::new(0),
            counted: Cell::new(false),
            rounds: false,
            late: None,
            shortened: Cell::new(false),
        };
        checker.trips = checker.look_up();
        checker.readers = vec![Vec::new(); checker.trip_classes() + 1];
        let per_block = checker.agents.len() / checker.analysis.blocks;
        let counted: Vec<Vec<&For>> = checker.agents[..per_block]
            .iter()
            .map(|a| {
                let mut own = Vec::new();
                loops(a.body, &mut |l| own.extend(trip_classes.of.contains_key(&l.iv).then_some(l)));
                own
            })
            .collect();
        for n in 0..checker.agents.len() {
            for &l in &counted[n % per_block] {
                let s = checker.trip_class(n, l);
                checker.readers[s].push(n);
            }
            let mut asked = Vec::new();
            choices(checker.agents[n].body, &mut |c| asked.extend(checker.choice_class(n, c)));
            asked.into_iter().for_each(|class| checker.readers[class].push(n));
        }
        let mut e = std::mem::take(&mut checker.analysis);
        e.count(program, &checker.relevant, trip_classes);
        checker.analysis = e;
        // Now that is known what counts.
        checker.trips = checker.look_up();
        let fixed = fixed(program);
        let wanted = |v: LVal| checker.relevant.contains(v) || checker.analysis.splits(v);
        checker.computed = program.vals.keys().map(|v| wanted(v) && fixed[v.index()].is_none()).collect();
        checker.homes = Rc::new(Homes::new(program, &fixed, &|v| checker.computed[v.index()]));
        // Each body once: the agents of all blocks run the same.
        let mut code = Code::default();
        let Checker { analysis, computed, homes, .. } = &checker;
        let needs = Needs { program, analysis, computed, homes };
        let front = code.add(&needs, &program.body);
        let bodies: Vec<usize> = roles.iter().map(|r| code.add(&needs, &r.body)).collect();
        for (role, &body) in bodies.iter().enumerate() {
            let slots = dead(&code, homes, (body, homes.of_role(role)), &|iv| analysis.trips.contains_key(&iv));
            code.forget(slots);
        }
        checker.agents.iter_mut().for_each(|a| a.code = if a.whole { front } else { bodies[a.role] });
        let all: Vec<usize> = [front].into_iter().chain(bodies).collect();
        if checker.analysis.any_splits() {
            checker.look_for_rounds(&mut code);
            checker.late = if rotates { checker.find_late(&mut code, &all) } else { None };
        }
        checker.lifetimes = lifetimes(program, &checker.analysis, &code, &all);
        (checker.code, checker.front) = (code, front);
        checker.rotation = if rotates { checker.find_rotation() } else { None };
        checker
    }

    /// True if a value is followed.
    pub(crate) fn is_computed(&self, v: LVal) -> bool {
        self.computed[v.index()]
    }

    /// The number of an instruction among those of a role that matter.
    pub(crate) fn op_of(&self, role: usize, inst: &Inst) -> Option<usize> {
        let agent = self.agents.iter().find(|a| !a.whole && a.role == role)?;
        self.code.ops(agent.code).iter().position(|op| std::ptr::eq(op.inst, inst))
    }

    /// What is known before anything runs.
    pub(crate) fn knowing(&self) -> Env {
        Env::new(self.homes.clone())
    }

    /// How many trip-count classes there are: one of each that blocks share, and one per block of the others.
    pub(super) fn trip_classes(&self) -> usize {
        self.classes * self.analysis.blocks
    }
}
