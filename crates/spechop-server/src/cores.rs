//! The cores that this process may use, and what of them the calls of each backend take.
//!
//! Backends within this process compute on the same cores. The scheduler lets speculation start on
//! idle ones only ([`spechop_sched::Cores`]), so it must know how many there are. Containers are
//! bounded in two ways: by affinity, which gives whole cores, and by the quota of a cgroup, which may
//! give half a one. Both can change while the server runs.

use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spechop_config::{Config, Encoder, EncoderKind, Engine, Model, Reader, SpeculatorKind};
use spechop_embed::reader_threads;
use spechop_llm::LocalModelOptions;
use spechop_ports::{affinity, physical_cores};
use spechop_sched::{Backend, Cores, Demand, Millicores};
use tokio::time::{MissedTickBehavior, interval};

/// How often somebody looks whether cores came or went.
const EVERY: Duration = Duration::from_secs(5);

/// What a search takes while its query is encoded elsewhere, on average: the scan alone.
const SCAN: Millicores = Millicores(250);

/// How busy everything is with what is needed.
pub(crate) struct Load {
    backends: Vec<Backend>,
    cores: Option<Cores>,
}

impl Load {
    pub(crate) fn of(backends: Vec<Backend>, cores: Option<Cores>) -> Self {
        Self { backends, cores }
    }

    /// The share of the last seconds, from 0 to 1, in which what is needed left no room for speculation: a
    /// needed call waited for a place somewhere, or needed calls took all cores.
    pub(crate) fn now(&self) -> f64 {
        let backends = self.backends.iter().map(Backend::load);
        let cores = self.cores.iter().map(Cores::load);
        backends.chain(cores).fold(0.0, f64::max)
    }
}

/// The cores of a configuration: those that it names, or else those that this process may use.
pub(crate) fn of(config: &Config) -> Cores {
    let named = config.scheduler.cores;
    let cores = named.unwrap_or_else(found);
    tracing::info!(
        cores = cores.as_cores(),
        named = named.is_some(),
        "speculation starts on idle cores only"
    );
    if config.speculator.default == SpeculatorKind::None {
        tracing::info!(
            "nobody guesses unless a question says who: an index guesses with a hot subset (spechop index \
             hot), or as a whole if look-ups go elsewhere (target.kind); see [speculator]"
        );
    }
    let reads = config.reader.local(&config.generator);
    let threads = reads.map_or(0, LocalModelOptions::threads_alone);
    if Millicores::cores(threads as usize) >= cores
        && config.speculator.default != SpeculatorKind::None
    {
        tracing::warn!(
            threads,
            cores = cores.as_cores(),
            "a model that reads takes all cores, so nothing is speculated beside it: it can have fewer threads"
        );
    }
    Cores::new(cores)
}

/// Follows cores that come and go, for as long as it is polled.
pub(crate) async fn keep(cores: Option<&Cores>, config: &Config) -> Infallible {
    let Some(cores) = cores.filter(|_| config.scheduler.cores.is_none()) else {
        return pending().await;
    };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Small files of the kernel; yet whatever reads files stays off the runtime.
        let Ok(now) = tokio::task::spawn_blocking(found).await else {
            continue;
        };
        let before = cores.count();
        if now != before {
            tracing::info!(
                before = before.as_cores(),
                now = now.as_cores(),
                "the cores that this process may use have changed; the workers and threads of the models \
                 stay as many as at the start"
            );
            cores.set(now);
        }
    }
}

/// A call takes the threads of a worker, and each worker computes for one call at a time. A needed one that is
/// alone may take more.
pub(crate) fn of_model(model: &Model) -> Option<Demand> {
    match &model.engine {
        Engine::Local(options) => Some(of_local(options)),
        Engine::OpenAi(_) => None,
    }
}

/// The same of a model that was opened: a needed call that is alone has so many threads.
pub(crate) fn of_opened(demand: Option<Demand>, threads_alone: Option<u32>) -> Option<Demand> {
    let mut demand = demand?;
    if let Some(threads) = threads_alone {
        demand.alone = Millicores::cores(threads as usize).min(demand.alone);
    }
    Some(demand)
}

fn of_local(options: &LocalModelOptions) -> Demand {
    Demand {
        each: Millicores::cores(options.threads_each() as usize),
        alone: Millicores::cores(options.threads_alone() as usize),
        guess: Millicores::cores(options.threads_each() as usize),
        at_once: options.workers.get(),
        // It stops after a token, or a chunk of a prompt.
        yields: true,
    }
}

/// A reader in this process; `None` for one that computes elsewhere, or is the generator.
///
/// A run of ONNX Runtime goes on to its end, whoever has left. But a run is one passage, and a needed
/// call has all of the next ones: no guess has to end for it.
pub(crate) fn of_reader(reader: &Reader) -> Option<Demand> {
    match reader {
        Reader::Generator => None,
        Reader::Model(model) => of_model(model),
        // Needed calls share its threads: however many there are, they take no more than these.
        Reader::Spans { threads, .. } => {
            let (sessions, together) = reader_threads(threads.get());
            Some(Demand {
                each: Millicores::cores(sessions * together),
                alone: Millicores::cores(sessions * together),
                guess: Millicores::cores(together),
                at_once: 1,
                yields: false,
            })
        }
    }
}

/// A search of the index: first the query is encoded, then one thread scans.
pub(crate) fn of_index(encoder: &Encoder) -> Demand {
    of_encoder(encoder).unwrap_or(Demand {
        each: SCAN,
        alone: SCAN,
        guess: SCAN,
        at_once: Millicores::ONE.0 / SCAN.0,
        yields: false,
    })
}

/// An encoder in this process. A query is short, and of longer texts there are a few: one call hardly
/// keeps more than a core busy; many calls fill all threads.
pub(crate) fn of_encoder(encoder: &Encoder) -> Option<Demand> {
    let EncoderKind::Onnx { threads, .. } = &encoder.kind else {
        return None;
    };
    let threads = u32::try_from(threads.get()).unwrap_or(u32::MAX);
    Some(Demand {
        each: Millicores::ONE,
        alone: Millicores::ONE,
        guess: Millicores::ONE,
        at_once: threads.saturating_add(1),
        yields: false,
    })
}

/// What this process may use of the machine, now. **Blocks** for some small files.
pub(crate) fn found() -> Millicores {
    found_in(Path::new("/"))
}

/// The cores of the affinity, or the quota of the cgroup if that is less. `root` is `/`, but for tests.
fn found_in(root: &Path) -> Millicores {
    let Some(quota) = quota(root) else {
        // That knows the quotas of cgroup v1, too, in whole cores.
        return Millicores::cores(physical_cores().get());
    };
    let allowed = affinity(root).map_or(Millicores(u32::MAX), Millicores::cores);
    quota.min(allowed).max(Millicores(1))
}

/// The smallest quota on the way from our own cgroup to the root (cgroup v2, `cpu.max`).
fn quota(root: &Path) -> Option<Millicores> {
    let own = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let top = root.join("sys/fs/cgroup");
    let mut at: PathBuf = top.join(own);
    let mut least = None;
    // In a container that sees its own cgroup alone, the path of the host leads nowhere: the root of
    // what it sees is ours.
    while at.starts_with(&top) {
        let limit = std::fs::read_to_string(at.join("cpu.max"));
        let limit = limit.ok().and_then(|text| quota_of(&text));
        least = [least, limit].into_iter().flatten().min();
        if !at.pop() {
            break;
        }
    }
    least
}

/// "max 100000" is none; "150000 100000" is one core and a half: microseconds of every period.
fn quota_of(text: &str) -> Option<Millicores> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    let millis = quota.saturating_mul(1000).checked_div(period)?;
    Some(Millicores(u32::try_from(millis).unwrap_or(u32::MAX).max(1)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine as its files show it.
    fn machine(cgroup: &str, quotas: &[(&str, &str)], cpus: &str, smt: &str) -> Millicores {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", cgroup);
        let status = format!("Name:\tspechop\nCpus_allowed_list:\t{cpus}\nThreads:\t9\n");
        write("proc/self/status", &status);
        write("sys/devices/system/cpu/smt/active", smt);
        for (at, quota) in quotas {
            write(&format!("sys/fs/cgroup/{at}/cpu.max"), quota);
        }
        found_in(root.path())
    }

    #[test]
    fn the_least_of_quotas_and_affinity_counts() {
        let own = "0::/kubepods/pod1\n";
        let half = ("kubepods/pod1", "50000 100000\n");
        for (cgroup, quotas, cpus, smt, expected) in [
            (own, vec![half], "0-7", "0", 500),
            (
                own,
                vec![("kubepods/pod1", "250000 100000")],
                "0-7",
                "0",
                2500,
            ),
            // The machine has less than the quota allows.
            (
                own,
                vec![("kubepods/pod1", "250000 100000")],
                "3",
                "0",
                1000,
            ),
            (
                own,
                vec![("kubepods/pod1", "900000 100000")],
                "0-3,8",
                "0",
                5000,
            ),
            (
                own,
                vec![("kubepods/pod1", "900000 100000")],
                "0-7",
                "1",
                4000,
            ),
            // A group above has less.
            (
                own,
                vec![half, ("kubepods", "20000 100000")],
                "0-7",
                "0",
                200,
            ),
            (own, vec![half, ("kubepods", "max 100000")], "0-7", "0", 500),
            // A container that sees its own group as the root, by either path.
            ("0::/\n", vec![(".", "150000 100000")], "0-7", "0", 1500),
            (own, vec![(".", "150000 100000")], "0-7", "0", 1500),
            // Beside old controllers.
            (
                "4:memory:/a\n0::/b\n",
                vec![("b", "50000 50000")],
                "0-7",
                "0",
                1000,
            ),
            // A thousandth at least.
            (own, vec![("kubepods/pod1", "1 100000")], "0-7", "0", 1),
        ] {
            let found = machine(cgroup, &quotas, cpus, smt);
            assert_eq!(
                found,
                Millicores(expected),
                "{cgroup} {quotas:?} {cpus} {smt}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_limits_nothing() {
        let whole = Millicores::cores(physical_cores().get());
        for quota in ["max 100000", "", "many", "50000", "50000 0", "-1 100000"] {
            assert_eq!(
                machine("0::/a\n", &[("a", quota)], "0-7", "0"),
                whole,
                "{quota}"
            );
        }
        assert_eq!(machine("3:cpu:/a\n", &[], "0-7", "0"), whole);
        // An odd list of processors leaves the quota.
        let quota = [("a", "70000 100000")];
        for cpus in ["", "x", "5-2", "1-", "0-99999999999999999999"] {
            assert_eq!(
                machine("0::/a\n", &quota, cpus, "0"),
                Millicores(700),
                "{cpus}"
            );
        }
        assert!(found() > Millicores(0));
    }

    #[test]
    fn a_call_takes_what_its_engine_has_for_it() {
        let mut options = LocalModelOptions::new("model.gguf");
        options.workers = std::num::NonZeroU32::new(3).unwrap();
        options.threads = std::num::NonZeroU32::new(2);
        let demand = of_local(&options);
        assert_eq!((demand.each.0, demand.alone.0), (2000, 2000));
        assert_eq!(demand.at_once, 3);
        // What was opened may have fewer threads for a call that is alone.
        let wide = Demand {
            alone: Millicores::cores(4),
            ..demand
        };
        for (threads, alone) in [(None, 4000), (Some(2), 2000), (Some(4), 4000)] {
            let opened = of_opened(Some(wide), threads).unwrap();
            assert_eq!((opened.each, opened.alone.0), (wide.each, alone));
        }
        // Up to four threads read a passage each. Of a guess one passage is read at a time.
        for (threads, each, guess) in [
            (1, 1000, 1000),
            (2, 2000, 1000),
            (4, 4000, 1000),
            (5, 4000, 1000),
            (7, 6000, 2000),
            (8, 8000, 2000),
            (11, 9000, 3000),
        ] {
            let reader = Reader::Spans {
                dir: "reader".into(),
                threads: std::num::NonZeroUsize::new(threads).unwrap(),
            };
            let demand = of_reader(&reader).unwrap();
            assert_eq!((demand.each.0, demand.guess.0), (each, guess));
        }
    }
}
