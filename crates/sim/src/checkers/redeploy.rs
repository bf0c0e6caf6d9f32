//! A redeployment of what is there changes nothing.

use model::{ServiceId, Time};

use super::{Checker, Quiet};
use crate::desk::{Decision, decide};
use crate::random::Random;

/// Asks for every service once more what it is already.
#[derive(Default)]
pub struct Redeploy;

impl Checker for Redeploy {
    fn promise(&self) -> &'static str {
        "a redeployment of the same changes nothing"
    }

    fn at_rest(&mut self, quiet: &Quiet<'_>, broken: &mut Vec<String>) {
        let tables = quiet.tables;
        let mut random = Random::new(1);
        let ids: Vec<ServiceId> = tables.services().map(|s| s.id).collect();
        for service in ids.iter().filter_map(|id| tables.service(*id)) {
            let spec = control::services::spec_of(tables, service);
            let name = service.name.to_string();
            let decision = decide(tables, Time(quiet.now.0), &mut random, |cluster| {
                Box::pin(async move { control::services::update(cluster, &name, None, spec).await })
            });
            match decision {
                Ok(Decision::Nothing) => {}
                Ok(Decision::Write(set)) => {
                    broken.push(format!("{} again would change {:?}", service.name, set.changes));
                }
                Err(refused) => broken.push(format!("{} again is refused: {refused}", service.name)),
            }
        }
    }
}
