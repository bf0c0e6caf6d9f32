//! Reading bytes never takes more memory than their length allows, whatever they say of themselves.

mod common;
#[path = "common/random.rs"]
mod random;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::*;
use random::Random;
use store::Change;
use store::codec::{check_entry, decode_entry, encode_entry, read_snapshot, write_snapshot};

/// Counts what each thread has taken, and the most it had at once.
struct Counting;

thread_local! {
    static TAKEN: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    TAKEN.with(|taken| {
        taken.set(taken.get() + bytes);
        MOST.with(|most| most.set(most.get().max(taken.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it is; counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that was taken at once while doing something, in bytes.
fn most(work: impl FnOnce()) -> usize {
    let before = TAKEN.get();
    MOST.set(before);
    work();
    (MOST.get() - before).cast_unsigned()
}

/// Memory for each byte that is read; an empty message of two bytes is the dearest.
const PER_BYTE: usize = 64;
/// What reading takes at least: lists of limited length, and the tables themselves.
const AT_LEAST: usize = 64 << 10;

fn check(bytes: &[u8], what: &str) {
    let limit = AT_LEAST + PER_BYTE * bytes.len();
    let entry = most(|| drop(decode_entry(bytes)));
    assert!(entry <= limit, "{what}: {} bytes took {entry} as an entry", bytes.len());
    let checked = most(|| drop(check_entry(bytes)));
    assert!(checked <= 1024, "{what}: a check took {checked}");
    let snapshot = most(|| drop(read_snapshot(&mut &*bytes)));
    assert!(snapshot <= limit, "{what}: {} bytes took {snapshot} as a snapshot", bytes.len());
}

#[test]
fn mutated_entries_stay_within_bounds() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut bytes = encode_entry(&random.entry());
        check(&bytes, "as written");
        for _ in 0..1 + random.below(8) {
            let at = usize::try_from(random.below(bytes.len() as u64)).expect("a small number");
            bytes[at] = random.next() as u8;
        }
        check(&bytes, "mutated");
    }
}

/// Repeats an empty field as often as it fits: the most memory that a byte can buy.
#[test]
fn many_empty_messages_stay_within_bounds() {
    // In an entry (4) a set (2) with a change of each kind, full of each of its fields.
    for kind in 1..=22u32 {
        for field in 1..=18u32 {
            let filling = [(field << 3 | 2) as u8, 0].repeat(5000);
            let filling = if field < 16 { filling } else { [(field << 3 | 2) as u8, 1, 0].repeat(5000) };
            let change = wrapped(kind, &filling);
            let entry = [&[0x08, 1][..], &wrapped(4, &wrapped(2, &change))].concat();
            check(&entry, &format!("change {kind}, field {field}"));
        }
    }
    // And sets, guards and changes that are empty themselves.
    check(&[&[0x08, 1][..], &[0x22, 0].repeat(5000)].concat(), "sets");
    check(&[&[0x08, 1][..], &wrapped(4, &[0x0a, 0].repeat(5000))].concat(), "guards");
    check(&[&[0x08, 1][..], &wrapped(4, &[0x12, 0].repeat(5000))].concat(), "changes");
}

/// A field that holds bytes.
fn wrapped(tag: u32, inside: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for mut number in [tag << 3 | 2, inside.len() as u32] {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
    out.extend_from_slice(inside);
    out
}

#[test]
fn lengths_that_lie_take_nothing() {
    let mut w = World::furnished();
    w.must(vec![create_task(1, 1, 0, 1), Change::PutNamespace(namespace(1, "team"))]);
    let mut bytes = Vec::new();
    write_snapshot(&w.tables, &mut bytes).expect("memory takes every byte");
    check(&bytes, "as written");
    // Each frame in turn says that it is as long as is allowed, or longer.
    let mut at = 20;
    while at < bytes.len() {
        for length in [1u32 << 20, 65 << 20, u32::MAX] {
            let mut lying = bytes.clone();
            lying[at..at + 4].copy_from_slice(&length.to_le_bytes());
            check(&lying, "a length that lies");
        }
        at += 9 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    }
}
