//! `sim run` and `sim story`, as a person sees them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Span;
use sim::workload::{Plan, script};
use sim::{hunt, story};

/// How often progress is told, in seeds.
const PROGRESS: u64 = 500;

struct Options {
    seeds: u64,
    /// No further seed is begun after so long.
    within: Option<Duration>,
    first: u64,
    plan: Plan,
    twice: bool,
    quick: bool,
}

/// Runs random clusters. True when every promise was kept.
pub fn run(words: &[&str]) -> Result<bool, String> {
    let options = read(words)?;
    let begin = Instant::now();
    println!("seeds from {}", options.first);
    let (mut seeds, mut hours, mut effects) = (0, 0.0, 0);
    for seed in (options.first..).take(options.seeds as usize) {
        if options.within.is_some_and(|within| begin.elapsed() >= within) {
            break;
        }
        let outcome = hunt::one(seed, options.plan);
        seeds += 1;
        hours += outcome.age.0 as f64 / 3.6e12;
        effects += outcome.fingerprint.1;
        if !outcome.broken.is_empty() {
            return Ok(report(seed, &options, &outcome));
        }
        let twice = |seed| hunt::fingerprint(seed, options.plan);
        if options.twice && twice(seed) != twice(seed) {
            println!("seed {seed} does not do the same twice");
            return Ok(false);
        }
        if seeds % PROGRESS == 0 {
            tell(seeds, hours, begin, effects);
        }
    }
    tell(seeds, hours, begin, effects);
    Ok(true)
}

fn tell(seeds: u64, hours: f64, begin: Instant, effects: u64) {
    let seconds = begin.elapsed().as_secs_f64();
    let rate = seconds / hours;
    println!(
        "{seeds} seeds; {hours:.1} simulated hours in {seconds:.1} s: {rate:.3} s an hour, {effects} effects"
    );
}

fn report(seed: u64, options: &Options, outcome: &story::Outcome) -> bool {
    println!("seed {seed} breaks a promise:");
    for broken in outcome.broken.iter().take(10) {
        println!("  {broken}");
    }
    if options.quick {
        return false;
    }
    let short = hunt::shorten(&script(seed, options.plan), hunt::TRIES);
    println!("\nthe shortest script found that breaks the same promise:\n\n{}", hunt::text(&short));
    for broken in story::run(&short, story::Telling::Random).broken.iter().take(10) {
        println!("# {broken}");
    }
    false
}

fn read(words: &[&str]) -> Result<Options, String> {
    let mut options =
        Options { seeds: 100, within: None, first: 1, plan: Plan::HOUR, twice: false, quick: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is not a number"));
        match *word {
            "--seeds" => options.seeds = number(value()?)? as u64,
            "--for" => {
                let span = Span::parse(value()?).map_err(|e| format!("--for: {e}"))?;
                options.within = Some(Duration::from_nanos(u64::try_from(span.0).unwrap_or(0)));
                options.seeds = u64::MAX;
            }
            "--fresh" => options.first = fresh(),
            "--seed" => options.first = value()?.parse().map_err(|_| "--seed is a number".to_string())?,
            "--hours" => {
                options.plan.length = Span((number(value()?)? * 3.6e12) as i64);
            }
            "--short" => options.plan = Plan::SHORT,
            "--full" => options.plan.full = true,
            "--twice" => options.twice = true,
            "--quick" => options.quick = true,
            other => return Err(format!("{other:?} is not an option of run")),
        }
    }
    Ok(options)
}

/// A seed that nobody has seen.
fn fresh() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 % 1_000_000_000_000
}

/// Tells a story. True when every promise was kept.
pub fn story(file: &str) -> Result<bool, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let outcome = story::tell(&text).map_err(|e| format!("{file}: {e}"))?;
    print!("{}", outcome.text);
    Ok(outcome.broken.is_empty())
}
