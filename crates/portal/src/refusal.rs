//! Why a form had no effect: an error in the form itself, or an error of the action that it stands for.

use forewarn_api::ApiError;
use http::StatusCode;

#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// The error code of the API; empty for an error in the form.
    pub code: &'static str,
    /// The field or resource that the error concerns; may be empty.
    pub target: String,
    pub message: String,
}

impl Refusal {
    /// An error in a form, found before an action was called.
    pub fn form(message: impl Into<String>) -> Refusal {
        let message = message.into();
        Refusal { status: StatusCode::UNPROCESSABLE_ENTITY, code: "", target: String::new(), message }
    }

    /// The same error, with the name of what it is about.
    pub fn about(self, name: &str) -> Refusal {
        Refusal { message: format!("{name}: {}", self.message), ..self }
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        let ApiError { status, code, message, target } = error;
        Refusal { status, code, target: target.unwrap_or_default(), message }
    }
}
