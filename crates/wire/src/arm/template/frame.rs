//! The environment of all expressions in a template: where it is deployed, its parameters and its variables.

use serde_json::{Map, Value};

use super::error::{Problem, TemplateError};
use super::evaluate::{Evaluator, Phase};
use super::{PARAMETERS_MAX, Target, VARIABLES_MAX};

#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) target: Target,
    parameters: Vec<Parameter>,
    variables: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub(super) struct Parameter {
    /// The spelling in the template.
    pub(super) name: String,
    kind: ParameterType,
    pub(super) is_secret: bool,
    pub(super) value: ParameterValue,
}

#[derive(Debug, Clone)]
pub(super) enum ParameterValue {
    Known(Value),
    /// A default that has not been evaluated.
    Written(Value),
}

impl Frame {
    pub(super) fn new(template: &Map<String, Value>, given: &Value, target: Target) -> Result<Frame, TemplateError> {
        let declared = members(template, "parameters")?;
        let variables = members(template, "variables")?;
        for (place, map, what, max) in [
            ("parameters", &declared, "parameters", PARAMETERS_MAX),
            ("variables", &variables, "variables", VARIABLES_MAX),
        ] {
            if map.len() > max {
                return Err(TemplateError::new(place, &Problem::TooMany { what, max }));
            }
        }
        let given = given_values(given, &declared)?;
        let mut frame = Frame { target, parameters: Vec::new(), variables };
        for (name, declaration) in &declared {
            frame.parameters.push(parameter(name, declaration, &given)?);
        }
        frame.parameters = frame.check_parameters(&declared)?;
        Ok(frame)
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
    }

    pub(super) fn variable(&self, name: &str) -> Option<(&String, &Value)> {
        let is_loop = |key: &str, value: &Value| key == "copy" && value.is_array();
        self.variables.iter().find(|(key, value)| key.eq_ignore_ascii_case(name) && !is_loop(key, value))
    }

    /// The loop among the variables that produces a list with this name.
    pub(super) fn variable_loop(&self, name: &str) -> Option<(usize, &Value)> {
        let mut loops = self.variables.get("copy")?.as_array()?.iter().enumerate();
        loops.find(|(_, copy)| copy["name"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name)))
    }

    /// Renders `{"name":{"type","value"}}`; secure parameters have no value.
    pub(super) fn render_parameters(&self) -> Value {
        let shown = self.parameters.iter().map(|parameter| {
            let mut shown = Map::from_iter([("type".to_owned(), Value::from(parameter.kind.name()))]);
            if let (false, ParameterValue::Known(value)) = (parameter.is_secret, &parameter.value) {
                shown.insert("value".to_owned(), value.clone());
            }
            (parameter.name.clone(), Value::Object(shown))
        });
        Value::Object(shown.collect())
    }

    /// Evaluates the parameters' defaults and checks every value against its declaration.
    fn check_parameters(&self, declared: &Map<String, Value>) -> Result<Vec<Parameter>, TemplateError> {
        let mut evaluator = Evaluator::new(self, Phase::Plan);
        let mut checked = Vec::new();
        for (parameter, declaration) in self.parameters.iter().zip(declared.values()) {
            evaluator.secret = None;
            let value = match &parameter.value {
                ParameterValue::Known(value) => value.clone(),
                ParameterValue::Written(value) => {
                    let place = format!("parameters.{}.defaultValue", parameter.name);
                    evaluator.open = vec![place.clone()];
                    evaluator.elsewhere(&place, |it| it.value(value))?
                }
            };
            check(&value, declaration)
                .map_err(|problem| TemplateError::new(format!("parameters.{}", parameter.name), &problem))?;
            // A value derived from a secret is secret.
            let is_secret = parameter.is_secret || evaluator.secret.is_some();
            checked.push(Parameter { is_secret, value: ParameterValue::Known(value), ..parameter.clone() });
        }
        Ok(checked)
    }
}

/// The member with this name, which must be an object if it is present.
pub(super) fn members(template: &Map<String, Value>, name: &'static str) -> Result<Map<String, Value>, TemplateError> {
    match template.get(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(members)) => Ok(members.clone()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(TemplateError::new(name, &Problem::NotA { expected: "an object" }))
        }
    }
}

/// The values in the request, which must all be declared.
fn given_values(given: &Value, declared: &Map<String, Value>) -> Result<Map<String, Value>, TemplateError> {
    let given = match given {
        Value::Null => return Ok(Map::new()),
        Value::Object(given) => given,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(TemplateError::new("parameters", &Problem::NotA { expected: "an object" }));
        }
    };
    let mut values = Map::new();
    for (name, entry) in given {
        let place = format!("parameters.{name}");
        if !declared.keys().any(|key| key.eq_ignore_ascii_case(name)) {
            return Err(TemplateError::new(place, &Problem::ParameterNotDeclared));
        }
        if entry.get("reference").is_some() {
            let sentence = "References to a key vault are not supported. Specify the value.";
            return Err(TemplateError::new(place, &Problem::Refused(sentence)));
        }
        if !entry.is_object() {
            let expected = "an object with a 'value'";
            return Err(TemplateError::new(place, &Problem::NotA { expected }));
        }
        values.insert(name.to_ascii_lowercase(), entry["value"].clone());
    }
    Ok(values)
}

fn parameter(name: &str, declaration: &Value, given: &Map<String, Value>) -> Result<Parameter, TemplateError> {
    let fail = |problem: &Problem| TemplateError::new(format!("parameters.{name}"), problem);
    let kind = ParameterType::of(declaration).map_err(|problem| fail(&problem))?;
    let given = given.get(&name.to_ascii_lowercase()).filter(|value| !value.is_null());
    let value = match (given, declaration.get("defaultValue")) {
        (Some(value), _) => ParameterValue::Known(value.clone()),
        (None, Some(default)) => ParameterValue::Written(default.clone()),
        (None, None) => return Err(fail(&Problem::ParameterNotGiven)),
    };
    Ok(Parameter { name: name.to_owned(), kind, is_secret: kind.is_secret(), value })
}

/// The types of parameters and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterType {
    String,
    SecureString,
    Int,
    Bool,
    Object,
    SecureObject,
    Array,
}

impl ParameterType {
    const ALL: [ParameterType; 7] = [
        ParameterType::String,
        ParameterType::SecureString,
        ParameterType::Int,
        ParameterType::Bool,
        ParameterType::Object,
        ParameterType::SecureObject,
        ParameterType::Array,
    ];

    /// The name that deployments show.
    pub(super) fn name(self) -> &'static str {
        match self {
            ParameterType::String => "String",
            ParameterType::SecureString => "SecureString",
            ParameterType::Int => "Int",
            ParameterType::Bool => "Bool",
            ParameterType::Object => "Object",
            ParameterType::SecureObject => "SecureObject",
            ParameterType::Array => "Array",
        }
    }

    pub(super) fn of(declaration: &Value) -> Result<ParameterType, Problem> {
        let name = declaration["type"].as_str().ok_or(Problem::Missing { member: "type" })?;
        let found = ParameterType::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
        let expected = "a type: string, securestring, int, bool, object, secureObject or array";
        found.ok_or(Problem::NotA { expected })
    }

    pub(super) fn is_secret(self) -> bool {
        matches!(self, ParameterType::SecureString | ParameterType::SecureObject)
    }

    pub(super) fn fits(self, value: &Value) -> bool {
        match self {
            ParameterType::String | ParameterType::SecureString => value.is_string(),
            ParameterType::Int => value.is_i64(),
            ParameterType::Bool => value.is_boolean(),
            ParameterType::Object | ParameterType::SecureObject => value.is_object(),
            ParameterType::Array => value.is_array(),
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            ParameterType::String | ParameterType::SecureString => "a string",
            ParameterType::Int => "a whole number",
            ParameterType::Bool => "true or false",
            ParameterType::Object | ParameterType::SecureObject => "an object",
            ParameterType::Array => "an array",
        }
    }
}

fn check(value: &Value, declaration: &Value) -> Result<(), Problem> {
    let kind = ParameterType::of(declaration)?;
    if !kind.fits(value) {
        return Err(Problem::ParameterType { expected: kind.words() });
    }
    if let Some(allowed) = declaration["allowedValues"].as_array() {
        let each_is = |items: &Vec<Value>| items.iter().all(|item| allowed.contains(item));
        if !allowed.contains(value) && !value.as_array().is_some_and(each_is) {
            return Err(Problem::ParameterNotAllowed);
        }
    }
    let length = value.as_str().map(|text| text.chars().count()).or(value.as_array().map(Vec::len));
    let length = length.and_then(|length| i64::try_from(length).ok());
    let bound = |name: &str| declaration[name].as_i64();
    for (measure, bound, below, what) in [
        (value.as_i64(), bound("minValue"), true, "less than"),
        (value.as_i64(), bound("maxValue"), false, "more than"),
        (length, bound("minLength"), true, "shorter than"),
        (length, bound("maxLength"), false, "longer than"),
    ] {
        if let (Some(measure), Some(bound)) = (measure, bound)
            && (if below { measure < bound } else { measure > bound })
        {
            return Err(Problem::ParameterBounds { what, bound });
        }
    }
    Ok(())
}
