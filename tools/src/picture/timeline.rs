//! A recorded launch as a timeline for Perfetto and Chrome's `about:tracing`: the JSON trace event format.
//!
//! ```text
//! process  a block      threads   its warps: slices of running, and of what they wait for
//!                                 its mbarriers: a slice per phase
//!                       async     copies and matrix products in flight, from issue to landing or to the wait for them; loads and stores of waves
//! ```
//!
//! One microsecond on the screen is one warp instruction: the simulator's clock counts those, and knows no cycles.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_nvptx_sim::{Event, Recording, Transfer, WaitFor, What};

/// What the file says of its clock.
pub(crate) const CLOCK: &str = "one microsecond is one warp instruction of the launch: the simulator's order of execution, not cycles of a machine; \
                                copies land when the seed says, not when hardware would";

/// Threads from here on are mbarriers.
const MBARRIERS: u64 = 1000;

/// Since when, and what a warp waits for in which line; none while it runs.
type Doing = (u64, Option<(WaitFor, u32)>);

/// Builds the events of a trace.
struct Trace<'t> {
    lines: Vec<&'t str>,
    events: Vec<Value>,
    /// Since when a warp runs, or waits: what for, and in which line.
    warps: BTreeMap<(u32, u32), Doing>,
    /// Since when a phase of an mbarrier lasts; its thread.
    mbarriers: BTreeMap<(u32, u64), (u64, u64)>,
    flying: BTreeMap<u64, Open>,
    /// Groups of copies and of products, by kind, block, warp or warpgroup, number.
    groups: BTreeMap<(&'static str, u32, u32, u32), Open>,
    /// Async slices so far.
    ids: u64,
}

/// Something that has begun.
struct Open {
    id: u64,
    block: u32,
    name: String,
    category: &'static str,
    from: u64,
    line: u32,
    bytes: u64,
    count: u64,
}

/// What a warp waits for, in words.
fn words(on: WaitFor) -> String {
    match on {
        WaitFor::Barrier(id) => format!("barrier {id}"),
        WaitFor::Mbarrier { offset, phase } => format!("mbarrier {offset:#x} phase {phase}"),
        WaitFor::Cluster => "cluster barrier".into(),
        WaitFor::Registers => "registers".into(),
        WaitFor::Products => "warps of the warpgroup".into(),
        WaitFor::Lanes => "lanes of the warp".into(),
    }
}

impl Trace<'_> {
    /// The instruction in a line of the text.
    fn text(&self, line: u32) -> String {
        let text = (line as usize).checked_sub(1).and_then(|n| self.lines.get(n));
        text.map_or_else(String::new, |t| t.trim().to_owned())
    }

    fn slice(&mut self, (block, thread): (u32, u64), name: &str, category: &str, [from, to]: [u64; 2], args: Value) {
        self.events.push(json!({
            "ph": "X", "name": name, "cat": category, "pid": block, "tid": thread, "ts": from, "dur": to - from, "args": args,
        }));
    }

    /// Ends what a warp does, and begins something else.
    fn turn(&mut self, (block, warp): (u32, u32), at: u64, next: Option<(WaitFor, u32)>) {
        let Some((from, was)) = self.warps.insert((block, warp), (at, next)) else { return };
        if at <= from {
            return;
        }
        let thread = (block, u64::from(warp));
        match was {
            None => self.slice(thread, "running", "run", [from, at], json!({})),
            Some((on, line)) => {
                let args = json!({"line": line, "instruction": self.text(line)});
                self.slice(thread, &format!("wait: {}", words(on)), "wait", [from, at], args);
            }
        }
    }

    fn open(&mut self, block: u32, category: &'static str, name: String, e: &Event, bytes: u64) -> Open {
        self.ids += 1;
        Open { id: self.ids, block, name, category, from: e.at, line: e.line, bytes, count: 1 }
    }

    /// An async slice, as a pair of events.
    fn close(&mut self, o: &Open, at: u64, landed: bool) {
        let args = json!({
            "line": o.line, "instruction": self.text(o.line), "bytes": o.bytes, "operations": o.count, "over": landed,
        });
        for (ph, ts) in [("b", o.from), ("e", at.max(o.from))] {
            self.events.push(json!({
                "ph": ph, "name": o.name, "cat": o.category, "id": o.id, "pid": o.block, "tid": 0, "ts": ts, "args": args,
            }));
        }
    }

    fn group(&mut self, key: (&'static str, u32, u32, u32), e: &Event, name: String, bytes: u64) {
        if let Some(o) = self.groups.get_mut(&key) {
            o.bytes += bytes;
            o.count += 1;
        } else {
            let open = self.open(key.1, key.0, name, e, bytes);
            self.groups.insert(key, open);
        }
    }

    /// Ends the groups of a kind up to a number.
    fn end_groups(&mut self, (kind, block, who): (&'static str, u32, u32), upto: u32, at: u64) {
        let over: Vec<_> = self.groups.range((kind, block, who, 0)..=(kind, block, who, upto)).map(|(k, _)| *k).collect();
        for key in over {
            if let Some(o) = self.groups.remove(&key) {
                self.close(&o, at, true);
            }
        }
    }

    fn take(&mut self, e: &Event) {
        let (at, block) = (e.at, e.block);
        match e.what {
            What::Begin { warps } => {
                for warp in 0..warps {
                    self.warps.insert((block, warp), (at, None));
                }
            }
            What::Blocked { warp, on } => self.turn((block, warp), at, Some((on, e.line))),
            What::Resumed { warp } => self.turn((block, warp), at, None),
            What::Exited { warp } => {
                self.turn((block, warp), at, None);
                self.warps.remove(&(block, warp));
            }
            What::TookOff { id, warp, transfer, bytes } => {
                let (category, name) = match transfer {
                    Transfer::In => ("copy in", format!("copy of warp {warp} to shared memory")),
                    Transfer::Out => ("copy out", format!("copy of warp {warp} from shared memory")),
                    Transfer::Arrival => ("arrival", format!("arrival of warp {warp} behind its copies")),
                    Transfer::Load => ("load", format!("load of wave {warp}")),
                    Transfer::Store => ("store", format!("store of wave {warp}")),
                    Transfer::Shared => ("shared memory", format!("shared memory of wave {warp}")),
                    Transfer::Scalar => ("scalar load", format!("scalar load of wave {warp}")),
                };
                let open = self.open(block, category, name, e, bytes);
                self.flying.insert(id, open);
            }
            What::Landed { id } => {
                if let Some(o) = self.flying.remove(&id) {
                    self.close(&o, at, true);
                }
            }
            What::Copy { warp, group, bytes } => {
                self.group(("cp.async", block, warp, group), e, format!("cp.async group {group} of warp {warp}"), bytes);
            }
            What::CopiesDone { warp, group } => self.end_groups(("cp.async", block, warp), group, at),
            What::Product { warpgroup, group } => {
                self.group(("wgmma", block, warpgroup, group), e, format!("wgmma group {group} of warpgroup {warpgroup}"), 0);
            }
            What::ProductsDone { warpgroup, group } => self.end_groups(("wgmma", block, warpgroup), group, at),
            What::Mbarrier { offset } => {
                let thread = MBARRIERS + self.mbarriers.keys().filter(|k| k.0 == block).count() as u64;
                self.mbarriers.entry((block, offset)).or_insert((at, thread));
            }
            What::Phase { offset, phase } => {
                if let Some(m) = self.mbarriers.get_mut(&(block, offset)) {
                    let (from, thread) = std::mem::replace(m, (at, m.1));
                    self.slice((block, thread), &format!("phase {phase}"), "mbarrier", [from, at], json!({"offset": offset}));
                }
            }
        }
    }

    /// Ends what is still open when the launch does.
    fn finish(&mut self, at: u64) {
        for (block, warp) in self.warps.keys().copied().collect::<Vec<_>>() {
            self.turn((block, warp), at, None);
        }
        let open: Vec<Open> =
            std::mem::take(&mut self.flying).into_values().chain(std::mem::take(&mut self.groups).into_values()).collect();
        open.iter().for_each(|o| self.close(o, at, false));
    }
}

/// The trace of a recording: what ran, the text that it ran, and the names under which the file tells of it.
pub(crate) fn trace(recording: &Recording, text: &str, about: &[(&str, Value)]) -> Value {
    let mut t = Trace {
        lines: text.lines().collect(),
        events: Vec::new(),
        warps: BTreeMap::new(),
        mbarriers: BTreeMap::new(),
        flying: BTreeMap::new(),
        groups: BTreeMap::new(),
        ids: 0,
    };
    let mut warps: BTreeSet<(u32, u32)> = BTreeSet::new();
    for e in &recording.events {
        if let What::Begin { warps: n } = e.what {
            warps.extend((0..n).map(|w| (e.block, w)));
        }
        t.take(e);
    }
    t.finish(recording.instructions);
    let mut names = Vec::new();
    let name = |pid: u32, tid: Option<u64>, what: &str, name: String| json!({"ph": "M", "name": what, "pid": pid, "tid": tid.unwrap_or(0), "args": {"name": name}});
    for block in warps.iter().map(|w| w.0).collect::<BTreeSet<_>>() {
        names.push(name(block, None, "process_name", format!("block {block}")));
    }
    for &(block, warp) in &warps {
        names.push(name(block, Some(warp.into()), "thread_name", format!("warp {warp}")));
    }
    for (&(block, offset), &(_, thread)) in &t.mbarriers {
        names.push(name(block, Some(thread), "thread_name", format!("mbarrier {offset:#x}")));
    }
    let mut other = json!({"clock": CLOCK, "instructions": recording.instructions, "events_left_out": recording.dropped});
    for (key, value) in about {
        other[*key] = value.clone();
    }
    names.append(&mut t.events);
    json!({"traceEvents": names, "displayTimeUnit": "ms", "otherData": other})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_ends_and_lies_inside_its_track() {
        let on = WaitFor::Mbarrier { offset: 16, phase: 0 };
        let e = |at, what| Event { at, block: 3, line: 2, what };
        let events = vec![
            e(0, What::Begin { warps: 2 }),
            e(4, What::Mbarrier { offset: 16 }),
            e(5, What::TookOff { id: 0, warp: 0, transfer: Transfer::In, bytes: 64 }),
            e(6, What::Blocked { warp: 1, on }),
            e(7, What::Product { warpgroup: 0, group: 1 }),
            e(8, What::Product { warpgroup: 0, group: 1 }),
            e(9, What::Landed { id: 0 }),
            e(9, What::Phase { offset: 16, phase: 0 }),
            e(10, What::Resumed { warp: 1 }),
            e(12, What::ProductsDone { warpgroup: 0, group: 1 }),
            e(20, What::Exited { warp: 1 }),
            e(21, What::Copy { warp: 0, group: 1, bytes: 16 }),
        ];
        let mut recording = Recording::new();
        recording.events = events;
        recording.instructions = 30;
        let made = trace(&recording, "first\n  second <x>\n", &[("kernel", "k".into())]);
        let list = made["traceEvents"].as_array().unwrap();
        let find =
            |name: &str, ph: &str| list.iter().find(|e| e["name"] == name && e["ph"] == ph).unwrap_or_else(|| panic!("{name}: {made:#}"));
        let wait = find("wait: mbarrier 0x10 phase 0", "X");
        assert_eq!((wait["ts"].as_u64(), wait["dur"].as_u64(), wait["tid"].as_u64()), (Some(6), Some(4), Some(1)));
        assert_eq!(wait["args"]["instruction"], "second <x>");
        assert_eq!(find("phase 0", "X")["dur"], 5);
        let product = find("wgmma group 1 of warpgroup 0", "e");
        assert_eq!((product["ts"].as_u64(), product["args"]["operations"].as_u64()), (Some(12), Some(2)));
        // What nobody waited for ends with the launch, and says so.
        let copy = find("cp.async group 1 of warp 0", "e");
        assert_eq!((copy["ts"].as_u64(), copy["args"]["over"].as_bool()), (Some(30), Some(false)));
        assert_eq!(made["otherData"]["kernel"], "k");
        let [b, e] = ["b", "e"].map(|ph| list.iter().filter(|x| x["ph"] == ph).count());
        assert_eq!((b, e), (3, 3));
    }
}
