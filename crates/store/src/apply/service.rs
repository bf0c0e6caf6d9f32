//! Services and their revisions.

use std::sync::Arc;

use model::{Mode, Revision, RevisionId, Service, ServiceId, Time, UpdateState, UpdateStatus};

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
            Some(self.begin_update(&old, service))
        };
        self.put_service(&old, Service { update_status, ..service.clone() });
        Ok(())
    }

    /// The update that another revision begins. One that came to all slots before needs no canaries.
    fn begin_update(&self, old: &Service, new: &Service) -> UpdateStatus {
        let unproven = match old.update_status.as_ref().and_then(|status| status.unproven) {
            _ if old.previous != Some(new.revision) => Some(new.revision),
            earlier => earlier.filter(|id| *id == new.revision || Some(*id) == new.previous),
        };
        let first = unproven == Some(new.revision) && matches!(new.mode, Mode::Replicated { .. });
        UpdateStatus {
            state: UpdateState::Updating,
            began: self.version,
            started_at: self.time,
            since: self.time,
            completed_at: Time::ZERO,
            automatic: false,
            canary: if first { new.update.canary } else { 0 },
            unproven,
            newest: self.newest(old).max(self.number(new.revision)),
            message: "update in progress".into(),
        }
    }

    fn number(&self, revision: RevisionId) -> u64 {
        self.tables.revision(revision).map_or(0, |r| r.number)
    }

    /// The highest number that a revision of a service has had.
    fn newest(&self, service: &Service) -> u64 {
        let told = service.update_status.as_ref().map_or(0, |status| status.newest);
        let previous = service.previous.map_or(0, |id| self.number(id));
        told.max(previous).max(self.number(service.revision))
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
        if automatic && !matches!(state, Some(UpdateState::Updating | UpdateState::Canary)) {
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
            since: self.time,
            completed_at: Time::ZERO,
            automatic,
            // So many slots still have what canaries stood beside.
            canary: old.update_status.as_ref().filter(|s| s.tries_canaries()).map_or(0, |s| s.canary),
            unproven: old.update_status.as_ref().and_then(|status| status.unproven),
            newest: self.newest(&old),
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
        if state == UpdateState::Canary && !status.tries_canaries() {
            return Err(wrong("its update has no canaries".into()));
        }
        let proven = completed && status.unproven == Some(old.revision);
        let unproven = status.unproven.filter(|_| !proven);
        let (since, message) = (self.time, clip(message));
        let status = UpdateStatus { state, since, completed_at, unproven, message, ..status.clone() };
        self.put_service(&old, Service { update_status: Some(status), ..(*old).clone() });
        Ok(())
    }

    pub(super) fn promote(&mut self, id: ServiceId, message: &Arc<str>) -> Result<(), Refused> {
        let old = self.need_service(id)?;
        let Some(status) = old.update_status.as_ref().filter(|status| status.tries_canaries()) else {
            return Err(wrong(ObjectId::Service(id), "it has no canaries to promote"));
        };
        // What the canaries said is over: only tasks that are made from here on count. What runs is as if it had always been there.
        let status = UpdateStatus {
            state: UpdateState::Updating,
            began: self.version,
            since: self.time,
            canary: 0,
            message: clip(message),
            ..status.clone()
        };
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
