//! Services and their revisions.

use std::sync::Arc;

use model::{Revision, RevisionId, Service, ServiceId, Time, UpdateState, UpdateStatus};

use super::journal::Before;
use super::{Tx, clip, wrong};
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
        let new = Service { meta: self.meta(None), update_status: None, ..service.clone() };
        self.journal.touch(Before::Service(service.id, None));
        self.tables.set_service(service.id, Some(Arc::new(new)));
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
        let update_status = if service.mode.is_batch() {
            // Another revision is another iteration: it takes no place of anything.
            None
        } else if service.revision == old.revision {
            old.update_status.clone()
        } else {
            Some(UpdateStatus {
                state: UpdateState::Updating,
                began: self.version,
                started_at: self.time,
                completed_at: Time::ZERO,
                automatic: false,
                message: "update in progress".into(),
            })
        };
        self.put_service(&old, Service { update_status, ..service.clone() });
        Ok(())
    }

    /// Puts a changed service in the place of `old`, unless it is the same.
    fn put_service(&mut self, old: &Arc<Service>, service: Service) {
        if **old == (Service { meta: old.meta, ..service.clone() }) {
            return;
        }
        let meta = self.meta(Some(old.meta));
        self.journal.released.extend(Some(old.revision).into_iter().chain(old.previous));
        self.journal.touch(Before::Service(service.id, Some(Arc::clone(old))));
        self.tables.set_service(service.id, Some(Arc::new(Service { meta, ..service })));
    }

    fn need_service(&self, id: ServiceId) -> Result<Arc<Service>, Refused> {
        self.tables.service(id).cloned().ok_or(Refused::Missing(ObjectId::Service(id)))
    }

    pub(super) fn roll_back(
        &mut self,
        id: ServiceId,
        automatic: bool,
        message: &Arc<str>,
    ) -> Result<(), Refused> {
        let old = self.need_service(id)?;
        if old.mode.is_batch() {
            return Err(wrong(ObjectId::Service(id), "a batch service is not rolled back"));
        }
        let Some(previous) = old.previous else {
            return Err(wrong(ObjectId::Service(id), "it has no previous revision"));
        };
        let state = old.update_status.as_ref().map(|status| status.state);
        if automatic && state != Some(UpdateState::Updating) {
            return Err(wrong(ObjectId::Service(id), "only an update rolls itself back"));
        }
        let started_at = match &old.update_status {
            Some(status) if automatic => status.started_at,
            _ => self.time,
        };
        let status = UpdateStatus {
            state: UpdateState::RollbackStarted,
            began: self.version,
            started_at,
            completed_at: Time::ZERO,
            automatic,
            message: clip(message),
        };
        let new = Service {
            revision: previous,
            previous: Some(old.revision),
            update_status: Some(status),
            ..(*old).clone()
        };
        self.put_service(&old, new);
        Ok(())
    }

    pub(super) fn move_update(
        &mut self,
        id: ServiceId,
        state: UpdateState,
        message: &Arc<str>,
    ) -> Result<(), Refused> {
        let old = self.need_service(id)?;
        let wrong = |problem: String| wrong(ObjectId::Service(id), problem);
        let Some(status) = &old.update_status else {
            return Err(wrong("it has had no update".into()));
        };
        if !status.state.may_become(state) {
            return Err(wrong(format!("its update is {} and cannot become {state}", status.state)));
        }
        let completed = matches!(state, UpdateState::Completed | UpdateState::RollbackCompleted);
        let completed_at = if completed { self.time } else { Time::ZERO };
        let status = UpdateStatus { state, completed_at, message: clip(message), ..status.clone() };
        self.put_service(&old, Service { update_status: Some(status), ..(*old).clone() });
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
