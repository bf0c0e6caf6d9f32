//! The flags that say how an update and a rollback go. Docker's names and meanings.

use clap::Args;
use model::{Ratio, Span};
use native_api::types::{Duration, FailureAction, ServiceSpec, UpdateOrder, UpdatePolicy};

use super::options;

/// How an update goes (`--update-*`) and how a rollback goes (`--rollback-*`).
#[derive(Debug, Default, Args)]
pub struct PolicyFlags {
    /// How many tasks change at once in an update; 0 for all.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    update_parallelism: Option<u32>,
    /// How long to wait between them.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    update_delay: Option<Span>,
    /// How long a new task is watched: one that ends within has failed; 5s when nothing is said.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    update_monitor: Option<Span>,
    /// The share of the tasks that may fail, such as 0.25.
    #[arg(long, value_name = "RATIO", value_parser = ratio, allow_hyphen_values = true)]
    update_max_failure_ratio: Option<Ratio>,
    /// stop-first (the old task ends, then the new one starts) or start-first.
    #[arg(long, value_name = "ORDER", value_parser = order)]
    update_order: Option<UpdateOrder>,
    /// What to do when more tasks fail: pause, continue or rollback.
    #[arg(long, value_name = "ACTION", value_parser = update_action)]
    update_failure_action: Option<FailureAction>,
    /// So many of the lowest slots try the new revision first, each beside its own task, until they are promoted; 0 for none.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    update_canary: Option<u32>,
    /// Promote them as soon as all have run for --update-monitor.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    update_auto_promote: Option<bool>,
    /// How long they wait to be promoted before the update is paused; 24h when nothing is said.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    update_promote_within: Option<Span>,
    /// As --update-parallelism, for a rollback.
    #[arg(long, value_name = "N", value_parser = options::count, allow_hyphen_values = true)]
    rollback_parallelism: Option<u32>,
    /// As --update-delay, for a rollback.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    rollback_delay: Option<Span>,
    /// As --update-monitor, for a rollback.
    #[arg(long, value_name = "DURATION", value_parser = options::span)]
    rollback_monitor: Option<Span>,
    /// As --update-max-failure-ratio, for a rollback.
    #[arg(long, value_name = "RATIO", value_parser = ratio, allow_hyphen_values = true)]
    rollback_max_failure_ratio: Option<Ratio>,
    /// As --update-order, for a rollback.
    #[arg(long, value_name = "ORDER", value_parser = order)]
    rollback_order: Option<UpdateOrder>,
    /// What to do when more tasks fail in a rollback: pause or continue.
    #[arg(long, value_name = "ACTION", value_parser = rollback_action)]
    rollback_failure_action: Option<FailureAction>,
}

/// What was given for one of the two.
struct Given {
    parallelism: Option<u32>,
    delay: Option<Span>,
    monitor: Option<Span>,
    max_failure_ratio: Option<Ratio>,
    order: Option<UpdateOrder>,
    failure_action: Option<FailureAction>,
}

impl PolicyFlags {
    /// The first of these flags that was given, by name.
    pub fn first_given(&self) -> Option<&'static str> {
        let all = [
            ("update-parallelism", self.update_parallelism.is_some()),
            ("update-delay", self.update_delay.is_some()),
            ("update-monitor", self.update_monitor.is_some()),
            ("update-max-failure-ratio", self.update_max_failure_ratio.is_some()),
            ("update-order", self.update_order.is_some()),
            ("update-failure-action", self.update_failure_action.is_some()),
            ("update-canary", self.update_canary.is_some()),
            ("update-auto-promote", self.update_auto_promote.is_some()),
            ("update-promote-within", self.update_promote_within.is_some()),
            ("rollback-parallelism", self.rollback_parallelism.is_some()),
            ("rollback-delay", self.rollback_delay.is_some()),
            ("rollback-monitor", self.rollback_monitor.is_some()),
            ("rollback-max-failure-ratio", self.rollback_max_failure_ratio.is_some()),
            ("rollback-order", self.rollback_order.is_some()),
            ("rollback-failure-action", self.rollback_failure_action.is_some()),
        ];
        all.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Sets what was given.
    pub fn apply(self, spec: &mut ServiceSpec) {
        let update = Given {
            parallelism: self.update_parallelism,
            delay: self.update_delay,
            monitor: self.update_monitor,
            max_failure_ratio: self.update_max_failure_ratio,
            order: self.update_order,
            failure_action: self.update_failure_action,
        };
        let rollback = Given {
            parallelism: self.rollback_parallelism,
            delay: self.rollback_delay,
            monitor: self.rollback_monitor,
            max_failure_ratio: self.rollback_max_failure_ratio,
            order: self.rollback_order,
            failure_action: self.rollback_failure_action,
        };
        update.apply(&mut spec.update);
        spec.update.canary = self.update_canary.unwrap_or(spec.update.canary);
        spec.update.auto_promote = self.update_auto_promote.unwrap_or(spec.update.auto_promote);
        if self.update_canary == Some(0) && self.update_auto_promote.is_none() {
            // Without canaries there is nothing to promote.
            spec.update.auto_promote = false;
        }
        if let Some(within) = self.update_promote_within {
            let said = within != model::UpdatePolicy::PROMOTE_WITHIN;
            spec.update.promote_within = said.then(|| Duration::of(within));
        }
        rollback.apply(&mut spec.rollback);
    }
}

impl Given {
    fn apply(self, policy: &mut UpdatePolicy) {
        policy.parallelism = self.parallelism.unwrap_or(policy.parallelism);
        if let Some(delay) = self.delay {
            policy.delay = Duration::of(delay);
        }
        if let Some(monitor) = self.monitor {
            policy.monitor = Duration::of(monitor);
        }
        policy.max_failure_ratio = self.max_failure_ratio.map_or(policy.max_failure_ratio, Ratio::number);
        policy.order = self.order.unwrap_or(policy.order);
        policy.failure_action = self.failure_action.unwrap_or(policy.failure_action);
    }
}

fn ratio(text: &str) -> Result<Ratio, String> {
    Ratio::parse(text).map_err(|e| e.to_string())
}

fn order(text: &str) -> Result<UpdateOrder, String> {
    match text {
        "stop-first" => Ok(UpdateOrder::StopFirst),
        "start-first" => Ok(UpdateOrder::StartFirst),
        _ => Err("use stop-first or start-first".into()),
    }
}

fn update_action(text: &str) -> Result<FailureAction, String> {
    match text {
        "pause" => Ok(FailureAction::Pause),
        "continue" => Ok(FailureAction::Continue),
        "rollback" => Ok(FailureAction::Rollback),
        _ => Err("use pause, continue or rollback".into()),
    }
}

fn rollback_action(text: &str) -> Result<FailureAction, String> {
    match update_action(text) {
        Ok(FailureAction::Rollback) | Err(_) => Err("use pause or continue".into()),
        fine => fine,
    }
}

/// A policy in words, for people: what differs from docker's defaults is always said, and the rest with it.
pub fn in_words(policy: &UpdatePolicy) -> String {
    let at_once = match policy.parallelism {
        0 => "all at once".to_owned(),
        n => format!("{n} at once"),
    };
    let order = match policy.order {
        UpdateOrder::StopFirst => "stop-first",
        UpdateOrder::StartFirst => "start-first",
    };
    let action = match policy.failure_action {
        FailureAction::Pause => "pause",
        FailureAction::Continue => "continue",
        FailureAction::Rollback => "rollback",
    };
    let ratio = Ratio::from_number(policy.max_failure_ratio).unwrap_or_default();
    let when = if ratio == Ratio::NONE { String::new() } else { format!(" of more than {ratio}") };
    let within =
        policy.promote_within.as_ref().map_or_else(String::new, |within| format!(" within {within}"));
    let canaries = match (policy.canary, policy.auto_promote) {
        (0, _) => String::new(),
        (n, true) => format!("canaries: {n}, promoted by themselves; then "),
        (n, false) => format!("canaries: {n}, to be promoted{within}; then "),
    };
    format!(
        "{canaries}{order}, {at_once}, {} between, watched for {}; on failure{when}: {action}",
        policy.delay, policy.monitor
    )
}
