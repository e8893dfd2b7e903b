//! Evaluates the expressions in the JSON of a template.
//!
//! Evaluation consumes fuel, one unit per value and more for long text, so that it always terminates. The
//! combined nesting of JSON, calls and variables is limited, so that it cannot overflow the stack. Variables
//! and parameter defaults are evaluated at each use.
//!
//! The evaluator records the use of secure parameters. Values derived from them do not appear in messages or in
//! readable properties.

use serde_json::{Map, Value};

use super::contextual::ContextFunction;
use super::error::{Problem, TemplateError};
use super::expression::{self, Expression, Text};
use super::frame::Frame;
use super::{COPIES_MAX, DEPTH_MAX, FUEL_MAX, functions};
use crate::arm::id::ResourceId;

/// The data that expressions can use in addition to the template.
#[derive(Clone, Copy)]
pub(super) enum Phase<'a> {
    /// Before deployment: no resource exists yet.
    Plan,
    /// After deployment: looks up a complete resource by its ID.
    Outputs(&'a dyn Fn(&ResourceId) -> Option<Value>),
}

pub(super) struct Evaluator<'a> {
    pub(super) frame: &'a Frame,
    pub(super) phase: Phase<'a>,
    /// The resource that contains the expressions, as the template names it.
    pub(super) resource: Option<String>,
    /// The secure parameter that was read last.
    pub(super) secret: Option<String>,
    pub(super) loops: Vec<Loop>,
    /// Variables and defaults that are being evaluated.
    pub(super) open: Vec<String>,
    place: String,
    fuel: u64,
    depth: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub(super) name: String,
    pub(super) index: usize,
}

enum Function {
    Lazy(LazyFunction),
    Contextual(ContextFunction),
    Pure(functions::PureFunction),
}

/// Functions that do not evaluate all of their arguments.
#[derive(Clone, Copy)]
enum LazyFunction {
    If,
    And,
    Or,
    Coalesce,
}

impl LazyFunction {
    /// Finds a function by its name in lower case.
    fn find(name: &str) -> Option<LazyFunction> {
        Some(match name {
            "if" => LazyFunction::If,
            "and" => LazyFunction::And,
            "or" => LazyFunction::Or,
            "coalesce" => LazyFunction::Coalesce,
            _ => return None,
        })
    }
}

pub(super) type EvaluationResult = Result<Value, TemplateError>;

impl<'a> Evaluator<'a> {
    pub(super) fn new(frame: &'a Frame, phase: Phase<'a>) -> Evaluator<'a> {
        Evaluator {
            frame,
            phase,
            resource: None,
            secret: None,
            loops: Vec::new(),
            open: Vec::new(),
            place: String::new(),
            fuel: FUEL_MAX,
            depth: 0,
        }
    }

    /// Runs `work` one level deeper in the template; errors name that place.
    pub(super) fn within<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.enter(step);
        let done = work(self);
        self.leave(length);
        done
    }

    /// Enters one level deeper. Pass the result to [`Evaluator::leave`] to return.
    pub(super) fn enter(&mut self, step: &str) -> usize {
        let length = self.place.len();
        if !self.place.is_empty() && !step.starts_with('[') {
            self.place.push('.');
        }
        self.place.push_str(step);
        length
    }

    pub(super) fn leave(&mut self, length: usize) {
        self.place.truncate(length);
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Runs `work` at a place that is not below the current one.
    pub(super) fn elsewhere<T>(&mut self, place: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let here = std::mem::take(&mut self.place);
        let done = self.within(place, work);
        self.place = here;
        done
    }

    pub(super) fn error(&self, problem: Problem) -> TemplateError {
        self.error_at(None, problem)
    }

    pub(super) fn error_at(&self, at: Option<usize>, problem: Problem) -> TemplateError {
        let problem = problem.hide_secret(self.secret.as_ref());
        TemplateError { resource: self.resource.clone(), at, ..TemplateError::new(self.place.clone(), &problem) }
    }

    /// Evaluates a value with all its expressions.
    pub(super) fn value(&mut self, value: &Value) -> EvaluationResult {
        self.descend(|evaluator| match value {
            Value::String(text) => evaluator.text(text),
            Value::Array(items) => evaluator.list(items),
            Value::Object(members) => evaluator.object(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        })
    }

    /// Parses every expression in the value without evaluating it, and checks that all functions exist.
    pub(super) fn check_names(&mut self, value: &Value) -> Result<(), TemplateError> {
        self.descend(|evaluator| match value {
            Value::String(text) => match expression::classify(text) {
                Text::Literal(_) => Ok(()),
                Text::Expression(text) => {
                    let expression = expression::parse(text);
                    let expression = expression.map_err(|(at, problem)| evaluator.error_at(Some(at), problem))?;
                    evaluator.check_calls(&expression)
                }
            },
            Value::Array(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| evaluator.within(&format!("[{index}]"), |it| it.check_names(item))),
            Value::Object(members) => {
                members.iter().try_for_each(|(name, value)| evaluator.within(name, |it| it.check_names(value)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        })
    }

    fn check_calls(&mut self, expression: &Expression) -> Result<(), TemplateError> {
        match expression {
            Expression::Text(_) | Expression::Integer(_) => Ok(()),
            Expression::Member { of, .. } => self.check_calls(of),
            Expression::Index { of, index, .. } => self.check_calls(of).and_then(|()| self.check_calls(index)),
            Expression::Call { name, at, arguments } => {
                self.function(name, *at)?;
                arguments.iter().try_for_each(|argument| self.check_calls(argument))
            }
        }
    }

    fn list(&mut self, items: &[Value]) -> EvaluationResult {
        let items = items.iter().enumerate();
        items.map(|(index, item)| self.within(&format!("[{index}]"), |it| it.value(item))).collect()
    }

    fn object(&mut self, members: &Map<String, Value>) -> EvaluationResult {
        let mut evaluated = Map::new();
        for (name, value) in members {
            match (name.as_str(), value) {
                ("copy", Value::Array(loops)) => self.within("copy", |it| it.evaluate_loops(loops, &mut evaluated))?,
                (_, value) => {
                    let value = self.within(name, |it| it.value(value))?;
                    evaluated.insert(name.clone(), value);
                }
            }
        }
        Ok(Value::Object(evaluated))
    }

    /// Loops in an object: each produces a list with its name.
    fn evaluate_loops(&mut self, loops: &[Value], into: &mut Map<String, Value>) -> Result<(), TemplateError> {
        for (index, copy) in loops.iter().enumerate() {
            let (name, list) = self.within(&format!("[{index}]"), |it| it.copy(copy))?;
            into.insert(name, list);
        }
        Ok(())
    }

    /// One loop in an object or among the variables.
    pub(super) fn copy(&mut self, copy: &Value) -> Result<(String, Value), TemplateError> {
        let name = copy["name"].as_str().ok_or_else(|| self.error(Problem::Missing { member: "name" }))?;
        let input = copy.get("input").ok_or_else(|| self.error(Problem::Missing { member: "input" }))?;
        let count = self.copy_count(copy)?;
        let mut items = Vec::new();
        for index in 0..count {
            self.loops.push(Loop { name: name.to_owned(), index });
            let item = self.within("input", |it| it.value(input));
            self.loops.pop();
            items.push(item?);
        }
        Ok((name.to_owned(), Value::Array(items)))
    }

    pub(super) fn copy_count(&mut self, copy: &Value) -> Result<usize, TemplateError> {
        let count = copy.get("count").ok_or_else(|| self.error(Problem::Missing { member: "count" }))?;
        self.within("count", |it| {
            let count = it.plain(count)?;
            let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
            count.filter(|&count| count <= COPIES_MAX).ok_or_else(|| it.error(Problem::CopyCount))
        })
    }

    /// Evaluates a value that becomes visible, such as a name, a count or a condition.
    pub(super) fn plain(&mut self, value: &Value) -> EvaluationResult {
        let before = self.secret.take();
        let evaluated = self.value(value);
        match (std::mem::replace(&mut self.secret, before), evaluated) {
            (Some(parameter), Ok(_)) => Err(self.error(Problem::SecretInPlain { parameter })),
            (Some(_) | None, evaluated) => evaluated,
        }
    }

    fn text(&mut self, text: &str) -> EvaluationResult {
        let text = match expression::classify(text) {
            Text::Literal(text) => {
                let value = Value::from(text);
                self.spend(weight(&value))?;
                return Ok(value);
            }
            Text::Expression(text) => text,
        };
        let before = self.secret.take();
        let expression = expression::parse(text).map_err(|(at, problem)| self.error_at(Some(at), problem))?;
        // Functions in a branch that is not evaluated must exist, too.
        self.check_calls(&expression)?;
        let value = self.expression(&expression)?;
        self.secret = self.secret.take().or(before);
        Ok(value)
    }

    pub(super) fn expression(&mut self, expression: &Expression) -> EvaluationResult {
        let value = self.descend(|evaluator| match expression {
            Expression::Text(text) => Ok(Value::from(text.as_str())),
            Expression::Integer(number) => Ok(Value::from(*number)),
            Expression::Call { name, at, arguments } => evaluator.call(name, *at, arguments),
            Expression::Member { of, at, name } => {
                let value = evaluator.expression(of)?;
                evaluator.member(value, *at, name)
            }
            Expression::Index { of, at, index } => {
                let value = evaluator.expression(of)?;
                let index = evaluator.expression(index)?;
                evaluator.index(value, *at, &index)
            }
        })?;
        self.spend(weight(&value))?;
        Ok(value)
    }

    fn call(&mut self, name: &str, at: usize, arguments: &[Expression]) -> EvaluationResult {
        match self.function(name, at)? {
            Function::Lazy(function) => self.decide(function, at, arguments),
            Function::Contextual(function) => {
                let arguments = self.all(arguments)?;
                self.contextual(function, at, &arguments)
            }
            Function::Pure(function) => {
                let arguments = self.all(arguments)?;
                function(&arguments).map_err(|problem| self.arguments(name, at, problem))
            }
        }
    }

    fn all(&mut self, expressions: &[Expression]) -> Result<Vec<Value>, TemplateError> {
        expressions.iter().map(|expression| self.expression(expression)).collect()
    }

    fn function(&self, name: &str, at: usize) -> Result<Function, TemplateError> {
        let lower = name.to_ascii_lowercase();
        let deciding = LazyFunction::find(&lower).map(Function::Lazy);
        let known = deciding.or(ContextFunction::find(&lower).map(Function::Contextual));
        known.or(functions::find(&lower).map(Function::Pure)).ok_or_else(|| {
            let name = name.to_owned();
            let problem = match lower.starts_with("list") {
                true => Problem::RefusedFunction { name, why: "this server has no keys to list" },
                false => Problem::UnknownFunction { name },
            };
            self.error_at(Some(at), problem)
        })
    }

    fn decide(&mut self, function: LazyFunction, at: usize, arguments: &[Expression]) -> EvaluationResult {
        match function {
            LazyFunction::If => self.choose(at, arguments),
            LazyFunction::And => self.all_are("and", at, arguments, true),
            LazyFunction::Or => self.all_are("or", at, arguments, false),
            LazyFunction::Coalesce => self.coalesce(arguments),
        }
    }

    fn choose(&mut self, at: usize, arguments: &[Expression]) -> EvaluationResult {
        let [condition, yes, no] = arguments else {
            return Err(self.arguments("if", at, "requires a condition and two values"));
        };
        let chosen = if self.truth("if", at, condition)? { yes } else { no };
        self.expression(chosen)
    }

    /// `and` is true if all are true; `or` is false if all are false.
    fn all_are(&mut self, name: &str, at: usize, arguments: &[Expression], wanted: bool) -> EvaluationResult {
        if arguments.len() < 2 {
            return Err(self.arguments(name, at, "requires at least two arguments"));
        }
        for argument in arguments {
            if self.truth(name, at, argument)? != wanted {
                return Ok(Value::Bool(!wanted));
            }
        }
        Ok(Value::Bool(wanted))
    }

    fn truth(&mut self, name: &str, at: usize, argument: &Expression) -> Result<bool, TemplateError> {
        let value = self.expression(argument)?;
        functions::boolean(&value).map_err(|problem| self.arguments(name, at, problem))
    }

    fn coalesce(&mut self, arguments: &[Expression]) -> EvaluationResult {
        for argument in arguments {
            let value = self.expression(argument)?;
            if !value.is_null() {
                return Ok(value);
            }
        }
        Ok(Value::Null)
    }

    fn member(&mut self, value: Value, at: usize, name: &str) -> EvaluationResult {
        let found = match value {
            Value::Object(members) => members.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        };
        let missing = || Problem::NoMember { name: name.to_owned() };
        found.map(|(_, value)| value).ok_or_else(|| self.error_at(Some(at), missing()))
    }

    fn index(&mut self, value: Value, at: usize, index: &Value) -> EvaluationResult {
        if let Some(name) = index.as_str() {
            return self.member(value, at, name);
        }
        let Value::Array(mut items) = value else {
            return Err(self.error_at(Some(at), Problem::NotA { expected: "a list" }));
        };
        let position = index.as_u64().and_then(|index| usize::try_from(index).ok());
        match position.filter(|&position| position < items.len()) {
            Some(position) => Ok(items.swap_remove(position)),
            None => Err(self.error_at(Some(at), Problem::NoIndex { length: items.len() })),
        }
    }

    pub(super) fn arguments(&self, function: &str, at: usize, problem: impl Into<String>) -> TemplateError {
        self.error_at(Some(at), Problem::Arguments { function: function.to_owned(), problem: problem.into() })
    }

    fn descend<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, TemplateError>) -> Result<T, TemplateError> {
        self.spend(1)?;
        if self.depth == DEPTH_MAX {
            return Err(self.error(Problem::TooDeep));
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    fn spend(&mut self, cost: u64) -> Result<(), TemplateError> {
        match self.fuel.checked_sub(cost) {
            Some(rest) => {
                self.fuel = rest;
                Ok(())
            }
            None => Err(self.error(Problem::TooMuchWork)),
        }
    }
}

/// The fuel consumed by creating this value.
fn weight(value: &Value) -> u64 {
    /// Bytes of text that consume as much fuel as a value.
    const TEXT_BYTES: usize = 16;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + (text.len() / TEXT_BYTES) as u64,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(weight).sum::<u64>(),
    }
}
