//! Deployment templates, which create several resources with one request.
//!
//! ```text
//!  template, parameters ──▶ Template::parse ──▶ Plan: resources in order ──▶ (the caller creates them)
//!                                                └──▶ outputs(resource by ID) ──▶ JSON
//! ```
//!
//! The whole template is evaluated before anything is created, so an invalid template creates nothing. Only
//! outputs can read resources with `reference()`, after they have been created.
//!
//! | module | contents |
//! |---|---|
//! | [`expression`] | the syntax between the brackets |
//! | [`functions`] | functions of their arguments |
//! | [`contextual`] | functions of the template and of where it is deployed |
//! | [`evaluate`] | evaluates JSON with expressions |
//! | [`frame`] | parameters and variables |
//! | [`resources`] | loops, children, conditions |
//! | [`order`] | dependsOn |
//!
//! Not supported, and rejected with a message: linked and nested deployments, user-defined functions, symbolic
//! names, scopes other than one resource group, and the mode Complete.

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
use self::frame::{Frame, ParameterType, members};
use super::id::ResourceId;

pub use self::error::TemplateError;

/// Maximum number of resources after expanding loops, as in Azure.
pub const RESOURCES_MAX: usize = 800;

/// Maximum number of iterations of a loop, as in Azure.
pub const COPIES_MAX: usize = 800;

/// As in Azure.
pub const PARAMETERS_MAX: usize = 256;

/// As in Azure.
pub const VARIABLES_MAX: usize = 256;

/// As in Azure.
pub const OUTPUTS_MAX: usize = 64;

/// As in Azure, which counts characters.
pub const EXPRESSION_BYTES_MAX: usize = 24_576;

/// Maximum nesting of JSON, calls and variables. Far more than templates need, and little enough for a small
/// stack.
pub const DEPTH_MAX: usize = 100;

/// Fuel for one template. A template of 800 resources with 200 values each consumes a third of it.
const FUEL_MAX: u64 = 2_000_000;

/// The subscription and resource group in which a template is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub tenant: String,
    pub subscription: String,
    pub subscription_name: String,
    pub group: String,
    /// The location of the resource group.
    pub location: String,
    pub deployment: String,
}

/// Namespace for converting a request to a plan.
pub struct Template;

impl Template {
    /// Parses the body of the PUT of a deployment: `{"properties":{"mode","template","parameters"}}`.
    pub fn from_request(body: &Value, target: &Target) -> Result<Plan, TemplateError> {
        let fail = |place: &str, problem: &Problem| Err(TemplateError::new(place, problem));
        let Some(properties) = body.get("properties").and_then(Value::as_object) else {
            return fail("properties", &Problem::Missing { member: "properties" });
        };
        match properties.get("mode").unwrap_or(&Value::Null) {
            Value::Null => {}
            Value::String(mode) if mode.eq_ignore_ascii_case("incremental") => {}
            mode => {
                let given = mode.as_str().unwrap_or("(not text)").to_owned();
                return fail("properties.mode", &Problem::Mode { given });
            }
        }
        if properties.contains_key("templateLink") || properties.contains_key("parametersLink") {
            let sentence = "Links to templates and parameters are not supported. Send the template itself.";
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
            let sentence = "User-defined functions are not supported. Write the expressions where they are used.";
            return Err(TemplateError::new("functions", &Problem::Refused(sentence)));
        }
        let frame = Frame::new(template, parameters, target.clone())?;
        let resources = order::sort_resources(resources::expand(template, &frame)?, target)?;
        let outputs = members(template, "outputs")?;
        if outputs.len() > OUTPUTS_MAX {
            return Err(TemplateError::new("outputs", &Problem::TooMany { what: "outputs", max: OUTPUTS_MAX }));
        }
        let plan = Plan { resources, frame, outputs };
        plan.check_outputs()?;
        Ok(plan)
    }
}

/// The resources to create.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Each resource comes after those that it depends on.
    pub resources: Vec<PlannedResource>,
    frame: Frame,
    outputs: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlannedResource {
    pub id: ResourceId,
    /// In its canonical spelling, `Microsoft.Compute/virtualMachineScaleSets`.
    pub kind: String,
    pub api_version: String,
    pub location: Option<String>,
    /// The body of a PUT of this resource: `location`, `sku`, `tags`, `properties`…
    pub body: Value,
    /// Dependencies that this template creates.
    pub depends_on: Vec<ResourceId>,
}

impl Plan {
    /// The outputs `{"name":{"type","value"}}`, after everything has been created. `find` returns a complete
    /// resource by its ID. Secure outputs have no value.
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

    /// The parameters as the deployment shows them: `{"name":{"type","value"}}`; secure parameters have no
    /// value.
    pub fn parameters(&self) -> Value {
        self.frame.render_parameters()
    }

    fn output(&self, evaluator: &mut Evaluator<'_>, output: &Value) -> Result<Option<Value>, TemplateError> {
        let kind = ParameterType::of(output).map_err(|problem| evaluator.error(problem))?;
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

    /// Finds the errors that do not depend on created resources: syntax errors and unknown functions.
    fn check_outputs(&self) -> Result<(), TemplateError> {
        let mut evaluator = Evaluator::new(&self.frame, Phase::Plan);
        for (name, output) in &self.outputs {
            evaluator.elsewhere(&format!("outputs.{name}"), |it| it.check_names(output))?;
        }
        Ok(())
    }
}

/// A resource that has been expanded but not ordered.
struct Draft {
    resource: PlannedResource,
    outcome: Outcome,
    place: String,
    label: Option<String>,
    /// The loop that produced it.
    copy: Option<String>,
    depends_on: Vec<Dependency>,
}

impl Draft {
    fn error(&self, place: &str, problem: &Problem) -> TemplateError {
        TemplateError { resource: self.label.clone(), ..TemplateError::new(place, problem) }
    }
}

/// An entry of `dependsOn` as written.
struct Dependency {
    given: String,
    place: String,
}

/// The result of a resource's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Created,
    Skipped,
}
