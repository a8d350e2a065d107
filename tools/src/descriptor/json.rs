//! JSON objects whose fields keep their order.

use serde_json::Value;

/// The fields of an object, each with its value as JSON.
#[derive(Default)]
pub(super) struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// With one more field.
    pub(super) fn with(self, name: &'static str, value: impl Into<Value>) -> Fields {
        self.raw(name, value.into().to_string())
    }

    /// With one more field, whose value is JSON already.
    pub(super) fn raw(mut self, name: &'static str, json: String) -> Fields {
        self.0.push((name, json));
        self
    }

    fn each(&self) -> Vec<String> {
        self.0.iter().map(|(name, json)| format!("{}: {json}", Value::from(*name))).collect()
    }

    /// The object in one line.
    pub(super) fn in_a_line(&self) -> String {
        format!("{{{}}}", self.each().join(", "))
    }

    /// The object with a line per field, where its own line is indented by so much.
    pub(super) fn in_lines(&self, indent: usize) -> String {
        let inner = " ".repeat(indent + 2);
        format!("{{\n{inner}{}\n{}}}", self.each().join(&format!(",\n{inner}")), " ".repeat(indent))
    }
}

/// An array with a line per element, indented by so much; the bracket stands two to the left.
pub(super) fn lines(each: impl Iterator<Item = String>, indent: usize) -> String {
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        return "[]".to_owned();
    }
    let inner = " ".repeat(indent);
    format!("[\n{inner}{}\n{}]", each.join(&format!(",\n{inner}")), " ".repeat(indent.saturating_sub(2)))
}
