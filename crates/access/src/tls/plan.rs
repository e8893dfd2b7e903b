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

/// The names for the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedNames {
    pub all: Vec<String>,
    /// One of `all` that is left out if the authority cannot sign it: the host name, which changes without a decision of
    /// the operator, for example with a new container. A new authority would need to be trusted by every client.
    pub optional: Option<String>,
}

impl WantedNames {
    /// The names in a certificate of an authority that can sign `permitted` (None: all); None if it needs another authority.
    pub fn names_for(&self, permitted: Option<&[String]>) -> Option<Vec<String>> {
        let Some(permitted) = permitted else { return Some(self.all.clone()) };
        let (can, cannot): (Vec<_>, Vec<_>) = self.all.iter().cloned().partition(|name| permitted.contains(name));
        cannot.iter().all(|name| self.optional.as_ref() == Some(name)).then_some(can)
    }
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

pub fn plan(have: Option<CurrentCertificates<'_>>, wanted: &WantedNames, now: i64) -> RenewalPlan {
    let Some(have) = have else { return RenewalPlan::All };
    // A certificate must not outlive its authority, so the authority is replaced when a full validity no longer fits.
    if now < have.authority.from || now + LEAF_SECS > have.authority.until {
        return RenewalPlan::All;
    }
    let Some(names) = wanted.names_for(have.permitted) else { return RenewalPlan::All };
    if have.names != names || now < have.leaf.from || now + RENEW_BEFORE_SECS > have.leaf.until {
        return RenewalPlan::Leaf;
    }
    RenewalPlan::Keep
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: i64 = 1_800_000_000;

    fn wanted(names: &[&str], optional: Option<&str>) -> WantedNames {
        let all = names.iter().map(|name| (*name).to_owned()).collect();
        WantedNames { all, optional: optional.map(str::to_owned) }
    }

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
        let wanted = wanted(names, None);
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
        let none = wanted(&[], None);
        assert_eq!(plan(Some(leaf), &none, MADE + LEAF_SECS - RENEW_BEFORE_SECS), RenewalPlan::Keep);
        assert_eq!(plan(Some(leaf), &none, MADE + LEAF_SECS - RENEW_BEFORE_SECS + 1), RenewalPlan::Leaf);
        assert_eq!(plan(Some(leaf), &none, MADE + LEAF_SECS + 1), RenewalPlan::Leaf);
        check(9 * 365, &["localhost"], RenewalPlan::Keep);
        check(9 * 365 + 1, &["localhost"], RenewalPlan::All);
        check(11 * 365, &["localhost"], RenewalPlan::All);
    }

    #[test]
    fn another_name_needs_another_leaf_and_nothing_needs_everything() {
        check(1, &["localhost", "10.0.0.1"], RenewalPlan::Leaf);
        check(1, &[], RenewalPlan::Leaf);
        assert_eq!(plan(None, &wanted(&[], None), MADE), RenewalPlan::All);
    }

    #[test]
    fn a_host_name_that_the_authority_cannot_sign_is_left_out() {
        let permitted = ["localhost", "old", "a.example"].map(str::to_owned);
        let signed =
            |names: &[&str], optional| wanted(names, optional).names_for(Some(&permitted)).map(|it| it.join(" "));
        assert_eq!(signed(&["localhost", "old"], Some("old")).unwrap(), "localhost old");
        assert_eq!(signed(&["localhost", "new"], Some("new")).unwrap(), "localhost");
        assert_eq!(signed(&["localhost", "new", "b.example"], Some("new")), None, "a configured name");
        assert_eq!(signed(&["localhost", "new"], None), None, "the host name is also a configured name");
        assert_eq!(wanted(&["new"], None).names_for(None).unwrap(), ["new"], "an authority without constraints");
    }

    #[test]
    fn a_clock_that_was_set_back_behind_their_beginning_makes_new_ones() {
        check(-2, &["localhost"], RenewalPlan::All);
        check(-1, &["localhost"], RenewalPlan::Keep);
    }
}
