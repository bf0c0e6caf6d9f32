//! Services and their revisions.

use std::sync::Arc;

use model::{Revision, RevisionId, Service, ServiceId};

use super::journal::Before;
use super::{Tx, wrong};
use crate::{ObjectId, Refused};

impl Tx<'_> {
    pub(super) fn create_revision(&mut self, revision: &Revision) -> Result<(), Refused> {
        if self.tables.revision(revision.id).is_some() {
            return Err(Refused::Exists(ObjectId::Revision(revision.id)));
        }
        let new = Revision { created: self.version, created_at: self.time, ..revision.clone() };
        self.journal.made.push(revision.id);
        self.tables.add_revision(Arc::new(new));
        Ok(())
    }

    /// A revision must exist and be of this service.
    pub(super) fn need_revision(&self, id: RevisionId, service: ServiceId) -> Result<(), Refused> {
        let object = ObjectId::Revision(id);
        let revision = self.tables.revision(id).ok_or(Refused::Missing(object))?;
        if revision.service != service {
            return Err(wrong(
                object,
                format!("it is a revision of service {}, not of {service}", revision.service),
            ));
        }
        Ok(())
    }

    /// What a service refers to must be there.
    fn need_references(&self, service: &Service) -> Result<(), Refused> {
        self.need_namespace(service.namespace)?;
        if let Some(id) = service.job {
            let job = self.tables.job(id).ok_or(Refused::Missing(ObjectId::Job(id)))?;
            if job.namespace != service.namespace {
                let problem = format!("its job {id} is in another namespace");
                return Err(wrong(ObjectId::Service(service.id), problem));
            }
        }
        self.need_revision(service.revision, service.id)?;
        match service.previous {
            Some(previous) => self.need_revision(previous, service.id),
            None => Ok(()),
        }
    }

    pub(super) fn create_service(&mut self, service: &Service) -> Result<(), Refused> {
        let object = ObjectId::Service(service.id);
        if self.tables.knows_service(service.id) {
            // Also when only tasks of a removed service of this id are left: ids are never used twice.
            return Err(Refused::Exists(object));
        }
        if let Some(holder) = self.tables.service_by_name(service.namespace, &service.name) {
            let holder = ObjectId::Service(holder.id);
            return Err(Refused::NameTaken { name: Arc::clone(&service.name), holder });
        }
        self.need_references(service)?;
        let meta = self.meta(None);
        self.journal.touch(Before::Service(service.id, None));
        self.tables.set_service(service.id, Some(Arc::new(Service { meta, ..service.clone() })));
        Ok(())
    }

    pub(super) fn update_service(&mut self, service: &Service) -> Result<(), Refused> {
        let object = ObjectId::Service(service.id);
        let Some(old) = self.tables.service(service.id).cloned() else {
            return Err(Refused::Missing(object));
        };
        if old.namespace != service.namespace || old.name != service.name {
            return Err(wrong(object, "a service keeps its namespace and its name"));
        }
        self.need_references(service)?;
        if *old == (Service { meta: old.meta, ..service.clone() }) {
            return Ok(());
        }
        let meta = self.meta(Some(old.meta));
        self.journal.released.extend(Some(old.revision).into_iter().chain(old.previous));
        self.journal.touch(Before::Service(service.id, Some(old)));
        self.tables.set_service(service.id, Some(Arc::new(Service { meta, ..service.clone() })));
        Ok(())
    }

    pub(super) fn delete_service(&mut self, id: ServiceId) -> Result<(), Refused> {
        let Some(old) = self.tables.service(id).cloned() else {
            return Err(Refused::Missing(ObjectId::Service(id)));
        };
        self.journal.released.extend(Some(old.revision).into_iter().chain(old.previous));
        self.journal.touch(Before::Service(id, Some(old)));
        self.tables.set_service(id, None);
        Ok(())
    }
}
