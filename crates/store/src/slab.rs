//! Values under small numbers (handles), as a persistent tree: a clone shares everything and costs one counter, a change
//! copies one path. Inside the store only: handles depend on history and are never shown.

use std::sync::Arc;

/// The children of a branch and the values of a leaf. With 16, the copies that the first change after a snapshot makes are
/// small; wider trees are read a little faster and changed slower.
const WIDTH: usize = 16;
const BITS: u32 = WIDTH.trailing_zeros();

/// A number that no value has.
pub(crate) const NONE: u32 = u32::MAX;

#[cfg(debug_assertions)]
thread_local! {
    static READS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many nodes, services and tasks this thread has read so far, of whatever tables: for tests of what a question costs. Where
/// assertions are not checked nothing is counted, and there is no such function.
#[cfg(debug_assertions)]
pub fn objects_read() -> u64 {
    READS.get()
}

/// Values under handles.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    root: Arc<Tree<T>>,
    /// Levels of branches above the leaves.
    height: u32,
    /// Handles from here on were never used.
    fresh: u32,
    /// The free handle to use next, or [`NONE`]; it names the next one in turn.
    free: u32,
}

#[derive(Clone, Debug)]
enum Tree<T> {
    Leaf([Cell<T>; WIDTH]),
    Branch([Option<Arc<Tree<T>>>; WIDTH]),
}

#[derive(Clone, Debug)]
enum Cell<T> {
    /// Not used; the free handle after this one.
    Free(u32),
    Used(T),
}

impl<T> Tree<T> {
    fn leaf() -> Self {
        Self::Leaf(std::array::from_fn(|_| Cell::Free(NONE)))
    }

    fn branch() -> Self {
        Self::Branch(std::array::from_fn(|_| None))
    }
}

/// The place of a handle among the children of a branch `height` levels above the leaves, or in a leaf (0).
fn place(handle: u32, height: u32) -> usize {
    (handle >> (BITS * height)) as usize % WIDTH
}

impl<T: Clone> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { root: Arc::new(Tree::leaf()), height: 0, fresh: 0, free: NONE }
    }

    /// The value under a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&T> {
        #[cfg(debug_assertions)]
        READS.set(READS.get() + 1);
        let mut height = self.height;
        if handle >= self.fresh {
            return None;
        }
        let mut tree = &*self.root;
        loop {
            match tree {
                Tree::Branch(children) => {
                    tree = children[place(handle, height)].as_deref()?;
                    height -= 1;
                }
                Tree::Leaf(cells) => match &cells[place(handle, 0)] {
                    Cell::Used(value) => return Some(value),
                    Cell::Free(_) => return None,
                },
            }
        }
    }

    /// The value under a handle, to be changed.
    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        if handle >= self.fresh {
            return None;
        }
        match self.cell(handle)? {
            Cell::Used(value) => Some(value),
            Cell::Free(_) => None,
        }
    }

    /// The cell of a handle below `fresh`; missing branches and leaves on the way are made.
    fn cell(&mut self, handle: u32) -> Option<&mut Cell<T>> {
        let mut height = self.height;
        let mut tree = Arc::make_mut(&mut self.root);
        loop {
            match tree {
                Tree::Branch(children) => {
                    let child = &mut children[place(handle, height)];
                    height -= 1;
                    let make = || Arc::new(if height == 0 { Tree::leaf() } else { Tree::branch() });
                    tree = Arc::make_mut(child.get_or_insert_with(make));
                }
                Tree::Leaf(cells) => return cells.get_mut(place(handle, 0)),
            }
        }
    }

    /// Keeps a value; its handle is the one freed last, or a fresh one.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if self.free != NONE {
            let handle = self.free;
            if let Some(cell) = self.cell(handle)
                && let Cell::Free(next) = *cell
            {
                *cell = Cell::Used(value);
                self.free = next;
            }
            return handle;
        }
        let handle = self.fresh;
        self.fresh += 1;
        self.grow(handle);
        if let Some(cell) = self.cell(handle) {
            *cell = Cell::Used(value);
        }
        handle
    }

    /// Keeps a value under a handle that another slab gave out. A slab is filled either so or by `insert`.
    pub(crate) fn put(&mut self, handle: u32, value: T) {
        self.fresh = self.fresh.max(handle + 1);
        self.grow(handle);
        if let Some(cell) = self.cell(handle) {
            *cell = Cell::Used(value);
        }
    }

    /// Makes room for a handle: as many levels as it needs.
    fn grow(&mut self, handle: u32) {
        while u64::from(handle) >> (BITS * (self.height + 1)) > 0 {
            let mut children = std::array::from_fn(|_| None);
            children[0] = Some(Arc::clone(&self.root));
            self.root = Arc::new(Tree::Branch(children));
            self.height += 1;
        }
    }

    /// Forgets the value under a handle.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<T> {
        self.get(handle)?;
        let next = self.free;
        match std::mem::replace(self.cell(handle)?, Cell::Free(next)) {
            Cell::Used(value) => {
                self.free = handle;
                Some(value)
            }
            Cell::Free(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn values_are_put_where_they_are_said_to_be() {
        let mut slab = Slab::new();
        for handle in [5, 70_000, 3, 5] {
            slab.put(handle, handle + 1);
        }
        assert_eq!(
            [3, 4, 5, 70_000].map(|handle| slab.get(handle).copied()),
            [Some(4), None, Some(6), Some(70_001)]
        );
    }

    #[test]
    fn it_holds_what_a_map_holds_and_snapshots_stay() {
        let mut slab = Slab::new();
        let mut map = BTreeMap::new();
        let mut snapshots = Vec::new();
        for n in 0u32..10_000 {
            // Grows, with a removal in every third step from the middle of what is there.
            if n % 3 == 2 {
                let handle = *map.keys().nth(map.len() / 2).unwrap();
                assert_eq!(slab.remove(handle), map.remove(&handle));
                assert_eq!(slab.remove(handle), None);
            } else {
                let handle = slab.insert(n);
                assert_eq!(map.insert(handle, n), None, "handle {handle} was free");
            }
            if let Some((handle, value)) = map.iter_mut().next_back() {
                *value += 1;
                *slab.get_mut(*handle).unwrap() += 1;
            }
            if n % 1000 == 0 {
                snapshots.push((slab.clone(), map.clone()));
            }
        }
        snapshots.push((slab, map));
        for (slab, map) in snapshots {
            for handle in 0..10_001 {
                assert_eq!(slab.get(handle), map.get(&handle), "handle {handle}");
            }
            assert_eq!(slab.get(NONE), None);
        }
    }
}
