//! Nodes.

use axum::http::StatusCode;
use control::nodes;
use model::{Index, Node, limits};
use store::{Table, Tables};

use crate::api::{Answer, Call, written};
use crate::from;
use crate::to;
use crate::types::NodeUpdate;

pub(crate) async fn list(call: Call) -> Answer {
    // A node shows what its tasks hold of it.
    let seen = call.read(|t| Ok(t.table_index(Table::Nodes).max(t.table_index(Table::Tasks)))).await?;
    let mut nodes: Vec<_> = seen.tables.nodes().collect();
    nodes.sort_by(|a, b| (&a.description.hostname, a.id).cmp(&(&b.description.hostname, b.id)));
    seen.list(nodes.into_iter().map(|n| to::node(&seen.tables, n)).collect())
}

pub(crate) async fn get(call: Call) -> Answer {
    let (name, me) = (call.reference(), call.me());
    let seen = call.read(|t| Ok(changed(t, nodes::find(t, name, me)?))).await?;
    let node = nodes::find(&seen.tables, name, me)?;
    seen.one(&to::node(&seen.tables, node))
}

/// The index that last changed a node, gave it or took from it a task, or changed one of its tasks.
fn changed(tables: &Tables, node: &Node) -> Index {
    let own = node.meta.modified.max(tables.node_tasks_index(node.id));
    tables.tasks_of_node(node.id).map(|t| t.modified).fold(own, Index::max)
}

pub(crate) async fn update(mut call: Call) -> Answer {
    let update = call.json::<NodeUpdate>(limits::SPEC_BYTES).await?;
    let version = update.version;
    let done = nodes::update(call.cluster(), call.reference(), version, from::node_change(update)?).await?;
    written(StatusCode::OK, &done)
}
