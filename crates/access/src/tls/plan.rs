//! Decides when certificates are renewed. Pure: time and the stored certificates go in, a decision comes out.

/// The validity of a certificate. Clients refuse certificates that are valid for much longer.
pub const LEAF_SECS: i64 = 365 * DAY_SECS;

/// The validity of the authority: people install it by hand.
pub const AUTHORITY_SECS: i64 = 10 * 365 * DAY_SECS;

/// The validity of the certificate that signs documents. It is replaced every hour and at each start.
pub const SIGNER_SECS: i64 = 7 * DAY_SECS;

/// How long before its end a certificate is renewed: a server that is started once a month renews in time.
pub const RENEW_BEFORE_SECS: i64 = 60 * DAY_SECS;

/// How far certificates are backdated, for clients whose clocks are behind.
pub const BACKDATE_SECS: i64 = DAY_SECS;

const DAY_SECS: i64 = 24 * 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalPlan {
    Keep,
    /// A new certificate from the existing authority.
    Leaf,
    /// A new authority and certificate.
    All,
}

/// The existing certificates.
#[derive(Clone, Copy, Debug)]
pub struct CurrentCertificates<'a> {
    pub authority: Validity,
    pub leaf: Validity,
    /// The names in the certificate.
    pub names: &'a [String],
    /// The names that the authority can sign; None: all.
    pub permitted: Option<&'a [String]>,
}

/// From the first second to the one after the last, in Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: i64,
    pub until: i64,
}

impl Validity {
    pub fn starting(now: i64, length_secs: i64) -> Validity {
        Validity { from: now - BACKDATE_SECS, until: now + length_secs }
    }

    /// The same, ending no later than `until`.
    pub fn within(self, until: i64) -> Validity {
        Validity { until: self.until.min(until), ..self }
    }
}

pub fn plan(have: Option<CurrentCertificates<'_>>, wanted: &[String], now: i64) -> RenewalPlan {
    let Some(have) = have else { return RenewalPlan::All };
    // A certificate must not outlive its authority, so the authority is replaced when a full validity no longer fits.
    if now < have.authority.from || now + LEAF_SECS > have.authority.until {
        return RenewalPlan::All;
    }
    if have.permitted.is_some_and(|permitted| !wanted.iter().all(|name| permitted.contains(name))) {
        return RenewalPlan::All;
    }
    if have.names != wanted || now < have.leaf.from || now + RENEW_BEFORE_SECS > have.leaf.until {
        return RenewalPlan::Leaf;
    }
    RenewalPlan::Keep
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: i64 = 1_800_000_000;

    #[track_caller]
    fn check(days: i64, names: &[&str], expected: RenewalPlan) {
        let own = ["localhost".to_owned()];
        let have = CurrentCertificates {
            authority: Validity::starting(MADE, AUTHORITY_SECS),
            // As if the certificate were renewed each year.
            leaf: Validity::starting(MADE + (days.max(0) / 300) * 300 * DAY_SECS, LEAF_SECS),
            names: &own,
            permitted: None,
        };
        let wanted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(plan(Some(have), &wanted, MADE + days * DAY_SECS), expected, "{days} days, {names:?}");
    }

    #[test]
    fn certificates_are_renewed_before_they_expire() {
        check(0, &["localhost"], RenewalPlan::Keep);
        check(299, &["localhost"], RenewalPlan::Keep);
        let leaf = CurrentCertificates {
            authority: Validity::starting(MADE, AUTHORITY_SECS),
            leaf: Validity::starting(MADE, LEAF_SECS),
            names: &[],
            permitted: None,
        };
        assert_eq!(plan(Some(leaf), &[], MADE + LEAF_SECS - RENEW_BEFORE_SECS), RenewalPlan::Keep);
        assert_eq!(plan(Some(leaf), &[], MADE + LEAF_SECS - RENEW_BEFORE_SECS + 1), RenewalPlan::Leaf);
        assert_eq!(plan(Some(leaf), &[], MADE + LEAF_SECS + 1), RenewalPlan::Leaf);
        check(9 * 365, &["localhost"], RenewalPlan::Keep);
        check(9 * 365 + 1, &["localhost"], RenewalPlan::All);
        check(11 * 365, &["localhost"], RenewalPlan::All);
    }

    #[test]
    fn another_name_needs_another_leaf_and_nothing_needs_everything() {
        check(1, &["localhost", "10.0.0.1"], RenewalPlan::Leaf);
        check(1, &[], RenewalPlan::Leaf);
        assert_eq!(plan(None, &[], MADE), RenewalPlan::All);
    }

    #[test]
    fn a_clock_that_was_set_back_behind_their_beginning_makes_new_ones() {
        check(-2, &["localhost"], RenewalPlan::All);
        check(-1, &["localhost"], RenewalPlan::Keep);
    }
}
