//! A map by CUPTI correlation ID that forgets entries which nothing can refer to any more.
//!
//! CUPTI numbers calls consecutively, so IDs that are near in time are near each other. The lowest bits select a slot
//! without a search.

/// Initial number of slots.
const FIRST: usize = 1 << 10;
/// Maximum number of slots. Overwritten entries are counted.
const MOST: usize = 1 << 20;
/// Time for which a done entry stays, in nanoseconds. The nodes of a graph refer to its launch one after another.
const STAYS_NS: i64 = 1_000_000_000;

struct Place<T> {
    correlation: u32,
    /// Time of the last use, in nanoseconds.
    used_ns: i64,
    what: T,
}

/// Time after which an entry that was never used is forgotten, in nanoseconds.
const FORGOTTEN_NS: i64 = 60_000_000_000;

/// An entry that knows whether it is still needed.
pub trait Done {
    /// Returns true if it was used, or never will be.
    fn is_done(&self) -> bool;
}

/// Entries by correlation ID.
pub struct ByCorrelation<T> {
    places: Vec<Option<Place<T>>>,
}

impl<T> Default for ByCorrelation<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T: Copy + Done> ByCorrelation<T> {
    fn at(&self, correlation: u32) -> usize {
        correlation as usize & self.places.len().wrapping_sub(1)
    }

    /// Returns the entry of a correlation ID.
    #[inline]
    pub fn get(&self, correlation: u32) -> Option<&T> {
        let place = self.places.get(self.at(correlation))?.as_ref()?;
        (place.correlation == correlation).then_some(&place.what)
    }

    /// Returns the entry of a correlation ID and marks it as used at `now_ns`.
    #[inline]
    pub fn uses(&mut self, correlation: u32, now_ns: i64) -> Option<&mut T> {
        let at = self.at(correlation);
        let place = self.places.get_mut(at)?.as_mut()?;
        if place.correlation != correlation {
            return None;
        }
        place.used_ns = place.used_ns.max(now_ns);
        Some(&mut place.what)
    }

    /// Inserts an entry. Returns the entry that it overwrites, if that was not done.
    pub fn insert(&mut self, correlation: u32, now_ns: i64, what: T) -> Option<T> {
        if self.places.is_empty() {
            self.places.resize_with(FIRST, || None);
        }
        loop {
            let at = self.at(correlation);
            let is_needed = self.places[at].as_ref().is_some_and(|place| {
                let stays_ns = if place.what.is_done() {
                    STAYS_NS
                } else {
                    FORGOTTEN_NS
                };
                place.correlation != correlation && place.used_ns.saturating_add(stays_ns) >= now_ns
            });
            if !is_needed || self.places.len() >= MOST {
                let place = Place {
                    correlation,
                    used_ns: now_ns,
                    what,
                };
                let before = self.places[at].replace(place)?;
                let is_lost = before.correlation != correlation && !before.what.is_done();
                return is_lost.then_some(before.what);
            }
            self.grow();
        }
    }

    fn grow(&mut self) {
        let wider = 2 * self.places.len();
        let before = std::mem::take(&mut self.places);
        self.places.resize_with(wider, || None);
        for place in before.into_iter().flatten() {
            let at = self.at(place.correlation);
            // Entries with different slots before have different slots now.
            self.places[at] = Some(place);
        }
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten().map(|place| &place.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Meaning(u32, bool);

    impl Done for Meaning {
        fn is_done(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn entries_in_use_are_kept_and_old_ones_are_replaced() {
        let mut known = ByCorrelation::default();
        for correlation in 0..5000 {
            assert_eq!(known.insert(correlation, 0, Meaning(correlation, false)), None);
        }
        assert!((0..5000).all(|correlation| known.get(correlation) == Some(&Meaning(correlation, false))));
        let places = known.places.len();
        for correlation in 0..5000 {
            known.uses(correlation, 10).expect("known").1 = true;
        }
        // They were just used, so they stay.
        known.insert(8192, 20, Meaning(8192, false));
        assert_eq!(known.get(0), Some(&Meaning(0, true)));
        let later = 20 + STAYS_NS;
        for correlation in 16_384 + 1..16_384 + 5000 {
            known.insert(correlation, later, Meaning(correlation, false));
        }
        assert!(known.places.len() <= 2 * places, "{}", known.places.len());
        assert_eq!(known.get(1), None);
    }

    #[test]
    fn an_entry_that_finds_no_slot_is_returned() {
        let mut known = ByCorrelation::default();
        assert_eq!(known.insert(7, 0, Meaning(1, false)), None);
        assert_eq!(known.insert(7, 0, Meaning(2, false)), None, "the same again");
        assert_eq!(
            known.insert(7 + MOST as u32, 0, Meaning(3, false)),
            Some(Meaning(2, false))
        );
        assert_eq!(known.places.len(), MOST);
        assert_eq!(known.iter().count(), 1);
    }
}
