//! Deployment templates: what clients send when they create several resources at once.
//!
//! ```text
//!  template, parameters ──▶ Template::parse ──▶ Plan: resources in order ──▶ (somebody creates them)
//!                                                └──▶ outputs(resource by id) ──▶ JSON
//! ```
//! The whole template is read and evaluated before anything is created, so a template that is wrong anywhere creates
//! nothing. Only outputs may look at resources with `reference()`, afterwards.
//!
//! | module | what it knows |
//! |---|---|
//! | [`expression`] | the syntax between the brackets |
//! | [`functions`] | functions of their arguments |
//! | [`contextual`] | functions of the template and of where it goes |
//! | [`evaluate`] | JSON with expressions to JSON without |
//! | [`frame`] | parameters and variables |
//! | [`resources`] | loops, children, conditions |
//! | [`order`] | dependsOn |
//!
//! Not supported, and refused with a sentence: linked and nested deployments, functions of the user's own, symbolic names,
//! other scopes than one resource group, the mode Complete.

mod contextual;
mod error;
mod evaluate;
mod expression;
mod frame;
mod functions;
mod order;
mod resources;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use self::error::Problem;
use self::evaluate::{Evaluator, Phase};
use self::frame::{Frame, Kind, members};
use super::id::ResourceId;

pub use self::error::TemplateError;

/// Resources in a template, loops unrolled: the original's limit.
pub const RESOURCES_MAX: usize = 800;

/// How often a loop goes round: the original's limit.
pub const COPIES_MAX: usize = 800;

/// The original's limit.
pub const PARAMETERS_MAX: usize = 256;

/// The original's limit.
pub const VARIABLES_MAX: usize = 256;

/// The original's limit.
pub const OUTPUTS_MAX: usize = 64;

/// The original's limit, in its case of characters.
pub const EXPRESSION_BYTES_MAX: usize = 24_576;

/// JSON, calls and variables within each other. Far more than templates need; few enough for a small stack.
pub const DEPTH_MAX: usize = 100;

/// Work for one template. One of 800 resources with 200 values each takes a third of it.
const FUEL_MAX: u64 = 2_000_000;

/// Where a template is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub tenant: String,
    pub subscription: String,
    pub subscription_name: String,
    pub group: String,
    /// Of the resource group.
    pub location: String,
    pub deployment: String,
}

/// The way from a request to a plan.
pub struct Template;

impl Template {
    /// Reads the body of a PUT of a deployment: `{"properties":{"mode","template","parameters"}}`.
    pub fn from_request(body: &Value, target: &Target) -> Result<Plan, TemplateError> {
        let fail = |place: &str, problem: &Problem| Err(TemplateError::new(place, problem));
        let Some(properties) = body.get("properties").and_then(Value::as_object) else {
            return fail("properties", &Problem::Missing { member: "properties" });
        };
        match properties.get("mode").unwrap_or(&Value::Null) {
            Value::Null => {}
            Value::String(mode) if mode.eq_ignore_ascii_case("incremental") => {}
            mode => {
                let given = mode.as_str().unwrap_or("of another kind than text").to_owned();
                return fail("properties.mode", &Problem::Mode { given });
            }
        }
        if properties.contains_key("templateLink") || properties.contains_key("parametersLink") {
            let sentence = "Links to templates and parameters are not followed. Send the template itself.";
            return fail("properties", &Problem::Refused(sentence));
        }
        let template = properties.get("template").unwrap_or(&Value::Null);
        Template::parse(template, properties.get("parameters").unwrap_or(&Value::Null), target)
    }

    /// Evaluates a template with the given parameters, `{"name":{"value":…}}`, or [`Value::Null`] for none.
    pub fn parse(template: &Value, parameters: &Value, target: &Target) -> Result<Plan, TemplateError> {
        let Some(template) = template.as_object() else {
            return Err(TemplateError::new("template", &Problem::NotA { expected: "an object" }));
        };
        if template.get("functions").is_some_and(|functions| functions.as_array().is_none_or(|list| !list.is_empty())) {
            let sentence = "Functions of your own are not supported. Write the expressions where they are used.";
            return Err(TemplateError::new("functions", &Problem::Refused(sentence)));
        }
        let frame = Frame::new(template, parameters, target.clone())?;
        let resources = order::ordered(resources::expand(template, &frame)?, target)?;
        let outputs = members(template, "outputs")?;
        if outputs.len() > OUTPUTS_MAX {
            return Err(TemplateError::new("outputs", &Problem::TooMany { what: "outputs", max: OUTPUTS_MAX }));
        }
        let plan = Plan { resources, frame, outputs };
        plan.check_outputs()?;
        Ok(plan)
    }
}

/// What is to be created.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Each after those that it depends on.
    pub resources: Vec<PlannedResource>,
    frame: Frame,
    outputs: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlannedResource {
    pub id: ResourceId,
    /// In its one spelling, `Microsoft.Compute/virtualMachineScaleSets`.
    pub kind: String,
    pub api_version: String,
    pub location: Option<String>,
    /// What a PUT of this resource would send: `location`, `sku`, `tags`, `properties`…
    pub body: Value,
    /// Those of them that are created by this template.
    pub depends_on: Vec<ResourceId>,
}

impl Plan {
    /// The outputs, `{"name":{"type","value"}}`, when everything has been created. `find` gives the whole resource of an id.
    /// Secure outputs have no value.
    pub fn outputs(&self, find: &dyn Fn(&ResourceId) -> Option<Value>) -> Result<Value, TemplateError> {
        let mut evaluator = Evaluator::new(&self.frame, Phase::Outputs(find));
        let mut shown = Map::new();
        for (name, output) in &self.outputs {
            if let Some(output) = evaluator.elsewhere(&format!("outputs.{name}"), |it| self.output(it, output))? {
                shown.insert(name.clone(), output);
            }
        }
        Ok(Value::Object(shown))
    }

    /// The values of the parameters as the deployment shows them: `{"name":{"type","value"}}`, secure ones without.
    pub fn parameters(&self) -> Value {
        self.frame.shown()
    }

    fn output(&self, evaluator: &mut Evaluator<'_>, output: &Value) -> Result<Option<Value>, TemplateError> {
        let kind = Kind::of(output).map_err(|problem| evaluator.error(problem))?;
        if let Some(condition) = output.get("condition")
            && evaluator.within("condition", |it| it.plain(condition))? == Value::Bool(false)
        {
            return Ok(None);
        }
        let Some(value) = output.get("value") else {
            return Err(evaluator.error(Problem::Missing { member: "value" }));
        };
        if kind.is_secret() {
            return Ok(Some(json!({"type": kind.name()})));
        }
        evaluator.secret = None;
        let value = evaluator.within("value", |it| it.value(value))?;
        match evaluator.secret.take() {
            Some(parameter) => Err(evaluator.error(Problem::SecretShown { parameter })),
            None if !kind.fits(&value) => Err(evaluator.error(Problem::NotA { expected: kind.words() })),
            None => Ok(Some(json!({"type": kind.name(), "value": value}))),
        }
    }

    /// Finds what can be found before anything exists: what cannot be read, and functions that nobody knows.
    fn check_outputs(&self) -> Result<(), TemplateError> {
        let mut evaluator = Evaluator::new(&self.frame, Phase::Plan);
        for (name, output) in &self.outputs {
            evaluator.elsewhere(&format!("outputs.{name}"), |it| it.check_names(output))?;
        }
        Ok(())
    }
}

/// A resource on its way into the plan.
struct Draft {
    resource: PlannedResource,
    outcome: Outcome,
    place: String,
    label: Option<String>,
    /// The loop that made it.
    copy: Option<String>,
    depends_on: Vec<Dependency>,
}

impl Draft {
    fn error(&self, place: &str, problem: &Problem) -> TemplateError {
        TemplateError { resource: self.label.clone(), ..TemplateError::new(place, problem) }
    }
}

/// An entry of `dependsOn`, as it was written.
struct Dependency {
    given: String,
    place: String,
}

/// What the condition of a resource comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Created,
    Skipped,
}
