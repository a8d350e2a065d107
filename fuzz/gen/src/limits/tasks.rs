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

/// A parity that is made of many bits.
pub fn bits(t: &mut Text, n: usize) {
    let mut bit = t.of("and", t.at, "1");
    for _ in 0..(n / 4).max(1) {
        bit = t.def(format!("xor v{bit}, 1"));
    }
    t.kept.push(bit);
}

/// Waits for it.
pub fn wait_by_bits(t: &mut Text, k: usize) {
    let barrier = t.of("barrier_index", t.barriers, &format!("{}", k % 4));
    t.line(format!("barrier_arrive v{barrier}"));
    t.line(format!("barrier_wait v{barrier}, v{}", t.kept[0]));
}

/// Channels.
pub fn channels(t: &mut Text, n: usize) {
    let ([r, c], ty) = (t.shape, t.ty);
    for _ in 0..(n / 8).max(1) {
        let channel = t.def(format!("channel_alloc : channel<2, tile<{r}x{c}x{ty}>>"));
        t.kept.push(channel);
    }
}

/// A loop that puts tiles into all channels, or takes them out, as the task is the first or the second; behind it scalars alone.
pub fn through_channels(t: &mut Text, k: usize) {
    if k > 0 {
        let _ = t.of("add", t.at, &format!("{k}"));
        return;
    }
    let (index, x) = (t.name(), t.x);
    t.line(format!("for v{index} in 0..8 step 1 {{"));
    for n in 0..t.kept.len() {
        let channel = t.kept[n];
        if t.task == 0 {
            t.line(format!("channel_put v{channel}, v{index}, v{x}"));
        } else {
            let tile = t.def(format!("channel_get v{channel}, v{index}"));
            t.line(format!("channel_consumed v{channel}, v{index}"));
            let row = t.of("add", index, &format!("{}", 8 * n));
            t.line(format!("store v1[v{row}, 0], v{tile}"));
        }
    }
    t.line("yield\n}");
}

/// A loop of its own that puts tiles into a channel or takes them out.
pub fn through_channel(t: &mut Text, k: usize) {
    let (channel, index, x) = (t.kept[k % t.kept.len()], t.name(), t.x);
    t.line(format!("for v{index} in 0..8 step 1 {{"));
    if t.task == 0 {
        t.line(format!("channel_put v{channel}, v{index}, v{x}"));
    } else {
        let _ = t.def(format!("channel_get v{channel}, v{index}"));
        t.line(format!("channel_consumed v{channel}, v{index}"));
    }
    t.line("yield\n}");
}

/// All tasks at a named barrier; a machine has 16, and each task needs one of its own.
pub fn meet(t: &mut Text, k: usize) {
    let (number, warps) = (1 + k % 12, t.tasks as u32 * t.warps);
    t.line(format!("named_barrier_sync {number}, {warps}"));
}
