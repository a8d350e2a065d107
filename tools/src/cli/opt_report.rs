//! What the optimizer did, as JSON: one object a kernel, a line each.

use crate::bench::report::quote;
use tilelift_egraph::{PhaseReport, Report, RuleReport};
use tilelift_isel::Chosen;

/// The object of a kernel; `layouts` where they were chosen as well.
pub(super) fn json(kernel: &str, report: &Report, layouts: Option<&Chosen>) -> String {
    let [build, saturate, extract, elaborate] = report.times.map(|t| t.as_secs_f64());
    let said = |what: Option<String>| what.map_or("null".to_owned(), |w| quote(&w));
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    let phases = report.phases.iter().map(phase).collect();
    let rules = report.rules.iter().filter(|r| r.matches > 0).map(rule).collect();
    let narrowed = report.narrowed.iter().map(|n| quote(&n.to_string())).collect();
    format!(
        "{{\"kernel\": {}, \"skipped\": {}, \"fallback\": {}, \"windows\": {}, \"narrowed\": {}, \"phases\": {}, \"unions\": {}, \
         \"cost\": {{\"before\": {}, \"after\": {}}}, \
         \"seconds\": {{\"build\": {build:e}, \"saturate\": {saturate:e}, \"extract\": {extract:e}, \"elaborate\": {elaborate:e}}}, \
         \"rules\": {}, \"layouts\": {}}}",
        quote(kernel),
        said(report.skipped.map(|s| s.to_string())),
        said(report.fallback.as_ref().map(ToString::to_string)),
        report.windows,
        list(narrowed),
        list(phases),
        report.unions(),
        report.before,
        report.after,
        list(rules),
        layouts.map_or("null".to_owned(), chosen),
    )
}

fn phase(p: &PhaseReport) -> String {
    format!(
        "{{\"name\": {}, \"stop\": {}, \"iterations\": {}, \"nodes\": {}, \"classes\": {}}}",
        quote(p.name),
        quote(&p.stop.to_string()),
        p.iterations,
        p.nodes,
        p.classes
    )
}

fn rule(r: &RuleReport) -> String {
    format!(
        "{{\"name\": {}, \"class\": {}, \"matches\": {}, \"applied\": {}, \"seconds\": {:e}}}",
        quote(r.name),
        quote(r.class.word()),
        r.matches,
        r.applied,
        r.time.as_secs_f64()
    )
}

fn chosen(c: &Chosen) -> String {
    let others: Vec<String> = c.others.iter().map(u64::to_string).collect();
    let declined = c.declined.map_or("null".to_owned(), |d| quote(&d.to_string()));
    format!("{{\"nodes\": {}, \"classes\": {}, \"others\": [{}], \"declined\": {declined}}}", c.size[0], c.size[1], others.join(", "))
}
