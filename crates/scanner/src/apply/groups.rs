//! Callers at once share runs: while one run is under way, what others tell gathers, and the next run takes all of it. A
//! command of a run serves many operations, so the busier the ledger, the less an operation costs.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cairn_redis::RedisError;
use tokio::sync::oneshot;

use crate::error::ScannerError;
use crate::request::Command;
use crate::scanner::Scanner;

use super::{Status, is_alone};

/// Operations of several callers in one run at most (more only if one caller tells more).
const GROUP_MAX: usize = 1_000;
/// Runs under way at once: while Redis works on one, the next is prepared.
const WORKERS_MAX: usize = 2;

/// What callers have told and nobody has begun.
#[derive(Default)]
pub(crate) struct Groups(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    workers: usize,
}

/// What one caller told, and where it waits.
struct Job {
    commands: Vec<Command>,
    done: oneshot::Sender<Vec<Status>>,
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job; true if a worker must be started for it.
    fn add(&self, job: Job) -> bool {
        let mut waiting = self.lock();
        waiting.jobs.push_back(job);
        let must_start = waiting.workers < WORKERS_MAX;
        waiting.workers += usize::from(must_start);
        must_start
    }

    /// The jobs of a worker's next run, in the order in which they came. None when nothing waits: then the worker counts no
    /// longer, so that whoever comes next starts another one.
    fn next(&self) -> Option<Vec<Job>> {
        let mut waiting = self.lock();
        let Some(first) = waiting.jobs.pop_front() else {
            waiting.workers = waiting.workers.saturating_sub(1);
            return None;
        };
        let mut count = first.commands.len();
        let mut jobs = vec![first];
        if is_alone(&jobs[0].commands) {
            return Some(jobs);
        }
        while let Some(job) = waiting.jobs.front() {
            count += job.commands.len();
            if count > GROUP_MAX || is_alone(&job.commands) {
                break;
            }
            jobs.extend(waiting.jobs.pop_front());
        }
        Some(jobs)
    }
}

/// A worker. One that dies counts no longer either.
struct Worker {
    scanner: Scanner,
    is_done: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_done {
            let mut waiting = self.scanner.groups().lock();
            waiting.workers = waiting.workers.saturating_sub(1);
        }
    }
}

impl Worker {
    async fn work(mut self) {
        while let Some(jobs) = self.scanner.groups().next() {
            let mut commands = Vec::with_capacity(jobs.iter().map(|job| job.commands.len()).sum());
            let mut callers = Vec::with_capacity(jobs.len());
            for job in jobs {
                callers.push((job.commands.len(), job.done));
                commands.extend(job.commands);
            }
            let mut statuses = self.scanner.apply_run(&commands).await.into_iter();
            for (count, done) in callers {
                // A caller that is gone needs no answer; what it told is applied.
                let _ = done.send(statuses.by_ref().take(count).collect());
            }
        }
        self.is_done = true;
    }
}

impl Scanner {
    /// Applies what can be one run, together with what others tell at the same time.
    pub(super) async fn apply_with_others(&self, commands: Vec<Command>) -> Vec<Status> {
        let count = commands.len();
        let (done, told) = oneshot::channel();
        if self.groups().add(Job { commands, done }) {
            let worker = Worker {
                scanner: self.clone(),
                is_done: false,
            };
            tokio::spawn(worker.work());
        }
        told.await.unwrap_or_else(|_| {
            // Only when the process is ending; what was begun is among the pending operations.
            let error = ScannerError::Redis(RedisError::Unavailable {
                place: self.redis().place().to_owned(),
                cause: "the operations were not applied before the end of the process".to_owned(),
            });
            vec![Status::Failed(error); count]
        })
    }
}
