//! How benches run and are shown. What a row measures is the business of its bench.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A row of a bench: a shape, and how to measure it once.
pub struct Row {
    /// Its name for `--row`.
    pub name: &'static str,
    /// What it measures, for people.
    pub what: &'static str,
    /// Measures it once.
    pub measure: fn() -> Vec<Figure>,
}

/// One measured value.
pub struct Figure {
    /// What it is, with its unit last, such as `decide_s`.
    pub name: String,
    /// The value.
    pub value: f64,
}

impl Figure {
    /// A value under a name.
    pub fn new(name: &str, value: f64) -> Self {
        Self { name: name.into(), value }
    }
}

/// How long something took, by the clock and by the processor time of this thread. On a machine that is shared the
/// second says more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Seconds by the clock.
    pub wall_s: f64,
    /// Seconds of processor time.
    pub cpu_s: f64,
}

impl Took {
    /// Does something and adds what it took.
    pub fn add<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let (start, cpu_start) = (Instant::now(), cpu());
        let result = work();
        self.cpu_s += (cpu() - cpu_start).as_secs_f64();
        self.wall_s += start.elapsed().as_secs_f64();
        result
    }
}

/// The figure that every row has: the largest resident memory of its process, in MiB.
const PEAK: &str = "peak_rss_mib";
/// How often each row is measured.
const RUNS: usize = 5;
/// The program that runs here, for the processes of the rows. It is not named by its path: there it may have been built anew
/// or removed meanwhile, and every process of a row must be of the same program.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Runs the rows that the options ask for and prints them.
pub fn run(bench: &str, rows: &[Row], options: &[&str]) -> Result<(), String> {
    let mut json = false;
    let mut once = false;
    let mut only = None;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match *word {
            "--json" => json = true,
            // For the processes that this one starts.
            "--once" => once = true,
            "--row" => only = Some(*words.next().ok_or("--row needs the name of a row")?),
            other => return Err(format!("{other:?} is not an option of bench {bench}")),
        }
    }
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    if let Some(name) = only
        && !names.contains(&name)
    {
        return Err(format!("bench {bench} has no row {name:?}; rows are {}", names.join(", ")));
    }
    for row in rows.iter().filter(|row| only.is_none_or(|name| name == row.name)) {
        if once {
            let mut figures = (row.measure)();
            figures.push(Figure::new(PEAK, peak_rss_mib()?));
            figures.iter().for_each(|figure| println!("{} {}", figure.name, figure.value));
        } else {
            let figures = medians(bench, row.name)?;
            if json { print_json(bench, row, &figures) } else { print_text(row, &figures) }
        }
    }
    Ok(())
}

/// Measures a row in processes of its own; the median of each figure, the largest of the peak.
fn medians(bench: &str, row: &str) -> Result<Vec<Figure>, String> {
    let mut runs: Vec<Vec<Figure>> = Vec::new();
    for _ in 0..RUNS {
        runs.push(measure_apart(bench, row)?);
    }
    let median = |figure: &Figure| {
        let same = runs.iter().flatten().filter(|other| other.name == figure.name);
        let mut values: Vec<f64> = same.map(|other| other.value).collect();
        values.sort_by(f64::total_cmp);
        let place = if figure.name == PEAK { values.len() - 1 } else { values.len() / 2 };
        Figure { name: figure.name.clone(), value: values[place] }
    };
    Ok(runs[0].iter().map(median).collect())
}

fn measure_apart(bench: &str, row: &str) -> Result<Vec<Figure>, String> {
    let failed = |problem: String| format!("row {row} of bench {bench}: {problem}");
    let output = Command::new(THIS_PROGRAM)
        .args(["bench", bench, "--once", "--row", row])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("ended with {}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let read = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some(Figure::new(name, value.parse().ok()?))
    };
    text.lines().map(read).collect::<Option<_>>().ok_or_else(|| failed(format!("cannot be read: {text:?}")))
}

/// The largest resident memory of this process so far, as the kernel counts it.
fn peak_rss_mib() -> Result<f64, String> {
    let status =
        std::fs::read_to_string("/proc/self/status").map_err(|e| format!("/proc/self/status: {e}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| "/proc/self/status has no VmHWM".into())
}

fn print_text(row: &Row, figures: &[Figure]) {
    println!("{} ({})", row.what, row.name);
    for figure in figures {
        println!("    {:<28}{:>16}", figure.name, shown(figure.value));
    }
}

fn print_json(bench: &str, row: &Row, figures: &[Figure]) {
    let figures: Vec<String> = figures.iter().map(|f| format!("\"{}\":{}", f.name, f.value)).collect();
    let what = row.what.replace('\\', "\\\\").replace('"', "\\\"");
    println!(
        "{{\"bench\":\"{bench}\",\"row\":\"{}\",\"what\":\"{what}\",\"runs\":{RUNS},{}}}",
        row.name,
        figures.join(",")
    );
}

/// A value with as many digits as it is worth: `12,345`, `3.21`, `0.00123`.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value < 1000.0 {
        return format!("{value}");
    }
    if value < 1.0 {
        return format!("{value:.6}");
    }
    if value < 1000.0 {
        return format!("{value:.3}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
