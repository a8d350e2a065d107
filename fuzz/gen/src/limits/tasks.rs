//! Steps that use handles which the kernel's body declares, many of them.

use super::text::Text;

/// Buffers, at most so many.
const BUFFERS: usize = 256;

/// Buffers of a tile each.
pub fn buffers(t: &mut Text, n: usize) {
    let ([r, c], ty) = (t.shape, t.ty);
    for _ in 0..(n / 8).clamp(8, BUFFERS) {
        let buffer = t.def(format!("local_alloc : shared<{r}x{c}x{ty}>"));
        t.kept.push(buffer);
    }
}

/// Buffers that share their bytes.
pub fn aliases(t: &mut Text, n: usize) {
    let ([r, c], ty) = (t.shape, t.ty);
    let first = t.def(format!("local_alloc : shared<{r}x{c}x{ty}>"));
    t.kept.push(first);
    for _ in 0..(n / 8).max(1) {
        let buffer = t.def(format!("local_alloc alias=v{first} : shared<{r}x{c}x{ty}>"));
        t.kept.push(buffer);
    }
}

/// The handle that the task takes in the step of that number: no other task takes it.
fn own(t: &Text, k: usize) -> u32 {
    let own = t.kept.len() / t.tasks;
    t.kept[t.task * own + k % own]
}

/// A tile through one of these buffers.
pub fn through_buffer(t: &mut Text, k: usize) {
    let buffer = own(t, k);
    t.line(format!("local_store v{buffer}, v{}", t.x));
    t.line("task_barrier");
    t.becomes(format!("local_load v{buffer}"));
    t.line("task_barrier");
}

/// Mbarriers of many allocations.
pub fn words(t: &mut Text, n: usize) {
    for _ in 0..(n / 8).max(8) {
        let word = t.def("barrier_alloc 1 : barrier<1>");
        t.kept.push(word);
    }
}

/// An arrival at one of them, and its phase's end.
pub fn pass_word(t: &mut Text, k: usize) {
    let (word, round) = (own(t, k), k / (t.kept.len() / t.tasks));
    t.line(format!("barrier_arrive v{word}"));
    t.line(format!("barrier_wait v{word}, {}", round % 2));
}

/// Channels.
pub fn channels(t: &mut Text, n: usize) {
    let ([r, c], ty) = (t.shape, t.ty);
    for _ in 0..(n / 16).max(1) {
        let channel = t.def(format!("channel_alloc : channel<2, tile<{r}x{c}x{ty}>>"));
        t.kept.push(channel);
    }
}

/// A loop that puts tiles into a channel or takes them out, as the task is the first or the second.
pub fn through_channel(t: &mut Text, k: usize) {
    let channel = t.kept[k % t.kept.len()];
    let index = t.name();
    t.line(format!("for v{index} in 0..8 step 1 {{"));
    if t.task == 0 {
        let x = t.x;
        t.line(format!("channel_put v{channel}, v{index}, v{x}"));
    } else {
        let tile = t.def(format!("channel_get v{channel}, v{index}"));
        t.line(format!("channel_consumed v{channel}, v{index}"));
        let row = t.of("add", index, &format!("{}", 8 * k));
        t.line(format!("store v1[v{row}, 0], v{tile}"));
    }
    t.line("yield\n}");
}

/// All tasks at a named barrier.
pub fn meet(t: &mut Text, k: usize) {
    let (number, warps) = (1 + k % 15, t.tasks as u32 * t.warps);
    t.line(format!("named_barrier_sync {number}, {warps}"));
}
