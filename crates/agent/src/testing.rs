//! What the tests of several files need.

use std::sync::Arc;

use model::sync::Assignment;
use model::{Desired, DriverKind, ProgramSpec, TaskSpec, TaskState};

/// A task with one main program that is wanted to run.
pub(crate) fn assignment(task: &str) -> Assignment {
    Assignment {
        task: task.into(),
        name: "web.1".into(),
        service: "s1".into(),
        service_name: "web".into(),
        slot: "1".into(),
        desired: Desired::Running,
        spec: Arc::new(TaskSpec {
            programs: vec![ProgramSpec::new(DriverKind::Mock, vec!["web".into()])],
            ..TaskSpec::default()
        }),
        ports: Box::default(),
        named: Box::default(),
        state: TaskState::Assigned,
    }
}
