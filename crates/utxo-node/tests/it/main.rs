//! Tests of block files, nodes and sources through the public interface.

mod block_files;
mod common;
mod fake_node;
mod files_source;
mod mempool;
mod node_source;
mod real_node;
mod scanning;
