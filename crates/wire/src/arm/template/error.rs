//! Template errors and where they occurred.

use std::fmt;

use super::{COPIES_MAX, DEPTH_MAX, EXPRESSION_BYTES_MAX};
use crate::arm::error::ArmError;
use crate::error::shorten;

/// An error in a template. Nothing is created, or the outputs are not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// A path into the template of the request: `resources[2].properties.sku`.
    pub place: String,
    /// The resource that contains the place, as the template names it.
    pub resource: Option<String>,
    /// The byte offset in the text at that place.
    pub at: Option<usize>,
    /// The message.
    pub message: String,
}

impl TemplateError {
    /// The error code, the same for all template errors.
    pub fn code(&self) -> &'static str {
        "InvalidTemplate"
    }

    pub(super) fn new(place: impl Into<String>, problem: &Problem) -> TemplateError {
        TemplateError { place: place.into(), resource: None, at: None, message: problem.to_string() }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (In {}", self.message, self.place)?;
        if let Some(resource) = &self.resource {
            write!(f, ", {resource}")?;
        }
        if let Some(at) = self.at {
            write!(f, ", byte {at}")?;
        }
        f.write_str(".)")
    }
}

impl std::error::Error for TemplateError {}

impl From<&TemplateError> for ArmError {
    fn from(error: &TemplateError) -> ArmError {
        ArmError::new(error.code(), error.to_string()).about(error.place.clone())
    }
}

/// All possible problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    Mode {
        given: String,
    },
    Refused(&'static str),
    Missing {
        member: &'static str,
    },
    NotA {
        expected: &'static str,
    },
    TooMany {
        what: &'static str,
        max: usize,
    },
    TooDeep,
    TooMuchWork,
    ExpressionTooLong,
    Syntax {
        expected: &'static str,
    },
    UnknownFunction {
        name: String,
    },
    RefusedFunction {
        name: String,
        why: &'static str,
    },
    Arguments {
        function: String,
        problem: String,
    },
    UnknownParameter {
        name: String,
    },
    UnknownVariable {
        name: String,
    },
    NoMember {
        name: String,
    },
    NoIndex {
        length: usize,
    },
    RefersToItself {
        name: String,
    },
    ParameterNotDeclared,
    ParameterNotGiven,
    ParameterType {
        expected: &'static str,
    },
    ParameterNotAllowed,
    ParameterBounds {
        what: &'static str,
        bound: i64,
    },
    NoSuchLoop,
    CopyCount,
    UnknownType {
        name: String,
    },
    BadId {
        why: String,
    },
    NameSegments {
        wanted: usize,
    },
    Twice {
        id: String,
    },
    NotInTemplate {
        given: String,
    },
    Cycle {
        ids: Vec<String>,
    },
    NotThere {
        id: String,
    },
    SecretInPlain {
        parameter: String,
    },
    SecretShown {
        parameter: String,
    },
    /// Replaces a problem whose message would reveal a secret.
    Hidden {
        parameter: String,
    },
}

impl Problem {
    /// Replaces the problem if its message could reveal the value of a secure parameter.
    pub(super) fn hide_secret(self, secret: Option<&String>) -> Problem {
        let shows_values = match &self {
            Problem::Mode { .. }
            | Problem::Refused(_)
            | Problem::Missing { .. }
            | Problem::NotA { .. }
            | Problem::TooMany { .. }
            | Problem::TooDeep
            | Problem::TooMuchWork
            | Problem::ExpressionTooLong
            | Problem::Syntax { .. }
            | Problem::UnknownFunction { .. }
            | Problem::RefusedFunction { .. }
            | Problem::NoIndex { .. }
            | Problem::RefersToItself { .. }
            | Problem::ParameterNotDeclared
            | Problem::ParameterNotGiven
            | Problem::ParameterType { .. }
            | Problem::ParameterNotAllowed
            | Problem::ParameterBounds { .. }
            | Problem::NoSuchLoop
            | Problem::CopyCount
            | Problem::NameSegments { .. }
            | Problem::SecretInPlain { .. }
            | Problem::SecretShown { .. }
            | Problem::Hidden { .. } => false,
            Problem::Arguments { .. }
            | Problem::UnknownParameter { .. }
            | Problem::UnknownVariable { .. }
            | Problem::NoMember { .. }
            | Problem::UnknownType { .. }
            | Problem::BadId { .. }
            | Problem::Twice { .. }
            | Problem::NotInTemplate { .. }
            | Problem::Cycle { .. }
            | Problem::NotThere { .. } => true,
        };
        match secret {
            Some(parameter) if shows_values => Problem::Hidden { parameter: parameter.clone() },
            Some(_) | None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Mode { given } => write!(
                f,
                "The mode '{}' is not supported, because it would delete resources that are not in the template. Use \
                 Incremental.",
                shorten(given)
            ),
            Problem::Refused(sentence) => f.write_str(sentence),
            Problem::Missing { member } => write!(f, "The member '{member}' is missing. Add it."),
            Problem::NotA { expected } => write!(f, "The value must be {expected}."),
            Problem::TooMany { what, max } => write!(f, "There are more than {max} {what}. Split the template."),
            Problem::TooDeep => write!(f, "The nesting is deeper than {DEPTH_MAX} levels. Reduce it."),
            Problem::TooMuchWork => f.write_str("The template takes too long to evaluate. Make it smaller."),
            Problem::ExpressionTooLong => {
                write!(
                    f,
                    "An expression must not be longer than {EXPRESSION_BYTES_MAX} bytes. Use variables for its parts."
                )
            }
            Problem::Syntax { expected } => {
                write!(
                    f,
                    "Invalid expression: expected {expected}. If the text is not an expression but starts with [, write \
                     [[ instead."
                )
            }
            Problem::UnknownFunction { name } => {
                write!(f, "The function '{}' is unknown. Replace the call with its value.", shorten(name))
            }
            Problem::RefusedFunction { name, why } => {
                write!(f, "The function '{}' is not supported: {why}.", shorten(name))
            }
            Problem::Arguments { function, problem } => {
                write!(f, "{}() {problem}.", shorten(function))
            }
            Problem::UnknownParameter { name } => {
                write!(f, "There is no parameter '{}'. Declare it under parameters.", shorten(name))
            }
            Problem::UnknownVariable { name } => {
                write!(f, "There is no variable '{}'. Define it under variables.", shorten(name))
            }
            Problem::NoMember { name } => write!(f, "The value has no member '{}'. Check the name.", shorten(name)),
            Problem::NoIndex { length } => write!(f, "The index is out of range for a list of {length}."),
            Problem::RefersToItself { name } => {
                write!(f, "'{}' depends on itself. Remove the cycle.", shorten(name))
            }
            Problem::ParameterNotDeclared => {
                f.write_str("The template does not declare this parameter. Declare it, or remove the value.")
            }
            Problem::ParameterNotGiven => {
                f.write_str("The parameter has neither a value nor a default. Specify a value.")
            }
            Problem::ParameterType { expected } => write!(f, "The value of the parameter must be {expected}."),
            Problem::ParameterNotAllowed => f.write_str("The value of the parameter must be one of its allowedValues."),
            Problem::ParameterBounds { what, bound } => write!(f, "The value of the parameter is {what} {bound}."),
            Problem::NoSuchLoop => {
                f.write_str("copyIndex() is not inside a copy loop, or not inside the loop with this name.")
            }
            Problem::CopyCount => write!(f, "The count of a copy loop must be a whole number from 0 to {COPIES_MAX}."),
            Problem::UnknownType { name } => {
                write!(f, "Resources of the type '{}' are not supported. Nothing was created.", shorten(name))
            }
            Problem::BadId { why } => f.write_str(why),
            Problem::NameSegments { wanted } => {
                write!(f, "The name must have as many parts, separated by slashes, as the type: {wanted}.")
            }
            Problem::Twice { id } => write!(f, "{} is defined twice. Give each resource its own name.", shorten(id)),
            Problem::NotInTemplate { given } => {
                write!(f, "dependsOn refers to '{}', which is not in the template.", shorten(given))
            }
            Problem::Cycle { ids } => {
                write!(f, "These resources depend on each other in a cycle: {}.", shorten(&ids.join(", ")))
            }
            Problem::NotThere { id } => write!(f, "The referenced resource {} does not exist.", shorten(id)),
            Problem::SecretInPlain { parameter } => write!(
                f,
                "This value would reveal the secure parameter '{}'. Use other parameters for names, counts and conditions.",
                shorten(parameter)
            ),
            Problem::SecretShown { parameter } => write!(
                f,
                "The output would reveal the secure parameter '{}'. Change the type of the output to securestring.",
                shorten(parameter)
            ),
            Problem::Hidden { parameter } => {
                write!(f, "A value derived from the secure parameter '{}' is invalid.", shorten(parameter))
            }
        }
    }
}
