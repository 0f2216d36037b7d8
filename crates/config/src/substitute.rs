//! `${NAME}` in strings of the configuration file.

use std::collections::BTreeSet;

use crate::load::Environment;
use crate::problem::ProblemKind;

/// A part of a string.
enum Piece<'a> {
    Literal(&'a str),
    Reference(&'a str),
}

/// Why a string cannot be substituted.
type Failure = (ProblemKind, String);

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Failure> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            // The first dollar sign takes the meaning from the second one and disappears.
            pieces.push(Piece::Literal(&rest[..at - 1]));
            pieces.push(Piece::Literal("${"));
            rest = &rest[at + 2..];
            continue;
        }
        pieces.push(Piece::Literal(&rest[..at]));
        rest = &rest[at + 2..];
        let Some(end) = rest.find('}') else {
            return Err((
                ProblemKind::InvalidValue,
                "\"${\" without \"}\"; write \"$${\" for a literal \"${\"".to_owned(),
            ));
        };
        let name = &rest[..end];
        if !is_variable_name(name) {
            return Err((
                ProblemKind::InvalidValue,
                "what stands between \"${\" and \"}\" is not the name of an environment variable (letters, digits and _)"
                    .to_owned(),
            ));
        }
        pieces.push(Piece::Reference(name));
        rest = &rest[end + 1..];
    }
    pieces.push(Piece::Literal(rest));
    pieces.retain(|piece| !matches!(piece, Piece::Literal("")));
    Ok(pieces)
}

/// Whether something other than well-formed references is written in the text.
pub(crate) fn has_literal(text: &str) -> bool {
    pieces(text).map_or(true, |pieces| {
        pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Literal(_)))
    })
}

/// Replaces every `${NAME}`; `$${` stands for a literal `${`. The names met are added to `referenced`.
pub(crate) fn substitute(
    text: &str,
    environment: &Environment,
    referenced: &mut BTreeSet<String>,
) -> Result<String, Failure> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text)? {
        let name = match piece {
            Piece::Literal(literal) => {
                out.push_str(literal);
                continue;
            }
            Piece::Reference(name) => name,
        };
        referenced.insert(name.to_owned());
        match environment.get(name) {
            Some(Ok(value)) => out.push_str(value),
            Some(Err(())) => {
                return Err((
                    ProblemKind::InvalidValue,
                    format!("environment variable {name} is not UTF-8"),
                ));
            }
            None => {
                return Err((
                    ProblemKind::UnsetVariable,
                    format!("environment variable {name} is not set; set it or remove this key"),
                ));
            }
        }
    }
    Ok(out)
}

fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let environment = Environment::from_pairs([("A", "alpha"), ("EMPTY", ""), ("_B2", "${A}")]);
        for (text, expected, literal) in [
            ("", "", false),
            ("plain", "plain", true),
            ("${A}", "alpha", false),
            ("${A}${A}", "alphaalpha", false),
            ("x${A}y", "xalphay", true),
            ("${EMPTY}", "", false),
            // Values are taken as they are, not substituted again.
            ("${_B2}", "${A}", false),
            ("$${A}", "${A}", true),
            ("$", "$", true),
            ("$A {A}", "$A {A}", true),
        ] {
            let got = substitute(text, &environment, &mut BTreeSet::new());
            assert_eq!(got, Ok(expected.to_owned()), "{text}");
            assert_eq!(has_literal(text), literal, "{text}");
        }
    }

    #[test]
    fn failures() {
        let environment = Environment::from_pairs([("A", "alpha")]);
        for (text, kind, part) in [
            ("${NOPE}", ProblemKind::UnsetVariable, "NOPE"),
            ("${A", ProblemKind::InvalidValue, "without"),
            ("${}", ProblemKind::InvalidValue, "name"),
            ("${1A}", ProblemKind::InvalidValue, "name"),
            ("${A-B}", ProblemKind::InvalidValue, "name"),
        ] {
            match substitute(text, &environment, &mut BTreeSet::new()) {
                Err((got, message)) => {
                    assert_eq!(got, kind, "{text}");
                    assert!(message.contains(part), "{text}: {message}");
                }
                Ok(value) => panic!("{text} became {value:?}"),
            }
        }
    }
}
