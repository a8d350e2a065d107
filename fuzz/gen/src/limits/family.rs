//! A step that a kernel repeats, and the kernel that repeats it: what stands in front of the steps and around them, and what is stored behind.

use super::text::{Around, Text};

/// Steps of a short loop or choice.
const FEW: usize = 4;

/// What stands in front of the steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A ring of tiles in local memory: four, or two for each task.
    Ring,
    /// Four mbarriers.
    Barriers,
    /// A cluster of two blocks.
    Cluster,
    /// A target with asynchronous units.
    Units,
}

impl Need {
    fn declare(self, t: &mut Text) {
        let ([r, c], ty) = (t.shape, t.ty);
        match self {
            Need::Ring => t.ring = t.def(format!("local_alloc : shared<{}x{r}x{c}x{ty}>", t.slots())),
            Need::Barriers => t.barriers = t.def("barrier_alloc 1 : barrier<4>"),
            Need::Cluster | Need::Units => {}
        }
    }
}

/// A step that a kernel repeats.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Element types for which it is well typed.
    pub types: &'static [&'static str],
    /// Its tiles have as many rows as columns.
    pub square: bool,
    /// What stands around it.
    pub around: &'static [Around],
    /// Its tasks are two that belong together.
    pub pairs: bool,
    /// What it needs.
    pub needs: &'static [Need],
    /// What else stands in front, for so many instructions.
    pub front: Option<fn(&mut Text, usize)>,
    /// Writes the step of that number.
    pub step: fn(&mut Text, usize),
}

impl Family {
    /// True if it runs only where a target has asynchronous units.
    pub fn asks_for_units(&self, around: Around) -> bool {
        around == Around::Tasks || self.needs.iter().any(|n| *n != Need::Ring)
    }

    /// A kernel of at least `n` instructions, or of as many as the family knows.
    pub fn kernel(&self, around: Around, n: usize, shape: [u32; 2], ty: &'static str, warps: u32) -> String {
        let mut t = Text {
            out: String::new(),
            next: 3,
            count: 0,
            shape,
            ty,
            x: 0,
            base: 0,
            rows: 0,
            cols: 0,
            mask: 0,
            at: 0,
            condition: 0,
            ring: 0,
            barriers: 0,
            kept: Vec::new(),
            task: 0,
            tasks: match around {
                Around::Tasks if warps > 4 && !self.pairs => 8,
                Around::Tasks => 2,
                _ => 1,
            },
            warps: if around == Around::Tasks { (warps / 2).clamp(1, 4) } else { warps },
        };
        let cluster = if self.needs.contains(&Need::Cluster) { " cluster 2" } else { "" };
        let hint = if around == Around::Tasks { String::new() } else { format!(" warps={warps}") };
        t.line(format!(
            "kernel @{}(v0: view<{ty}, [?, ?%16]>, v1: view<{ty}, [?, ?%16]>, v2: view<i32, [?, ?]>){cluster}{hint} {{",
            self.name
        ));
        t.at = t.def("program_id x");
        t.condition = t.of("cmp eq", t.at, "3");
        for need in self.needs {
            need.declare(&mut t);
        }
        if let Some(front) = self.front {
            front(&mut t, n);
        }
        match around {
            Around::Straight => {
                t.begin();
                self.steps(&mut t, n, usize::MAX);
                t.store(0);
            }
            Around::Loop => {
                t.begin();
                t.looped(|t| self.steps(t, n, usize::MAX));
                t.store(0);
            }
            Around::Loops => {
                t.begin();
                while t.count < n {
                    t.looped(|t| self.steps(t, n, FEW));
                }
                t.store(0);
            }
            Around::Ifs => {
                t.begin();
                while t.count < n {
                    let (before, result) = (t.x, t.name());
                    let condition = t.condition;
                    t.line(format!("v{result} = if v{condition} {{"));
                    self.steps(&mut t, n, FEW);
                    let x = t.x;
                    t.line(format!("yield v{x}\n}} else {{\nyield v{before}\n}}"));
                    t.x = result;
                }
                t.store(0);
            }
            Around::Deep => {
                t.begin();
                t.nested(20, &mut |t| self.steps(t, n, usize::MAX));
                t.store(0);
            }
            Around::Tasks => {
                let tasks = t.tasks;
                // Tasks that belong together take as many steps.
                let most = if !self.pairs {
                    usize::MAX
                } else if t.kept.is_empty() {
                    n / 2
                } else {
                    t.kept.len()
                };
                t.line("tasks {");
                for k in 0..tasks {
                    let warps = t.warps;
                    t.line(format!("task t{k} warps {warps} {{"));
                    t.task = k;
                    t.begin();
                    self.steps(&mut t, if self.pairs { usize::MAX } else { n * (k + 1) / tasks }, most);
                    t.store(k as u32);
                    t.line("yield\n}");
                }
                t.line("}");
            }
        }
        t.line("}");
        t.out
    }

    /// Steps, until there are `n` instructions or so many steps.
    fn steps(&self, t: &mut Text, n: usize, most: usize) {
        let outside = t.kept.len();
        let mut k = 0;
        while k < most && (k == 0 || t.count < n) {
            (self.step)(t, k);
            k += 1;
        }
        // What is made in a block is not seen behind it.
        t.kept.truncate(outside);
    }
}
