//! The cluster, namespaces and jobs.

use std::sync::Arc;

use model::{Cluster, Job, JobId, Meta, Namespace, NamespaceId};

use super::journal::Before;
use super::{Tx, clip, wrong};
use crate::tables::folded;
use crate::{ObjectId, Refused};

impl Tx<'_> {
    /// The meta of an object that is made, or changed when `old` says what it was.
    pub(super) fn meta(&self, old: Option<Meta>) -> Meta {
        let (created, created_at) = old.map_or((self.version, self.time), |m| (m.created, m.created_at));
        Meta { created, modified: self.version, created_at, modified_at: self.time }
    }

    pub(super) fn put_cluster(&mut self, cluster: &Cluster) -> Result<(), Refused> {
        let old = self.tables.cluster().cloned();
        if old.as_ref().is_some_and(|old| old.id != cluster.id) {
            return Err(wrong(ObjectId::Cluster, "a cluster keeps its id"));
        }
        if old.as_ref().is_some_and(|old| **old == Cluster { meta: old.meta, ..cluster.clone() }) {
            return Ok(());
        }
        let meta = self.meta(old.as_ref().map(|o| o.meta));
        self.journal.touch(Before::Cluster(old));
        self.tables.set_cluster(Some(Arc::new(Cluster { meta, ..cluster.clone() })));
        Ok(())
    }

    pub(super) fn put_namespace(&mut self, namespace: &Namespace) -> Result<(), Refused> {
        let id = namespace.id;
        let old = self.tables.namespace(id).cloned();
        if let Some(holder) = self.tables.namespace_by_name(&namespace.name)
            && holder.id != id
        {
            let holder = ObjectId::Namespace(holder.id);
            return Err(Refused::NameTaken { name: Arc::clone(&namespace.name), holder });
        }
        if id == NamespaceId::DEFAULT && *namespace.name != *"default" {
            return Err(wrong(ObjectId::Namespace(id), "the default namespace keeps its name"));
        }
        let new = Namespace { description: clip(&namespace.description), ..namespace.clone() };
        if old.as_ref().is_some_and(|old| **old == Namespace { meta: old.meta, ..new.clone() }) {
            return Ok(());
        }
        let meta = self.meta(old.as_ref().map(|o| o.meta));
        self.journal.touch(Before::Namespace(id, old));
        self.tables.set_namespace(id, Some(Arc::new(Namespace { meta, ..new })));
        Ok(())
    }

    pub(super) fn delete_namespace(&mut self, id: NamespaceId) -> Result<(), Refused> {
        let object = ObjectId::Namespace(id);
        let Some(old) = self.tables.namespace(id).cloned() else { return Err(Refused::Missing(object)) };
        if id == NamespaceId::DEFAULT {
            return Err(wrong(object, "the default namespace cannot be removed"));
        }
        if let Some(by) = self.inside(id) {
            return Err(Refused::InUse { object, by });
        }
        self.journal.touch(Before::Namespace(id, Some(old)));
        self.tables.set_namespace(id, None);
        Ok(())
    }

    /// Something that is in a namespace: the job or else the service whose name comes first.
    fn inside(&self, id: NamespaceId) -> Option<ObjectId> {
        let from = (id, folded(""));
        let job = self.tables.job_names.get_next(&from).filter(|((namespace, _), _)| *namespace == id);
        let service =
            self.tables.service_names.get_next(&from).filter(|((namespace, _), _)| *namespace == id);
        job.map(|(_, job)| ObjectId::Job(*job)).or(service.map(|(_, service)| ObjectId::Service(*service)))
    }

    pub(super) fn put_job(&mut self, job: &Job) -> Result<(), Refused> {
        let object = ObjectId::Job(job.id);
        self.need_namespace(job.namespace)?;
        let old = self.tables.job(job.id).cloned();
        if old.as_ref().is_some_and(|old| old.namespace != job.namespace) {
            return Err(wrong(object, "a job stays in its namespace"));
        }
        if let Some(holder) = self.tables.job_by_name(job.namespace, &job.name)
            && holder.id != job.id
        {
            let holder = ObjectId::Job(holder.id);
            return Err(Refused::NameTaken { name: Arc::clone(&job.name), holder });
        }
        if old.as_ref().is_some_and(|old| **old == Job { meta: old.meta, ..job.clone() }) {
            return Ok(());
        }
        let meta = self.meta(old.as_ref().map(|o| o.meta));
        self.journal.touch(Before::Job(job.id, old));
        self.tables.set_job(job.id, Some(Arc::new(Job { meta, ..job.clone() })));
        Ok(())
    }

    pub(super) fn delete_job(&mut self, id: JobId) -> Result<(), Refused> {
        let object = ObjectId::Job(id);
        let Some(old) = self.tables.job(id).cloned() else { return Err(Refused::Missing(object)) };
        if let Some(service) = self.tables.services_of_job(id).next() {
            return Err(Refused::InUse { object, by: ObjectId::Service(service.id) });
        }
        self.journal.touch(Before::Job(id, Some(old)));
        self.tables.set_job(id, None);
        Ok(())
    }
}
