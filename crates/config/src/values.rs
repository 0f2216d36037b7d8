//! Readers of values that several sections have.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::model::Listen;
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};

/// Longest file with a secret, bytes.
const SECRET_FILE_BYTES_MAX: u64 = 4096;

/// An empty path is one that is not set.
pub(crate) fn set_path(text: String) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// The bounds of the keys are far below what a `usize` holds.
pub(crate) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The secret in a file, without the line end after it.
pub(crate) fn read_secret_file(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > SECRET_FILE_BYTES_MAX {
        return Err(format!(
            "{} holds {bytes} bytes; a file with a secret has at most {SECRET_FILE_BYTES_MAX}",
            path.display()
        ));
    }
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    let secret = text.trim_end_matches(['\n', '\r']);
    if secret.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    Ok(secret.to_owned())
}

/// A secret that can be given itself or in a file; `None`: neither.
pub(crate) fn read_secret(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    name: &'static str,
    file_name: &'static str,
) -> Option<SecretString> {
    let given = reader.text(at, name);
    let file = reader.text(at, file_name);
    if file.is_empty() {
        return (!given.is_empty()).then(|| SecretString::from(given));
    }
    if !given.is_empty() {
        let message = format!("{name} is given too; give one of the two");
        reader.problem(at, file_name, ProblemKind::InvalidValue, message);
        return None;
    }
    match read_secret_file(Path::new(&file)) {
        Ok(secret) => Some(SecretString::from(secret)),
        Err(message) => {
            reader.problem(at, file_name, ProblemKind::Unreadable, message);
            None
        }
    }
}

/// An optional listener.
pub(crate) fn read_listen(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    name: &'static str,
) -> Option<Listen> {
    let text = reader.text(at, name);
    if text.is_empty() {
        return None;
    }
    match Listen::parse(&text) {
        Ok(listen) => Some(listen),
        Err(message) => {
            reader.problem(at, name, ProblemKind::InvalidValue, message);
            None
        }
    }
}

/// A list of listeners.
pub(crate) fn read_listeners(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    name: &'static str,
) -> Vec<Listen> {
    let mut listeners = Vec::new();
    for text in reader.list(at, name) {
        match Listen::parse(&text) {
            Ok(listen) => listeners.push(listen),
            Err(message) => reader.problem(at, name, ProblemKind::InvalidValue, message),
        }
    }
    listeners
}

/// One of several words; the first one when it is none of them, which is reported.
pub(crate) fn read_choice<T: Copy, const N: usize>(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    name: &'static str,
    choices: [(&str, T); N],
) -> T {
    let text = reader.text(at, name);
    let found = choices.iter().find(|(word, _)| *word == text);
    if let Some((_, choice)) = found {
        return *choice;
    }
    let words = choices.map(|(word, _)| word).join(" or ");
    let message = format!("\"{text}\" is not one of the words; expected {words}");
    reader.problem(at, name, ProblemKind::InvalidValue, message);
    choices[0].1
}
