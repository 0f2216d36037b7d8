//! A folder of block files: what is in it, kept up to date while a node writes to it.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use cairn_utxo_chain::{Header, Network};

use super::diagnose;
use super::records::{Record, RecordId, Records};
use super::scan::{Found, ScanEnd, ScanRules, scan};
use super::xor::XorKey;
use crate::network;
use crate::source::SourceError;

/// Files scanned at once; what they hold is kept until all of them are done.
const WAVE_FILES: usize = 64;
/// Threads of a scan. It waits for the disk, not for the processor.
const SCAN_THREADS: usize = 8;
/// A file changed within this time may change again within the same tick of its clock, so it is looked at again.
const SETTLE: Duration = Duration::from_secs(3);
/// Time between two log lines of a long scan.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The block files of one folder. Shared between threads.
#[derive(Debug)]
pub struct BlockFiles {
    folder: PathBuf,
    network: Network,
    rules: RwLock<ScanRules>,
    state: RwLock<State>,
    /// One scan at a time; readers go on meanwhile.
    scanning: Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    records: Records,
    files: Vec<FileState>,
    summary: ScanSummary,
    scanned: bool,
    /// A record was not what the scan saw: what is known is not to be trusted any longer.
    stale: bool,
}

#[derive(Debug, Clone)]
struct FileState {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
    settled: bool,
    end: ScanEnd,
}

/// What a folder holds, as far as it has been scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanSummary {
    /// Files seen.
    pub files: u64,
    /// Distinct complete blocks.
    pub blocks: u64,
    /// Records whose block had been seen before.
    pub repeated: u64,
    /// Records with a damaged body.
    pub damaged: u64,
}

/// What [`BlockFiles::refresh`] tells of.
pub(crate) enum Event<'a> {
    /// All that was told before is void: files were replaced or removed.
    Reset,
    /// A new block.
    Record(&'a Records, RecordId, &'a Header),
}

impl BlockFiles {
    /// Opens a folder. Reads the key and makes sure that the folder can be listed; scans nothing yet.
    ///
    /// `magic` overrides the table of networks (a signet of one's own, a fork).
    ///
    /// # Errors
    /// [`SourceError::Refused`] if the folder cannot be listed or its `xor.dat` is not a key.
    pub fn open(
        folder: &Path,
        network: impl Into<Network>,
        magic: Option<[u8; 4]>,
    ) -> Result<Self, SourceError> {
        let network = network.into();
        list(folder)?;
        let key = XorKey::read(folder)?;
        let magic = magic.unwrap_or_else(|| network::magic(network));
        Ok(Self {
            folder: folder.to_owned(),
            network,
            rules: RwLock::new(ScanRules {
                magic,
                key,
                pow_limit: network::pow_limit(network),
            }),
            state: RwLock::default(),
            scanning: Mutex::default(),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The network whose blocks these are.
    pub(super) fn network(&self) -> Network {
        self.network
    }

    /// What has been found so far.
    pub fn summary(&self) -> ScanSummary {
        self.state().summary
    }

    /// Whether the folder has been scanned once.
    pub fn is_scanned(&self) -> bool {
        self.state().scanned
    }

    /// Whether a block is known to lie in the files.
    pub fn contains(&self, hash: &BlockHash) -> bool {
        self.state().records.find(hash).is_some()
    }

    /// Uses another magic, learned from the node, from the next scan on.
    pub(crate) fn set_magic(&self, magic: [u8; 4]) {
        self.rules
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .magic = magic;
    }

    /// Looks for blocks that are new since the last call. Cheap when nothing changed: one look at each file's length and
    /// time.
    ///
    /// # Errors
    /// [`SourceError::Refused`] if the folder or a file cannot be read, or holds no record under the key and magic in use;
    /// [`SourceError::Stopped`] if `stop` said so.
    pub fn refresh(&self, stop: &dyn Fn() -> bool) -> Result<(), SourceError> {
        self.refresh_with(stop, &mut |_| {})
    }

    /// [`Self::refresh`] that tells of each new block.
    pub(crate) fn refresh_with(
        &self,
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), SourceError> {
        let _alone: MutexGuard<'_, ()> =
            self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = list(&self.folder)?;
        if self.must_start_over(&listed) {
            tracing::warn!(folder = %self.folder.display(), "block files were replaced; scanning them again");
            *self.write() = State::default();
            tell(Event::Reset);
        }
        let jobs = self.changed(listed);
        let rules = self.rules();
        let all = jobs.len();
        let mut done = 0;
        let mut logged = Instant::now();
        for wave in jobs.chunks(WAVE_FILES) {
            if stop() {
                return Err(SourceError::Stopped);
            }
            let results = scan_wave(wave, &rules, stop);
            let mut state = self.write();
            for (job, result) in wave.iter().zip(results) {
                let Some(result) = result else { continue };
                let (found, end) = result.map_err(|error| cannot_read(&job.path, &error))?;
                state.take(job, found, end, tell);
            }
            drop(state);
            done += wave.len();
            if logged.elapsed() >= LOG_EVERY {
                logged = Instant::now();
                tracing::info!(
                    files = done,
                    of = all,
                    blocks = self.summary().blocks,
                    "scanning block files"
                );
            }
        }
        // A stop in the middle of a wave leaves files unscanned.
        if stop() {
            return Err(SourceError::Stopped);
        }
        let nothing = {
            let mut state = self.write();
            state.scanned = true;
            state.summary.blocks == 0
        };
        if nothing {
            let files: Vec<PathBuf> = self
                .state()
                .files
                .iter()
                .map(|file| file.path.clone())
                .collect();
            if let Some(reason) = diagnose::why_nothing(&files, &rules, self.network) {
                return Err(SourceError::Refused(reason));
            }
        }
        Ok(())
    }

    /// The block without a predecessor, serialized; `None` if it is not in the files. Scans them.
    pub(crate) fn genesis(&self) -> Result<Option<Vec<u8>>, SourceError> {
        let mut first = None;
        self.refresh_with(&|| false, &mut |event| match event {
            Event::Reset => first = None,
            Event::Record(records, id, header) => {
                if header.prev_blockhash == BlockHash::all_zeros() {
                    first.get_or_insert(records.get(id).hash);
                }
            }
        })?;
        let Some(first) = first else {
            return Ok(None);
        };
        let (raw, _) = self.read(std::slice::from_ref(&first))?;
        Ok(Some(raw.bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// Whether the newest file changed since the last scan; a cheap hint.
    pub(crate) fn looks_changed(&self) -> bool {
        let Ok(listed) = list(&self.folder) else {
            return false;
        };
        let state = self.state();
        listed.len() != state.files.len()
            || listed
                .last_key_value()
                .is_some_and(|(_, (path, metadata))| {
                    state
                        .files
                        .iter()
                        .rev()
                        .find(|file| file.path == *path)
                        .is_none_or(|file| {
                            file.len != metadata.len() || file.modified != metadata.modified().ok()
                        })
                })
    }

    /// Runs `read` on the records under the lock.
    pub(crate) fn with_records<T>(&self, read: impl FnOnce(&Records) -> T) -> T {
        read(&self.state().records)
    }

    fn must_start_over(&self, listed: &Listing) -> bool {
        let state = self.state();
        let paths: BTreeMap<&Path, u64> = listed
            .values()
            .map(|(path, metadata)| (path.as_path(), metadata.len()))
            .collect();
        state.stale
            || state.files.iter().any(|file| {
                // Files without records may come and go; one that held records and is gone or cut takes them with it.
                file.end.records > 0
                    && paths
                        .get(file.path.as_path())
                        .is_none_or(|len| *len < file.end.resume)
            })
    }

    /// The files that are new or changed, with the place to go on from.
    fn changed(&self, listed: Listing) -> Vec<Job> {
        let state = self.state();
        let known: BTreeMap<&Path, usize> = state
            .files
            .iter()
            .enumerate()
            .map(|(index, file)| (file.path.as_path(), index))
            .collect();
        let mut jobs = Vec::new();
        let now = SystemTime::now();
        for (path, metadata) in listed.into_values() {
            let (len, modified) = (metadata.len(), metadata.modified().ok());
            let index = known.get(path.as_path()).copied();
            let before = index.map(|index| &state.files[index]);
            if before
                .is_some_and(|file| file.settled && file.len == len && file.modified == modified)
            {
                continue;
            }
            let settled =
                modified.is_some_and(|time| now.duration_since(time).is_ok_and(|age| age > SETTLE));
            let from = before.map_or(0, |file| file.end.resume);
            jobs.push(Job {
                path,
                index,
                from,
                len,
                modified,
                settled,
            });
        }
        jobs
    }

    pub(super) fn rules(&self) -> ScanRules {
        *self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The places of blocks in disk order, each once, and the blocks that have none.
    pub(super) fn places(&self, hashes: &[BlockHash]) -> (Vec<Record>, Vec<BlockHash>) {
        let mut lacking = Vec::new();
        let mut places = Vec::with_capacity(hashes.len());
        for hash in hashes {
            match self.records.place(hash) {
                Some(record) => places.push(*record),
                None => lacking.push(*hash),
            }
        }
        places.sort_unstable_by_key(|record| (record.file, record.offset));
        places.dedup();
        (places, lacking)
    }

    /// The path of a file by its index.
    pub(super) fn path(&self, file: u32) -> PathBuf {
        self.files[file as usize].path.clone()
    }

    /// The next look at the folder starts over: a record was not what the scan saw.
    pub(super) fn distrust(&mut self) {
        self.stale = true;
    }

    fn take(
        &mut self,
        job: &Job,
        found: Vec<Found>,
        end: ScanEnd,
        tell: &mut dyn FnMut(Event<'_>),
    ) {
        let index = job.index.unwrap_or(self.files.len());
        let total = ScanEnd {
            records: end.records + job.index.map_or(0, |index| self.files[index].end.records),
            ..end
        };
        let file = FileState {
            path: job.path.clone(),
            len: job.len,
            modified: job.modified,
            settled: job.settled,
            end: total,
        };
        match job.index {
            Some(index) => self.files[index] = file,
            None => self.files.push(file),
        }
        for found in found {
            let record = Record {
                hash: found.hash,
                offset: found.offset,
                file: index as u32,
                size: found.size,
            };
            match self.records.insert(record) {
                Some(id) => tell(Event::Record(&self.records, id, &found.header)),
                None => self.summary.repeated += 1,
            }
        }
        self.summary.damaged += end.damaged;
        self.summary.files = self.files.len() as u64;
        self.summary.blocks = self.records.len() as u64;
    }
}

/// One file to scan.
#[derive(Debug)]
struct Job {
    path: PathBuf,
    /// Its place in the list of files, if it is in there.
    index: Option<usize>,
    from: u64,
    len: u64,
    modified: Option<SystemTime>,
    settled: bool,
}

type Listing = BTreeMap<(u64, PathBuf), (PathBuf, Metadata)>;

/// The files `blk<digits>.dat` of a folder by number.
fn list(folder: &Path) -> Result<Listing, SourceError> {
    let refused = |error: io::Error| {
        SourceError::Refused(format!(
            "cannot list the block files in {}: {error}; check blocks_dir or node_dir and the permissions",
            folder.display()
        ))
    };
    let mut listing = Listing::new();
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("blk")?.strip_suffix(".dat"))
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u64>().ok());
        let Some(number) = number else { continue };
        let path = entry.path();
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                listing.insert((number, path.clone()), (path, metadata));
            }
            Ok(_) => {}
            // Pruned between the two calls.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_read(&path, &error)),
        }
    }
    Ok(listing)
}

/// What a scan found; `None` if it did not come to the file (a stop, or the file is gone since it was listed).
type Scanned = Option<io::Result<(Vec<Found>, ScanEnd)>>;

/// Scans some files with several threads; results in the order of the jobs.
fn scan_wave(jobs: &[Job], rules: &ScanRules, stop: &dyn Fn() -> bool) -> Vec<Scanned> {
    if let [job] = jobs {
        return vec![scan_job(job, rules)];
    }
    let next = Mutex::new(0_usize);
    let results: Vec<Mutex<Scanned>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    // `stop` need not be shareable between threads, so this thread asks it and the others look here.
    let stopped = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                let index = {
                    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                    *next += 1;
                    *next - 1
                };
                let Some(job) = jobs.get(index) else { break };
                let result = scan_job(job, rules);
                *results[index]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = result;
            }
        };
        let workers: Vec<_> = (0..SCAN_THREADS.min(jobs.len()))
            .map(|_| scope.spawn(work))
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            if stop() {
                stopped.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn scan_job(job: &Job, rules: &ScanRules) -> Scanned {
    let file = match File::open(&job.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(Err(error)),
    };
    let mut found = Vec::new();
    let end = scan(&file, job.len, job.from, rules, &mut |record| {
        found.push(record)
    });
    Some(end.map(|end| (found, end)))
}

pub(super) fn cannot_read(path: &Path, error: &io::Error) -> SourceError {
    SourceError::Refused(format!("cannot read {}: {error}", path.display()))
}
