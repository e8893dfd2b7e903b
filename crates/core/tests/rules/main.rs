//! The rules as tables: small scripts, and what machines see. The language is in `lang`.

mod lang;

mod approving;
mod causes;
mod hosts;
mod life;
mod notice;
mod on_off;
mod rollouts;
mod several;
mod users;
