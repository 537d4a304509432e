//! How many cores a model in this process can compute on.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

/// The cores that this process may use: those of its affinity, or fewer if the quota of its cgroup says so.
///
/// Hyper-threads share the units that multiply, so two of them count as one core. A quota counts time, on
/// whichever of them: one of two cores is two cores if there are as many.
///
/// A part that names no number of threads has so many, and the scheduler counts as many for it.
pub fn physical_cores() -> NonZeroUsize {
    let usable = thread::available_parallelism().map_or(1, usize::from);
    let cores = cores_of(usable, Path::new("/"));
    NonZeroUsize::new(cores).unwrap_or(NonZeroUsize::MIN)
}

/// `usable`: threads that may run at once, by affinity and quota.
fn cores_of(usable: usize, root: &Path) -> usize {
    match affinity(root) {
        Some(cores) => usable.min(cores),
        None => cores_in(usable, root),
    }
}

/// The cores that the scheduler of the kernel may put this process on; two hyper-threads are one. `None` if
/// it does not say. `root` is `/`, but for tests.
pub fn affinity(root: &Path) -> Option<usize> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(cores_in(count_of(list)?, root))
}

fn cores_in(threads: usize, root: &Path) -> usize {
    let smt = fs::read_to_string(root.join("sys/devices/system/cpu/smt/active"));
    if smt.is_ok_and(|active| active.trim() == "1") {
        threads.div_ceil(2)
    } else {
        threads
    }
}

/// "0-3,8" are five.
fn count_of(list: &str) -> Option<usize> {
    let count = |range: &str| -> Option<usize> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hyper_threads_are_a_core_and_a_quota_counts_time() {
        // Usable threads, affinity, hyper-threads: cores.
        for (usable, cpus, smt, expected) in [
            (8, "0-7", "0", 8),
            (8, "0-7", "1", 4),
            // A quota of two cores on a host with hyper-threads.
            (2, "0-7", "1", 2),
            (2, "0-1", "1", 1),
            (1, "3", "1", 1),
            (5, "0-3,8", "0", 5),
            // An odd list of processors.
            (6, "x", "1", 3),
            (6, "5-2", "0", 6),
        ] {
            let root = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            write("proc/self/status", &format!("Cpus_allowed_list:\t{cpus}\n"));
            write("sys/devices/system/cpu/smt/active", smt);
            let cores = cores_of(usable, root.path());
            assert_eq!(cores, expected, "{usable} {cpus} {smt}");
        }
        assert_eq!(cores_of(3, Path::new("/nowhere")), 3);
    }
}
