//! Times of launches, for people and for programs.

use crate::bench::report::quote;
use crate::bench::stats::Summary;

/// Times of a launch, or of several in a row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Timed {
    /// What was launched.
    pub(crate) name: String,
    /// Seconds.
    pub(crate) seconds: Summary,
    /// Bytes of tensors.
    pub(crate) bytes: u64,
    /// Operations of dots, if they were counted.
    pub(crate) operations: Option<f64>,
    /// Registers and spilled bytes per thread, threads and shared bytes per program.
    pub(crate) resources: Option<[u32; 4]>,
    /// Seconds of a peer.
    pub(crate) peer: Option<f64>,
}

impl Timed {
    /// Bytes, then operations, in a second.
    fn rates(&self) -> (f64, Option<f64>) {
        let per = |x: f64| x / self.seconds.median;
        (per(self.bytes as f64), self.operations.filter(|&o| o > 0.0).map(per))
    }

    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let Summary { n, min, q1, median, q3, max } = self.seconds;
        let [min, q1, median, q3, max] = [min, q1, median, q3, max].map(|s| format!("{:.2}", s * 1e6));
        let (bytes, operations) = self.rates();
        let mut text = format!("{median} us (quartiles {q1} to {q3}, {min} to {max}, {n} launches), {:.1} GB/s", bytes * 1e-9);
        text += &operations.map_or_else(String::new, |o| format!(", {:.2} TFLOP/s", o * 1e-12));
        text += &self.peer.map_or_else(String::new, |p| format!(", {:.3} of the peer's {:.2} us", p / self.seconds.median, p * 1e6));
        if let Some([registers, spilled, threads, shared]) = self.resources {
            text += &format!("; {registers} registers, {threads} threads, {shared} B shared");
            text += &if spilled > 0 { format!(", {spilled} B SPILLED") } else { String::new() };
        }
        text
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        let Summary { n, min, q1, median, q3, max } = self.seconds;
        let number = |x: Option<f64>| x.map_or_else(|| "null".to_owned(), |x| format!("{x:e}"));
        format!(
            "{{\"launch\": {}, \"launches\": {n}, \"seconds\": {{\"median\": {median:e}, \"q1\": {q1:e}, \"q3\": {q3:e}, \"min\": {min:e}, \
             \"max\": {max:e}}}, \"bytes\": {}, \"operations\": {}, \"peer\": {}}}",
            quote(&self.name),
            self.bytes,
            number(self.operations),
            number(self.peer)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_medians() {
        let seconds = Summary { n: 20, min: 0.9e-3, q1: 0.95e-3, median: 1e-3, q3: 1.1e-3, max: 2e-3 };
        let timed = Timed { name: "@k".into(), seconds, bytes: 4_000_000_000, operations: Some(5e11), resources: None, peer: Some(0.8e-3) };
        let line = timed.line();
        for part in ["1000.00 us", "950.00 to 1100.00", "4000.0 GB/s", "500.00 TFLOP/s", "0.800 of the peer's 800.00 us"] {
            assert!(line.contains(part), "{line}");
        }
        let json: serde_json::Value = serde_json::from_str(&timed.json()).unwrap();
        assert_eq!((json["seconds"]["median"].as_f64(), json["bytes"].as_u64()), (Some(1e-3), Some(4_000_000_000)));
    }
}
