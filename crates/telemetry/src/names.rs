//! Every metric: its name as it is scraped, its unit, labels and meaning.
//!
//! Base units (seconds, bytes), no rates (the reader divides), nothing that another metric implies.

use crate::metrics::MetricSpec;

/// Label with the chain's id.
pub const CHAIN: &str = "chain";
/// Label with the phase of the indexer.
pub const PHASE: &str = "phase";
/// Label that tells what may be tried again (`transient`) from what needs the operator (`fatal`).
pub const KIND: &str = "kind";
/// Label with the part of the store: `DATABASE_FAMILY`.
pub const FAMILY: &str = "family";
/// Label with the listener's purpose: `main`, `metrics`, or `esplora:CHAIN`.
pub const SURFACE: &str = "surface";
/// Label with the template of the route.
pub const ENDPOINT: &str = "endpoint";
/// Label with the HTTP method.
pub const METHOD: &str = "method";
/// Label with the HTTP status.
pub const STATUS: &str = "status";
/// Label with the result of a request: `ok`, `error`, or `invalid` for what was none.
pub const OUTCOME: &str = "outcome";
/// Label with what a listener speaks: `tcp`, `tls`, `ws`, `wss`.
pub const LISTENER: &str = "listener";
/// Label with a reason in a word.
pub const REASON: &str = "reason";
/// Label with the version of Cairn.
pub const VERSION: &str = "version";

const fn spec(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricSpec {
    MetricSpec { name, labels, help }
}

/// Height of the index's tip.
pub const INDEX_TIP_HEIGHT: MetricSpec = spec(
    "cairn_index_tip_height",
    &[CHAIN],
    "Height of the newest block that readers see",
);
/// Height of the source's tip.
pub const SOURCE_TIP_HEIGHT: MetricSpec = spec(
    "cairn_source_tip_height",
    &[CHAIN],
    "Height of the best block of the node or the block files as last seen",
);
/// Whether the chain is ready.
pub const INDEX_READY: MetricSpec = spec(
    "cairn_index_ready",
    &[CHAIN],
    "1 when the chain counts as ready in /health/ready, else 0",
);
/// Unconfirmed transactions.
pub const MEMPOOL_TRANSACTIONS: MetricSpec = spec(
    "cairn_mempool_transactions",
    &[CHAIN],
    "Unconfirmed transactions that readers see",
);
/// Their size.
pub const MEMPOOL_VIRTUAL_BYTES: MetricSpec = spec(
    "cairn_mempool_virtual_bytes",
    &[CHAIN],
    "Virtual bytes of the unconfirmed transactions that readers see",
);
/// When they were last those of the node.
pub const MEMPOOL_COMPLETE_SECONDS: MetricSpec = spec(
    "cairn_mempool_complete_timestamp_seconds",
    &[CHAIN],
    "Unix time of the last complete comparison with the mempool of the node",
);
/// Phase of the indexer.
pub const INDEX_PHASE: MetricSpec = spec(
    "cairn_index_phase",
    &[CHAIN, PHASE],
    "1 for the phase the indexer is in, 0 for the others",
);
/// Work done in the phase.
pub const PHASE_DONE_BYTES: MetricSpec = spec(
    "cairn_index_phase_done_bytes",
    &[CHAIN],
    "Work done in the present phase",
);
/// Work of the phase in all.
pub const PHASE_WORK_BYTES: MetricSpec = spec(
    "cairn_index_phase_work_bytes",
    &[CHAIN],
    "Work of the present phase in all; 0 while unknown",
);
/// Blocks indexed.
pub const INDEX_BLOCKS: MetricSpec = spec(
    "cairn_index_blocks_total",
    &[CHAIN],
    "Blocks added to the index since the start of the process",
);
/// Transactions indexed.
pub const INDEX_TRANSACTIONS: MetricSpec = spec(
    "cairn_index_transactions_total",
    &[CHAIN],
    "Transactions added to the index since the start of the process",
);
/// Blocks undone.
pub const INDEX_UNDONE_BLOCKS: MetricSpec = spec(
    "cairn_index_undone_blocks_total",
    &[CHAIN],
    "Blocks taken back by reorganisations",
);
/// Reorganisations.
pub const INDEX_REORGS: MetricSpec = spec(
    "cairn_index_reorganisations_total",
    &[CHAIN],
    "Reorganisations followed",
);
/// Failed catch-ups.
pub const SYNC_FAILURES: MetricSpec = spec(
    "cairn_index_sync_failures_total",
    &[CHAIN, KIND],
    "Catch-ups that ended with an error; transient ones are tried again",
);
/// Time of catch-ups.
pub const SYNC_SECONDS: MetricSpec = spec(
    "cairn_index_sync_seconds",
    &[CHAIN],
    "Time of each catch-up that added or took back blocks",
);
/// Rows of the store.
pub const STORE_ROWS: MetricSpec = spec(
    "cairn_store_rows",
    &[CHAIN, FAMILY],
    "Estimated number of rows",
);
/// Size of the store.
pub const STORE_BYTES: MetricSpec = spec(
    "cairn_store_size_bytes",
    &[CHAIN, FAMILY],
    "Size of the sorted files on disk",
);
/// Compaction that waits.
pub const STORE_PENDING_BYTES: MetricSpec = spec(
    "cairn_store_pending_compaction_bytes",
    &[CHAIN, FAMILY],
    "Estimated bytes that wait to be compacted",
);
/// Use of the block cache.
pub const STORE_CACHE_BYTES: MetricSpec = spec(
    "cairn_store_block_cache_bytes",
    &[CHAIN],
    "Memory used by the cache of store blocks",
);
/// Requests answered.
pub const HTTP_REQUESTS: MetricSpec = spec(
    "cairn_http_requests_total",
    &[SURFACE, ENDPOINT, METHOD, STATUS],
    "HTTP requests answered; endpoint is the route's template",
);
/// Time of requests.
pub const HTTP_SECONDS: MetricSpec = spec(
    "cairn_http_request_seconds",
    &[SURFACE, ENDPOINT],
    "Time from the complete request head to the head of the answer",
);
/// Open connections.
pub const HTTP_CONNECTIONS: MetricSpec = spec(
    "cairn_http_connections",
    &[SURFACE],
    "Open HTTP connections",
);
/// Electrum requests.
pub const ELECTRUM_REQUESTS: MetricSpec = spec(
    "cairn_electrum_requests_total",
    &[CHAIN, METHOD, OUTCOME],
    "Electrum requests answered; those of a batch count each",
);
/// Time of Electrum requests.
pub const ELECTRUM_SECONDS: MetricSpec = spec(
    "cairn_electrum_request_seconds",
    &[CHAIN, METHOD],
    "Time from reading an Electrum request to its answer",
);
/// Electrum sessions.
pub const ELECTRUM_SESSIONS: MetricSpec = spec(
    "cairn_electrum_sessions",
    &[CHAIN, LISTENER],
    "Open Electrum sessions",
);
/// Ends of Electrum sessions.
pub const ELECTRUM_SESSION_ENDS: MetricSpec = spec(
    "cairn_electrum_session_ends_total",
    &[CHAIN, REASON],
    "Electrum sessions that ended, by what ended them",
);
/// Refused Electrum connections.
pub const ELECTRUM_REFUSED: MetricSpec = spec(
    "cairn_electrum_refused_total",
    &[CHAIN, REASON],
    "Electrum connections that were not served, by the limit or rule",
);
/// Electrum notifications.
pub const ELECTRUM_NOTIFICATIONS: MetricSpec = spec(
    "cairn_electrum_notifications_total",
    &[CHAIN],
    "Electrum notifications sent",
);
/// Electrum subscriptions.
pub const ELECTRUM_SUBSCRIPTIONS: MetricSpec = spec(
    "cairn_electrum_subscriptions",
    &[CHAIN],
    "Subscriptions of all Electrum sessions",
);
/// The version.
pub const BUILD_INFO: MetricSpec = spec(
    "cairn_build_info",
    &[VERSION],
    "Always 1; the label has the version",
);
/// Start of the process.
pub const PROCESS_START_SECONDS: MetricSpec = spec(
    "cairn_process_start_time_seconds",
    &[],
    "Start of the process, seconds since 1970-01-01 UTC",
);
/// Memory of the process.
pub const PROCESS_RESIDENT_BYTES: MetricSpec = spec(
    "cairn_process_resident_memory_bytes",
    &[],
    "Physical memory in use by the process",
);
/// Open files of the process.
pub const PROCESS_OPEN_FILES: MetricSpec = spec(
    "cairn_process_open_files",
    &[],
    "Open file descriptors of the process",
);
/// Limit of open files.
pub const PROCESS_OPEN_FILES_MAX: MetricSpec = spec(
    "cairn_process_open_files_max",
    &[],
    "Largest number of open file descriptors the system allows the process",
);
/// Processor time.
pub const PROCESS_CPU_SECONDS: MetricSpec = spec(
    "cairn_process_cpu_seconds",
    &[],
    "Processor time used by the process since its start, user and system",
);

/// Label with a kind of events.
pub const EVENT: &str = "kind";
/// Label with the id of a subscription.
pub const SUB_ID: &str = "sub_id";

/// Blocks in the stream.
pub const PARSER_BLOCKS: MetricSpec = spec(
    "parser2_blocks_processed_total",
    &[CHAIN],
    "Blocks of an Antelope chain whose events are in the stream",
);
/// Age of the newest published block.
pub const PARSER_LAG: MetricSpec = spec(
    "parser2_indexing_lag_seconds",
    &[CHAIN],
    "Now minus the time of the newest block whose events are in the stream",
);
/// Events in the stream.
pub const PARSER_EVENTS: MetricSpec = spec(
    "parser2_events_published_total",
    &[CHAIN, EVENT],
    "Events published, by their kind",
);
/// Compiled ABIs found.
pub const PARSER_ABI_HITS: MetricSpec = spec(
    "parser2_abi_cache_hits_total",
    &[CHAIN],
    "Values whose ABI was compiled already",
);
/// Compiled ABIs made.
pub const PARSER_ABI_MISSES: MetricSpec = spec(
    "parser2_abi_cache_misses_total",
    &[CHAIN],
    "Values whose ABI had to be compiled first",
);
/// Length of the stream.
pub const STREAM_LENGTH: MetricSpec = spec(
    "parser2_stream_length",
    &[CHAIN],
    "Entries of the event stream",
);
/// Entries that were trimmed.
pub const STREAM_TRIMMED: MetricSpec = spec(
    "parser2_xtrimmed_entries_total",
    &[CHAIN],
    "Entries removed from the event stream by trimming",
);
/// Subscriptions that lost entries.
pub const STREAM_GROUP_LOSS: MetricSpec = spec(
    "parser2_xtrim_group_loss_total",
    &[CHAIN, SUB_ID],
    "Times that trimming removed entries which a subscription still needed",
);
/// What a subscription has not got yet.
pub const STREAM_GROUP_LAG: MetricSpec = spec(
    "parser2_subscription_lag_entries",
    &[CHAIN, SUB_ID],
    "Entries that a subscription was not given yet",
);
/// What a subscription has not acknowledged.
pub const STREAM_GROUP_PENDING: MetricSpec = spec(
    "parser2_subscription_pending_entries",
    &[CHAIN, SUB_ID],
    "Entries that a subscription was given and has not acknowledged",
);
/// Time of a block.
pub const PARSER_BLOCK_SECONDS: MetricSpec = spec(
    "parser2_block_processing_duration_seconds",
    &[CHAIN],
    "Time to decode one block",
);
/// Blocks that failed.
pub const PARSER_ERRORS: MetricSpec = spec(
    "parser2_block_processing_errors_total",
    &[CHAIN],
    "Failures that stopped a chain until somebody acts or it could go on",
);
/// Forks.
pub const PARSER_FORKS: MetricSpec = spec(
    "parser2_forks_total",
    &[CHAIN],
    "Changes of the chain to another branch",
);
/// Depth of forks.
pub const PARSER_FORK_DEPTH: MetricSpec = spec(
    "parser2_fork_depth_blocks",
    &[CHAIN],
    "Blocks undone by a change to another branch",
);
/// Values published as bytes.
pub const PARSER_UNDECODED: MetricSpec = spec(
    "parser2_decode_errors_total",
    &[CHAIN, REASON],
    "Values published as raw bytes because they could not be decoded, by reason",
);
/// The node's head.
pub const PARSER_HEAD: MetricSpec = spec(
    "parser2_head_block",
    &[CHAIN],
    "Number of the node's head block",
);
/// The last irreversible block.
pub const PARSER_LIB: MetricSpec = spec(
    "parser2_lib_block",
    &[CHAIN],
    "Number of the node's last irreversible block",
);
/// The newest published block.
pub const PARSER_LAST: MetricSpec = spec(
    "parser2_last_block",
    &[CHAIN],
    "Number of the newest block whose events are in the stream",
);
/// Connections to the node.
pub const PARSER_RECONNECTS: MetricSpec = spec(
    "parser2_ship_reconnects_total",
    &[CHAIN],
    "Connections to the node that were lost or refused",
);
/// Whether Redis takes events.
pub const PARSER_BLOCKED: MetricSpec = spec(
    "parser2_publishing_blocked",
    &[CHAIN],
    "1 while Redis takes no events, else 0",
);
/// Whether Redis answers.
pub const REDIS_UP: MetricSpec = spec("cairn_redis_up", &[], "1 when Redis answers, else 0");
/// Memory of Redis.
pub const REDIS_MEMORY: MetricSpec = spec(
    "cairn_redis_memory_bytes",
    &[],
    "Memory that Redis uses; of a Cluster, one of its nodes",
);
/// Memory that Redis may use.
pub const REDIS_MEMORY_MAX: MetricSpec = spec(
    "cairn_redis_memory_max_bytes",
    &[],
    "Memory that Redis may use, 0 for no limit",
);
