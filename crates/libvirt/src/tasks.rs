//! The tasks of a connection.

use std::sync::Mutex;

use tokio::task::JoinHandle;

/// The tasks of a connection. They end when the value is dropped.
#[derive(Default)]
pub struct Tasks(Mutex<Vec<JoinHandle<()>>>);

impl Tasks {
    pub fn push(&self, task: JoinHandle<()>) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(task);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).iter() {
            task.abort();
        }
    }
}
