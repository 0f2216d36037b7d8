//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;

const EXAMPLES: &str = "\
Examples:
  cairn demo                                   a sample chain, without node or configuration
  cairn start --config cairn.toml              index, serve and follow the chains of a configuration
  cairn status                                 how far they are

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.";

/// Indexes Bitcoin chains and answers from the index: Esplora HTTP API and explorer.
#[derive(Debug, Parser)]
#[command(name = "cairn", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Configuration file [default: cairn.toml in the working directory, if it exists]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CAIRN_CONFIG",
        help_heading = "Configuration"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Folder below which everything is written; the same as --set data_dir=DIR
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Configuration"
    )]
    pub(crate) data_dir: Option<String>,
    /// Where the main listener is: HOST:PORT or unix:/path; the same as --set http.listen=ADDRESS
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        help_heading = "Configuration"
    )]
    pub(crate) listen: Option<String>,
    /// Which log lines to write to stderr; the same as --set telemetry.log=FILTER
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        help_heading = "Configuration"
    )]
    pub(crate) log: Option<String>,
    /// Set any key of the configuration: http.listen=0.0.0.0:3000, chain.0.rpc_url=…, chain.ID.threads=4
    #[arg(
        long,
        global = true,
        value_name = "KEY=VALUE",
        help_heading = "Configuration"
    )]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Index and serve a bundled sample chain on embedded defaults, and print the URLs
    #[command(after_help = "Example:\n  cairn demo --data-dir /tmp/cairn-demo")]
    Demo(DemoArgs),
    /// Index, serve and follow all chains of the configuration until SIGTERM or SIGINT
    #[command(after_help = "Example:\n  cairn start --config /etc/cairn/cairn.toml")]
    Start,
    /// Bring the index of one chain up to the tip and exit
    #[command(after_help = "Example:\n  cairn index --chain bitcoin-regtest --until 100")]
    Index(IndexArgs),
    /// Show how far every chain is
    #[command(after_help = "Example:\n  cairn status --json")]
    Status(JsonArgs),
    /// Check the configuration and show where each value comes from
    ///
    /// Exit codes: 0 valid, 1 invalid, 2 a secret is written out.
    #[command(
        alias = "validate",
        after_help = "Example:\n  cairn check-config --config cairn.toml --json"
    )]
    CheckConfig(JsonArgs),
    /// Write all rows of one database to stdout, one line each: hex key, space, hex value, in key order
    #[command(
        after_help = "Example:\n  cairn dump-rows --chain bitcoin-regtest --db history | sha256sum"
    )]
    DumpRows(DumpArgs),
    /// Derive the rows of a chain's blocks anew and compare them with the stored ones, both ways
    ///
    /// Exit code 1 and a report where they differ. The server of the same data folder must not be running.
    #[command(after_help = "Example:\n  cairn verify --chain bitcoin-regtest --from 100 --to 200")]
    Verify(VerifyArgs),
    /// Bring what the application wrote before into the ledger, with progress; or wait for the run under way
    #[command(after_help = "Example:\n  cairn scanner-backfill --config cairn.toml")]
    ScannerBackfill(JsonArgs),
    /// Remove ABI versions of Antelope contracts that no block from some number on needs
    ///
    /// Of the versions older than the block, the newest is in force at it and stays. Works beside a running server.
    #[command(
        after_help = "Example:\n  cairn abi-prune --all-contracts --older-than 250000000 --dry-run"
    )]
    AbiPrune(AbiPruneArgs),
    /// List the subscriptions of a stream with what they have not got yet
    #[command(after_help = "Example:\n  cairn list-subscriptions --chain eos-mainnet --json")]
    ListSubscriptions(ListSubscriptionsArgs),
    /// Move a subscription to another place of its stream
    ///
    /// Refused while an instance is active, unless forced.
    #[command(
        after_help = "Example:\n  cairn reset-subscription --sub-id wallet --to-block 250000000 --dry-run"
    )]
    ResetSubscription(ResetSubscriptionArgs),
    /// List events that subscriptions could not handle
    #[command(after_help = "Example:\n  cairn list-dead-letters --sub-id wallet --limit 20")]
    ListDeadLetters(ListDeadLettersArgs),
    /// Give dead letters out again: to their subscription alone, or to all with --broadcast
    #[command(after_help = "Example:\n  cairn replay-dead-letter --sub-id wallet --all --dry-run")]
    ReplayDeadLetter(ReplayDeadLetterArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListSubscriptionsArgs {
    /// The chain's id [default: the only one that has a stream]
    #[arg(long, value_name = "ID", alias = "chain-id")]
    pub(crate) chain: Option<String>,
    /// Write JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResetSubscriptionArgs {
    /// The subscription
    #[arg(long, value_name = "ID")]
    pub(crate) sub_id: String,
    /// Where it goes on: a block's number, earliest, or latest (only what is published from now on; so does 0)
    #[arg(
        long,
        value_name = "N|latest|earliest",
        alias = "start-from",
        allow_hyphen_values = true
    )]
    pub(crate) to_block: String,
    /// The chain's id [default: the only one that has a stream]
    #[arg(long, value_name = "ID", alias = "chain-id")]
    pub(crate) chain: Option<String>,
    /// On the stream of this reparse job instead of the live one
    #[arg(long, value_name = "JOB")]
    pub(crate) job: Option<String>,
    /// Also acknowledge what was given out and not acknowledged, so that it does not come again
    #[arg(long)]
    pub(crate) clear_pending: bool,
    /// Also while an instance is active
    #[arg(long)]
    pub(crate) force: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListDeadLettersArgs {
    /// One subscription
    #[arg(long, value_name = "ID", required_unless_present = "all")]
    pub(crate) sub_id: Option<String>,
    /// All subscriptions
    #[arg(long, conflicts_with = "sub_id")]
    pub(crate) all: bool,
    /// Most that are listed
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Only those after this dead letter's id
    #[arg(long, value_name = "ENTRY")]
    pub(crate) from: Option<String>,
    /// The chain's id [default: the only one that has a stream]
    #[arg(long, value_name = "ID", alias = "chain-id")]
    pub(crate) chain: Option<String>,
    /// Write JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayDeadLetterArgs {
    /// The subscription
    #[arg(long, value_name = "ID")]
    pub(crate) sub_id: String,
    /// The dead letter of this event
    #[arg(
        long,
        value_name = "EVENT",
        required_unless_present_any = ["entry_id", "all"],
        conflicts_with_all = ["entry_id", "all"]
    )]
    pub(crate) event_id: Option<String>,
    /// The dead letter with this id
    #[arg(long, value_name = "ENTRY", alias = "dl-id", conflicts_with = "all")]
    pub(crate) entry_id: Option<String>,
    /// All of the subscription, in their order
    #[arg(long)]
    pub(crate) all: bool,
    /// Back into the shared stream, to all subscriptions
    #[arg(long)]
    pub(crate) broadcast: bool,
    /// The chain's id [default: the only one that has a stream]
    #[arg(long, value_name = "ID", alias = "chain-id")]
    pub(crate) chain: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AbiPruneArgs {
    /// One contract
    #[arg(
        long,
        value_name = "ACCOUNT",
        alias = "account",
        required_unless_present = "all_contracts"
    )]
    pub(crate) contract: Option<String>,
    /// All contracts that have a history
    #[arg(long, conflicts_with = "contract")]
    pub(crate) all_contracts: bool,
    /// Versions set before this block are removed, but for the one in force at it
    #[arg(long, value_name = "BLOCK", alias = "before-block")]
    pub(crate) older_than: u32,
    /// Keep at least this many of the newest versions of each contract
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) keep_last: usize,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the temporary data folder instead of removing it at the end
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Write JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// The chain's id
    #[arg(long, value_name = "ID")]
    pub(crate) chain: String,
    /// Stop at this height instead of the tip
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) until: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// The chain's id
    #[arg(long, value_name = "ID")]
    pub(crate) chain: String,
    /// The database
    #[arg(long, value_enum)]
    pub(crate) db: Database,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Database {
    /// Blocks, transactions, outputs
    Txstore,
    /// History of scripts, spends
    History,
    /// Statistics and unspent outputs kept between requests
    Cache,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The chain's id
    #[arg(long, value_name = "ID")]
    pub(crate) chain: String,
    /// First height
    #[arg(long, value_name = "HEIGHT", default_value_t = 0)]
    pub(crate) from: u32,
    /// Last height [default: the index's tip]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) to: Option<u32>,
    /// Write the report as JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let Cli { common, command } = Cli::parse();
    let result = match command {
        Command::Demo(args) => commands::demo::run(&common, &args),
        Command::Start => commands::start::run(&common),
        Command::Index(args) => commands::index::run(&common, &args),
        Command::Status(args) => commands::status::run(&common, args.json),
        Command::CheckConfig(args) => commands::check_config::run(&common, args.json),
        Command::DumpRows(args) => commands::dump_rows::run(&common, &args),
        Command::Verify(args) => commands::verify::run(&common, &args),
        Command::AbiPrune(args) => commands::abi_prune::run(&common, &args),
        Command::ListSubscriptions(args) => commands::subscriptions::list(&common, &args),
        Command::ResetSubscription(args) => commands::subscriptions::reset(&common, &args),
        Command::ListDeadLetters(args) => commands::dead_letters::list(&common, &args),
        Command::ReplayDeadLetter(args) => commands::dead_letters::replay(&common, &args),
        Command::ScannerBackfill(args) => commands::scanner_backfill::run(&common, &args),
    };
    result.unwrap_or_else(|failure| failure.report())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let example = format!("  cairn {}", command.get_name());
            assert!(help.contains(&example), "{}: {help}", command.get_name());
        }
    }
}
