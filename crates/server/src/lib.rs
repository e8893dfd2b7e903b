//! The shell around the rules: writer, listeners, management API, drivers.
