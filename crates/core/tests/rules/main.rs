//! The rules as tables: small scripts, and what machines see. The language is in `lang`.

mod lang;

mod approving;
mod life;
