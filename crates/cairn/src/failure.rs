//! How a command ends when it does not succeed.

use std::process::ExitCode;

use cairn_config::ConfigError;

/// Exit code of a command that failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// Exit code of wrong usage or configuration.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Why a command ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration cannot be used.
    Config(ConfigError),
    /// The command line asks for something that makes no sense.
    Usage(String),
    /// The work failed.
    Failed(anyhow::Error),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Failure {
    /// Says on stderr what happened.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Config(error) => {
                eprintln!("error: the configuration cannot be used:\n{error}");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Usage(text) => {
                eprintln!("error: {text}");
                ExitCode::from(EXIT_USAGE)
            }
            Self::Failed(error) => {
                // One line: the causes follow their consequences.
                eprintln!("error: {error:#}");
                ExitCode::from(EXIT_FAILED)
            }
        }
    }
}
