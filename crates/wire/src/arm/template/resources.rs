//! Expands the resources of a template: loops, child resources and conditions.

use serde_json::{Map, Value};

use super::contextual::id_of;
use super::error::{Problem, TemplateError};
use super::evaluate::{Evaluator, Loop, Phase};
use super::frame::Frame;
use super::{Dependency, Draft, Outcome, PlannedResource, RESOURCES_MAX};
use crate::arm::types::{self, Deployable};
use crate::error::shorten;

/// Members that identify or control a resource and are not part of its body.
const NOT_BODY: &[&str] = &["type", "apiVersion", "name", "dependsOn", "copy", "condition", "comments", "resources"];

/// Members that would place a resource outside the deployment's resource group.
const ELSEWHERE: &[&str] = &["scope", "subscriptionId", "resourceGroup"];

pub(super) fn expand(template: &Map<String, Value>, frame: &Frame) -> Result<Vec<Draft>, TemplateError> {
    let mut expansion = Expansion { evaluator: Evaluator::new(frame, Phase::Plan), drafts: Vec::new() };
    match template.get("resources") {
        None | Some(Value::Null) => {}
        Some(Value::Array(resources)) => expansion.list("resources", resources, None)?,
        Some(Value::Object(_)) => {
            let sentence =
                "Resources with symbolic names (languageVersion 2.0) are not supported. Write the resources as a list.";
            return Err(TemplateError::new("resources", &Problem::Refused(sentence)));
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            return Err(TemplateError::new("resources", &Problem::NotA { expected: "a list" }));
        }
    }
    Ok(expansion.drafts)
}

struct Expansion<'a> {
    evaluator: Evaluator<'a>,
    drafts: Vec<Draft>,
}

/// The properties that a child inherits from its parent.
#[derive(Clone, Copy)]
struct Parent<'p> {
    kind: &'p str,
    name: &'p str,
    outcome: Outcome,
}

/// A resource without its body.
struct Header {
    kind: String,
    name: String,
}

impl Expansion<'_> {
    fn list(&mut self, step: &str, resources: &[Value], parent: Option<Parent<'_>>) -> Result<(), TemplateError> {
        for (index, resource) in resources.iter().enumerate() {
            self.within(&format!("{step}[{index}]"), |it| it.expand(resource, parent))?;
        }
        Ok(())
    }

    fn expand(&mut self, resource: &Value, parent: Option<Parent<'_>>) -> Result<(), TemplateError> {
        self.evaluator.resource = Some(label(resource));
        let Some(members) = resource.as_object() else {
            return Err(self.error(Problem::NotA { expected: "an object" }));
        };
        if let Some(member) = ELSEWHERE.iter().find(|member| members.contains_key(**member)) {
            let sentence = "A template can only deploy into the resource group of the deployment. Remove this member.";
            return self.within(member, |it| Err(it.error(Problem::Refused(sentence))));
        }
        let copy = match members.get("copy") {
            None | Some(Value::Null) => return self.add_draft(members, parent, None),
            Some(copy) => copy,
        };
        let (name, count) = self.within("copy", |it| it.copy(copy))?;
        for index in 0..count {
            self.evaluator.loops.push(Loop { name: name.clone(), index });
            let done = self.add_draft(members, parent, Some(&name));
            self.evaluator.loops.pop();
            done?;
        }
        Ok(())
    }

    /// The name of a loop and its number of iterations. Mode and batch size are checked but have no effect,
    /// because resources are created one after the other.
    fn copy(&mut self, copy: &Value) -> Result<(String, usize), TemplateError> {
        let name = copy["name"].as_str().ok_or_else(|| self.error(Problem::Missing { member: "name" }))?;
        if let Some(mode) = copy.get("mode").filter(|mode| !mode.is_null()) {
            let known = ["serial", "parallel"];
            if !mode.as_str().is_some_and(|mode| known.iter().any(|known| known.eq_ignore_ascii_case(mode))) {
                return self.within("mode", |it| Err(it.error(Problem::NotA { expected: "'serial' or 'parallel'" })));
            }
        }
        if let Some(size) = copy.get("batchSize").filter(|size| !size.is_null())
            && size.as_u64().is_none_or(|size| size == 0)
        {
            return self.within("batchSize", |it| Err(it.error(Problem::NotA { expected: "a number above 0" })));
        }
        Ok((name.to_owned(), self.evaluator.copy_count(copy)?))
    }

    fn add_draft(
        &mut self,
        members: &Map<String, Value>,
        parent: Option<Parent<'_>>,
        copy: Option<&String>,
    ) -> Result<(), TemplateError> {
        if self.drafts.len() == RESOURCES_MAX {
            return Err(self.error(Problem::TooMany { what: "resources", max: RESOURCES_MAX }));
        }
        let Header { kind, name } = self.header(members, parent)?;
        let outcome = self.outcome(members, parent)?;
        let draft = self.draft(members, &kind, &name, outcome, copy)?;
        self.drafts.push(draft);
        match members.get("resources") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Array(children)) => {
                let resource = self.evaluator.resource.clone();
                let done = self.list("resources", children, Some(Parent { kind: &kind, name: &name, outcome }));
                self.evaluator.resource = resource;
                done
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                self.within("resources", |it| Err(it.error(Problem::NotA { expected: "a list" })))
            }
        }
    }

    fn header(&mut self, members: &Map<String, Value>, parent: Option<Parent<'_>>) -> Result<Header, TemplateError> {
        let kind = self.text(members, "type")?;
        let name = self.text(members, "name")?;
        let (kind, name) = match parent {
            Some(parent) if !kind.contains('/') => {
                (format!("{}/{kind}", parent.kind), format!("{}/{name}", parent.name))
            }
            Some(_) | None => (kind, name),
        };
        let known = types::find(&kind).filter(|known| known.deployable == Deployable::Yes);
        match known {
            Some(known) => Ok(Header { kind: known.name.to_owned(), name }),
            None => self.within("type", |it| Err(it.error(Problem::UnknownType { name: kind }))),
        }
    }

    fn outcome(&mut self, members: &Map<String, Value>, parent: Option<Parent<'_>>) -> Result<Outcome, TemplateError> {
        let inherited = parent.map_or(Outcome::Created, |parent| parent.outcome);
        let condition = match members.get("condition") {
            None | Some(Value::Null) => return Ok(inherited),
            Some(condition) => condition,
        };
        self.within("condition", |it| match it.evaluator.plain(condition)? {
            Value::Bool(true) => Ok(inherited),
            Value::Bool(false) => Ok(Outcome::Skipped),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Err(it.error(Problem::NotA { expected: "true or false" }))
            }
        })
    }

    fn draft(
        &mut self,
        members: &Map<String, Value>,
        kind: &str,
        name: &str,
        outcome: Outcome,
        copy: Option<&String>,
    ) -> Result<Draft, TemplateError> {
        let api_version = self.text(members, "apiVersion")?;
        let target = &self.evaluator.frame.target;
        let names: Vec<&str> = name.split('/').collect();
        let id = id_of(&target.subscription, &target.group, kind, &names);
        let id = id.map_err(|problem| self.within("name", |it| it.error(problem)))?;
        let (body, depends_on) = match outcome {
            Outcome::Created => (self.body(members)?, self.depends_on(members)?),
            Outcome::Skipped => (Value::Null, Vec::new()),
        };
        let location = body["location"].as_str().map(str::to_owned);
        let resource =
            PlannedResource { id, kind: kind.to_owned(), api_version, location, body, depends_on: Vec::new() };
        let place = self.evaluator.place().to_owned();
        Ok(Draft { resource, outcome, place, label: self.evaluator.resource.clone(), copy: copy.cloned(), depends_on })
    }

    fn body(&mut self, members: &Map<String, Value>) -> Result<Value, TemplateError> {
        let mut body = Map::new();
        for (name, value) in members.iter().filter(|(name, _)| !NOT_BODY.contains(&name.as_str())) {
            let value = self.within(name, |it| it.evaluator.value(value))?;
            body.insert(name.clone(), value);
        }
        Ok(Value::Object(body))
    }

    fn depends_on(&mut self, members: &Map<String, Value>) -> Result<Vec<Dependency>, TemplateError> {
        let list = match members.get("dependsOn") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(list) => list,
        };
        self.within("dependsOn", |it| {
            let Value::Array(items) = it.evaluator.plain(list)? else {
                return Err(it.error(Problem::NotA { expected: "a list" }));
            };
            let texts = items.into_iter().enumerate().map(|(index, item)| match item {
                Value::String(given) => Ok(Dependency { given, place: format!("{}[{index}]", it.evaluator.place()) }),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    Err(it.error(Problem::NotA { expected: "a list of strings" }))
                }
            });
            texts.collect()
        })
    }

    /// A required member that is text.
    fn text(&mut self, members: &Map<String, Value>, member: &'static str) -> Result<String, TemplateError> {
        let Some(value) = members.get(member) else {
            return Err(self.error(Problem::Missing { member }));
        };
        self.within(member, |it| match it.evaluator.plain(value)? {
            Value::String(text) => Ok(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(it.error(Problem::NotA { expected: "a string" }))
            }
        })
    }

    fn within<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.evaluator.enter(step);
        let done = work(self);
        self.evaluator.leave(length);
        done
    }

    fn error(&self, problem: Problem) -> TemplateError {
        self.evaluator.error(problem)
    }
}

/// The type and name of a resource as written in the template, for messages.
fn label(resource: &Value) -> String {
    let text = |member: &str| shorten(resource[member].as_str().unwrap_or("?"));
    format!("{} '{}'", text("type"), text("name"))
}
