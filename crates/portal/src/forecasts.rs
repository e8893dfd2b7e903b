//! Forecasts of rollouts, shared by all pages and viewers. A forecast runs the rules to the end of a rollout, so updates of a page
//! show one that is a few seconds old.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_api::forecast_rollout;
use forewarn_core::{Rollout, RolloutId, RolloutPreview};
use forewarn_widgets::html::RenderMode;

use super::page_context::PageContext;

/// How old a forecast in an update may be. Every page is rendered again within ten seconds.
const AGE_MAX: Duration = Duration::from_secs(2);

/// Rollouts that end are forgotten when there are more.
const FORECASTS_MAX: usize = 256;

#[derive(Default)]
pub struct Forecasts(Mutex<HashMap<RolloutId, KnownForecast>>);

struct KnownForecast {
    computed: Instant,
    revision: u64,
    preview: Option<Arc<RolloutPreview>>,
}

impl Forecasts {
    /// The rest of a rollout as the rules expect it. `None` if it has ended, or if the rules do not expect it to continue.
    pub async fn find(&self, context: &PageContext, rollout: &Rollout) -> Option<Arc<RolloutPreview>> {
        if !rollout.is_live() {
            return None;
        }
        let revision = context.snapshot.revision;
        let is_usable = |known: &&KnownForecast| {
            known.computed.elapsed() < AGE_MAX && (known.revision == revision || context.mode == RenderMode::Update)
        };
        let known = self.known().get(&rollout.id).filter(is_usable).map(|known| known.preview.clone());
        if let Some(preview) = known {
            return preview;
        }
        let computed = Instant::now();
        let preview = forecast_rollout(context.snapshot.clone(), rollout.id, context.now).await.ok().map(Arc::new);
        let mut all = self.known();
        if all.len() >= FORECASTS_MAX {
            all.clear();
        }
        all.insert(rollout.id, KnownForecast { computed, revision, preview: preview.clone() });
        preview
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RolloutId, KnownForecast>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
