//! Planted faults: emitted PTX with one mistake, as a wrong lowering would make it. The simulator must report each of them under
//! every schedule, and name an instruction that takes part; faults that only change numbers must show in the comparison.
//!
//! This tests the judge, with the texts that it judges every day.

use tilelift::interp::{Arg, Buffer, Memory, ViewArg};
use tilelift::ir::{Extent, Kernel, KernelBuilder, Scalar, ViewType};
use tilelift::runtime::sim::{SimDevice, SimFailure};
use tilelift::{Artifact, Options, compile, targets};
use tilelift_kernels::workload::GemmCase;
use tilelift_kernels::{Case, Gemm, Size};
use tilelift_nvptx_sim::{ErrorKind, SimError};

/// A compiled kernel with a launch that is known to be right.
struct Subject {
    artifact: Artifact,
    grid: [u32; 3],
    args: Vec<Arg>,
    memory: Memory,
    /// The output's bytes after a run of the right text.
    right: Vec<u8>,
}

/// What a run of a changed text came to.
enum Seen {
    Fault(Box<SimError>),
    /// The output differs from the right one.
    Wrong,
    /// Nothing was noticed.
    Nothing,
}

impl Subject {
    fn new(kernel: &Kernel, grid: [u32; 3], args: Vec<Arg>, memory: Memory) -> Subject {
        let target = targets::by_name("sm_80").expect("a known target");
        let artifact = compile(kernel, &target, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut subject = Subject { artifact, grid, args, memory, right: Vec::new() };
        subject.right = subject.output(&subject.artifact.text, 0).unwrap_or_else(|e| panic!("the text is right: {e}"));
        subject
    }

    fn output(&self, text: &str, seed: u64) -> Result<Vec<u8>, SimFailure> {
        let mut artifact = self.artifact.clone();
        text.clone_into(&mut artifact.text);
        let device = SimDevice::new(SimDevice::schedule(seed));
        let kernel = device.load(&artifact)?;
        let mut memory = self.memory.clone();
        device.execute(&kernel, self.grid, &self.args, &mut memory)?;
        Ok(memory.buffers.last().expect("there is an output").bytes().to_vec())
    }

    fn run(&self, text: &str, seed: u64) -> Seen {
        match self.output(text, seed) {
            Ok(bytes) if bytes == self.right => Seen::Nothing,
            Ok(_) => Seen::Wrong,
            Err(SimFailure::Run(e)) => Seen::Fault(e),
            Err(e) => panic!("the changed text must still parse and launch: {e}\n{text}"),
        }
    }

    fn lines(&self) -> Vec<&str> {
        self.artifact.text.lines().collect()
    }

    /// Numbers (from 0) of the lines that contain a text; there must be some.
    fn find(&self, what: &str) -> Vec<usize> {
        let found: Vec<usize> = self.lines().iter().enumerate().filter(|(_, l)| l.contains(what)).map(|(i, _)| i).collect();
        assert!(!found.is_empty(), "the text has no `{what}`:\n{}", self.artifact.text);
        found
    }

    /// The text with line `at` replaced.
    fn with_line(&self, at: usize, line: &str) -> String {
        let mut lines = self.lines();
        lines[at] = line;
        lines.join("\n") + "\n"
    }

    /// Runs a changed text under three schedules; each must report a fault of one of the kinds at an instruction with one of the
    /// texts. Returns the errors.
    fn reported(&self, what: &str, text: &str, kinds: &[ErrorKind], at: &[&str]) -> Vec<SimError> {
        (0..3)
            .map(|seed| match self.run(text, seed) {
                Seen::Fault(e) => {
                    assert!(kinds.contains(&e.kind), "{what}, schedule {seed}: another kind of fault is reported: {e}");
                    let named = [&e.site, &e.other].into_iter().flatten().any(|s| at.iter().any(|a| s.text.contains(a)));
                    assert!(named, "{what}, schedule {seed}: none of {at:?} is named: {e}");
                    *e
                }
                Seen::Wrong => panic!("{what}, schedule {seed}: wrong numbers, but no fault is reported"),
                Seen::Nothing => panic!("{what}, schedule {seed}: nothing is noticed"),
            })
            .collect()
    }

    /// Runs a changed text; the numbers must be wrong, without a fault.
    fn wrong_numbers(&self, what: &str, text: &str) {
        match self.run(text, 0) {
            Seen::Wrong => {}
            Seen::Fault(e) => panic!("{what}: a fault is reported where only numbers are wrong: {e}"),
            Seen::Nothing => panic!("{what}: the numbers are right"),
        }
    }
}

fn of_case(case: &Case) -> Subject {
    let tensors = case.make_tensors();
    let mut memory = Memory::new();
    for (i, t) in tensors.iter().enumerate() {
        let output = i + 1 == tensors.len();
        memory.add(if output { Buffer::uninit(t.bytes.len()) } else { Buffer::from_bytes(t.bytes.clone()) });
    }
    let kernel = case.build().unwrap_or_else(|e| panic!("{e}"));
    Subject::new(&kernel, case.grid(), case.arguments(), memory)
}

/// A pipelined product with asynchronous copies and matrix loads.
fn gemm(m: u32, n: u32, k: u32) -> Subject {
    let config = Gemm::new(Scalar::F16).tile(64, 64, 32).schedule(4, 3).for_shape(m, n, k);
    let workload = GemmCase { config, m, n, k };
    of_case(&Case { name: "planted".into(), row: 9, size: Size::Small, workload: Box::new(workload) })
}

/// A transposition, which goes through shared memory.
fn transpose() -> Subject {
    let mut b = KernelBuilder::new("transpose");
    let ty = || ViewType::dense(Scalar::F32, &[Extent::Fixed(64), Extent::Fixed(64)]);
    let (x, y) = (b.param(ty()), b.param(ty()));
    b.warps(4);
    let zero = b.constant(0, Scalar::I32);
    let t = b.load(x, &[zero, zero], &[64, 64]);
    let t = b.transpose(t, &[1, 0]);
    b.store(y, &[zero, zero], t);
    let kernel = b.finish().unwrap_or_else(|e| panic!("{e}"));
    let mut memory = Memory::new();
    memory.add(Buffer::from_f64(Scalar::F32, (0..64 * 64).map(f64::from)));
    memory.add(Buffer::uninit(64 * 64 * 4));
    let args = (0..2).map(|i| ViewArg::dense(i, Scalar::F32, &[64, 64]).into()).collect();
    Subject::new(&kernel, [1, 1, 1], args, memory)
}

/// A copy of `n` numbers by programs of 128.
fn copy(n: u32) -> Subject {
    let mut b = KernelBuilder::new("copy");
    let ty = || ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]);
    let (x, y) = (b.param(ty()), b.param(ty()));
    b.warps(1);
    let pid = b.program_id(0);
    let at = b.mul(pid, 128);
    let t = b.load(x, &[at], &[128]);
    b.store(y, &[at], t);
    let kernel = b.finish().unwrap_or_else(|e| panic!("{e}"));
    let mut memory = Memory::new();
    memory.add(Buffer::from_f64(Scalar::F32, (0..n).map(|i| f64::from(i) + 1.0)));
    memory.add(Buffer::uninit(n as usize * 4));
    let args = (0..2).map(|i| ViewArg::dense(i, Scalar::F32, &[i64::from(n)]).into()).collect();
    Subject::new(&kernel, [n.div_ceil(128), 1, 1], args, memory)
}

const UNORDERED: &[ErrorKind] = &[ErrorKind::Race, ErrorKind::Poison, ErrorKind::Uninitialised];
const SHARED: &[&str] = &["ldmatrix", "cp.async", "ld.shared", "st.shared"];

#[test]
fn a_dropped_barrier_is_reported_where_memory_is_shared() {
    for (name, subject) in [("transpose", transpose()), ("gemm", gemm(64, 64, 192))] {
        for at in subject.find("bar.sync") {
            let what = format!("{name} without `{}` of line {}", subject.lines()[at].trim(), at + 1);
            subject.reported(&what, &subject.with_line(at, ""), UNORDERED, SHARED);
        }
    }
}

#[test]
fn a_dropped_wait_is_reported_at_the_read() {
    let subject = gemm(64, 64, 192);
    for at in subject.find("cp.async.wait_group") {
        let what = format!("gemm without the wait of line {}", at + 1);
        subject.reported(&what, &subject.with_line(at, ""), UNORDERED, &["ldmatrix", "cp.async", "mma"]);
    }
}

#[test]
fn a_wait_for_one_group_too_few_is_reported() {
    let subject = gemm(64, 64, 192);
    for at in subject.find("cp.async.wait_group") {
        let line = subject.lines()[at];
        let pending: u32 = line.trim().trim_start_matches("cp.async.wait_group").trim().trim_end_matches(';').parse().expect("a number");
        let weak = line.replace(&format!(" {pending};"), &format!(" {};", pending + 1));
        assert_ne!(weak, line);
        let what = format!("gemm with `{}` in line {}", weak.trim(), at + 1);
        subject.reported(&what, &subject.with_line(at, &weak), UNORDERED, &["ldmatrix", "cp.async"]);
    }
}

#[test]
fn a_dropped_commit_is_reported() {
    let subject = gemm(64, 64, 192);
    for at in subject.find("cp.async.commit_group") {
        // Groups that are closed later make the waits cover fewer copies than they should.
        let what = format!("gemm without the commit of line {}", at + 1);
        subject.reported(&what, &subject.with_line(at, ""), UNORDERED, &["ldmatrix", "cp.async"]);
    }
}

/// The line with `offset` bytes added to its first address.
fn moved(line: &str, offset: i64) -> String {
    let (open, close) = (line.find('[').expect("an address"), line.find(']').expect("an address"));
    let address = &line[open + 1..close];
    let (base, old) = address.split_once('+').map_or((address, 0), |(b, o)| (b, o.parse().expect("an offset")));
    format!("{}[{base}+{}{}", &line[..open], old + offset, &line[close..])
}

#[test]
fn an_address_that_is_off_by_one_byte_is_reported_there() {
    let subject = gemm(64, 64, 64);
    for what in ["cp.async.cg", "ldmatrix", "st.global"] {
        let at = subject.find(what)[0];
        let text = subject.with_line(at, &moved(subject.lines()[at], 1));
        for e in subject.reported(&format!("{what} at an odd address"), &text, &[ErrorKind::Misaligned], &[what]) {
            assert_eq!(e.site.map(|s| s.line), Some(at as u32 + 1), "the line of the fault");
        }
    }
}

#[test]
fn an_address_that_is_off_by_one_element_is_reported_or_changes_numbers() {
    // The copy's last program ends where the buffers end, so one element further is outside.
    let subject = copy(256);
    for what in ["ld.global", "st.global"] {
        let at = *subject.find(what).last().expect("an access");
        let text = subject.with_line(at, &moved(subject.lines()[at], 4));
        for e in subject.reported(&format!("{what} one element further"), &text, &[ErrorKind::OutOfBounds, ErrorKind::Race], &[what]) {
            assert!(e.kind == ErrorKind::Race || e.site.is_some_and(|s| s.line == at as u32 + 1), "the line of the fault");
        }
    }
}

#[test]
fn a_removed_guard_is_reported_at_the_access() {
    // Lanes beyond the 200th must not touch memory.
    let subject = copy(200);
    for what in ["ld.global", "st.global"] {
        let guarded: Vec<usize> = subject.find(what).into_iter().filter(|&i| subject.lines()[i].trim().starts_with('@')).collect();
        let at = *guarded.last().expect("the accesses of a ragged copy are guarded");
        let line = subject.lines()[at].trim();
        let bare = line.split_once(' ').expect("a guard and an instruction").1.to_owned();
        for e in subject.reported(&format!("{what} without its guard"), &subject.with_line(at, &bare), &[ErrorKind::OutOfBounds], &[what]) {
            assert_eq!(e.site.map(|s| s.line), Some(at as u32 + 1), "the line of the fault");
        }
    }
}

#[test]
fn a_copy_that_ignores_its_bounds_is_noticed() {
    // 50 rows of a 64-row tile: the size register is 0 for the others, whose zeros must not become memory behind the matrix.
    let subject = gemm(50, 64, 64);
    let mut noticed = 0;
    for at in subject.find("cp.async.cg") {
        let line = subject.lines()[at];
        let Some((head, _)) = line.rsplit_once(", %r") else { continue };
        match subject.run(&subject.with_line(at, &format!("{head}, 16;")), 0) {
            Seen::Fault(e) => {
                assert_eq!(e.kind, ErrorKind::OutOfBounds, "{e}");
                assert_eq!(e.site.map(|s| s.line), Some(at as u32 + 1), "the line of the fault");
                noticed += 1;
            }
            // Copies of B, or of rows that exist, may read all they like.
            Seen::Wrong | Seen::Nothing => {}
        }
    }
    assert!(noticed > 0, "no copy was outside:\n{}", subject.artifact.text);
}

/// The line with two registers of its `group`-th brace list exchanged.
fn exchanged(line: &str, group: usize, i: usize, j: usize) -> String {
    let open = line.match_indices('{').nth(group).expect("a register list").0;
    let close = open + line[open..].find('}').expect("the list's end");
    let mut registers: Vec<&str> = line[open + 1..close].split(',').map(str::trim).collect();
    registers.swap(i, j);
    format!("{}{{{}}}{}", &line[..open], registers.join(", "), &line[close + 1..])
}

#[test]
fn exchanged_fragment_registers_give_wrong_numbers() {
    let subject = gemm(64, 64, 64);
    let at = subject.find("mma.sync")[0];
    let line = subject.lines()[at];
    // Results 0 and 1 are columns, A 0 and 1 are row halves, B 0 and 1 are depth halves.
    for (group, name) in [(1, "A"), (2, "B")] {
        subject.wrong_numbers(&format!("mma with exchanged registers of {name}"), &subject.with_line(at, &exchanged(line, group, 0, 1)));
    }
    for at in subject.find("ldmatrix").into_iter().take(4) {
        let text = subject.with_line(at, &exchanged(subject.lines()[at], 0, 0, 1));
        subject.wrong_numbers(&format!("ldmatrix of line {} with exchanged registers", at + 1), &text);
    }
}

#[test]
fn a_forgotten_transposition_gives_wrong_numbers() {
    let subject = gemm(64, 64, 64);
    let at = subject.find(".trans.")[0];
    subject.wrong_numbers("ldmatrix without .trans", &subject.with_line(at, &subject.lines()[at].replace(".trans", "")));
}

#[test]
fn the_right_texts_run_under_many_schedules() {
    for (name, subject) in [("transpose", transpose()), ("gemm", gemm(50, 64, 192)), ("copy", copy(200))] {
        for seed in 0..12 {
            match subject.run(&subject.artifact.text, seed) {
                Seen::Nothing => {}
                Seen::Wrong => panic!("{name}, schedule {seed}: another result"),
                Seen::Fault(e) => panic!("{name}, schedule {seed}: {e}"),
            }
        }
    }
}
