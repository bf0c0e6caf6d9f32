//! Whatever happens, in whatever order, and whenever the daemon dies: no program is started twice, no end is taken back, and in the end exactly what
//! is wanted runs.

mod world;

use proptest::prelude::*;

use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_wanted_runs_exactly_once(happenings in prop::collection::vec(any::<(u8, u16)>(), 0..400)) {
        let mut world = World::new();
        for (kind, pick) in happenings {
            world.happen(kind, pick);
        }
        world.quiet();
        world.check();
    }

    #[test]
    fn a_stop_ends_everything(happenings in prop::collection::vec(any::<(u8, u16)>(), 0..200)) {
        let mut world = World::new();
        for (kind, pick) in happenings {
            world.happen(kind, pick);
        }
        world.stop();
        world.quiet();
        world.check();
        prop_assert!(world.stopped);
    }

    #[test]
    fn the_same_happenings_lead_to_the_same_effects(happenings in prop::collection::vec(any::<(u8, u16)>(), 0..200)) {
        let mut worlds = [World::new(), World::new()];
        for (kind, pick) in happenings {
            worlds.iter_mut().for_each(|world| world.happen(kind, pick));
            prop_assert_eq!(worlds[0].on_its_way(), worlds[1].on_its_way());
        }
    }
}
