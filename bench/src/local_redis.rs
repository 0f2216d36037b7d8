//! The Redis that a user without one gets: the private server with the settings that Cairn gives it.

use anyhow::Result;
use cairn_redis::{PrivateOptions, PrivateServer, ServerProgram, Target};

/// A private server in a folder of its own, gone when this is dropped.
pub(crate) struct LocalRedis {
    // Dropped in this order: the server is asked to end, then the runtime that watches it, then its folder.
    server: PrivateServer,
    runtime: Option<tokio::runtime::Runtime>,
    dir: tempfile::TempDir,
}

impl LocalRedis {
    pub(crate) fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let options = PrivateOptions::new(dir.path());
        let server = runtime.block_on(PrivateServer::start(&ServerProgram::find()?, &options))?;
        Ok(Self {
            server,
            runtime: Some(runtime),
            dir,
        })
    }

    pub(crate) fn target(&self) -> &Target {
        self.server.target()
    }

    /// A connection without any of Cairn's code.
    pub(crate) fn connection(&self) -> Result<redis::Connection> {
        let url = format!(
            "redis+unix://{}",
            self.dir.path().join("redis.sock").display()
        );
        Ok(redis::Client::open(url)?.get_connection()?)
    }
}

impl Drop for LocalRedis {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Some of those who drop this stand in a runtime themselves.
            runtime.shutdown_background();
        }
    }
}
