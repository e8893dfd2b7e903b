//! The two commands that guests cause at a metadata endpoint, forwarded to the leader.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use forewarn_core::{ApprovalScope, Approver, Command, EventId, MachineId, Region, Rejection};
use forewarn_engine::SubmitError;
use forewarn_metadata::SourceError;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::guest_queue::WaitingGuest;
use super::{Cluster, LeaderResponse};

/// A command of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestCommand {
    pub machine: MachineId,
    pub act: GuestAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestAction {
    /// The guest has asked for its document.
    Seen,
    Approve(Vec<EventId>),
}

const PATH: &str = "/cluster/v1/guest";

/// The same for several commands.
const BATCH_PATH: &str = "/cluster/v1/guests";

pub fn routes() -> Router<Arc<Cluster>> {
    Router::new().route(PATH, post(take)).route(BATCH_PATH, post(take_batch))
}

/// A command as another server gets it.
#[derive(Serialize, Deserialize)]
struct CommandBody {
    machine: u64,
    /// None: the guest has asked for its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approve: Option<Vec<String>>,
}

/// The result of a command: a revision, or the status of a refusal.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unknown_events: Option<Vec<String>>,
}

impl Cluster {
    /// Sends commands to the leader and answers them.
    pub async fn send_batch(self: Arc<Self>, batch: Vec<WaitingGuest>) {
        for guest in self.send_together(batch).await {
            let cluster = self.clone();
            tokio::spawn(async move {
                let answer = cluster.ask_leader::<AnswerBody>(PATH, &guest.command.encode()).await;
                let result = answer.and_then(|(status, answer)| answer.result(status));
                let _ = guest.reply.send(result);
            });
        }
    }

    /// Sends several commands in one request. Returns those that must be sent one by one: to a leader of an older version, or again
    /// because the leader was deposed before it carried them out.
    async fn send_together(&self, batch: Vec<WaitingGuest>) -> Vec<WaitingGuest> {
        if batch.len() < 2 {
            return batch;
        }
        let commands: Vec<CommandBody> = batch.iter().map(|guest| guest.command.encode()).collect();
        match self.ask_leader::<Vec<AnswerBody>>(BATCH_PATH, &commands).await {
            Ok((StatusCode::NOT_FOUND, _)) => batch,
            Ok((_, answers)) => answer_all(batch, answers),
            Err(error) => {
                batch.into_iter().for_each(|guest| drop(guest.reply.send(Err(error.clone()))));
                Vec::new()
            }
        }
    }

    /// The leader's answer, with its status. A body that is not an answer is an empty one.
    async fn ask_leader<A: DeserializeOwned + Default>(
        &self,
        path: &str,
        question: &impl Serialize,
    ) -> Result<(StatusCode, A), SourceError> {
        let body = serde_json::to_vec(question).map_err(|_| SourceError::Internal)?;
        match self.post_to_leader(path, body.into()).await {
            LeaderResponse::By(response) => {
                Ok((response.status(), serde_json::from_slice(response.body()).unwrap_or_default()))
            }
            // This server has become the leader meanwhile; the guest tries again.
            LeaderResponse::Here | LeaderResponse::NoLeader => Err(SourceError::Overloaded),
            LeaderResponse::Unknown => Err(SourceError::OutcomeUnknown),
        }
    }
}

/// Answers commands. Without an answer, the outcome of a command is unknown. Returns those that were certainly not carried out
/// because the server does not lead.
fn answer_all(batch: Vec<WaitingGuest>, answers: Vec<AnswerBody>) -> Vec<WaitingGuest> {
    let mut again = Vec::new();
    let mut answers = answers.into_iter();
    for guest in batch {
        let answer = answers.next().unwrap_or_default();
        if answer.status == Some(StatusCode::MISDIRECTED_REQUEST.as_u16()) {
            again.push(guest);
        } else {
            let _ = guest.reply.send(answer.result(StatusCode::OK));
        }
    }
    again
}

impl AnswerBody {
    /// The revision that the command has led to. `status`: of the response, unless the answer has its own.
    fn result(self, status: StatusCode) -> Result<u64, SourceError> {
        let status = self.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(status);
        match (status, self.revision, self.unknown_events) {
            (StatusCode::OK, Some(revision), _) => Ok(revision),
            (StatusCode::CONFLICT, _, Some(ids)) => Err(SourceError::UnknownEvents(decode_ids(&ids))),
            (StatusCode::NOT_FOUND, ..) => Err(SourceError::UnknownMachine),
            (StatusCode::TOO_MANY_REQUESTS, ..) => Err(SourceError::Overloaded),
            _ => Err(SourceError::OutcomeUnknown),
        }
    }

    fn refusal(status: StatusCode) -> AnswerBody {
        AnswerBody { status: Some(status.as_u16()), ..AnswerBody::default() }
    }

    fn of(done: Result<u64, SubmitError>) -> AnswerBody {
        match done {
            Ok(revision) => AnswerBody { revision: Some(revision), ..AnswerBody::default() },
            Err(SubmitError::Rejected(Rejection::UnknownEvents(ids))) => {
                let unknown_events = Some(ids.iter().map(ToString::to_string).collect());
                AnswerBody { unknown_events, ..AnswerBody::refusal(StatusCode::CONFLICT) }
            }
            Err(SubmitError::Rejected(Rejection::UnknownMachine(_))) => AnswerBody::refusal(StatusCode::NOT_FOUND),
            Err(SubmitError::NoLeader) => AnswerBody::refusal(StatusCode::MISDIRECTED_REQUEST),
            Err(SubmitError::Busy | SubmitError::Stopping) => AnswerBody::refusal(StatusCode::TOO_MANY_REQUESTS),
            Err(SubmitError::Unavailable | SubmitError::Rejected(_) | SubmitError::ServersOutdated) => {
                AnswerBody::refusal(StatusCode::SERVICE_UNAVAILABLE)
            }
        }
    }
}

impl GuestCommand {
    fn encode(&self) -> CommandBody {
        let approve = match &self.act {
            GuestAction::Seen => None,
            GuestAction::Approve(events) => Some(events.iter().map(ToString::to_string).collect()),
        };
        CommandBody { machine: self.machine.0, approve }
    }

    /// The command for the rules. None: there is no such machine.
    fn into_command(self, region: &Region) -> Option<Command> {
        let machine = self.machine;
        let events = match self.act {
            GuestAction::Seen => return Some(Command::Seen { machine }),
            GuestAction::Approve(events) => events,
        };
        let by = Approver::Guest { machine, name: region.machine(machine)?.name.clone() };
        Some(Command::Approve { by, within: ApprovalScope::ScopeOf(machine), events })
    }
}

impl From<CommandBody> for GuestCommand {
    fn from(body: CommandBody) -> GuestCommand {
        let act = body.approve.map_or(GuestAction::Seen, |ids| GuestAction::Approve(decode_ids(&ids)));
        GuestCommand { machine: MachineId(body.machine), act }
    }
}

fn decode_ids(ids: &[String]) -> Vec<EventId> {
    ids.iter().filter_map(|id| forewarn_api::parse_event_id(id).ok()).collect()
}

/// Carries out the command of a guest of another server.
async fn take(State(cluster): State<Arc<Cluster>>, Json(body): Json<CommandBody>) -> Response {
    let answer = carry_out(&cluster, vec![body]).await.into_iter().next().unwrap_or_default();
    let status = answer.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    (status, Json(answer)).into_response()
}

/// Carries out the commands of several guests.
async fn take_batch(State(cluster): State<Arc<Cluster>>, Json(bodies): Json<Vec<CommandBody>>) -> Response {
    Json(carry_out(&cluster, bodies).await).into_response()
}

/// Queues all commands, so that they share a commit, then waits for their results.
async fn carry_out(cluster: &Cluster, bodies: Vec<CommandBody>) -> Vec<AnswerBody> {
    let snapshot = cluster.engine.snapshot();
    let commands = bodies.into_iter().map(|body| GuestCommand::from(body).into_command(&snapshot.region));
    let queued: Vec<_> = commands.map(|command| command.map(|command| cluster.engine.queue(command))).collect();
    let mut answers = Vec::with_capacity(queued.len());
    for result in queued {
        answers.push(match result {
            Some(result) => AnswerBody::of(result.await),
            None => AnswerBody::refusal(StatusCode::NOT_FOUND),
        });
    }
    answers
}

#[cfg(test)]
mod tests {
    use forewarn_core::Guid;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn commands_of_guests_survive_encoding() {
        for act in [GuestAction::Seen, GuestAction::Approve(vec![Guid(7), Guid(u128::MAX)])] {
            let command = GuestCommand { machine: MachineId(3), act };
            let bytes = serde_json::to_vec(&command.encode()).unwrap();
            let body: CommandBody = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(GuestCommand::from(body), command);
        }
        assert!(serde_json::from_str::<CommandBody>("{}").is_err());
    }

    #[test]
    fn results_of_commands_survive_encoding() {
        let unknown = || SubmitError::Rejected(Rejection::UnknownEvents(vec![Guid(7)]));
        let sent = |done: Result<u64, SubmitError>| -> AnswerBody {
            serde_json::from_slice(&serde_json::to_vec(&AnswerBody::of(done)).unwrap()).unwrap()
        };
        let result = |done| sent(done).result(StatusCode::OK);
        assert_eq!(result(Ok(5)), Ok(5));
        assert_eq!(result(Err(unknown())), Err(SourceError::UnknownEvents(vec![Guid(7)])));
        assert_eq!(result(Err(SubmitError::Busy)), Err(SourceError::Overloaded));
        assert_eq!(result(Err(SubmitError::Unavailable)), Err(SourceError::OutcomeUnknown));
        // A response of an older server has a status, but none in its body.
        let older = AnswerBody { status: None, ..sent(Err(unknown())) };
        assert_eq!(older.result(StatusCode::CONFLICT), Err(SourceError::UnknownEvents(vec![Guid(7)])));
        assert_eq!(AnswerBody::default().result(StatusCode::NOT_FOUND), Err(SourceError::UnknownMachine));
    }

    #[test]
    fn a_command_without_an_answer_is_in_doubt_and_one_at_a_deposed_leader_is_sent_again() {
        let (batch, replies): (Vec<_>, Vec<_>) = (1..=3)
            .map(|id| {
                let (reply, answer) = oneshot::channel();
                let command = GuestCommand { machine: MachineId(id), act: GuestAction::Seen };
                (WaitingGuest { command, reply }, answer)
            })
            .unzip();
        let again = answer_all(batch, vec![AnswerBody::of(Ok(9)), AnswerBody::of(Err(SubmitError::NoLeader))]);
        assert_eq!(again.iter().map(|guest| guest.command.machine.0).collect::<Vec<_>>(), [2]);
        drop(again);
        let results: Vec<_> = replies.into_iter().map(|mut reply| reply.try_recv().ok()).collect();
        assert_eq!(results, [Some(Ok(9)), None, Some(Err(SourceError::OutcomeUnknown))]);
    }
}
