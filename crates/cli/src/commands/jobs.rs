//! What is shown of batch services, beside what every service shows.

use jiff::Timestamp;
use native_api::types::{JobState, JobStatus, Mode, Service, ServiceStatus};

use super::show::Fields;
use crate::table::Tone;
use crate::time;

/// Our word for a mode, or docker's.
pub fn is_mode(mode: Mode, word: &str) -> bool {
    match mode {
        Mode::Batch => matches!(word, "batch" | "replicated-job"),
        Mode::GlobalBatch => matches!(word, "global-batch" | "global-job"),
        Mode::Replicated | Mode::Global => word == mode.as_str(),
    }
}

/// How many of the wanted tasks run, as docker writes it: `1/2 (3/10 completed)` of a job with two at once.
pub fn replicas(service: &Service) -> String {
    let running = service.status.running;
    let Some(job) = &service.status.job else { return format!("{running}/{}", service.status.wanted) };
    // On nodes, what is complete is not wanted any more.
    let at_once = match service.spec.mode {
        Mode::GlobalBatch => job.total.saturating_sub(job.completed),
        _ => job.at_once,
    };
    format!("{running}/{at_once} ({}/{} completed)", job.completed, job.total)
}

/// Where a job stands, in a word or two.
pub fn state(status: &ServiceStatus, job: &JobStatus) -> (String, Tone) {
    match job.state {
        JobState::Complete if !status.converged => ("ending".into(), Tone::Waiting),
        JobState::Complete => ("complete".into(), Tone::Good),
        JobState::Failed => ("failed".into(), Tone::Bad),
        JobState::Running if status.waiting > 0 => (format!("{} waiting", status.waiting), Tone::Bad),
        JobState::Running => ("running".into(), Tone::Waiting),
    }
}

/// How far a job has come, for `inspect`.
pub fn inspect(fields: &mut Fields, mode: Mode, job: &JobStatus, now: Timestamp) {
    let count = match mode {
        Mode::Batch => format!(" ({} completions, {} at once)", job.total, job.at_once),
        _ => String::new(),
    };
    fields.add("Mode", format!("{}{count}", mode.as_str()));
    fields.add("Iteration", format!("{} (begun {})", job.iteration, time::ago(&job.last_execution, now)));
    let mut runs = format!("{} of {} completed, {} active", job.completed, job.total, job.active);
    if job.given_up > 0 {
        runs.push_str(&format!(", {} given up", job.given_up));
    }
    fields.add("Runs", runs);
    let title = if job.state == JobState::Failed { "Failed" } else { "Last failure" };
    fields.add_some(title, job.reason.as_ref());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::{service, service_for_tests};
    use crate::screen::tests::paper;

    fn job(mode: &str, fields: Value, waiting: u64) -> Service {
        let mut job = json!({"iteration": 2, "last_execution": "2026-01-31T12:57:00Z", "state": "running",
            "total": 10, "completed": 3, "active": 2, "at_once": 2, "given_up": 0});
        job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        service_for_tests(json!({
            "spec": {"name": "sum", "mode": mode, "command": ["add"]},
            "status": {"wanted": 2, "running": 1, "updated": 2, "waiting": waiting, "tasks": {}, "job": job,
                "converged": job["state"] == "complete"},
        }))
    }

    #[test]
    fn where_a_job_stands() {
        let now = "2026-01-31T13:00:00Z".parse().unwrap();
        for (mode, fields, waiting, shown, word) in [
            ("batch", json!({}), 0, "1/2 (3/10 completed)", "running"),
            ("batch", json!({}), 1, "1/2 (3/10 completed)", "1 waiting"),
            ("batch", json!({"state": "complete", "completed": 10}), 0, "1/2 (10/10 completed)", "complete"),
            ("batch", json!({"state": "failed", "given_up": 7}), 0, "1/2 (3/10 completed)", "failed"),
            ("global-batch", json!({"at_once": 10}), 0, "1/7 (3/10 completed)", "running"),
        ] {
            let job = job(mode, fields, waiting);
            assert_eq!((replicas(&job).as_str(), service::state(&job, now).0.as_str()), (shown, word));
        }
    }

    #[test]
    fn a_job_in_full() {
        let (mut screen, out, _) = paper();
        let failed =
            json!({"state": "failed", "given_up": 1, "reason": "1 of 10 runs is given up: slot 2: x"});
        service::inspect(&mut screen, &job("batch", failed, 0)).unwrap();
        let text = out.text();
        for line in [
            "Mode:         batch (10 completions, 2 at once)",
            "Iteration:    2 (begun 3 minutes ago)",
            "Runs:         3 of 10 completed, 2 active, 1 given up",
            "Failed:       1 of 10 runs is given up: slot 2: x",
            "Replaced:     on failure, after 5s",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("Update") && !text.contains("Rollback"), "{text}");
    }

    #[test]
    fn modes_have_two_words() {
        for (mode, word, is) in [
            (Mode::Batch, "replicated-job", true),
            (Mode::Batch, "batch", true),
            (Mode::Batch, "replicated", false),
            (Mode::GlobalBatch, "global-job", true),
            (Mode::Global, "global", true),
            (Mode::Replicated, "global", false),
        ] {
            assert_eq!(is_mode(mode, word), is, "{word}");
        }
    }
}
