//! openraft's own suite for storage, run against the log and the machine's thread.

use std::io::{Read, Write};
use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::apply::StateMachine;
use crate::failure::Failure;
use crate::home::Home;
use crate::log::{Log, Opened};
use crate::machine::{Frozen, Machine};
use crate::options::Options;
use crate::snapshot::Snapshots;
use crate::types::TypeConfig;

/// The suite looks at the engine's side only; the machine just counts.
struct Count(u64);

impl Machine for Count {
    type Reply = ();

    fn apply(&mut self, _index: u64, _entry: &[u8]) {
        self.0 += 1;
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(Self(self.0))
    }

    fn install(&mut self, _index: u64, reader: &mut dyn Read) -> Result<(), String> {
        let mut bytes = [0; 8];
        reader.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

impl Frozen for Count {
    fn write(self: Box<Self>, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }
}

struct Fresh;

impl StoreBuilder<TypeConfig, Log, StateMachine, TempDir> for Fresh {
    async fn build(&self) -> Result<(TempDir, Log, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(dir.path().join("consensus"), 1);
        let failure = Failure::new();
        let home = Arc::new(Home::open(&options.dir).unwrap());
        let Opened { log, .. } = crate::log::open(&home, &options, &failure).unwrap();
        let snapshots = Arc::new(Snapshots::new(home));
        let due = Arc::new(Notify::new());
        let machine = StateMachine::start(Count(0), None, snapshots, failure, due, &options).unwrap();
        Ok((dir, log, machine))
    }
}

#[test]
fn the_engines_own_suite_passes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(Suite::test_all(Fresh)).unwrap();
}
