//! What is wrong with a template, and where.

use std::fmt;

use super::{COPIES_MAX, DEPTH_MAX, EXPRESSION_BYTES_MAX};
use crate::arm::error::ArmError;
use crate::error::shortened;

/// Why nothing of a template is created, or why its outputs cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// A path into the request's template: `resources[2].properties.sku`.
    pub place: String,
    /// The resource that the place is in, as the template writes it.
    pub resource: Option<String>,
    /// The byte in the text at that place.
    pub at: Option<usize>,
    /// The sentence.
    pub message: String,
}

impl TemplateError {
    /// The code under which clients know all of these.
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

/// Everything that can be wrong.
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
    Circle {
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
    /// Stands for a problem whose sentence would show a secret.
    Hidden {
        parameter: String,
    },
}

impl Problem {
    /// The problem, or one that says nothing of the values when those come of a secure parameter.
    pub(super) fn keeping(self, secret: Option<&String>) -> Problem {
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
            | Problem::Circle { .. }
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
                "The mode '{}' is not supported, because it would delete what the template does not name. Use \
                 Incremental.",
                shortened(given)
            ),
            Problem::Refused(sentence) => f.write_str(sentence),
            Problem::Missing { member } => write!(f, "There is no '{member}'. Add it."),
            Problem::NotA { expected } => write!(f, "This is not {expected}."),
            Problem::TooMany { what, max } => write!(f, "There are more than {max} {what}. Split the template."),
            Problem::TooDeep => write!(f, "This is nested more than {DEPTH_MAX} deep. Make it flatter."),
            Problem::TooMuchWork => f.write_str("The template takes too long to evaluate. Make it smaller."),
            Problem::ExpressionTooLong => {
                write!(f, "An expression has at most {EXPRESSION_BYTES_MAX} bytes. Use variables for its parts.")
            }
            Problem::Syntax { expected } => {
                write!(
                    f,
                    "The expression cannot be read: {expected} should be here. Text that begins with [ and is no \
                     expression is written with [[."
                )
            }
            Problem::UnknownFunction { name } => {
                write!(f, "The function '{}' is not known here. Replace it by its value.", shortened(name))
            }
            Problem::RefusedFunction { name, why } => {
                write!(f, "The function '{}' is not supported: {why}.", shortened(name))
            }
            Problem::Arguments { function, problem } => {
                write!(f, "{}() {problem}.", shortened(function))
            }
            Problem::UnknownParameter { name } => {
                write!(f, "There is no parameter '{}'. Declare it under parameters.", shortened(name))
            }
            Problem::UnknownVariable { name } => {
                write!(f, "There is no variable '{}'. Define it under variables.", shortened(name))
            }
            Problem::NoMember { name } => write!(f, "There is nothing named '{}' in that.", shortened(name)),
            Problem::NoIndex { length } => write!(f, "The index is not one of a list of {length}."),
            Problem::RefersToItself { name } => {
                write!(f, "'{}' is made of itself. Break the circle.", shortened(name))
            }
            Problem::ParameterNotDeclared => {
                f.write_str("The template declares no such parameter. Declare it, or do not give it.")
            }
            Problem::ParameterNotGiven => {
                f.write_str("The parameter has neither a value nor a default. Give it a value.")
            }
            Problem::ParameterType { expected } => write!(f, "The value of the parameter is not {expected}."),
            Problem::ParameterNotAllowed => f.write_str("The value of the parameter is not one of its allowedValues."),
            Problem::ParameterBounds { what, bound } => write!(f, "The value of the parameter is {what} {bound}."),
            Problem::NoSuchLoop => f.write_str("copyIndex() stands in no copy loop, or in none of that name."),
            Problem::CopyCount => write!(f, "The count of a copy loop is a whole number from 0 to {COPIES_MAX}."),
            Problem::UnknownType { name } => {
                write!(f, "Resources of the type '{}' are not supported. Nothing was created.", shortened(name))
            }
            Problem::BadId { why } => f.write_str(why),
            Problem::NameSegments { wanted } => {
                write!(f, "The name must have as many parts, separated by slashes, as the type has: {wanted}.")
            }
            Problem::Twice { id } => write!(f, "{} is there twice. Give each resource its own name.", shortened(id)),
            Problem::NotInTemplate { given } => {
                write!(f, "dependsOn names '{}', which is not in the template.", shortened(given))
            }
            Problem::Circle { ids } => {
                write!(f, "These depend on each other in a circle: {}.", shortened(&ids.join(", ")))
            }
            Problem::NotThere { id } => write!(f, "There is no resource {} to refer to.", shortened(id)),
            Problem::SecretInPlain { parameter } => write!(
                f,
                "This would show the secure parameter '{}'. Names, counts and conditions are made of other parameters.",
                shortened(parameter)
            ),
            Problem::SecretShown { parameter } => write!(
                f,
                "The output would show the secure parameter '{}'. Give the output the type securestring.",
                shortened(parameter)
            ),
            Problem::Hidden { parameter } => {
                write!(f, "Something that is made of the secure parameter '{}' is wrong.", shortened(parameter))
            }
        }
    }
}
