//! Measures the log on the disk of the directory it is given:
//!
//! ```text
//! cargo run --release -p consensus --example bench -- DIR [seconds]
//! ```
//!
//! Sequential latency, throughput with 1,000 callers, how fast a directory opens after a clean
//! stop and after a crash (its files copied while it runs), and the CPU of an idle node.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use consensus::{Consensus, Frozen, Machine, Options};

const ENTRY_BYTES: usize = 300;
const CALLERS: usize = 1_000;

/// Counts, so that the log is what is measured.
#[derive(Clone, Copy)]
struct Count(u64);

impl Machine for Count {
    type Reply = u64;

    fn apply(&mut self, _index: u64, _entry: &[u8]) -> u64 {
        self.0 += 1;
        self.0
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(*self)
    }

    fn install(&mut self, _index: u64, reader: &mut dyn Read) -> Result<(), String> {
        let mut bytes = [0; 8];
        reader.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

impl Frozen for Count {
    fn write(self: Box<Self>, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: bench DIR [seconds]")?).join("bench-consensus");
    let seconds: u64 = arguments.next().map_or(Ok(5), |s| s.parse())?;
    let time = Duration::from_secs(seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&dir, time))?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

async fn run(dir: &Path, time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let _ = std::fs::remove_dir_all(dir);
    // No snapshot before the openings are measured: the log then holds all that was written.
    let mut options = Options::new(dir.join("live"), 1);
    options.snapshot_after_entries = u64::MAX;
    options.snapshot_after_bytes = u64::MAX;
    let consensus = opened("a new directory", &options).await?;
    sequential(&consensus, time).await?;
    println!("log: {} kB", consensus.status().log_bytes / 1024);
    for target in [50_000, 200_000] {
        let mut written = 0;
        while written < target {
            written += concurrent(&consensus, 20).await?;
        }
        let status = consensus.status();
        println!("log: {} entries, {} kB", status.last_index.unwrap_or(0), status.log_bytes / 1024);
        crash_copy(&options.dir, &dir.join("crashed"))?;
        let crashed = Options { dir: dir.join("crashed"), ..options.clone() };
        opened("  the same after a crash", &crashed).await?.shutdown().await;
        opened("  the same after a clean stop", &crashed).await?.shutdown().await;
    }
    idle(time).await?;
    consensus.shutdown().await;
    // As it runs by default, snapshots included.
    let consensus = opened("with snapshots", &Options::new(dir.join("default"), 1)).await?;
    let start = Instant::now();
    let mut written = 0;
    while start.elapsed() < time {
        written += concurrent(&consensus, 20).await?;
    }
    let status = consensus.status();
    println!(
        "{written} entries in {:?}, {} /s, snapshots included; log file {} kB",
        start.elapsed(),
        (written as f64 / start.elapsed().as_secs_f64()) as u64,
        status.log_bytes / 1024
    );
    consensus.shutdown().await;
    Ok(())
}

async fn opened(what: &str, options: &Options) -> Result<Consensus<Count>, Box<dyn std::error::Error>> {
    let start = Instant::now();
    let consensus = Consensus::open(options.clone(), Count(0)).await?;
    println!("{what}: leads after {:?}", start.elapsed());
    Ok(consensus)
}

async fn sequential(consensus: &Consensus<Count>, time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let (start, cpu) = (Instant::now(), cpu_seconds()?);
    let mut took = Vec::new();
    while start.elapsed() < time {
        let begin = Instant::now();
        consensus.propose(vec![7; ENTRY_BYTES]).await?;
        took.push(begin.elapsed());
    }
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!(
        "sequential: {} proposals, p10 {:?} p50 {:?} p99 {:?}, cpu {:.0} µs each",
        took.len(),
        at(0.1),
        at(0.5),
        at(0.99),
        (cpu_seconds()? - cpu) / took.len() as f64 * 1e6
    );
    Ok(())
}

/// `CALLERS` callers, each proposing `rounds` times.
async fn concurrent(
    consensus: &Consensus<Count>,
    rounds: usize,
) -> Result<usize, Box<dyn std::error::Error>> {
    let (start, cpu) = (Instant::now(), cpu_seconds()?);
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let consensus = consensus.clone();
            tokio::spawn(async move {
                for _ in 0..rounds {
                    consensus.propose(vec![7; ENTRY_BYTES]).await?;
                }
                Ok::<(), consensus::ProposeError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    let (written, took) = (CALLERS * rounds, start.elapsed());
    println!(
        "{CALLERS} callers: {} /s, cpu {:.1} µs each",
        (written as f64 / took.as_secs_f64()) as u64,
        (cpu_seconds()? - cpu) / written as f64 * 1e6
    );
    Ok(written)
}

async fn idle(time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    let cpu = cpu_seconds()?;
    tokio::time::sleep(time).await;
    let share = (cpu_seconds()? - cpu) / time.as_secs_f64();
    println!("idle: {:.3} % of a core", share * 100.0);
    Ok(())
}

/// What a crash leaves: the files as they are while the log is open (and quiet).
fn crash_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to)?;
    std::fs::copy(from.join("log.redb"), to.join("log.redb"))?;
    Ok(())
}

/// User and system time of this process, from the kernel's clock ticks (100 a second).
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(") ").next().ok_or("no stat")?.split(' ').collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}
