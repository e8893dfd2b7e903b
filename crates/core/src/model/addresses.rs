//! The addresses of a machine. Nearly every machine has exactly one, which needs no allocation of its own: that saves memory, and
//! a cache miss in each poll of a guest that is identified by its address.

use std::ops::Deref;

use crate::model::Address;

/// A slice of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(List);

#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    One(Address),
    /// Any other number of them.
    Other(Box<[Address]>),
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses(List::Other(Box::default()))
    }
}

impl Deref for Addresses {
    type Target = [Address];

    fn deref(&self) -> &[Address] {
        match &self.0 {
            List::One(address) => std::slice::from_ref(address),
            List::Other(addresses) => addresses,
        }
    }
}

impl From<Vec<Address>> for Addresses {
    fn from(addresses: Vec<Address>) -> Addresses {
        Addresses(match <[Address; 1]>::try_from(addresses) {
            Ok([address]) => List::One(address),
            Err(addresses) => List::Other(addresses.into()),
        })
    }
}

impl FromIterator<Address> for Addresses {
    fn from_iter<I: IntoIterator<Item = Address>>(addresses: I) -> Addresses {
        addresses.into_iter().collect::<Vec<_>>().into()
    }
}
