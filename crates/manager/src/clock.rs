//! The time that goes into the log, from a machine's clock that people and programs may set.
//!
//! A log's time never goes back, so a clock that does would stop it until it has caught up, and with it every delay.
//! One that jumps ahead makes every delay end at once; that cannot be told from time that has passed while the machine
//! slept. Neither may end the patience with agents: that is counted by a clock that nobody sets ([`crate::Step::steady`]).

use model::Time;

/// Of ten parts of time, so many pass while the machine's clock is behind what has been shown: slow enough to be caught up with,
/// fast enough that nobody waits much longer than was said.
const PACE: i64 = 9;

/// Shows the machine's time, and goes on from what it has shown while that is ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogClock {
    shown: Time,
    steady: Time,
}

impl LogClock {
    /// The time, from what the machine's clock says and from one that runs evenly whatever happens to the first. Never earlier
    /// than what was shown before.
    pub fn now(&mut self, wall: Time, steady: Time) -> Time {
        let passed = steady.since(self.steady).0.max(0);
        self.steady = self.steady.max(steady);
        self.shown = wall.max(Time(self.shown.0.saturating_add(passed / 10 * PACE)));
        self.shown
    }

    /// Another manager has written this time: what is shown from now on is not earlier.
    pub fn seen(&mut self, written: Time) {
        self.shown = self.shown.max(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn it_follows_the_machine_and_never_stands_still_or_goes_back() {
        let mut clock = LogClock::default();
        // What the machine says, what has really passed, what is shown; in seconds.
        for (wall, steady, shown) in [
            (1_000, 50, 1_000),
            (1_010, 60, 1_010),
            // Set back by an hour: nine tenths of the pace.
            (-2_580, 70, 1_019),
            (-2_570, 80, 1_028),
            // Nearly right again.
            (1_030, 90, 1_037),
            (1_040, 100, 1_046),
            (1_140, 200, 1_140),
            // Set ahead.
            (9_000, 210, 9_000),
            // An even clock that is not: a reader that was slow.
            (9_000, 205, 9_000),
            (9_001, 211, 9_001),
        ] {
            assert_eq!(clock.now(Time(wall * S), Time(steady * S)), Time(shown * S), "{wall} {steady}");
        }
    }

    #[test]
    fn what_another_wrote_goes_on() {
        let mut clock = LogClock::default();
        clock.now(Time(1_000 * S), Time(0));
        clock.seen(Time(5_000 * S));
        assert_eq!(clock.now(Time(1_010 * S), Time(10 * S)), Time(5_009 * S));
        clock.seen(Time(10 * S));
        assert_eq!(clock.now(Time(1_020 * S), Time(20 * S)), Time(5_018 * S));
    }
}
