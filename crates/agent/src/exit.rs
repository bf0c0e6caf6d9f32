//! How the end of a program is told to people.

use std::sync::Arc;

use model::limits::MESSAGE_LEN;

use crate::effect::Exit;

impl Exit {
    /// True when it ended by itself with exit status 0.
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0) && self.signal.is_none()
    }

    /// `exit status 1`, `killed by SIGKILL (9)`, `out of memory`, or what the driver says.
    pub(crate) fn sentence(&self) -> Arc<str> {
        match (self.oom, self.signal, self.code) {
            (true, None, Some(0)) => "exit status 0, although a part of it was out of memory".into(),
            (true, _, _) => "out of memory".into(),
            (_, Some(signal), _) => match signal_name(signal) {
                Some(name) => format!("killed by SIG{name} ({signal})").into(),
                None => format!("killed by signal {signal}").into(),
            },
            (_, None, Some(code)) => format!("exit status {code}").into(),
            (_, None, None) if self.message.is_empty() => "ended, and nobody saw how".into(),
            (_, None, None) => clip(&self.message),
        }
    }
}

/// At most [`MESSAGE_LEN`] bytes of a message, cut between characters.
pub(crate) fn clip(message: &Arc<str>) -> Arc<str> {
    if message.len() <= MESSAGE_LEN {
        return message.clone();
    }
    let mut end = MESSAGE_LEN - '…'.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end]).into()
}

/// The name of a signal on Linux, without `SIG`.
fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let place = usize::try_from(signal).ok()?.checked_sub(1)?;
    NAMES.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_in_words() {
        let exit = |code, signal, oom| Exit {
            code,
            signal,
            oom,
            message: "the supervisor was lost".into(),
            ..Exit::default()
        };
        for (exit, words) in [
            (exit(Some(1), None, false), "exit status 1"),
            (exit(Some(0), None, false), "exit status 0"),
            (exit(None, Some(9), false), "killed by SIGKILL (9)"),
            (exit(None, Some(15), false), "killed by SIGTERM (15)"),
            (exit(None, Some(40), false), "killed by signal 40"),
            (exit(None, Some(9), true), "out of memory"),
            (exit(Some(137), None, true), "out of memory"),
            (exit(None, None, false), "the supervisor was lost"),
            (Exit::default(), "ended, and nobody saw how"),
        ] {
            assert_eq!(&*exit.sentence(), words);
            assert_eq!(exit.is_success(), words == "exit status 0");
        }
    }

    #[test]
    fn names_of_signals_agree_with_the_models() {
        for number in 1..=31 {
            let name = signal_name(number).unwrap();
            assert!(model::signal_number(name).is_none_or(|n| n == number), "{name}");
        }
        assert_eq!((signal_name(0), signal_name(32), signal_name(-1)), (None, None, None));
    }

    #[test]
    fn long_messages_are_clipped_between_characters() {
        let long: Arc<str> = "ä".repeat(MESSAGE_LEN).into();
        let clipped = clip(&long);
        assert!(clipped.len() <= MESSAGE_LEN && clipped.len() > MESSAGE_LEN - 4 && clipped.ends_with('…'));
        assert_eq!(&*clip(&"short".into()), "short");
    }
}
