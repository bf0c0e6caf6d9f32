//! A machine for tests: it keeps every entry it was given, in order, and answers with their count.

#![allow(dead_code, clippy::unwrap_used)] // Each test binary uses its part.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use consensus::{Consensus, Frozen, Machine, OpenError, Options};

/// What the machine published: the applied entries with their indexes.
pub type Published = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// Keeps its entries.
#[derive(Default)]
pub struct Keep {
    entries: Vec<(u64, Arc<Vec<u8>>)>,
    published: Published,
    /// Published up to here.
    shown: usize,
}

impl Keep {
    /// A machine, and what it publishes.
    pub fn new() -> (Self, Published) {
        let keep = Self::default();
        let published = keep.published.clone();
        (keep, published)
    }
}

impl Machine for Keep {
    type Reply = usize;

    fn apply(&mut self, index: u64, entry: &[u8]) -> usize {
        if entry == b"panic" {
            panic!("asked to");
        }
        self.entries.push((index, Arc::new(entry.to_vec())));
        self.entries.len()
    }

    fn batch_end(&mut self, _index: u64) {
        let mut published = self.published.lock().unwrap();
        published.truncate(self.shown);
        published.extend(self.entries[self.shown..].iter().map(|(i, e)| (*i, e.to_vec())));
        self.shown = self.entries.len();
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(FrozenKeep(self.entries.clone()))
    }

    fn install(&mut self, _index: u64, reader: &mut dyn Read) -> Result<(), String> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        (self.entries, self.shown) = (Vec::new(), 0);
        let mut rest = bytes.as_slice();
        while let Some((head, more)) = rest.split_first_chunk::<12>() {
            let index = u64::from_le_bytes(head[..8].try_into().unwrap());
            let len = u32::from_le_bytes(head[8..].try_into().unwrap()) as usize;
            self.entries.push((index, Arc::new(more[..len].to_vec())));
            rest = &more[len..];
        }
        if rest.is_empty() { Ok(()) } else { Err("a cut entry".into()) }
    }
}

struct FrozenKeep(Vec<(u64, Arc<Vec<u8>>)>);

impl Frozen for FrozenKeep {
    fn write(self: Box<Self>, out: &mut dyn Write) -> std::io::Result<()> {
        for (index, entry) in &self.0 {
            out.write_all(&index.to_le_bytes())?;
            out.write_all(&(entry.len() as u32).to_le_bytes())?;
            out.write_all(entry)?;
        }
        Ok(())
    }
}

/// Opens, and returns what the machine publishes with it.
pub async fn open(options: Options) -> Result<(Consensus<Keep>, Published), OpenError> {
    let (keep, published) = Keep::new();
    Ok((Consensus::open(options, keep).await?, published))
}

/// The published entries without their indexes.
pub fn entries(published: &Published) -> Vec<Vec<u8>> {
    published.lock().unwrap().iter().map(|(_, e)| e.clone()).collect()
}

/// The number that the tests write as an entry: decimal text, then padding.
pub fn numbered(n: u64, bytes: usize) -> Vec<u8> {
    let mut entry = format!("{n} ").into_bytes();
    entry.resize(entry.len().max(bytes), b'.');
    entry
}

/// The number in such an entry.
pub fn number(entry: &[u8]) -> u64 {
    let text = entry.split(|b| *b == b' ').next().unwrap();
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// The numbers of all published entries.
pub fn numbers(published: &Published) -> Vec<u64> {
    published.lock().unwrap().iter().map(|(_, e)| number(e)).collect()
}
