//! What must exist and what must not: reconcilers that compare what is wanted with what is there.
//!
//! A reconciler is a pure function of a snapshot and a [`Key`]. It keeps no state, knows no clock but
//! [`Cx::now`] and no chance but [`Cx::new_id`]. An event only says which keys to look at ([`keys_of`]);
//! what to do, the snapshot alone decides, so a new leader starts by looking at all of them ([`all_keys`]),
//! and looking at a key once too often does nothing.
//!
//! The snapshot may have change sets in flight laid over it. An object that is in flight is left alone:
//! when its entry is applied, its event marks the same key again; when it is refused, [`keys_of_refused`]
//! does.

#![forbid(unsafe_code)]

mod batch;
mod canary;
mod course;
mod drain;
mod enforcer;
mod global;
mod key;
mod node;
mod plan;
mod reaper;
mod removal;
mod replace;
mod replicated;
mod service;
mod slot;
mod update;
mod wanted;

pub use key::{Key, all_keys, keys_of, keys_of_refused};
pub use plan::{Cx, PLAN_OBJECTS, Plan};

/// Compares what a key wants with what the snapshot has.
pub fn reconcile(view: &store::Tables, key: Key, cx: &mut Cx<'_>) -> Plan {
    let mut draft = plan::Draft::new(view, cx);
    match key {
        Key::Service(id) => service::reconcile(&mut draft, id),
        Key::Update(id) => service::reconcile_update(&mut draft, id),
        Key::Slot(service, n) => slot::reconcile(&mut draft, service, model::Slot::Number(n)),
        Key::Node(id) => node::reconcile(&mut draft, id),
        Key::NodeService(node, service) => slot::reconcile(&mut draft, service, model::Slot::Node(node)),
    }
    draft.finish()
}
