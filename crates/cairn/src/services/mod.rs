//! Everything that runs for the life of the process, one module per service.
//!
//! A service has a function `start`: it opens what it needs, fails if that cannot work, hands what must go on to
//! [`Host`] and gives back what others need of it. `app` calls them in the order in which they need each other; when the
//! process is asked to stop, [`crate::stop::Stop`] tells all of them and `app` waits for what they handed over.

pub(crate) mod antelope;
pub(crate) mod assets;
pub(crate) mod chain;
pub(crate) mod electrum;
pub(crate) mod explorer;
pub(crate) mod mempool;
pub(crate) mod monitor;
pub(crate) mod redis;
pub(crate) mod scanner;
pub(crate) mod subscriptions;
pub(crate) mod utxo;
pub(crate) mod worker;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use axum::Router;
use cairn_telemetry::{Health, MetricsRegistry};
use tokio::task::JoinSet;

use crate::stop::Stop;

/// What the process offers to its services.
pub(crate) struct Host {
    /// Where the state of each part is reported.
    pub(crate) health: Health,
    /// Where metrics are registered.
    pub(crate) registry: Arc<MetricsRegistry>,
    /// Tells when to stop.
    pub(crate) stop: Stop,
    tasks: JoinSet<()>,
    threads: Vec<JoinHandle<()>>,
    last: Vec<Ending>,
    routers: Vec<Mounted>,
}

/// What is done when everything else has ended.
pub(crate) type Ending = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// A part of the main listener.
pub(crate) struct Mounted {
    /// Below which path; empty: the router has whole paths of its own.
    pub(crate) path: String,
    pub(crate) router: Router,
}

/// What has been started, to be awaited.
pub(crate) struct Running {
    pub(crate) tasks: JoinSet<()>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// To be done after both.
    pub(crate) last: Vec<Ending>,
}

impl Host {
    pub(crate) fn new(health: Health, registry: Arc<MetricsRegistry>, stop: Stop) -> Self {
        Self {
            health,
            registry,
            stop,
            tasks: JoinSet::new(),
            threads: Vec::new(),
            last: Vec::new(),
            routers: Vec::new(),
        }
    }

    /// Runs a task until it ends by itself after a request to stop; it is awaited then.
    pub(crate) fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// The same for a thread.
    pub(crate) fn run_thread(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .with_context(|| format!("cannot start the thread {name}"))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Does this when all tasks and threads have ended after a request to stop.
    pub(crate) fn run_last(
        &mut self,
        ending: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.last.push(Box::pin(ending));
    }

    /// Serves a router on the main listener.
    pub(crate) fn mount(&mut self, path: impl Into<String>, router: Router) {
        self.routers.push(Mounted {
            path: path.into(),
            router,
        });
    }

    /// What the services want served; empties the list.
    pub(crate) fn take_routers(&mut self) -> Vec<Mounted> {
        std::mem::take(&mut self.routers)
    }

    /// Hands over what runs.
    pub(crate) fn into_running(self) -> Running {
        Running {
            tasks: self.tasks,
            threads: self.threads,
            last: self.last,
        }
    }
}
