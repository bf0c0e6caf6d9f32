//! Requests about services, as stories against a cluster in memory.

mod common;

use common::{cluster, command, create, global, run, service, spec};
use control::{Cluster, ProposeError, RequestError, ServiceStatus, service_status, services};
use model::{Mode, Slot, TaskState, UpdateState};
use store::{Change, ChangeSet};

#[test]
fn a_service_is_made_with_its_first_revision() {
    let cluster = cluster();
    let written = run(services::create(&cluster, spec("web", 3))).unwrap();
    let tables = cluster.snapshot();
    let web = services::find(&tables, "WEB").unwrap();
    assert_eq!((web.id.0, web.meta.modified), (written.id, written.version));
    assert_eq!(web.mode, Mode::Replicated { replicas: 3 });
    assert_eq!(tables.revision(web.revision).unwrap().number, 1);
    assert_eq!(services::spec_of(&tables, web), spec("web", 3));
}

#[test]
fn what_cannot_be_accepted_is_refused_and_leaves_no_trace() {
    let cluster = cluster();
    create(&cluster, spec("web", 1));
    let before = cluster.proposed();
    let refused = |spec, field: &str| {
        let error = run(services::create(&cluster, spec)).unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    };
    refused(spec("-", 1), "name");
    refused(spec("Web", 1), "name");
    refused(command(spec("a", 1), &[]), "command");
    let scaled = run(services::scale(&cluster, "web", None, u32::MAX)).unwrap_err();
    assert_eq!(scaled.field(), Some("replicas"));
    let renamed = run(services::update(&cluster, "web", None, spec("web2", 1))).unwrap_err();
    assert_eq!(renamed.to_string(), "name: \"web2\" is not \"web\", and a service keeps its name");
    let other_mode = run(services::update(&cluster, "web", None, global("web"))).unwrap_err();
    assert_eq!(other_mode.field(), Some("mode"));
    assert_eq!(cluster.proposed(), before, "nothing was even proposed");
}

#[test]
fn only_a_changed_task_spec_makes_a_revision() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 1));
    let first = service(&cluster, id);
    let update = |spec| run(services::update(&cluster, "web", None, spec)).unwrap();

    let same = update(spec("web", 1));
    assert!(!same.changed && same.version == first.meta.modified);
    assert_eq!(cluster.snapshot().index(), first.meta.modified, "nothing was written");

    let mut wider = spec("web", 4);
    wider.labels.insert("a".into(), "b".into());
    wider.update.parallelism = 2;
    let written = update(wider);
    let adjusted = service(&cluster, id);
    assert!(written.changed && written.version == adjusted.meta.modified);
    assert_eq!((adjusted.revision, adjusted.previous), (first.revision, None));
    assert_eq!((adjusted.mode, adjusted.update.parallelism), (Mode::Replicated { replicas: 4 }, 2));

    update(command(spec("web", 4), &["sleep", "7"]));
    let revised = service(&cluster, id);
    assert_eq!(revised.previous, Some(first.revision));
    assert_eq!(cluster.snapshot().revision(revised.revision).unwrap().number, 2);

    // Back to the spec before is back to its revision: tasks that still have it stay.
    update(spec("web", 4));
    let back = service(&cluster, id);
    assert_eq!((back.revision, back.previous), (first.revision, Some(revised.revision)));
    update(command(spec("web", 4), &["sleep", "8"]));
    let third = service(&cluster, id);
    assert_eq!(cluster.snapshot().revision(third.revision).unwrap().number, 3);
}

#[test]
fn a_rollback_swaps_the_revisions_and_leaves_the_rest() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 1));
    let refused = run(services::rollback(&cluster, "web", None)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "web has no previous revision: it has not been updated since it was made"
    );
    let first = service(&cluster, id);
    run(services::update(&cluster, "web", None, command(spec("web", 1), &["true"]))).unwrap();
    run(services::scale(&cluster, "web", None, 5)).unwrap();
    let mut steered = command(spec("web", 5), &["true"]);
    steered.steering.strategy = Some(model::Strategy::Binpack);
    run(services::update(&cluster, "web", None, steered)).unwrap();
    let second = service(&cluster, id);
    let began = second.update_status.clone().expect("an update");
    assert_eq!((began.state, began.automatic), (UpdateState::Updating, false));
    assert!(began.began < second.meta.modified, "a change of scale begins no update");

    let stale = run(services::rollback(&cluster, "web", Some(first.meta.modified))).unwrap_err();
    assert_eq!(stale.field(), Some("version"));
    assert!(run(services::rollback(&cluster, "web", None)).unwrap().changed);
    let back = service(&cluster, id);
    assert_eq!((back.revision, back.previous), (first.revision, Some(second.revision)));
    assert_eq!(back.mode, Mode::Replicated { replicas: 5 });
    assert_eq!(
        back.steering.strategy,
        Some(model::Strategy::Binpack),
        "steering is the service's, not the revision's"
    );
    let status = back.update_status.clone().expect("a rollback");
    assert_eq!((status.state, &*status.message), (UpdateState::RollbackStarted, "rollback as requested"));
    // And forth again.
    run(services::rollback(&cluster, "web", None)).unwrap();
    assert_eq!(service(&cluster, id).revision, second.revision);

    // What rolled itself back has nothing to go back to.
    run(services::update(&cluster, "web", None, command(spec("web", 5), &["false"]))).unwrap();
    let message = "it failed".into();
    let automatic = Change::RollBack { service: id, automatic: true, message };
    run(cluster.propose(ChangeSet::of(vec![automatic]))).unwrap();
    let refused = run(services::rollback(&cluster, "web", None)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "web has been rolled back already, from revision 3 to 1, because its update failed; to try revision 3 again, update it",
        "two never came through, whatever was rolled back to it"
    );
}

#[test]
fn a_rollback_goes_to_what_last_came_through() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 1));
    let first = service(&cluster, id).revision;
    let update = |word: &str| {
        run(services::update(&cluster, "web", None, command(spec("web", 1), &[word]))).unwrap();
        service(&cluster, id)
    };
    let finish = |state| {
        let change = Change::MoveUpdate { service: id, state, message: "".into() };
        run(cluster.propose(ChangeSet::of(vec![change]))).unwrap();
    };
    let second = update("two");
    finish(UpdateState::Completed);
    assert_eq!(update("three").previous, Some(second.revision));
    assert_eq!(update("four").previous, Some(second.revision), "three never came through");
    finish(UpdateState::Paused);
    let fifth = update("five");
    assert_eq!(fifth.previous, Some(second.revision), "nor did four");
    assert_ne!(second.previous, None);
    assert_eq!(second.previous, Some(first));
    assert_eq!(cluster.snapshot().revision(fifth.revision).unwrap().number, 5);
}

/// 1 to 2 (unfinished), back to 1, on to 3: what last came through is 1.
#[test]
fn a_rollback_after_a_return_in_the_middle_goes_to_what_last_came_through() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 1));
    let first = service(&cluster, id).revision;
    let update = |word: &str| {
        run(services::update(&cluster, "web", None, command(spec("web", 1), &[word]))).unwrap();
        service(&cluster, id)
    };
    update("two");
    run(services::update(&cluster, "web", None, spec("web", 1))).unwrap();
    assert_eq!(service(&cluster, id).revision, first);
    assert_eq!(update("three").previous, Some(first), "two never came through");
    // The same, with rollbacks: 1, 3, 1, 3, on to 4.
    run(services::rollback(&cluster, "web", None)).unwrap();
    run(services::rollback(&cluster, "web", None)).unwrap();
    assert_eq!(update("four").previous, Some(first), "three never came through either");
}

/// A spec that only an older revision had which never came through: tasks that still run it stay, since it is the same revision.
#[test]
fn an_update_back_to_a_spec_that_tasks_still_run_takes_its_revision() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 2));
    let update = |word: &str| {
        run(services::update(&cluster, "web", None, command(spec("web", 2), &[word]))).unwrap();
        service(&cluster, id)
    };
    let first = service(&cluster, id).revision;
    let second = update("two").revision;
    cluster.add_task(id, Slot::Number(0));
    update("three");
    let back = update("two");
    assert_eq!((back.revision, back.previous), (second, Some(first)));
    assert!(back.update_status.as_ref().is_some_and(|u| u.state == UpdateState::Updating));
    let fourth = update("four");
    assert_eq!(cluster.snapshot().revision(fourth.revision).unwrap().number, 4, "no number is given twice");
}

#[test]
fn canaries_are_promoted_and_aborted_by_request() {
    let cluster = cluster();
    let node = cluster.add_node("a");
    let with = |word: &str, canary: u32| {
        let mut spec = command(spec("web", 3), &[word]);
        spec.update.canary = canary;
        spec
    };
    let id = create(&cluster, with("one", 2));
    let refused = |result: Result<control::Written, RequestError>| result.unwrap_err().to_string();
    let promote = || run(services::promote(&cluster, "web", None));
    let abort = || run(services::abort(&cluster, "web", None));
    assert_eq!(refused(promote()), "web has no canaries to promote");
    assert_eq!(refused(abort()), "web has no canaries to abort");
    let update = |spec| run(services::update(&cluster, "web", None, spec)).unwrap();
    let first = service(&cluster, id).revision;
    update(with("two", 2));
    assert!(service(&cluster, id).tries_canaries());
    assert_eq!(
        refused(promote()),
        "the canaries of web have not all been watched for 5s yet; wait until then, or abort them"
    );
    let few = run(services::scale(&cluster, "web", None, 1)).unwrap_err();
    assert_eq!(
        few.to_string(),
        "replicas: 1 is less than the 2 canaries of web; first: quelea service update --update-canary 0 web"
    );
    run(services::scale(&cluster, "web", None, 0)).unwrap();
    run(services::scale(&cluster, "web", None, 3)).unwrap();
    let move_to = |state| {
        let change = Change::MoveUpdate { service: id, state, message: "m".into() };
        run(cluster.propose(ChangeSet::of(vec![change]))).unwrap();
    };
    move_to(UpdateState::Canary);
    let one = cluster.add_task(id, Slot::Number(0));
    cluster.assign(one, node);
    cluster.report(one, TaskState::Running, None);
    assert_eq!(
        refused(promote()),
        "the canary of web in slot 2 does not run; wait until it does, or abort the update"
    );
    let other = cluster.add_task(id, Slot::Number(1));
    cluster.assign(other, node);
    cluster.report(other, TaskState::Running, None);
    let early = refused(promote());
    assert!(early.starts_with("the canary of web in slot 1 has not been watched for 5s yet"), "{early}");
    cluster.set_now(cluster.now() + model::Span::from_secs(6));
    assert!(promote().unwrap().changed);
    let promoted = service(&cluster, id);
    assert_eq!((promoted.previous, promoted.tries_canaries()), (Some(first), false));
    assert_eq!(
        refused(abort()),
        "web is being updated without canaries, or they have been promoted; to go back: quelea service rollback web"
    );
    // What canaries try is tried anew, although tasks run it already; what came through needs none.
    update(with("three", 2));
    let third = service(&cluster, id);
    update(with("two", 2));
    assert_ne!(service(&cluster, id).revision, promoted.revision);
    update(with("three", 2));
    assert_ne!(service(&cluster, id).revision, third.revision);
    update(with("one", 2));
    assert_eq!((service(&cluster, id).revision, service(&cluster, id).tries_canaries()), (first, false));

    update(with("four", 1));
    assert!(abort().unwrap().changed);
    assert!(service(&cluster, id).is_aborted() && service(&cluster, id).revision == first);
    assert_eq!(refused(abort()), "the canaries of web are gone: canaries aborted as requested");
    let again = refused(run(services::rollback(&cluster, "web", None)));
    assert!(again.starts_with("web has been put back already: the canaries of revision "), "{again}");
}

#[test]
fn a_version_decides_between_conflict_and_another_try() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 1));
    let seen = service(&cluster, id).meta.modified;
    // Somebody scales between our read and our write.
    let meddle = || {
        let mut other = (*service(&cluster, id)).clone();
        let Mode::Replicated { replicas } = &mut other.mode else { panic!("replicated") };
        *replicas += 10;
        cluster.meddle_next(ChangeSet::of(vec![Change::UpdateService(Box::new(other))]));
    };
    meddle();
    run(services::update(&cluster, "web", None, command(spec("web", 2), &["true"]))).unwrap();
    assert_eq!(service(&cluster, id).mode, Mode::Replicated { replicas: 2 }, "decided anew");

    let stale = run(services::scale(&cluster, "web", Some(seen), 5)).unwrap_err();
    assert_eq!(stale.field(), Some("version"));
    let fresh = service(&cluster, id).meta.modified;
    meddle();
    let raced = run(services::scale(&cluster, "web", Some(fresh), 5)).unwrap_err();
    assert!(matches!(raced, RequestError::Conflict { .. }), "{raced}");
    assert_eq!(service(&cluster, id).mode, Mode::Replicated { replicas: 12 });
    let fresh = service(&cluster, id).meta.modified;
    assert!(run(services::scale(&cluster, "web", Some(fresh), 5)).unwrap().changed);
    assert!(!run(services::scale(&cluster, "web", None, 5)).unwrap().changed);
}

#[test]
fn two_who_make_the_same_name_get_one_service() {
    let cluster = cluster();
    let other = cluster_change_set_of_create(&cluster);
    cluster.meddle_next(other);
    let error = run(services::create(&cluster, spec("web", 1))).unwrap_err();
    assert_eq!(error.field(), Some("name"));
    assert_eq!(cluster.snapshot().services().count(), 1);
}

/// What creating `WEB` writes, taken from another cluster.
fn cluster_change_set_of_create(cluster: &control::testing::MemoryCluster) -> ChangeSet {
    let (id, revision) = (model::ServiceId(cluster.new_id()), model::RevisionId(cluster.new_id()));
    let spec = spec("WEB", 1);
    ChangeSet::of(vec![
        Change::CreateRevision(model::Revision {
            id: revision,
            service: id,
            number: 1,
            created_at: model::Time::ZERO,
            created: 0,
            task: std::sync::Arc::new(spec.task),
        }),
        Change::CreateService(Box::new(model::Service {
            id,
            meta: model::Meta::default(),
            namespace: model::NamespaceId::DEFAULT,
            job: None,
            name: spec.name,
            labels: spec.labels,
            mode: spec.mode,
            update: spec.update,
            rollback: spec.rollback,
            revision,
            previous: None,
            update_status: None,
            priority: spec.priority,
            steering: Default::default(),
            disruption: Default::default(),
        })),
    ])
}

#[test]
fn what_the_daemon_cannot_do_is_told_apart() {
    let cluster = cluster();
    cluster.fail_next(ProposeError::Unavailable("this node is not the leader".into()));
    let error = run(services::create(&cluster, spec("web", 1))).unwrap_err();
    assert_eq!(error.to_string(), "this node is not the leader; nothing was changed, try again");
    cluster.fail_next(ProposeError::Unknown("the leader changed".into()));
    let error = run(services::create(&cluster, spec("web", 1))).unwrap_err();
    assert!(matches!(error, RequestError::OutcomeUnknown(_)));
}

#[test]
fn a_removed_service_is_gone_and_its_name_free() {
    let cluster = cluster();
    let id = create(&cluster, spec("web", 1));
    let version = service(&cluster, id).meta.modified;
    let written = run(services::remove(&cluster, "web", None)).unwrap();
    assert_eq!((written.id, written.version), (id.0, version));
    let again = run(services::remove(&cluster, "web", None)).unwrap_err();
    assert!(matches!(again, RequestError::NotFound { .. }), "{again}");
    create(&cluster, spec("web", 1));
}

#[test]
fn references_are_names_ids_or_beginnings_of_ids() {
    let cluster = cluster();
    let ids: Vec<_> = (0..40).map(|n| create(&cluster, spec(&format!("s{n}"), 1))).collect();
    let tables = cluster.snapshot();
    for id in &ids {
        let text = id.to_string();
        assert_eq!(services::find(&tables, &text).unwrap().id, *id);
        let mut fits = 0;
        for n in 1..text.len() {
            let prefix = &text[..n];
            let sharing = ids.iter().filter(|i| i.to_string().starts_with(prefix)).count();
            match services::find(&tables, prefix) {
                Ok(found) => {
                    fits += 1;
                    assert_eq!((found.id, sharing), (*id, 1));
                }
                Err(RequestError::Ambiguous { matches, .. }) => assert_eq!(matches.len(), sharing.min(6)),
                Err(other) => panic!("{prefix}: {other}"),
            }
        }
        assert!(fits > 0);
    }
    for nothing in ["nope", "zzzzzzzzzzzzzzzzzzzzzzzzz", "S"] {
        assert!(matches!(services::find(&tables, nothing), Err(RequestError::NotFound { .. })), "{nothing}");
    }
    assert_eq!(services::find(&tables, "").unwrap_err().field(), Some("service"));
}

#[test]
fn a_name_goes_before_the_beginning_of_an_id() {
    let cluster = cluster();
    let first = create(&cluster, spec("web", 1));
    let name = first.to_string()[..3].to_owned();
    let named = create(&cluster, spec(&name, 1));
    assert_eq!(services::find(&cluster.snapshot(), &name).unwrap().id, named);
}

#[test]
fn status_counts_what_runs_and_what_waits() {
    let cluster = cluster();
    let here = cluster.add_node("here");
    let id = create(&cluster, spec("web", 2));
    let status = || service_status(&cluster.snapshot(), &service(&cluster, id));
    assert_eq!(status(), ServiceStatus { wanted: 2, ..ServiceStatus::default() });
    let first = cluster.add_task(id, Slot::Number(0));
    let second = cluster.add_task(id, Slot::Number(1));
    assert_eq!(status(), ServiceStatus { wanted: 2, waiting: 2, updated: 2, ..ServiceStatus::default() });
    for t in [first, second] {
        cluster.assign(t, here);
        cluster.report(t, TaskState::Running, None);
    }
    let all = ServiceStatus {
        wanted: 2,
        running: 2,
        updated: 2,
        waiting: 0,
        converged: true,
        ended_at: None,
        job: None,
    };
    assert_eq!(status(), all);
    run(services::update(&cluster, "web", None, command(spec("web", 2), &["true"]))).unwrap();
    assert_eq!(status(), ServiceStatus { updated: 0, converged: false, ..all });
}

#[test]
fn a_global_service_wants_a_task_on_each_node_that_complies() {
    let cluster = cluster();
    let mut wanted = global("agent");
    wanted.task.placement.constraints = vec!["node.hostname!=c".parse().unwrap()];
    let id = create(&cluster, wanted);
    let status = || service_status(&cluster.snapshot(), &service(&cluster, id)).wanted;
    assert_eq!(status(), 0);
    for name in ["a", "b", "c"] {
        cluster.add_node(name);
    }
    assert_eq!(status(), 2);
    let drain = control::nodes::NodeChange {
        availability: Some(model::Availability::Drain),
        ..control::nodes::NodeChange::default()
    };
    run(control::nodes::update(&cluster, "a", None, drain)).unwrap();
    assert_eq!(status(), 1);
    let pause = control::nodes::NodeChange {
        availability: Some(model::Availability::Pause),
        ..control::nodes::NodeChange::default()
    };
    run(control::nodes::update(&cluster, "b", None, pause)).unwrap();
    assert_eq!(status(), 0, "a paused node is given nothing");
    let b = control::nodes::find(&cluster.snapshot(), "b", model::NodeId::default()).unwrap().id;
    let kept = cluster.add_task(id, Slot::Node(b));
    cluster.assign(kept, b);
    assert_eq!(status(), 1, "and keeps what it has");
}

fn job(name: &str, completions: u32, concurrency: u32) -> model::ServiceSpec {
    model::ServiceSpec { mode: Mode::Batch { completions, concurrency }, ..spec(name, 0) }
}

#[test]
fn a_batch_service_is_scaled_and_never_rolled_back() {
    let c = cluster();
    let id = create(&c, job("sum", 6, 2));
    let mode = |c: &control::testing::MemoryCluster| service(c, id).mode;
    run(services::scale(&c, "sum", None, 9)).expect("its completions");
    assert_eq!(mode(&c), Mode::Batch { completions: 9, concurrency: 2 });
    let number = |c: &control::testing::MemoryCluster| {
        let tables = c.snapshot();
        tables.revision(service(c, id).revision).expect("its revision").number
    };
    // Back to the spec before is another iteration all the same.
    for (words, iteration) in [(&["sleep", "100"][..], 1), (&["a"], 2), (&["sleep", "100"], 3), (&["a"], 4)] {
        let spec = command(job("sum", 9, 2), words);
        run(services::update(&c, "sum", None, spec)).expect("another spec");
        assert_eq!(number(&c), iteration, "{words:?}");
        assert!(service(&c, id).previous.is_none() && service(&c, id).update_status.is_none());
    }
    let refused = run(services::rollback(&c, "sum", None)).expect_err("never");
    assert_eq!(
        refused.to_string(),
        "sum is a batch service: it is not rolled back; to run another spec from the beginning, update it"
    );
    let refused = run(services::update(&c, "sum", None, spec("sum", 1))).expect_err("a mode is for life");
    assert!(refused.to_string().contains("sum is batch and cannot become replicated"), "{refused}");
    create(&c, model::ServiceSpec { mode: Mode::GlobalBatch, ..spec("scan", 0) });
    let refused = run(services::scale(&c, "scan", None, 2)).expect_err("on nodes");
    assert!(refused.to_string().contains("it has one task on each node and cannot be scaled"), "{refused}");
}
