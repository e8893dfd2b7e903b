//! One contract for durable state, several stores.
