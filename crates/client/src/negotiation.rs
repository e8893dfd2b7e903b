//! API version negotiation: finds the newest version that the service supports.

/// Candidate versions of one path, and the one in use.
#[derive(Debug, Clone)]
pub(crate) struct Negotiation<V> {
    newest_first: Vec<V>,
    index: usize,
    is_confirmed: bool,
}

impl<V: Copy> Negotiation<V> {
    pub fn new(newest_first: Vec<V>) -> Negotiation<V> {
        assert!(!newest_first.is_empty(), "at least one version is required");
        Negotiation { newest_first, index: 0, is_confirmed: false }
    }

    pub fn current(&self) -> V {
        self.newest_first[self.index]
    }

    /// Version in use, once the service has accepted it.
    pub fn confirmed(&self) -> Option<V> {
        self.is_confirmed.then(|| self.current())
    }

    /// Records that the service supports the current version.
    pub fn accept(&mut self) {
        self.is_confirmed = true;
    }

    /// Records that the service does not support the current version. Returns whether another one is left to try; if
    /// not, the next call starts over with the newest.
    pub fn reject(&mut self) -> bool {
        // If the version was accepted before, the service has been replaced: start over with the newest.
        let was_confirmed = std::mem::take(&mut self.is_confirmed);
        self.index = if was_confirmed && self.index > 0 { 0 } else { self.index + 1 };
        if self.index == self.newest_first.len() {
            self.index = 0;
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries versions until the service accepts one or none is left. Returns the versions tried and the result.
    fn negotiate(negotiation: &mut Negotiation<u32>, served: &[u32]) -> (Vec<u32>, Option<u32>) {
        let mut tried = Vec::new();
        loop {
            tried.push(negotiation.current());
            if served.contains(&negotiation.current()) {
                negotiation.accept();
                return (tried, negotiation.confirmed());
            }
            if !negotiation.reject() {
                return (tried, None);
            }
        }
    }

    #[test]
    fn the_newest_supported_version_is_found_and_remembered() {
        let mut negotiation = Negotiation::new(vec![4, 3, 2, 1]);
        assert_eq!(negotiate(&mut negotiation, &[2, 1]), (vec![4, 3, 2], Some(2)));
        assert_eq!(negotiate(&mut negotiation, &[2, 1]), (vec![2], Some(2)));
        assert_eq!(negotiate(&mut negotiation, &[4, 3]), (vec![2, 4], Some(4)));
        assert_eq!(negotiate(&mut negotiation, &[1]), (vec![4, 3, 2, 1], Some(1)));
        assert_eq!(negotiate(&mut negotiation, &[]), (vec![1, 4, 3, 2, 1], None));
        assert_eq!(negotiate(&mut negotiation, &[3]), (vec![4, 3], Some(3)));
    }
}
