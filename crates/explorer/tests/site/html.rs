//! Reads a page the way a strict browser would: every element closed in order, every attribute quoted, every id once.

use std::collections::HashSet;

/// Elements that have no end tag.
const VOID: [&str; 6] = ["meta", "link", "input", "br", "hr", "img"];
/// Elements of the embedded drawings that may be written as empty ones.
const EMPTY: [&str; 3] = ["ellipse", "path", "rect"];

/// What a page consists of.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Every start tag with its attributes.
    pub(crate) elements: Vec<Element>,
    /// The text a reader sees, white space reduced, character references replaced.
    pub(crate) text: String,
}

/// One start tag.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
}

impl Element {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Document {
    /// Parses a page, or says what is wrong with it.
    pub(crate) fn parse(html: &str) -> Result<Self, String> {
        let mut document = Document::default();
        let mut open: Vec<String> = Vec::new();
        let mut text = String::new();
        let mut rest = html.strip_prefix("<!doctype html>").ok_or("no doctype")?;
        while let Some(start) = rest.find('<') {
            text.push_str(&unescape(&rest[..start])?);
            text.push(' ');
            rest = &rest[start + 1..];
            if let Some(after) = rest.strip_prefix('/') {
                let end = after.find('>').ok_or("an end tag without end")?;
                let name = after[..end].trim().to_owned();
                match open.pop() {
                    Some(expected) if expected == name => {}
                    other => return Err(format!("</{name}> closes {other:?}")),
                }
                rest = &after[end + 1..];
            } else {
                let (element, empty, after) = start_tag(rest)?;
                if empty && !EMPTY.contains(&element.name.as_str()) {
                    return Err(format!("<{}> written as empty: {empty}", element.name));
                }
                if !empty && !VOID.contains(&element.name.as_str()) {
                    open.push(element.name.clone());
                }
                document.elements.push(element);
                rest = after;
            }
        }
        if !open.is_empty() {
            return Err(format!("never closed: {open:?}"));
        }
        document.text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        document.check_ids()?;
        Ok(document)
    }

    fn check_ids(&self) -> Result<(), String> {
        let mut seen = HashSet::new();
        for element in &self.elements {
            if let Some(id) = element.get("id")
                && !seen.insert(id)
            {
                return Err(format!("id {id} twice"));
            }
        }
        for element in &self.elements {
            for attribute in ["for", "aria-labelledby"] {
                if let Some(id) = element.get(attribute)
                    && !seen.contains(id)
                {
                    return Err(format!("{attribute}={id} names nothing"));
                }
            }
        }
        Ok(())
    }

    /// How many elements of a name there are.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.elements
            .iter()
            .filter(|element| element.name == name)
            .count()
    }

    /// Whether an element has this id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.elements
            .iter()
            .any(|element| element.get("id") == Some(id))
    }
}

/// Reads what follows a `<`: name, attributes, whether it ends in `/>`, and the rest after it.
fn start_tag(rest: &str) -> Result<(Element, bool, &str), String> {
    let name_end = rest
        .find(|c: char| !c.is_ascii_alphanumeric())
        .ok_or("a tag without end")?;
    let name = rest[..name_end].to_owned();
    if name.is_empty() {
        return Err(format!(
            "a bare < before {:?}",
            rest.chars().take(20).collect::<String>()
        ));
    }
    let mut attributes = Vec::new();
    let mut rest = rest[name_end..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix("/>") {
            return Ok((Element { name, attributes }, true, after));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Ok((Element { name, attributes }, false, after));
        }
        let key_end = rest
            .find(|c: char| c == '=' || c == '>' || c.is_whitespace())
            .ok_or_else(|| format!("<{name}> without end"))?;
        let key = rest[..key_end].to_owned();
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(format!("<{name}> has an attribute {key:?}"));
        }
        let after = rest[key_end..].trim_start();
        match after.strip_prefix("=\"") {
            Some(value) => {
                let end = value
                    .find('"')
                    .ok_or_else(|| format!("{key} of <{name}> is not closed"))?;
                attributes.push((key, unescape(&value[..end])?));
                rest = value[end + 1..].trim_start();
            }
            None if after.starts_with('=') => {
                return Err(format!("{key} of <{name}> is not quoted"));
            }
            None => {
                attributes.push((key, String::new()));
                rest = after;
            }
        }
    }
}

/// Replaces the character references that the templates write; any other `&` is an error.
fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let end = rest[at..]
            .find(';')
            .ok_or_else(|| format!("a bare & in {text:?}"))?;
        out.push(match &rest[at..at + end + 1] {
            "&lt;" | "&#60;" => '<',
            "&gt;" | "&#62;" => '>',
            "&amp;" | "&#38;" => '&',
            "&quot;" | "&#34;" => '"',
            "&#39;" => '\'',
            other => return Err(format!("an unknown reference {other}")),
        });
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[test]
fn the_reader_refuses_what_a_page_must_not_have() {
    let page = |body: &str| Document::parse(&format!("<!doctype html><html>{body}</html>"));
    assert_eq!(
        page("<p id=\"a\">1 &lt; 2</p>").expect("well formed").text,
        "1 < 2"
    );
    for broken in [
        "<p>",
        "<p></b>",
        "<p class=x></p>",
        "<p class=\"x></p>",
        "a < b",
        "a & b",
        "<i id=\"a\"></i><i id=\"a\"></i>",
        "<label for=\"nothing\"></label>",
    ] {
        assert!(page(broken).is_err(), "{broken}");
    }
}
