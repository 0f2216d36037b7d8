//! JSON on a page: laid out over lines with its parts marked, and the difference of two objects.
//!
//! Values are laid out from their text, never through numbers of our own: what a node or an application wrote with forty
//! digits is shown with forty digits.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use super::escape::escaped;

/// Longest text that is laid out, bytes; the rest is in the raw data.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Deepest level that gets lines of its own.
const DEPTH_MAX: usize = 24;
/// Leaves that a comparison looks at.
const LEAVES_MAX: usize = 2_000;
/// Characters of a value in one line of a list.
const COMPACT_CHARS_MAX: usize = 160;

/// A JSON text, laid out. Its own text is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json {
    text: String,
    is_cut: bool,
}

impl Json {
    /// Takes a text that is JSON; one that is not is shown as it is.
    pub(crate) fn new(text: &str) -> Self {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            text: text[..end].to_owned(),
            is_cut: end < text.len(),
        }
    }

    /// Takes a part of a larger text.
    pub(crate) fn raw(value: &RawValue) -> Self {
        Self::new(value.get())
    }
}

/// What stands between two tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Open,
    Comma,
    Other,
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text.as_str();
        let mut depth = 0_usize;
        let mut before = Before::Other;
        while let Some(first) = rest.chars().next() {
            let (token, after) = split_token(rest);
            rest = after;
            match first {
                ' ' | '\t' | '\n' | '\r' => continue,
                '{' | '[' => {
                    self.line_if(f, before != Before::Other, depth)?;
                    f.write_str(token)?;
                    depth += 1;
                    before = Before::Open;
                    continue;
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    self.line_if(f, before != Before::Open, depth)?;
                    f.write_str(token)?;
                }
                ',' => {
                    f.write_str(",")?;
                    before = Before::Comma;
                    continue;
                }
                ':' => f.write_str(": ")?,
                '"' => {
                    self.line_if(f, before != Before::Other, depth)?;
                    let is_key = rest.trim_start().starts_with(':');
                    let class = if is_key { "k" } else { "s" };
                    write!(f, "<span class=\"{class}\">{}</span>", escaped(token))?;
                }
                _ => {
                    self.line_if(f, before != Before::Other, depth)?;
                    write!(f, "<span class=\"n\">{}</span>", escaped(token))?;
                }
            }
            before = Before::Other;
        }
        if self.is_cut {
            f.write_str("\n<em>the rest is in the raw data</em>")?;
        }
        Ok(())
    }
}

impl Json {
    fn line_if(&self, f: &mut fmt::Formatter<'_>, wanted: bool, depth: usize) -> fmt::Result {
        if wanted && depth <= DEPTH_MAX {
            write!(f, "\n{:width$}", "", width = depth * 2)?;
        }
        Ok(())
    }
}

impl askama::filters::HtmlSafe for Json {}

/// The first token of a text that is not empty.
fn split_token(text: &str) -> (&str, &str) {
    let mut chars = text.char_indices();
    let first = chars.next().map_or(' ', |(_, c)| c);
    let end = match first {
        '"' => {
            let mut is_escaped = false;
            chars
                .find(|(_, c)| {
                    let ends = *c == '"' && !is_escaped;
                    is_escaped = *c == '\\' && !is_escaped;
                    ends
                })
                .map_or(text.len(), |(at, _)| at + 1)
        }
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        c if c.is_whitespace() => c.len_utf8(),
        _ => chars
            .find(|(_, c)| {
                matches!(c, '{' | '}' | '[' | ']' | ',' | ':' | '"') || c.is_whitespace()
            })
            .map_or(text.len(), |(at, _)| at),
    };
    text.split_at(end)
}

/// A JSON text in one line for a list: blanks reduced, cut to what fits. Plain text, to be escaped by the template.
pub(crate) fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(4 * COMPACT_CHARS_MAX));
    let mut chars = 0;
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if c == ' ' && out.ends_with(' ') {
            continue;
        }
        if chars == COMPACT_CHARS_MAX {
            out.push('…');
            return out;
        }
        out.push(c);
        chars += 1;
    }
    out
}

/// One leaf that differs between two objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Where it is: `limits.max`.
    pub(crate) path: String,
    /// What it was; `None`: it was not there.
    pub(crate) before: Option<String>,
    /// What it is; `None`: it is gone.
    pub(crate) after: Option<String>,
}

impl Difference {
    /// Whether both sides have it.
    pub(crate) fn is_change(&self) -> bool {
        self.before.is_some() && self.after.is_some()
    }
}

/// What differs between two JSON texts, leaf by leaf, in the order of the paths. Texts that are not JSON differ as wholes.
pub(crate) fn differences(before: &str, after: &str) -> Vec<Difference> {
    let (before, after) = (leaves(before), leaves(after));
    let mut all: Vec<Difference> = before
        .iter()
        .filter(|(path, value)| after.get(*path) != Some(value))
        .map(|(path, value)| Difference {
            path: path.clone(),
            before: Some(value.clone()),
            after: after.get(path).cloned(),
        })
        .collect();
    all.extend(
        after
            .iter()
            .filter(|(path, _)| !before.contains_key(*path))
            .map(|(path, value)| Difference {
                path: path.clone(),
                before: None,
                after: Some(value.clone()),
            }),
    );
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

fn leaves(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => collect(&value, String::new(), &mut found),
        Err(_) => {
            found.insert(String::new(), text.to_owned());
        }
    }
    found
}

fn collect(value: &Value, path: String, found: &mut BTreeMap<String, String>) {
    if found.len() >= LEAVES_MAX {
        return;
    }
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match value {
        // Nothing at all has no leaf.
        Value::Object(fields) if fields.is_empty() && path.is_empty() => {}
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                collect(value, below(name), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                collect(value, below(&index.to_string()), found);
            }
        }
        Value::String(text) => {
            found.insert(path, text.clone());
        }
        other => {
            found.insert(path, other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Markup taken away and entities read.
    fn text(html: &str) -> String {
        let mut out = String::new();
        let mut inside = false;
        for c in html.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&")
    }

    #[test]
    fn values_get_lines() {
        let html = Json::new(r#"{"a":[1,"x"],"b":{},"c":"{,}"}"#).to_string();
        assert_eq!(
            text(&html),
            "{\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"b\": {},\n  \"c\": \"{,}\"\n}"
        );
        assert!(
            html.contains("<span class=\"k\">&quot;a&quot;</span>"),
            "{html}"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let html = Json::new(&format!("\"{}\"", "é".repeat(TEXT_BYTES_MAX))).to_string();
        assert!(html.ends_with("raw data</em>"));
    }

    #[test]
    fn digits_stay() {
        let number = "123456789012345678901234567890.000000000000000000001";
        assert_eq!(text(&Json::new(number).to_string()), number);
    }

    #[test]
    fn differences_are_named_by_path() {
        let found = differences(
            r#"{"same":1,"balance":"1.0000 SYS","gone":true,"in":{"x":[1,2]}}"#,
            r#"{"same":1,"balance":"2.0000 SYS","in":{"x":[1,3]},"new":null}"#,
        );
        let lines: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|d| (d.path.as_str(), d.before.as_deref(), d.after.as_deref()))
            .collect();
        assert_eq!(
            lines,
            [
                ("balance", Some("1.0000 SYS"), Some("2.0000 SYS")),
                ("gone", Some("true"), None),
                ("in.x.1", Some("2"), Some("3")),
                ("new", None, Some("null")),
            ]
        );
    }

    #[test]
    fn one_line_for_lists() {
        assert_eq!(compact("{\n  \"a\":\t1}"), "{ \"a\": 1}");
        assert_eq!(
            compact(&"x".repeat(500)).chars().count(),
            COMPACT_CHARS_MAX + 1
        );
    }

    proptest! {
        #[test]
        fn laying_out_adds_and_loses_nothing(value in "[ -~é\"\\\\{}\\[\\],:<>&]{0,80}") {
            let json = serde_json::to_string(&serde_json::json!({ "v": value, "n": [1, null] })).expect("JSON");
            let shown = text(&Json::new(&json).to_string());
            let read: Value = serde_json::from_str(&shown).expect("still JSON");
            prop_assert_eq!(read, serde_json::from_str::<Value>(&json).expect("JSON"));
        }

        #[test]
        fn no_text_breaks_the_layout(value in ".{0,200}") {
            let html = Json::new(&value).to_string();
            prop_assert!(!html.contains("<script"));
            differences(&value, "{}");
        }
    }
}
