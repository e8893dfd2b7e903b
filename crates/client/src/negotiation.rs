//! Which version to ask for: the newest that the service has.

/// The versions of one path, and which of them is in use.
#[derive(Debug, Clone)]
pub(crate) struct Negotiation<V> {
    newest_first: Vec<V>,
    at: usize,
    settled: bool,
}

impl<V: Copy> Negotiation<V> {
    pub fn new(newest_first: Vec<V>) -> Negotiation<V> {
        assert!(!newest_first.is_empty(), "there is a version");
        Negotiation { newest_first, at: 0, settled: false }
    }

    pub fn current(&self) -> V {
        self.newest_first[self.at]
    }

    pub fn settled(&self) -> Option<V> {
        self.settled.then(|| self.current())
    }

    /// The service answered in the current version.
    pub fn accepted(&mut self) {
        self.settled = true;
    }

    /// The service does not have the current version. Whether there is another one to try; when there
    /// is none the next call begins anew.
    pub fn refused(&mut self) -> bool {
        // A service that had this version and has it no more was exchanged: begin with the newest.
        let was_settled = std::mem::take(&mut self.settled);
        self.at = if was_settled && self.at > 0 { 0 } else { self.at + 1 };
        if self.at == self.newest_first.len() {
            self.at = 0;
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks until the service, which has these versions, answers or none is left.
    fn ask(negotiation: &mut Negotiation<u32>, served: &[u32]) -> (Vec<u32>, Option<u32>) {
        let mut asked = Vec::new();
        loop {
            asked.push(negotiation.current());
            if served.contains(&negotiation.current()) {
                negotiation.accepted();
                return (asked, negotiation.settled());
            }
            if !negotiation.refused() {
                return (asked, None);
            }
        }
    }

    #[test]
    fn the_newest_is_found_and_remembered() {
        let mut negotiation = Negotiation::new(vec![4, 3, 2, 1]);
        assert_eq!(ask(&mut negotiation, &[2, 1]), (vec![4, 3, 2], Some(2)));
        assert_eq!(ask(&mut negotiation, &[2, 1]), (vec![2], Some(2)));
        assert_eq!(ask(&mut negotiation, &[4, 3]), (vec![2, 4], Some(4)));
        assert_eq!(ask(&mut negotiation, &[1]), (vec![4, 3, 2, 1], Some(1)));
        assert_eq!(ask(&mut negotiation, &[]), (vec![1, 4, 3, 2, 1], None));
        assert_eq!(ask(&mut negotiation, &[3]), (vec![4, 3], Some(3)));
    }
}
