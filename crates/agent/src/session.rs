//! The session with a manager: connect, register, beat, and begin anew when anything is amiss.

use std::sync::Arc;

use model::sync::ToManager;
use model::{Description, SessionId, Span, Time};

use crate::chance::Backoff;
use crate::effect::Effect;
use crate::limits::{PERIOD_MAX, PERIOD_MIN};

/// How the agent stands with its manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Not connected: the first connection is being made, or the last one ended for this reason.
    Down {
        /// Why the last one ended.
        reason: Option<Arc<str>>,
    },
    /// Connected; the manager has not answered the registration.
    Registering,
    /// A session is open.
    Open {
        /// Its identity.
        session: SessionId,
    },
}

/// The session, as far as it has come.
#[derive(Debug)]
pub(crate) struct Session {
    patience: Span,
    backoff: Backoff,
    /// The connection that is being made or is in use; what others say is not heard.
    connection: u64,
    description: Option<Arc<Description>>,
    /// The node's id, once a manager has told it.
    pub(crate) node: Option<Arc<str>>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Down {
        reason: Option<Arc<str>>,
    },
    /// Connected, but nothing is known of the machine yet.
    Mute,
    Registering {
        until: Time,
        description: Arc<Description>,
    },
    Open(Open),
}

#[derive(Debug)]
struct Open {
    session: SessionId,
    /// What the manager knows of the machine.
    description: Arc<Description>,
    heart: Heart,
    /// The number of the assignments that were applied last; none before the complete set.
    applied: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Heart {
    /// The next beat is due.
    Rest { until: Time },
    /// The answer to a beat is awaited.
    Beat { until: Time },
}

impl Session {
    /// A session that begins by connecting.
    pub(crate) fn new(patience: Span, seed: u64, out: &mut Vec<Effect>) -> Self {
        out.push(Effect::Connect { connection: 1, after: Span::ZERO });
        Self {
            patience,
            backoff: Backoff::new(seed),
            connection: 1,
            description: None,
            node: None,
            stage: Stage::Down { reason: None },
        }
    }

    pub(crate) fn link(&self) -> Link {
        match &self.stage {
            Stage::Down { reason } => Link::Down { reason: reason.clone() },
            Stage::Mute | Stage::Registering { .. } => Link::Registering,
            Stage::Open(open) => Link::Open { session: open.session },
        }
    }

    pub(crate) fn open(&self) -> Option<SessionId> {
        match &self.stage {
            Stage::Open(open) => Some(open.session),
            _ => None,
        }
    }

    pub(crate) fn is_current(&self, connection: u64) -> bool {
        self.connection == connection
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self.stage, Stage::Down { .. })
    }

    /// The next moment at which something is due.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        match &self.stage {
            Stage::Down { .. } | Stage::Mute => None,
            Stage::Registering { until, .. } => Some(*until),
            Stage::Open(Open { heart: Heart::Rest { until } | Heart::Beat { until }, .. }) => Some(*until),
        }
    }

    pub(crate) fn send(&self, message: ToManager) -> Effect {
        Effect::Send { connection: self.connection, message }
    }

    /// What the machine is now. With a live session the manager is told of a change.
    pub(crate) fn describe(&mut self, description: Arc<Description>, now: Time, out: &mut Vec<Effect>) {
        self.description = Some(description);
        match &self.stage {
            Stage::Mute => self.register(now, out),
            Stage::Open(_) => self.tell_description(out),
            Stage::Down { .. } | Stage::Registering { .. } => {}
        }
    }

    /// The connection is there.
    pub(crate) fn connected(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.is_down() {
            self.stage = Stage::Mute;
            self.register(now, out);
        }
    }

    /// The connection or the session is over: wait, and connect again. Whatever the old connection still says is not heard.
    pub(crate) fn lose(&mut self, reason: Arc<str>, out: &mut Vec<Effect>) {
        self.connection += 1;
        self.stage = Stage::Down { reason: Some(reason) };
        out.push(Effect::Connect { connection: self.connection, after: self.backoff.next() });
    }

    /// The manager has opened a session, or confirmed a new description. True when the session is a new one. The first beat follows after the
    /// span that the manager gives: at once if it gives none, as foreign managers do.
    pub(crate) fn registered(
        &mut self,
        session: SessionId,
        node: Arc<str>,
        heartbeat: Span,
        now: Time,
        out: &mut Vec<Effect>,
    ) -> bool {
        let description = match &self.stage {
            Stage::Registering { description, .. } => description.clone(),
            Stage::Open(open) if open.session != session => open.description.clone(),
            Stage::Open(_) | Stage::Down { .. } | Stage::Mute => return false,
        };
        self.node = Some(node);
        let heart = Heart::Rest { until: now + heartbeat.clamp(Span::ZERO, PERIOD_MAX) };
        self.stage = Stage::Open(Open { session, description, heart, applied: None });
        self.tell_description(out);
        self.pulse(now, out);
        true
    }

    /// A heartbeat is answered.
    pub(crate) fn beaten(&mut self, period: Span, now: Time) {
        if let Stage::Open(open) = &mut self.stage {
            let period = period.clamp(PERIOD_MIN, PERIOD_MAX);
            open.heart = Heart::Rest { until: now + period };
            self.backoff.reset();
        }
    }

    /// Takes the number of assignments that are about to be applied; false when they do not follow the ones before.
    pub(crate) fn follows(&mut self, applies_to: Option<u64>, results_in: u64) -> bool {
        let Stage::Open(open) = &mut self.stage else {
            return false;
        };
        if applies_to.is_some() && applies_to != open.applied {
            return false;
        }
        open.applied = Some(results_in);
        true
    }

    /// Sends the heartbeat that is due; gives the session up when an answer is overdue, and says so.
    pub(crate) fn pulse(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<&'static str> {
        match &mut self.stage {
            Stage::Registering { until, .. } if *until <= now => {
                return Some("the manager does not answer the registration");
            }
            Stage::Open(open) => match open.heart {
                Heart::Beat { until } if until <= now => {
                    return Some("the manager does not answer the heartbeat");
                }
                Heart::Rest { until } if until <= now => {
                    let session = open.session;
                    open.heart = Heart::Beat { until: now + self.patience };
                    out.push(self.send(ToManager::Heartbeat { session }));
                }
                Heart::Beat { .. } | Heart::Rest { .. } => {}
            },
            Stage::Registering { .. } | Stage::Down { .. } | Stage::Mute => {}
        }
        None
    }

    fn register(&mut self, now: Time, out: &mut Vec<Effect>) {
        if let Some(description) = self.description.clone() {
            out.push(self.send(ToManager::Register { session: None, description: description.clone() }));
            self.stage = Stage::Registering { until: now + self.patience, description };
        }
    }

    fn tell_description(&mut self, out: &mut Vec<Effect>) {
        let Stage::Open(open) = &mut self.stage else {
            return;
        };
        let Some(newest) = self.description.clone().filter(|newest| *newest != open.description) else {
            return;
        };
        open.description = newest.clone();
        let session = Some(open.session);
        out.push(self.send(ToManager::Register { session, description: newest }));
    }
}
