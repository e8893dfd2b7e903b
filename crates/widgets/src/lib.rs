//! The page-independent parts of the web console: labels, links, tables, form fields, charts, panels, and events by cause. They
//! render types of the rules and of the API, and depend on neither the signed-in user nor the engine.
//!
//! ```text
//!  page ─▶ panel ─▶ fragment ─▶ html
//!            └─▶ table, field, gantt, timeline, readiness, … ─▶ words, address
//! ```

pub mod activity;
pub mod activity_kind;
pub mod address;
pub mod callout;
pub mod chip;
pub mod conflict;
pub mod event_lane;
pub mod event_timeline;
pub mod expected_event;
pub mod facts;
pub mod field;
pub mod fragment;
pub mod gantt;
pub mod history_line;
pub mod host_condition;
pub mod html;
pub mod json_text;
pub mod lane;
pub mod outage;
pub mod page_head;
pub mod panel;
pub mod query;
pub mod readiness;
pub mod selection_bar;
pub mod severity;
pub mod stage;
pub mod state;
pub mod table;
pub mod timeline;
pub mod waits;
pub mod window;
pub mod words;
