//! The rules as tables: small scripts, and the documents that machines see. The language is defined in `lang`.

mod agents;
mod drain;
mod lang;
mod plans;
mod power;

mod approving;
mod availability;
mod cancel;
mod causes;
mod documents;
mod drivers;
mod edges;
mod fleet;
mod hosts;
mod lifecycle;
mod notice;
mod on_off;
mod orders;
mod rebalance;
mod rollout_failures;
mod rollouts;
mod sets;
mod several;
mod spot;
mod terminate;
mod users;
