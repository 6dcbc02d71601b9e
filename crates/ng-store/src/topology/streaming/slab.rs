//! Things that are under way, by number.

/// Things by number; numbers are used again.
pub(super) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, thing: T) -> usize {
        if let Some(at) = self.free.pop()
            && let Some(place) = self.things.get_mut(at)
        {
            *place = Some(thing);
            return at;
        }
        self.things.push(Some(thing));
        self.things.len() - 1
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.things.get_mut(at)?.as_mut()
    }

    pub fn remove(&mut self, at: usize) -> Option<T> {
        let thing = self.things.get_mut(at)?.take();
        self.free.extend(thing.is_some().then_some(at));
        thing
    }
}
