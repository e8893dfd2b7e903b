//! Template functions that depend on the template or on where it is deployed.

use serde_json::{Value, json};

use super::error::{Problem, TemplateError};
use super::evaluate::{EvaluationResult, Evaluator, Phase};
use super::frame::ParameterValue;
use crate::arm::id::ResourceId;
use crate::arm::types;

#[derive(Debug, Clone, Copy)]
pub(super) enum ContextFunction {
    Parameters,
    Variables,
    CopyIndex,
    ResourceId,
    Reference,
    Providers,
    Subscription,
    ResourceGroup,
    Deployment,
}

impl ContextFunction {
    /// Finds a function by its name in lower case.
    pub(super) fn find(name: &str) -> Option<ContextFunction> {
        Some(match name {
            "parameters" => ContextFunction::Parameters,
            "variables" => ContextFunction::Variables,
            "copyindex" => ContextFunction::CopyIndex,
            "resourceid" => ContextFunction::ResourceId,
            "reference" => ContextFunction::Reference,
            "providers" => ContextFunction::Providers,
            "subscription" => ContextFunction::Subscription,
            "resourcegroup" => ContextFunction::ResourceGroup,
            "deployment" => ContextFunction::Deployment,
            _ => return None,
        })
    }
}

impl Evaluator<'_> {
    pub(super) fn contextual(&mut self, function: ContextFunction, at: usize, arguments: &[Value]) -> EvaluationResult {
        match function {
            ContextFunction::Parameters => {
                let name = self.named("parameters", at, arguments)?;
                self.parameter(at, name)
            }
            ContextFunction::Variables => {
                let name = self.named("variables", at, arguments)?;
                self.variable(at, name)
            }
            ContextFunction::CopyIndex => self.copy_index(at, arguments),
            ContextFunction::ResourceId => self.resource_id(at, arguments).map(|id| id.to_string().into()),
            ContextFunction::Reference => self.reference(at, arguments),
            ContextFunction::Providers => self.providers(at, arguments),
            ContextFunction::Subscription => Ok(self.subscription()),
            ContextFunction::ResourceGroup => Ok(self.resource_group()),
            ContextFunction::Deployment => Ok(self.deployment()),
        }
    }

    fn named<'v>(&self, function: &str, at: usize, arguments: &'v [Value]) -> Result<&'v str, TemplateError> {
        match arguments {
            [Value::String(name)] => Ok(name),
            _ => Err(self.arguments(function, at, "requires one name")),
        }
    }

    fn parameter(&mut self, at: usize, name: &str) -> EvaluationResult {
        let frame = self.frame;
        let Some(parameter) = frame.parameter(name) else {
            return Err(self.error_at(Some(at), Problem::UnknownParameter { name: name.to_owned() }));
        };
        if parameter.is_secret {
            self.secret = Some(parameter.name.clone());
        }
        match &parameter.value {
            ParameterValue::Known(value) => Ok(value.clone()),
            ParameterValue::Written(value) => {
                let place = format!("parameters.{}.defaultValue", parameter.name);
                self.evaluate_definition(at, &place, |evaluator| evaluator.value(value))
            }
        }
    }

    fn variable(&mut self, at: usize, name: &str) -> EvaluationResult {
        let frame = self.frame;
        if let Some((name, value)) = frame.variable(name) {
            return self.evaluate_definition(at, &format!("variables.{name}"), |evaluator| evaluator.value(value));
        }
        match frame.variable_loop(name) {
            Some((index, copy)) => {
                let place = format!("variables.copy[{index}]");
                self.evaluate_definition(at, &place, |evaluator| evaluator.copy(copy).map(|(_, list)| list))
            }
            None => Err(self.error_at(Some(at), Problem::UnknownVariable { name: name.to_owned() })),
        }
    }

    /// Evaluates a variable or default, and fails if it depends on itself.
    fn evaluate_definition(
        &mut self,
        at: usize,
        place: &str,
        work: impl FnOnce(&mut Self) -> EvaluationResult,
    ) -> EvaluationResult {
        if self.open.iter().any(|open| open == place) {
            return Err(self.error_at(Some(at), Problem::RefersToItself { name: place.to_owned() }));
        }
        self.open.push(place.to_owned());
        // A loop around the use does not apply to the definition.
        let loops = std::mem::take(&mut self.loops);
        let value = self.elsewhere(place, work);
        self.loops = loops;
        self.open.pop();
        value
    }

    fn copy_index(&mut self, at: usize, arguments: &[Value]) -> EvaluationResult {
        let (name, offset) = match arguments {
            [] => (None, Some(0)),
            [Value::String(name)] => (Some(name), Some(0)),
            [Value::String(name), offset] => (Some(name), offset.as_i64()),
            [offset] => (None, offset.as_i64()),
            _ => (None, None),
        };
        let Some(offset) = offset else {
            return Err(self.arguments("copyIndex", at, "requires the name of a loop, an offset, or both"));
        };
        let mut loops = self.loops.iter().rev();
        let found = loops.find(|open| name.is_none_or(|name| open.name.eq_ignore_ascii_case(name)));
        let Some(found) = found else {
            return Err(self.error_at(Some(at), Problem::NoSuchLoop));
        };
        let index = i64::try_from(found.index).ok().and_then(|index| index.checked_add(offset));
        index.map(Value::from).ok_or_else(|| self.arguments("copyIndex", at, "has no 64-bit result"))
    }

    /// `[subscription], [group], type, names…`: the type is the first argument that contains a slash.
    fn resource_id(&self, at: usize, arguments: &[Value]) -> Result<ResourceId, TemplateError> {
        let wrong = || {
            let wanted = "wants texts: perhaps a subscription and a resource group, a type such as \
                 Microsoft.Compute/virtualMachines, and a name for each part of it";
            self.arguments("resourceId", at, wanted)
        };
        let texts: Vec<&str> = arguments.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?;
        let position = texts.iter().position(|text| text.contains('/')).ok_or_else(wrong)?;
        let (before, kind, names) = (&texts[..position], texts[position], &texts[position + 1..]);
        let target = &self.frame.target;
        let (subscription, group) = match before {
            [] => (target.subscription.as_str(), target.group.as_str()),
            [group] => (target.subscription.as_str(), *group),
            [subscription, group] => (*subscription, *group),
            _ => return Err(wrong()),
        };
        id_of(subscription, group, kind, names).map_err(|problem| self.error_at(Some(at), problem))
    }

    fn reference(&mut self, at: usize, arguments: &[Value]) -> EvaluationResult {
        let Phase::Outputs(find) = self.phase else {
            let why = "it only works in outputs, because resources do not exist before the deployment";
            return Err(self.error_at(Some(at), Problem::RefusedFunction { name: "reference".to_owned(), why }));
        };
        let Some(Value::String(text)) = arguments.first() else {
            return Err(self.arguments("reference", at, "requires the ID of a resource"));
        };
        let id = match ResourceId::parse(text) {
            Ok(id) => id,
            Err(error) => return Err(self.error_at(Some(at), Problem::BadId { why: error.to_string() })),
        };
        let Some(resource) = find(&id) else {
            return Err(self.error_at(Some(at), Problem::NotThere { id: id.to_string() }));
        };
        let full = arguments.get(2).and_then(Value::as_str).is_some_and(|word| word.eq_ignore_ascii_case("full"));
        Ok(if full { resource } else { resource.get("properties").cloned().unwrap_or_else(|| json!({})) })
    }

    fn providers(&self, at: usize, arguments: &[Value]) -> EvaluationResult {
        let [Value::String(namespace), Value::String(kind)] = arguments else {
            return Err(self.arguments("providers", at, "requires a namespace and a type"));
        };
        let name = format!("{namespace}/{kind}");
        let Some(known) = types::find(&name) else {
            return Err(self.error_at(Some(at), Problem::UnknownType { name }));
        };
        let resource_type = known.name.split_once('/').map_or(known.name, |(_, kind)| kind);
        Ok(json!({
            "resourceType": resource_type, "locations": [self.frame.target.location], "apiVersions": known.api_versions,
        }))
    }

    fn subscription(&self) -> Value {
        let target = &self.frame.target;
        json!({
            "id": format!("/subscriptions/{}", target.subscription),
            "subscriptionId": target.subscription,
            "tenantId": target.tenant,
            "displayName": target.subscription_name,
        })
    }

    fn resource_group(&self) -> Value {
        let target = &self.frame.target;
        json!({
            "id": format!("/subscriptions/{}/resourceGroups/{}", target.subscription, target.group),
            "name": target.group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": target.location,
            "tags": {},
            "properties": {"provisioningState": "Succeeded"},
        })
    }

    fn deployment(&self) -> Value {
        json!({"name": self.frame.target.deployment, "properties": {"mode": "Incremental"}})
    }
}

/// The ID of a type with several parts, `Namespace/a/b`, and a name for each.
pub(super) fn id_of(subscription: &str, group: &str, kind: &str, names: &[&str]) -> Result<ResourceId, Problem> {
    let (namespace, words) = kind.split_once('/').unwrap_or((kind, ""));
    let words: Vec<&str> = words.split('/').collect();
    if words.len() != names.len() {
        return Err(Problem::NameSegments { wanted: words.len() });
    }
    let mut path = format!("/subscriptions/{subscription}/resourceGroups/{group}/providers/{namespace}");
    for (word, name) in words.iter().zip(names) {
        if word.is_empty() || name.is_empty() || name.contains('/') {
            return Err(Problem::BadId {
                why: "A part of the type or the name is empty or contains a slash.".to_owned(),
            });
        }
        path.push_str(&format!("/{word}/{name}"));
    }
    ResourceId::parse(&path).map_err(|error| Problem::BadId { why: error.to_string() })
}
