//! JSON objects whose fields keep their order.

use std::fmt::Write;

/// A value as JSON.
pub(super) trait Json {
    /// Its text.
    fn json(&self) -> String;
}

impl Json for u32 {
    fn json(&self) -> String {
        self.to_string()
    }
}

impl Json for u8 {
    fn json(&self) -> String {
        self.to_string()
    }
}

impl Json for bool {
    fn json(&self) -> String {
        self.to_string()
    }
}

impl Json for &str {
    fn json(&self) -> String {
        let mut out = String::from("\"");
        for c in self.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c if u32::from(c) < 0x20 => {
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        out.push('"');
        out
    }
}

impl<T: Json> Json for Option<T> {
    fn json(&self) -> String {
        self.as_ref().map_or_else(|| "null".to_owned(), Json::json)
    }
}

impl<T: Json> Json for Vec<T> {
    fn json(&self) -> String {
        format!("[{}]", self.iter().map(Json::json).collect::<Vec<_>>().join(","))
    }
}

/// The fields of an object, each with its value as JSON.
#[derive(Default)]
pub(super) struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// With one more field.
    pub(super) fn with(self, name: &'static str, value: impl Json) -> Fields {
        self.raw(name, value.json())
    }

    /// With one more field, whose value is JSON already.
    pub(super) fn raw(mut self, name: &'static str, json: String) -> Fields {
        self.0.push((name, json));
        self
    }

    fn each(&self) -> Vec<String> {
        self.0.iter().map(|(name, json)| format!("{}: {json}", name.json())).collect()
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
