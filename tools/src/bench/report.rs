//! Results as a table for people and as JSON for programs.

use super::problem::Cost;
use super::stats::Summary;
use std::fmt::Write;

/// Whose time it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Ours,
    CublasLt,
    Copy,
}

impl Who {
    const fn word(self) -> &'static str {
        match self {
            Who::Ours => "tilelift",
            Who::CublasLt => "cublasLt",
            Who::Copy => "copy",
        }
    }
}

/// What a candidate took.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) who: Who,
    /// The variant, for our kernels.
    pub(crate) label: String,
    /// Seconds per launch; a sample is the mean of one batch.
    pub(crate) seconds: Summary,
    /// Launches in a batch.
    pub(crate) launches: u32,
    /// Registers and spilled bytes per thread, threads and shared bytes per program; ours only.
    pub(crate) resources: Option<[u32; 4]>,
}

/// A candidate that was not timed, and why.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Refusal {
    pub(crate) label: String,
    pub(crate) reason: String,
    /// True if the output was wrong, which is a failure; false if the candidate can't run here.
    pub(crate) wrong: bool,
}

/// Everything about a problem.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) problem: String,
    pub(crate) cost: Cost,
    /// Bytes of its tensors.
    pub(crate) bytes: f64,
    /// Buffer sets in rotation.
    pub(crate) sets: usize,
    /// What the outputs were compared with.
    pub(crate) check: String,
    /// Limits by name, in the unit of [`Row::rate`].
    pub(crate) limits: Vec<(&'static str, f64)>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) refused: Vec<Refusal>,
}

impl Row {
    /// GB/s or TFLOP/s of a time.
    pub(crate) fn rate(&self, seconds: f64) -> f64 {
        match self.cost {
            Cost::Bytes(b) => b / seconds * 1e-9,
            Cost::Flops(f) => f / seconds * 1e-12,
        }
    }

    const fn unit(&self) -> &'static str {
        match self.cost {
            Cost::Bytes(_) => "GB/s",
            Cost::Flops(_) => "TFLOP/s",
        }
    }

    /// The entry that others are compared with: the library's, else the copy.
    pub(crate) fn base(&self) -> Option<&Entry> {
        self.entries.iter().find(|e| e.who != Who::Ours)
    }

    /// A baseline's median over an entry's: above 1 if the entry is faster.
    pub(crate) fn ratio(&self, entry: &Entry) -> Option<f64> {
        self.base().filter(|b| b.who != entry.who).map(|b| b.seconds.median / entry.seconds.median)
    }

    /// The median of our candidate of that label.
    pub(crate) fn seconds(&self, label: &str) -> Option<f64> {
        self.entries.iter().find(|e| e.who == Who::Ours && e.label == label).map(|e| e.seconds.median)
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let name = |e: &Entry| format!("{} {}", e.who.word(), e.label).trim_end().to_owned();
        let width = self.entries.iter().map(|e| name(e).len()).max().unwrap_or(0).max(12);
        let mut text = format!("{}  ({} buffer sets; checked {})\n", self.problem, self.sets, self.check);
        let _ = write!(
            text,
            "  {:<width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}",
            "candidate",
            "median us",
            "q1",
            "q3",
            "min",
            "max",
            self.unit()
        );
        for (limit, _) in &self.limits {
            let _ = write!(text, " {:>12}", format!("of {limit}"));
        }
        if let Some(base) = self.base() {
            let _ = write!(text, " {:>12}", format!("vs {}", base.who.word()));
        }
        text.push_str("  notes\n");
        for e in self.ranked() {
            let us = |s: f64| format!("{:.2}", s * 1e6);
            let s = &e.seconds;
            let rate = self.rate(s.median);
            let _ = write!(
                text,
                "  {:<width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9.1}",
                name(e),
                us(s.median),
                us(s.q1),
                us(s.q3),
                us(s.min),
                us(s.max),
                rate
            );
            for (_, limit) in &self.limits {
                let _ = write!(text, " {:>11.1}%", 100.0 * rate / limit);
            }
            if self.base().is_some() {
                let ratio = self.ratio(e).map_or_else(|| "-".into(), |r| format!("{r:.3}"));
                let _ = write!(text, " {ratio:>12}");
            }
            let _ = write!(text, "  {} x {} launches", s.n, e.launches);
            if let Some([registers, spilled, threads, shared]) = e.resources {
                let _ = write!(text, ", {registers} registers, {threads} threads, {shared} B shared");
                if spilled > 0 {
                    let _ = write!(text, ", {spilled} B SPILLED");
                }
            }
            text.push('\n');
        }
        for r in &self.refused {
            let _ = writeln!(
                text,
                "  {:<width$} {}: {}",
                r.label,
                if r.wrong { "WRONG OUTPUT" } else { "not timed" },
                r.reason.replace('\n', "\n    ")
            );
        }
        text
    }

    /// Fastest of ours first, then the others.
    fn ranked(&self) -> Vec<&Entry> {
        let mut list: Vec<&Entry> = self.entries.iter().collect();
        list.sort_by(|a, b| (a.who != Who::Ours).cmp(&(b.who != Who::Ours)).then(a.seconds.median.total_cmp(&b.seconds.median)));
        list
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        let (kind, amount) = match self.cost {
            Cost::Bytes(b) => ("bytes", b),
            Cost::Flops(f) => ("flops", f),
        };
        let limits: Vec<String> = self.limits.iter().map(|(n, v)| format!("{}: {v}", quote(n))).collect();
        let entries: Vec<String> = self.entries.iter().map(|e| format!("\n      {}", self.json_entry(e))).collect();
        let refused: Vec<String> = self
            .refused
            .iter()
            .map(|r| format!("{{\"label\": {}, \"wrong\": {}, \"reason\": {}}}", quote(&r.label), r.wrong, quote(&r.reason)))
            .collect();
        format!(
            "{{\"problem\": {}, \"{kind}\": {amount}, \"tensor_bytes\": {}, \"unit\": {}, \"sets\": {}, \"check\": {}, \"limits\": {{{}}},\n     \"entries\": [{}],\n     \"refused\": [{}]}}",
            quote(&self.problem),
            self.bytes,
            quote(self.unit()),
            self.sets,
            quote(&self.check),
            limits.join(", "),
            entries.join(","),
            refused.join(", ")
        )
    }

    fn json_entry(&self, e: &Entry) -> String {
        let Summary { n, min, q1, median, q3, max } = e.seconds;
        let mut text = format!(
            "{{\"who\": {}, \"label\": {}, \"batches\": {n}, \"launches\": {}, \"seconds\": {{\"median\": {median:e}, \"q1\": {q1:e}, \"q3\": {q3:e}, \"min\": {min:e}, \"max\": {max:e}}}, \"rate\": {:.3}",
            quote(e.who.word()),
            quote(&e.label),
            e.launches,
            self.rate(median)
        );
        if let Some(ratio) = self.ratio(e) {
            let _ = write!(text, ", \"ratio\": {ratio:.4}");
        }
        if let Some([registers, spilled, threads, shared]) = e.resources {
            let _ = write!(text, ", \"registers\": {registers}, \"spilled\": {spilled}, \"threads\": {threads}, \"shared\": {shared}");
        }
        text + "}"
    }
}

/// A JSON string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let entry = |who, label: &str, median: f64| Entry {
            who,
            label: label.into(),
            seconds: Summary { n: 9, min: median * 0.9, q1: median * 0.95, median, q3: median * 1.1, max: median * 1.5 },
            launches: 20,
            resources: (who == Who::Ours).then_some([168, 8, 256, 98304]),
        };
        Row {
            problem: "gemm_nn".into(),
            cost: Cost::Flops(2e12),
            bytes: 1e9,
            sets: 2,
            check: "all elements".into(),
            limits: vec![("peak", 1000.0)],
            entries: vec![entry(Who::Ours, "slow", 8e-3), entry(Who::CublasLt, "", 2.5e-3), entry(Who::Ours, "quick", 4e-3)],
            refused: vec![Refusal { label: "huge".into(), reason: "needs \"more\"\nmemory".into(), wrong: false }],
        }
    }

    #[test]
    fn rates_shares_and_ratios_are_of_medians() {
        let row = row();
        assert_eq!(row.rate(4e-3), 500.0);
        assert_eq!(row.ratio(&row.entries[2]), Some(0.625));
        assert_eq!(row.ratio(&row.entries[1]), None);
        let table = row.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains("of peak") && lines[1].contains("vs cublasLt"), "{table}");
        assert!(
            lines[2].contains("quick") && lines[2].contains("50.0%") && lines[2].contains("0.625") && lines[2].contains("8 B SPILLED"),
            "{table}"
        );
        assert!(lines[3].contains("slow") && lines[4].contains("cublasLt") && lines[4].contains("80.0%"), "{table}");
        assert!(table.contains("not timed: needs"), "{table}");
    }

    #[test]
    fn json_is_escaped_and_balanced() {
        let json = row().json();
        assert!(json.contains("needs \\\"more\\\"\\nmemory") && json.contains("\"ratio\": 0.6250"), "{json}");
        let count = |c| json.matches(c).count();
        assert_eq!((count('{'), count('[')), (count('}'), count(']')));
        assert_eq!(quote("a\tb\u{1}"), "\"a\\u0009b\\u0001\"");
    }
}
