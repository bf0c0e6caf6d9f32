//! Deployments, as stories against a cluster in memory.

mod common;

use common::{cluster, command, create, global, run, spec};
use control::stacks::{self, Deployment, ServiceChange};
use control::testing::MemoryCluster;
use control::{Cluster, RequestError, services};
use model::{Mode, ServiceSpec, limits};
use store::{Change, ChangeSet};

fn deployment(source: &str, services: Vec<ServiceSpec>) -> Deployment {
    Deployment { name: "shop".into(), source: source.into(), services, prune: true }
}

fn deploy(cluster: &MemoryCluster, services: Vec<ServiceSpec>) -> (bool, Vec<(String, ServiceChange)>) {
    let done = run(stacks::deploy(cluster, deployment("text", services))).expect("accepted");
    let changes = done.services.iter().map(|(_, name, change)| (name.to_string(), *change)).collect();
    (done.changed, changes)
}

fn changes(list: &[(&str, ServiceChange)]) -> Vec<(String, ServiceChange)> {
    list.iter().map(|(name, change)| ((*name).to_owned(), *change)).collect()
}

#[test]
fn a_deployment_makes_changes_and_prunes_at_once() {
    use ServiceChange::{Adjusted, Created, Removed, Unchanged, Updated};
    let cluster = cluster();
    let first = vec![spec("web", 2), spec("db", 1), global("agent"), spec("old", 1)];
    let (changed, done) = deploy(&cluster, first);
    assert!(changed);
    assert_eq!(
        done,
        changes(&[
            ("shop_agent", Created),
            ("shop_db", Created),
            ("shop_old", Created),
            ("shop_web", Created)
        ])
    );
    assert_eq!(cluster.snapshot().index(), 1, "one entry");
    let web = |cluster: &MemoryCluster| {
        std::sync::Arc::clone(services::find(&cluster.snapshot(), "shop_web").unwrap())
    };
    assert_eq!(&*web(&cluster).labels["com.docker.stack.namespace"], "shop");

    let second = vec![spec("web", 3), command(spec("db", 1), &["true"]), global("agent"), spec("new", 1)];
    let (_, done) = deploy(&cluster, second);
    assert_eq!(
        done,
        changes(&[
            ("shop_agent", Unchanged),
            ("shop_db", Updated),
            ("shop_new", Created),
            ("shop_old", Removed),
            ("shop_web", Adjusted)
        ])
    );
    let tables = cluster.snapshot();
    assert_eq!(tables.index(), 2, "one entry");
    assert_eq!(web(&cluster).mode, Mode::Replicated { replicas: 3 });
    let job = stacks::find(&tables, "SHOP").unwrap();
    let names: Vec<_> = stacks::services_of(&tables, job.id).iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["shop_agent", "shop_db", "shop_new", "shop_web"]);
    assert_eq!(job.number, 2);
}

#[test]
fn deploying_again_changes_nothing() {
    let cluster = cluster();
    let mut web = spec("web", 2);
    web.task.placement.constraints =
        ["node.role==worker", "node.labels.a==b"].iter().map(|c| c.parse().unwrap()).collect();
    web.task.programs[0].env =
        [("A", "1"), ("B", "2")].into_iter().map(|(k, v)| (k.into(), v.into())).collect();
    deploy(&cluster, vec![web.clone(), spec("db", 1)]);
    let (index, proposed) = (cluster.snapshot().index(), cluster.proposed());

    web.task.placement.constraints.reverse();
    web.task.programs[0].stop_signal = Some("SIGTERM".into());
    let done = run(stacks::deploy(&cluster, deployment("text", vec![spec("db", 1), web]))).unwrap();
    assert!(!done.changed && done.services.iter().all(|(_, _, c)| *c == ServiceChange::Unchanged));
    assert_eq!((done.number, done.index), (1, index));
    assert_eq!((cluster.snapshot().index(), cluster.proposed()), (index, proposed), "nothing was proposed");
}

#[test]
fn another_text_with_the_same_meaning_touches_no_service() {
    let cluster = cluster();
    deploy(&cluster, vec![spec("web", 2)]);
    let before = cluster.snapshot().table_index(store::Table::Services);
    let done = run(stacks::deploy(&cluster, deployment("# more\ntext", vec![spec("web", 2)]))).unwrap();
    let tables = cluster.snapshot();
    assert!(done.changed && done.number == 2);
    assert_eq!(tables.table_index(store::Table::Services), before);
    assert_eq!(&*stacks::find(&tables, "shop").unwrap().source, "# more\ntext");
}

#[test]
fn without_pruning_services_stay() {
    let cluster = cluster();
    deploy(&cluster, vec![spec("web", 2), spec("db", 1)]);
    let mut less = deployment("text2", vec![spec("web", 2)]);
    less.prune = false;
    let done = run(stacks::deploy(&cluster, less)).unwrap();
    let of = |name: &str| done.services.iter().find(|(_, n, _)| &**n == name).unwrap().2;
    assert_eq!((of("shop_db"), of("shop_web")), (ServiceChange::Kept, ServiceChange::Unchanged));
    assert!(services::find(&cluster.snapshot(), "shop_db").is_ok());
}

#[test]
fn refused_deployments_leave_no_trace() {
    let cluster = cluster();
    create(&cluster, spec("shop_taken", 1));
    deploy(&cluster, vec![spec("web", 1)]);
    let before = cluster.proposed();
    let long = "a".repeat(limits::NAME_LEN);
    let many = || (0..=limits::STACK_SERVICES).map(|n| spec(&format!("s{n}"), 1)).collect();
    let mut heavy = Vec::new();
    for n in 0..40 {
        let mut big = spec(&format!("s{n}"), 1);
        let args = (0..7).map(|_| "x".repeat(limits::ARG_LEN - 1).into());
        big.task.programs[0].command.extend(args);
        heavy.push(big);
    }
    for (services, field) in [
        (vec![spec("web", 1), command(spec("db", 1), &[])], "services.db.command"),
        (vec![spec(&long, 1)], &*format!("services.{long}.name")),
        (vec![spec("db", 1), spec("DB", 1)], "services.DB.name"),
        (vec![spec("taken", 1)], "services"),
        (vec![global("web")], "services.web.mode"),
        (vec![], "services"),
        (many(), "services"),
        (heavy, "services"),
    ] {
        let error = run(stacks::deploy(&cluster, deployment("other", services))).unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
    assert_eq!(cluster.proposed(), before);
}

#[test]
fn the_largest_stack_is_one_entry() {
    let cluster = cluster();
    let services = || (0..limits::STACK_SERVICES).map(|n| spec(&format!("s{n}"), 1)).collect::<Vec<_>>();
    deploy(&cluster, services());
    let tables = cluster.snapshot();
    assert_eq!((tables.index(), tables.services().count()), (1, limits::STACK_SERVICES));
    assert!(!deploy(&cluster, services()).0);
    run(stacks::remove(&cluster, "shop")).unwrap();
    let tables = cluster.snapshot();
    assert_eq!((tables.services().count(), tables.jobs().count()), (0, 0));
}

#[test]
fn a_deployment_that_is_overtaken_is_decided_again() {
    let cluster = cluster();
    deploy(&cluster, vec![spec("web", 1)]);
    let mut scaled = (**services::find(&cluster.snapshot(), "shop_web").unwrap()).clone();
    scaled.mode = Mode::Replicated { replicas: 9 };
    cluster.meddle_next(ChangeSet::of(vec![Change::UpdateService(Box::new(scaled))]));
    let (_, done) = deploy(&cluster, vec![spec("web", 1), spec("db", 1)]);
    assert_eq!(done, changes(&[("shop_db", ServiceChange::Created), ("shop_web", ServiceChange::Adjusted)]));
    let tables = cluster.snapshot();
    assert_eq!(services::find(&tables, "shop_web").unwrap().mode, Mode::Replicated { replicas: 1 });
}

#[test]
fn a_stack_goes_with_its_last_service_and_comes_again() {
    let cluster = cluster();
    deploy(&cluster, vec![spec("web", 1), spec("db", 1)]);
    run(services::remove(&cluster, "shop_web", None)).unwrap();
    assert!(stacks::find(&cluster.snapshot(), "shop").is_ok());
    run(services::remove(&cluster, "shop_db", None)).unwrap();
    let gone = run(stacks::remove(&cluster, "shop")).unwrap_err();
    assert!(matches!(gone, RequestError::NotFound { .. }));
    assert!(deploy(&cluster, vec![spec("web", 1)]).0);
    let removed = run(stacks::remove(&cluster, "shop")).unwrap();
    assert_eq!(&*removed.name, "shop");
    assert_eq!(cluster.snapshot().services().count(), 0);
}
