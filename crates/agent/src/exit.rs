//! How the end of a program is told to people.

use std::sync::Arc;

use model::limits::MESSAGE_LEN;
use model::{format_bytes, signal_name};

use crate::effect::Exit;

impl Exit {
    /// True when it ended by itself with exit status 0.
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0) && self.signal.is_none()
    }

    /// `exit status 1`, `killed by signal 9 (SIGKILL)`, `killed: out of memory (limit 64MiB)`, or what the driver says. The limit is
    /// that of the program's memory in bytes, 0 for none.
    pub(crate) fn sentence(&self, limit: i64) -> Arc<str> {
        match (self.oom, self.signal, self.code) {
            (true, None, Some(0)) => "exit status 0, although a part of it was out of memory".into(),
            (true, _, _) if limit > 0 => {
                format!("killed: out of memory (limit {})", format_bytes(limit)).into()
            }
            (true, _, _) => "killed: out of memory".into(),
            (_, Some(signal), _) => match signal_name(signal) {
                Some(name) => format!("killed by signal {signal} (SIG{name})").into(),
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
            (exit(None, Some(9), false), "killed by signal 9 (SIGKILL)"),
            (exit(None, Some(15), false), "killed by signal 15 (SIGTERM)"),
            (exit(None, Some(40), false), "killed by signal 40"),
            (exit(None, Some(9), true), "killed: out of memory"),
            (exit(Some(137), None, true), "killed: out of memory"),
            (exit(None, None, false), "the supervisor was lost"),
            (Exit::default(), "ended, and nobody saw how"),
        ] {
            assert_eq!(&*exit.sentence(0), words);
            assert_eq!(exit.is_success(), words == "exit status 0");
        }
        let limited = exit(None, Some(9), true).sentence(64 << 20);
        assert_eq!(&*limited, format!("killed: out of memory (limit {})", format_bytes(64 << 20)));
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
