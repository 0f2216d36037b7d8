//! Metrics of the process itself, read from the system at each scrape.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::metrics::{FloatGauge, GaugeFamily, Labels, MetricsRegistry};
use crate::names;

/// Memory, files and processor time of this process.
pub struct ProcessMetrics;

struct Gauges {
    resident: GaugeFamily,
    open_files: GaugeFamily,
    open_files_max: GaugeFamily,
    cpu: FloatGauge,
}

impl ProcessMetrics {
    /// Registers the metrics and their refreshing; once per registry.
    pub fn register(registry: &MetricsRegistry, version: &str) {
        let labels: Labels = vec![(names::VERSION, version.to_owned())];
        registry
            .gauge(names::BUILD_INFO)
            .get_or_create(&labels)
            .set(1);
        let start = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        registry
            .float_gauge(names::PROCESS_START_SECONDS)
            .set(start);
        let gauges = Gauges {
            resident: registry.gauge(names::PROCESS_RESIDENT_BYTES),
            open_files: registry.gauge(names::PROCESS_OPEN_FILES),
            open_files_max: registry.gauge(names::PROCESS_OPEN_FILES_MAX),
            cpu: registry.float_gauge(names::PROCESS_CPU_SECONDS),
        };
        registry.before_scrape(move || gauges.refresh());
    }
}

impl Gauges {
    /// What cannot be read (another system than Linux) stays out of the scrape.
    fn refresh(&self) {
        let none = Labels::new();
        if let Some(bytes) = resident_bytes() {
            self.resident.get_or_create(&none).set(bytes);
        }
        if let Some(count) = open_files() {
            self.open_files.get_or_create(&none).set(count);
        }
        if let Some(max) = open_files_max() {
            self.open_files_max.get_or_create(&none).set(max);
        }
        if let Some(seconds) = cpu_seconds() {
            self.cpu.set(seconds);
        }
    }
}

fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn open_files() -> Option<i64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(count).ok()
}

fn open_files_max() -> Option<i64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// `schedstat` counts nanoseconds of the first thread only; the fields of `stat` count ticks of the whole process.
fn cpu_seconds() -> Option<f64> {
    /// Ticks per second that Linux reports to programs, on every architecture it runs on today.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; fields are counted after it. utime and stime are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
        assert!(open_files().is_some_and(|count| count >= 3));
        assert!(open_files_max().is_some_and(|max| max >= 3));
        assert!(cpu_seconds().is_some_and(|seconds| (0.0..1e6).contains(&seconds)));
    }

    #[test]
    fn everything_is_scraped() {
        let registry = MetricsRegistry::new();
        ProcessMetrics::register(&registry, "1.2.3");
        let text = registry.encode().expect("writing to a string cannot fail");
        for (spec, _) in registry.registered() {
            assert!(
                text.lines().any(|line| line.starts_with(spec.name)),
                "{} in\n{text}",
                spec.name
            );
        }
        assert!(
            text.contains("cairn_build_info{version=\"1.2.3\"} 1"),
            "{text}"
        );
    }
}
