//! Which `redis-server` to start.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PrivateServerError;
use crate::server::{VERSION_MIN, Version};

/// The environment variable that names another program.
const EXE_VARIABLE: &str = "REDIS_SERVER_EXE";
/// Names looked for, in this order.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// A program that can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProgram {
    path: PathBuf,
    version: String,
}

impl ServerProgram {
    /// Looks for one: in the environment variable `REDIS_SERVER_EXE`, then on the path.
    pub fn find() -> Result<Self, PrivateServerError> {
        if let Some(path) = std::env::var_os(EXE_VARIABLE).filter(|path| !path.is_empty()) {
            return Self::at(Path::new(&path));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        match find_in(&path) {
            Some(program) => Self::at(&program),
            None => Err(PrivateServerError::NoProgram(format!(
                "neither {} is on the path",
                NAMES.join(" nor ")
            ))),
        }
    }

    /// Takes this program, if it runs and is new enough.
    pub fn at(path: &Path) -> Result<Self, PrivateServerError> {
        let shown = path.display();
        let said = Command::new(path)
            .arg("--version")
            .output()
            .map_err(|cause| PrivateServerError::NoProgram(format!("{shown}: {cause}")))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let program = Self {
            path: path.to_owned(),
            version: version_in(&said)
                .ok_or_else(|| {
                    let said: String = said.chars().take(100).collect();
                    PrivateServerError::NoProgram(format!(
                        "{shown} does not tell its version: {said:?}"
                    ))
                })?
                .to_owned(),
        };
        let is_valkey = said.to_ascii_lowercase().contains("valkey");
        let is_enough = is_valkey
            || Version::parse(&program.version).is_some_and(|version| version >= VERSION_MIN);
        if is_enough {
            Ok(program)
        } else {
            Err(PrivateServerError::TooOld {
                program: shown.to_string(),
                version: program.version,
                needed: VERSION_MIN.to_string(),
            })
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of itself, as `7.0.15`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn find_in(path: &OsStr) -> Option<PathBuf> {
    NAMES.iter().find_map(|name| {
        std::env::split_paths(path)
            .map(|dir| dir.join(name))
            .find(|candidate| candidate.is_file())
    })
}

/// `Redis server v=7.0.15 sha=00000000:0 malloc=…` holds `7.0.15`.
fn version_in(said: &str) -> Option<&str> {
    said.split_whitespace()
        .find_map(|word| word.strip_prefix("v="))
        .filter(|version| Version::parse(version).is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(
            version_in("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64"),
            Some("7.0.15")
        );
        assert_eq!(version_in("Valkey server v=8.1.0 sha=0"), Some("8.1.0"));
        assert_eq!(version_in("something else"), None);
        assert_eq!(version_in("v=x"), None);
    }

    fn script(dir: &Path, name: &str, says: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).expect("writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
        path
    }

    #[test]
    fn a_program_is_found_and_an_old_one_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(find_in(dir.path().as_os_str()), None);
        let valkey = script(dir.path(), "valkey-server", "Valkey server v=6.9.0");
        assert_eq!(find_in(dir.path().as_os_str()), Some(valkey.clone()));
        assert_eq!(
            ServerProgram::at(&valkey).expect("Valkey").version(),
            "6.9.0"
        );
        let redis = script(dir.path(), "redis-server", "Redis server v=6.2.14 sha=0");
        assert_eq!(find_in(dir.path().as_os_str()), Some(redis.clone()));
        let error = ServerProgram::at(&redis).expect_err("too old").to_string();
        assert!(error.contains("6.2.14") && error.contains("7.0"), "{error}");
        let other = script(dir.path(), "other", "hello");
        let error = ServerProgram::at(&other)
            .expect_err("no server")
            .to_string();
        assert!(error.contains("does not tell its version"), "{error}");
        let error = ServerProgram::at(&dir.path().join("none")).expect_err("nothing there");
        assert!(
            error.to_string().contains("no redis-server to start"),
            "{error}"
        );
    }
}
