//! Requests about the settings of the cluster, as stories against a cluster in memory.

mod common;

use common::{cluster, create, run, spec};
use control::settings::{self, SettingsChange};
use control::testing::MemoryCluster;
use control::{Cluster, ProposeError, RequestError};
use model::{ClusterId, Span, Strategy};
use store::{Change, ChangeSet};

fn set_up() -> MemoryCluster {
    let cluster = cluster();
    let new = model::Cluster::new(ClusterId::from_u128(1), "default");
    run(cluster.propose(ChangeSet::of(vec![Change::PutCluster(new)]))).expect("the first");
    cluster
}

fn now(cluster: &MemoryCluster) -> model::Cluster {
    model::Cluster::clone(settings::find(&cluster.snapshot()).expect("set up"))
}

#[test]
fn a_setting_changes_and_the_others_stay() {
    let cluster = set_up();
    let before = now(&cluster);
    let change = SettingsChange { history: Some(1), strategy: Some(Strategy::Binpack), ..Default::default() };
    let written = run(settings::update(&cluster, Some(before.meta.modified), change)).unwrap();
    let after = now(&cluster);
    assert!(written.changed && written.version == after.meta.modified);
    assert_eq!(
        after,
        model::Cluster { history: 1, strategy: Strategy::Binpack, meta: after.meta, ..before.clone() }
    );
    let every = SettingsChange {
        history: Some(2),
        history_failed: Some(3),
        history_age: Some(Span::from_secs(60)),
        heartbeat: Some(Span::from_secs(30)),
        orphan_after: Some(Span::from_secs(90)),
        strategy: Some(Strategy::Spread),
        rebalance: Some(3),
    };
    run(settings::update(&cluster, None, every)).unwrap();
    let last = now(&cluster);
    assert_eq!((last.history, last.history_failed, last.history_age), (2, 3, Span::from_secs(60)));
    assert_eq!((last.heartbeat, last.orphan_after), (Span::from_secs(30), Span::from_secs(90)));
    assert_eq!(last.rebalance, Some(3));
    let off = SettingsChange { rebalance: Some(0), ..Default::default() };
    run(settings::update(&cluster, None, off)).unwrap();
    assert_eq!(now(&cluster).rebalance, None);
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let cluster = set_up();
    let before = cluster.proposed();
    let change = SettingsChange { history: Some(5), ..Default::default() };
    let written = run(settings::update(&cluster, None, change)).unwrap();
    assert!(!written.changed && written.version == now(&cluster).meta.modified);
    assert!(!run(settings::update(&cluster, None, SettingsChange::default())).unwrap().changed);
    assert_eq!(cluster.proposed(), before);
}

#[test]
fn an_old_version_and_a_bad_value_are_refused() {
    let cluster = set_up();
    let before = cluster.proposed();
    let version = now(&cluster).meta.modified;
    let change = SettingsChange { history: Some(1), ..Default::default() };
    let old = run(settings::update(&cluster, Some(version + 7), change)).unwrap_err();
    assert_eq!(old.field(), Some("version"), "{old}");
    let bad = SettingsChange { heartbeat: Some(Span::ZERO), ..Default::default() };
    let bad = run(settings::update(&cluster, None, bad)).unwrap_err();
    assert_eq!(bad.to_string(), "dispatcher_heartbeat: 0s is not between 500ms and 1h0m0s");
    let even = SettingsChange { rebalance: Some(1), ..Default::default() };
    let even = run(settings::update(&cluster, None, even)).unwrap_err();
    assert_eq!(even.field(), Some("rebalance"), "{even}");
    assert_eq!(cluster.proposed(), before, "nothing was even proposed");
    let early = run(settings::update(&common::cluster(), None, change)).unwrap_err();
    assert!(matches!(early, RequestError::Unavailable(_)), "{early}");
}

#[test]
fn two_who_change_settings_at_once_both_have_their_way() {
    let cluster = set_up();
    let other = model::Cluster { orphan_after: Span::from_secs(90), ..now(&cluster) };
    cluster.meddle_next(ChangeSet::of(vec![Change::PutCluster(other)]));
    let change = SettingsChange { history: Some(1), ..Default::default() };
    run(settings::update(&cluster, None, change)).unwrap();
    assert_eq!((now(&cluster).history, now(&cluster).orphan_after), (1, Span::from_secs(90)));
    cluster.fail_next(ProposeError::Unavailable("no leader".into()));
    let change = SettingsChange { history: Some(2), ..Default::default() };
    assert!(run(settings::update(&cluster, None, change)).is_err());
    assert_eq!(now(&cluster).history, 1);
}

#[test]
fn the_strategy_of_the_cluster_is_for_services_that_name_none() {
    let cluster = set_up();
    let mut packed = spec("packed", 1);
    packed.steering.strategy = Some(Strategy::Binpack);
    let ids = [create(&cluster, packed), create(&cluster, spec("plain", 1))];
    let strategies = |cluster: &MemoryCluster| {
        let tables = cluster.snapshot();
        ids.map(|id| settings::strategy_of(&tables, tables.service(id).expect("there")))
    };
    assert_eq!(strategies(&cluster), [Strategy::Binpack, Strategy::Spread]);
    let tables = cluster.snapshot();
    let versions = ids.map(|id| tables.service(id).map(|s| (s.meta.modified, s.revision)));
    let change = SettingsChange { strategy: Some(Strategy::Binpack), ..Default::default() };
    run(settings::update(&cluster, None, change)).unwrap();
    assert_eq!(strategies(&cluster), [Strategy::Binpack, Strategy::Binpack]);
    let tables = cluster.snapshot();
    let after = ids.map(|id| tables.service(id).map(|s| (s.meta.modified, s.revision)));
    assert_eq!(after, versions, "no service is changed by it");
}
