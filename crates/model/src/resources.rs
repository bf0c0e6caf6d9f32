//! What a node offers and what a task reserves.

use std::collections::BTreeMap;
use std::sync::Arc;

/// An amount of each kind of resource. In an offer: what there is; in a reservation: what is held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Resources {
    /// Processors in billionths.
    pub nano_cpus: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Counted resources that only their name describes, such as `gpu`.
    pub generic: BTreeMap<Arc<str>, i64>,
}

impl Resources {
    /// Adds `other` to this amount; counts that reach zero are dropped.
    pub fn add(&mut self, other: &Self) {
        self.nano_cpus = self.nano_cpus.saturating_add(other.nano_cpus);
        self.memory = self.memory.saturating_add(other.memory);
        for (name, amount) in &other.generic {
            let held = self.generic.entry(Arc::clone(name)).or_default();
            *held = held.saturating_add(*amount);
        }
        self.generic.retain(|_, amount| *amount != 0);
    }

    /// Takes `other` from this amount. The result may be negative: a node that shrank is overcommitted.
    pub fn subtract(&mut self, other: &Self) {
        self.nano_cpus = self.nano_cpus.saturating_sub(other.nano_cpus);
        self.memory = self.memory.saturating_sub(other.memory);
        for (name, amount) in &other.generic {
            let held = self.generic.entry(Arc::clone(name)).or_default();
            *held = held.saturating_sub(*amount);
        }
        self.generic.retain(|_, amount| *amount != 0);
    }

    /// True when a reservation of `need` fits into this amount beside what is `held` already.
    pub fn fits(&self, held: &Self, need: &Self) -> bool {
        let enough = |offer: i64, held: i64, need: i64| need <= 0 || offer.saturating_sub(held) >= need;
        enough(self.nano_cpus, held.nano_cpus, need.nano_cpus)
            && enough(self.memory, held.memory, need.memory)
            && need.generic.iter().all(|(name, amount)| {
                let offer = self.generic.get(name).copied().unwrap_or(0);
                enough(offer, held.generic.get(name).copied().unwrap_or(0), *amount)
            })
    }

    /// True when nothing is asked for or offered.
    pub fn is_none(&self) -> bool {
        self.nano_cpus == 0 && self.memory == 0 && self.generic.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(nano_cpus: i64, memory: i64, gpu: i64) -> Resources {
        let mut r = Resources { nano_cpus, memory, generic: BTreeMap::new() };
        if gpu != 0 {
            r.generic.insert("gpu".into(), gpu);
        }
        r
    }

    #[test]
    fn what_is_added_can_be_taken_back() {
        let mut r = amount(1, 2, 0);
        r.add(&amount(3, 4, 5));
        assert_eq!(r, amount(4, 6, 5));
        r.subtract(&amount(3, 4, 5));
        assert_eq!(r, amount(1, 2, 0));
    }

    #[test]
    fn fits_looks_at_each_kind() {
        let offer = amount(4, 4, 1);
        for (held, need, fits) in [
            (amount(0, 0, 0), amount(4, 4, 1), true),
            (amount(1, 0, 0), amount(4, 0, 0), false),
            (amount(0, 1, 0), amount(0, 4, 0), false),
            (amount(0, 0, 1), amount(0, 0, 1), false),
            (amount(9, 9, 9), amount(0, 0, 0), true),
        ] {
            assert_eq!(offer.fits(&held, &need), fits, "{held:?} {need:?}");
        }
    }
}
